//! `DeepSeek` V3.1: name, then arguments.

use super::layout::{Dialect, Layout, Part};
use super::{Format, Kind};

pub(super) static FORMAT: Format = Format {
    name: "deepseek-v3.1",
    told: |signs| signs.has("<｜tool▁call▁begin｜>") && !signs.has("```json"),
    kind: Kind::Layout(Layout {
        open: &[Part::Text("<｜tool▁calls▁begin｜>")],
        calls: &[&[
            Part::Text("<｜tool▁call▁begin｜>"),
            Part::Name,
            Part::Text("<｜tool▁sep｜>"),
            Part::Arguments(Dialect::Json),
            Part::Text("<｜tool▁call▁end｜>"),
        ]],
        close: &[Part::Text("<｜tool▁calls▁end｜>")],
        ..Layout::NONE
    }),
};
