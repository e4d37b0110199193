//! `MiniMax` M1: JSON objects, one a line, between tags.

use super::layout::{KEYS, Layout, Part};
use super::{Format, Kind};

pub(super) static FORMAT: Format = Format {
    name: "minimax",
    told: |signs| signs.has("<tool_calls>") && !signs.has("<tool_calls>[") && !signs.has("｜DSML｜"),
    kind: Kind::Layout(Layout {
        open: &[Part::Text("<tool_calls>"), Part::Space("\n")],
        calls: &[&[Part::Envelope(&KEYS), Part::Space("\n")]],
        close: &[Part::Text("</tool_calls>")],
        ..Layout::NONE
    }),
};
