//! Mistral until 2407: a special token, then a list of JSON objects.

use super::layout::{KEYS, Layout, Part};
use super::{Format, Kind};

pub(super) static FORMAT: Format = Format {
    name: "mistral",
    told: |signs| signs.has("[TOOL_CALLS]") && !signs.has("[ARGS]"),
    kind: Kind::Layout(Layout {
        open: &[Part::Text("[TOOL_CALLS]"), Part::Space(""), Part::Text("[")],
        calls: &[&[Part::Envelope(&KEYS)]],
        between: &[Part::Text(","), Part::Space(" ")],
        close: &[Part::Text("]")],
        ..Layout::NONE
    }),
};
