//! Nemotron Nano 2: a list of JSON objects between tags.

use super::layout::{KEYS, Layout, Part};
use super::{Format, Kind};

pub(super) static FORMAT: Format = Format {
    name: "nemotron",
    told: |signs| signs.has("<TOOLCALL>"),
    kind: Kind::Layout(Layout {
        open: &[Part::Text("<TOOLCALL>"), Part::Space(""), Part::Text("[")],
        calls: &[&[Part::Envelope(&KEYS)]],
        between: &[Part::Text(","), Part::Space(" ")],
        close: &[Part::Text("]"), Part::Space(""), Part::Text("</TOOLCALL>")],
        ..Layout::NONE
    }),
};
