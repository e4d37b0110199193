//! Command R7B and Command A: a list of actions between special tokens.

use super::layout::{Keys, Layout, Part};
use super::{Format, Kind};

const KEYS: Keys = Keys { name: &["tool_name", "name"], arguments: &["parameters", "arguments"] };

pub(super) static FORMAT: Format = Format {
    name: "command-r7b",
    told: |signs| signs.has("<|START_ACTION|>"),
    kind: Kind::Layout(Layout {
        open: &[Part::Text("<|START_ACTION|>"), Part::Space(""), Part::Text("[")],
        calls: &[&[Part::Space("\n    "), Part::Envelope(&KEYS)]],
        between: &[Part::Text(",")],
        close: &[Part::Space("\n"), Part::Text("]"), Part::Space(""), Part::Text("<|END_ACTION|>")],
        ..Layout::NONE
    }),
};
