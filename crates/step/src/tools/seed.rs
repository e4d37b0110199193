//! Seed OSS: parameters in tags, their values beside them.

use super::layout::{Layout, Marks, Part};
use super::{Format, Kind};

const MARKS: Marks = Marks {
    open: "<parameter=",
    name_end: ">",
    value_open: "",
    value_end: "</parameter>",
    between: "\n",
    kinds: None,
    lines: false,
};

pub(super) static FORMAT: Format = Format {
    name: "seed",
    told: |signs| signs.has("<seed:tool_call>"),
    kind: Kind::Layout(Layout {
        calls: &[&[
            Part::Text("<seed:tool_call>"),
            Part::Space("\n"),
            Part::Text("<function="),
            Part::Name,
            Part::Text(">"),
            Part::Space("\n"),
            Part::Parameters(&MARKS),
            Part::Text("</function>"),
            Part::Space("\n"),
            Part::Text("</seed:tool_call>"),
        ]],
        gap: "\n",
        ..Layout::NONE
    }),
};
