//! Mistral since 2025: a special token before each name and one before its arguments.

use super::layout::{Dialect, Layout, Part};
use super::{Format, Kind};

pub(super) static FORMAT: Format = Format {
    name: "mistral-args",
    told: |signs| signs.has("[TOOL_CALLS]") && signs.has("[ARGS]"),
    kind: Kind::Layout(Layout {
        open: &[Part::Text("[TOOL_CALLS]")],
        calls: &[&[Part::Name, Part::Skip("", "[ARGS]"), Part::Arguments(Dialect::Json)]],
        between: &[Part::Text("[TOOL_CALLS]")],
        ..Layout::NONE
    }),
};
