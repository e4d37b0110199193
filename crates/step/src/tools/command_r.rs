//! Command R and R+: a list of actions in a fenced block.

use super::layout::{Keys, Layout, Part};
use super::{Format, Kind};

const KEYS: Keys = Keys { name: &["tool_name", "name"], arguments: &["parameters", "arguments"] };

pub(super) static FORMAT: Format = Format {
    name: "command-r",
    told: |signs| signs.has("Action:") && signs.has("tool_name") && !signs.has("<|START_ACTION|>"),
    kind: Kind::Layout(Layout {
        open: &[Part::Text("Action:"), Part::Space("\n"), Part::Text("```json"), Part::Space("\n"), Part::Text("[")],
        calls: &[&[Part::Space("\n    "), Part::Envelope(&KEYS)]],
        between: &[Part::Text(",")],
        close: &[Part::Space("\n"), Part::Text("]"), Part::Space("\n"), Part::Text("```")],
        ..Layout::NONE
    }),
};
