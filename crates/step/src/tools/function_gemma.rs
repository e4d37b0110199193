//! `FunctionGemma`: keys without quotes, strings between marks.

use super::layout::{Dialect, Layout, Part};
use super::{Format, Kind};

pub(super) static FORMAT: Format = Format {
    name: "function-gemma",
    told: |signs| signs.has("<start_function_call>"),
    kind: Kind::Layout(Layout {
        calls: &[&[
            Part::Text("<start_function_call>"),
            Part::Text("call:"),
            Part::Name,
            Part::Arguments(Dialect::Bare("<escape>")),
            Part::Text("<end_function_call>"),
        ]],
        ..Layout::NONE
    }),
};
