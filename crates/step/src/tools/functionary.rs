//! Functionary 3.1, and what Llama 3.1 calls user-defined functions: the name in a tag around the arguments.

use super::layout::{Dialect, Layout, Part};
use super::{Format, Kind};

pub(super) static FORMAT: Format = Format {
    name: "functionary",
    told: |signs| signs.has("<function=") && signs.has("</function>") && !signs.has("<parameter="),
    kind: Kind::Layout(Layout {
        calls: &[&[
            Part::Text("<function="),
            Part::Name,
            Part::Text(">"),
            Part::Arguments(Dialect::Json),
            Part::Text("</function>"),
        ]],
        ..Layout::NONE
    }),
};
