//! `DeepSeek` V3.2 and V4: parameters in tags that say whether the value is a string.

use super::layout::{Layout, Marks, Part};
use super::{Format, Kind};

const MARKS: Marks = Marks {
    open: "<｜DSML｜parameter name=\"",
    name_end: "\"",
    value_open: "",
    value_end: "</｜DSML｜parameter>",
    between: "\n",
    kinds: Some([" string=\"true\">", " string=\"false\">"]),
    lines: false,
};

pub(super) static FORMAT: Format = Format {
    name: "dsml",
    told: |signs| signs.has("｜DSML｜"),
    kind: Kind::Layout(Layout {
        open: &[Part::Text("<｜DSML｜tool_calls>"), Part::Space("\n")],
        calls: &[&[
            Part::Text("<｜DSML｜invoke name=\""),
            Part::Name,
            Part::Text("\">"),
            Part::Space("\n"),
            Part::Parameters(&MARKS),
            Part::Text("</｜DSML｜invoke>"),
        ]],
        between: &[Part::Space("\n")],
        close: &[Part::Space("\n"), Part::Text("</｜DSML｜tool_calls>")],
        ..Layout::NONE
    }),
};
