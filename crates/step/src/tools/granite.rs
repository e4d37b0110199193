//! Granite 3: a special token, then a list of JSON objects.

use super::layout::{KEYS, Layout, Part};
use super::{Format, Kind};

pub(super) static FORMAT: Format = Format {
    name: "granite",
    told: |signs| signs.has("<|tool_call|>") && !signs.has("<tool_call>"),
    kind: Kind::Layout(Layout {
        open: &[Part::Text("<|tool_call|>"), Part::Space(""), Part::Text("[")],
        calls: &[&[Part::Envelope(&KEYS)]],
        between: &[Part::Text(","), Part::Space(" ")],
        close: &[Part::Text("]")],
        ..Layout::NONE
    }),
};
