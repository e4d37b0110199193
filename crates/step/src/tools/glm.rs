//! GLM 4.5 and later, Laguna, Spark: keys and values in tags of their own.

use super::layout::{Layout, Marks, Part};
use super::{Format, Kind};

const MARKS: Marks = Marks {
    open: "<arg_key>",
    name_end: "</arg_key>",
    value_open: "\n<arg_value>",
    value_end: "</arg_value>",
    between: "\n",
    kinds: None,
    lines: false,
};

pub(super) static FORMAT: Format = Format {
    name: "glm",
    told: |signs| signs.has("<arg_key>"),
    kind: Kind::Layout(Layout {
        calls: &[&[
            Part::Text("<tool_call>"),
            Part::Name,
            Part::Space("\n"),
            Part::Parameters(&MARKS),
            Part::Text("</tool_call>"),
        ]],
        gap: "\n",
        ..Layout::NONE
    }),
};
