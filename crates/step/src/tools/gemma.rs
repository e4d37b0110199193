//! Gemma 4: keys without quotes, strings between marks.

use super::layout::{Dialect, Layout, Part};
use super::{Format, Kind};

pub(super) static FORMAT: Format = Format {
    name: "gemma",
    told: |signs| signs.has("<|tool_call>call:"),
    kind: Kind::Layout(Layout {
        calls: &[&[
            Part::Text("<|tool_call>"),
            Part::Text("call:"),
            Part::Name,
            Part::Arguments(Dialect::Bare("<|\"|>")),
            Part::Text("<tool_call|>"),
        ]],
        ..Layout::NONE
    }),
};
