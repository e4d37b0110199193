//! Models whose template knows nothing of tools: they are told in the system message, and write as Hermes does.

use std::fmt::Write;

use super::{Format, Kind, Tool, hermes};

pub(super) static FORMAT: Format = Format { name: "generic", told: |_| false, kind: Kind::Layout(hermes::LAYOUT) };

/// What such a model is told: the words that Hermes 2 Pro and Qwen 2.5 were trained on.
pub fn instruction(tools: &[Tool]) -> String {
    let mut text = "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n\
                    You are provided with function signatures within <tools></tools> XML tags:\n<tools>"
        .to_owned();
    for tool in tools {
        let Tool { name, description, parameters, is_strict: _ } = tool;
        let function = serde_json::json!({ "name": name, "description": description, "parameters": parameters });
        let _ = write!(text, "\n{}", serde_json::json!({ "type": "function", "function": function }));
    }
    text += "\n</tools>\n\nFor each function call, return a json object with function name and arguments within \
             <tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n\
             </tool_call>";
    text
}

/// What a tool returned, as such a model is told it.
pub fn result_text(content: &str) -> String {
    format!("<tool_response>\n{content}\n</tool_response>")
}
