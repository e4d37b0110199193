//! A conversation as a file: JSON that `kauri debug render` reads again, or Markdown for people.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

use kauri_engine::Message;
use serde_json::{Value as Json, json};

/// Writes `messages` to `file` in the form that its ending names. A file that is there already is written over only with
/// `may_replace`.
///
/// # Errors
/// When the ending is unknown, or the file cannot be written.
pub fn save(file: &Path, may_replace: bool, model: &str, messages: &[Message]) -> io::Result<()> {
    let text = match file.extension().and_then(|ending| ending.to_str()) {
        Some("json") => {
            let plain = |message: &Message| json!({ "role": message.role, "content": message.content });
            let messages: Vec<Json> = messages.iter().map(plain).collect();
            format!("{:#}\n", json!({ "model": model, "messages": messages }))
        }
        Some("md" | "markdown") => markdown(model, messages),
        Some(_) | None => {
            return Err(io::Error::other("the file's name must end in .json or .md"));
        }
    };
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    if !may_replace {
        options.create_new(true);
    }
    let mut file = options.open(file).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => io::Error::other("there is such a file already; choose another name"),
        _ => error,
    })?;
    file.write_all(text.as_bytes())
}

fn markdown(model: &str, messages: &[Message]) -> String {
    let mut text = format!("# A conversation with {model}\n");
    for message in messages {
        // A string takes whatever is written to it.
        let _ = write!(text, "\n## {}\n\n{}\n", message.role, message.content.trim());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_is_saved_by_the_ending_and_never_over_another_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let messages = [("user", "Hi"), ("assistant", "Hello.\n")].map(|(role, content)| Message {
            role: role.to_owned(),
            content: content.to_owned(),
            ..Message::default()
        });
        let markdown = folder.path().join("talk.md");
        save(&markdown, false, "kauri-nano", &messages).expect("saved");
        let text = std::fs::read_to_string(&markdown).expect("the file");
        assert_eq!(text, "# A conversation with kauri-nano\n\n## user\n\nHi\n\n## assistant\n\nHello.\n");

        let error = save(&markdown, false, "m", &messages).expect_err("it is there already");
        assert!(error.to_string().contains("already"), "{error}");
        save(&markdown, true, "m", &messages[..1]).expect("saved again");
        assert!(!std::fs::read_to_string(&markdown).expect("the file").contains("Hello"));

        let file = folder.path().join("talk.json");
        save(&file, false, "m", &messages).expect("saved");
        let read: Json = serde_json::from_slice(&std::fs::read(file).expect("the file")).expect("JSON");
        assert_eq!(read["messages"][1]["content"], "Hello.\n");
        assert!(save(&folder.path().join("talk.txt"), false, "m", &messages).is_err());
    }
}
