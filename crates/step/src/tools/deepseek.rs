//! `DeepSeek` V3 and R1: the name behind a kind, the arguments in a fenced block.

use super::layout::{Dialect, Layout, Part};
use super::{Format, Kind};

pub(super) static FORMAT: Format = Format {
    name: "deepseek",
    told: |signs| signs.has("<｜tool▁call▁begin｜>") && signs.has("```json"),
    kind: Kind::Layout(Layout {
        open: &[Part::Text("<｜tool▁calls▁begin｜>")],
        calls: &[&[
            Part::Text("<｜tool▁call▁begin｜>"),
            Part::Skip("function", "<｜tool▁sep｜>"),
            Part::Name,
            Part::Space("\n"),
            Part::Text("```json"),
            Part::Space("\n"),
            Part::Arguments(Dialect::Json),
            Part::Space("\n"),
            Part::Text("```"),
            Part::Text("<｜tool▁call▁end｜>"),
        ]],
        between: &[Part::Space("\n")],
        close: &[Part::Text("<｜tool▁calls▁end｜>")],
        ..Layout::NONE
    }),
};
