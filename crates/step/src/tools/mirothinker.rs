//! `MiroThinker`: a server, a tool and its arguments in tags.

use super::layout::{Dialect, Layout, Part};
use super::{Format, Kind};

pub(super) static FORMAT: Format = Format {
    name: "mirothinker",
    told: |signs| signs.has("<use_mcp_tool>"),
    kind: Kind::Layout(Layout {
        open: &[Part::Text("<use_mcp_tool>"), Part::Space("\n")],
        calls: &[&[
            Part::Text("<server_name>"),
            Part::Skip("generic-extras", "</server_name>"),
            Part::Space("\n"),
            Part::Text("<tool_name>"),
            Part::Name,
            Part::Text("</tool_name>"),
            Part::Space("\n"),
            Part::Text("<arguments>"),
            Part::Space("\n"),
            Part::Arguments(Dialect::Json),
            Part::Space("\n"),
            Part::Text("</arguments>"),
        ]],
        between: &[Part::Space("\n")],
        close: &[Part::Space("\n"), Part::Text("</use_mcp_tool>")],
        ..Layout::NONE
    }),
};
