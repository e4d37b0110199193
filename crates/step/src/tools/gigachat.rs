//! `GigaChat` 3: a message of a role of its own.

use super::layout::{KEYS, Layout, Part};
use super::{Format, Kind};

pub(super) static FORMAT: Format = Format {
    name: "gigachat",
    told: |signs| signs.has("function call") && signs.has("<|role_sep|>"),
    kind: Kind::Layout(Layout {
        calls: &[&[
            Part::Text("<|message_sep|>"),
            Part::Space("\n\n"),
            Part::Text("function call"),
            Part::Text("<|role_sep|>"),
            Part::Space("\n"),
            Part::Envelope(&KEYS),
        ]],
        ..Layout::NONE
    }),
};
