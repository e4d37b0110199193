//! Kimi K2: numbered calls, whose ids the model writes itself.

use super::layout::{Dialect, Layout, Part};
use super::{Format, Kind};

pub(super) static FORMAT: Format = Format {
    name: "kimi",
    told: |signs| signs.has("<|tool_call_argument_begin|>"),
    kind: Kind::Layout(Layout {
        open: &[Part::Text("<|tool_calls_section_begin|>")],
        calls: &[&[
            Part::Text("<|tool_call_begin|>"),
            Part::Text("functions."),
            Part::Name,
            Part::Text(":"),
            Part::Number("<|tool_call_argument_begin|>"),
            Part::Arguments(Dialect::Json),
            Part::Text("<|tool_call_end|>"),
        ]],
        close: &[Part::Text("<|tool_calls_section_end|>")],
        id: Some("functions."),
        ..Layout::NONE
    }),
};
