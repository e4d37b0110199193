//! Apriel: one list of JSON objects between tags.

use super::layout::{KEYS, Layout, Part};
use super::{Format, Kind};

pub(super) static FORMAT: Format = Format {
    name: "apriel",
    told: |signs| signs.has("<tool_calls>["),
    kind: Kind::Layout(Layout {
        open: &[Part::Text("<tool_calls>"), Part::Space(""), Part::Text("[")],
        calls: &[&[Part::Envelope(&KEYS)]],
        between: &[Part::Text(","), Part::Space(" ")],
        close: &[Part::Text("]"), Part::Space(""), Part::Text("</tool_calls>")],
        ..Layout::NONE
    }),
};
