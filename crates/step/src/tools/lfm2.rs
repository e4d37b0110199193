//! LFM2: a list of Python calls between special tokens.

use super::layout::{Dialect, Layout, Part};
use super::{Format, Kind};

pub(super) static FORMAT: Format = Format {
    name: "lfm2",
    told: |signs| {
        let named = signs.has("<|tool_list_start|>") || signs.has("List of tools: [");
        named || (signs.has_token)("<|tool_call_start|>") && !signs.has("<tool_call>")
    },
    kind: Kind::Layout(Layout {
        open: &[Part::Text("<|tool_call_start|>"), Part::Space(""), Part::Text("[")],
        calls: &[&[Part::Name, Part::Text("("), Part::Arguments(Dialect::PythonCall)]],
        between: &[Part::Text(","), Part::Space(" ")],
        close: &[Part::Text("]"), Part::Space(""), Part::Text("<|tool_call_end|>")],
        ..Layout::NONE
    }),
};
