//! Qwen3 Coder and Nemotron 3: parameters in tags, their values on lines of their own.

use super::layout::{Layout, Marks, Part};
use super::{Format, Kind};

const MARKS: Marks = Marks {
    open: "<parameter=",
    name_end: ">",
    value_open: "\n",
    value_end: "</parameter>",
    between: "\n",
    kinds: None,
    lines: true,
};

pub(super) static FORMAT: Format = Format {
    name: "qwen-coder",
    told: |signs| signs.has("<parameter=") && signs.has("<tool_call>") && !signs.has("<seed:tool_call>"),
    kind: Kind::Layout(Layout {
        calls: &[&[
            Part::Text("<tool_call>"),
            Part::Space("\n"),
            Part::Text("<function="),
            Part::Name,
            Part::Text(">"),
            Part::Space("\n"),
            Part::Parameters(&MARKS),
            Part::Text("</function>"),
            Part::Space("\n"),
            Part::Text("</tool_call>"),
        ]],
        gap: "\n",
        ..Layout::NONE
    }),
};
