//! Hermes, Qwen 2.5 and 3, Granite 4 and many others: a JSON object between tags.

use super::layout::{KEYS, Layout, Part};
use super::{Format, Kind};

pub(super) const LAYOUT: Layout = Layout {
    calls: &[&[
        Part::Text("<tool_call>"),
        Part::Space("\n"),
        Part::Envelope(&KEYS),
        Part::Space("\n"),
        Part::Text("</tool_call>"),
    ]],
    gap: "\n",
    ..Layout::NONE
};

pub(super) static FORMAT: Format = Format {
    name: "hermes",
    told: |signs| {
        let others = ["<parameter=", "<arg_key>", "<function=", "<use_mcp_tool>"];
        signs.has("<tool_call>") && !others.iter().any(|other| signs.has(other))
    },
    kind: Kind::Layout(LAYOUT),
};
