//! Llama 3: a JSON object that is the whole answer, or behind the tag for Python; built-in tools are called as in Python.

use super::layout::{Dialect, KEYS_PARAMETERS, Layout, Part};
use super::{Format, Kind};

pub(super) static FORMAT: Format = Format {
    name: "llama",
    told: |signs| signs.has("<|start_header_id|>") && signs.has("\"parameters\": ") && !signs.has("<function="),
    kind: Kind::Layout(Layout {
        open: &[Part::Text("<|python_tag|>")],
        calls: &[
            &[Part::Envelope(&KEYS_PARAMETERS)],
            &[Part::Name, Part::Text(".call("), Part::Arguments(Dialect::PythonCall)],
        ],
        between: &[Part::Text(";"), Part::Space(" ")],
        first: true,
        ..Layout::NONE
    }),
};
