//! Lines from a person: editing, several lines as one message, and a history that outlives the program.

use std::ffi::OsString;
use std::fs;
use std::io::{self, IsTerminal};
use std::path::PathBuf;

use anyhow::Context;
use rustyline::error::ReadlineError;
use rustyline::{Behavior, Config, DefaultEditor};

use super::super::answer::eprint_aside;

const PROMPT: &str = ">>> ";
const PROMPT_CONTINUED: &str = "... ";
const HISTORY_LINES_MAX: usize = 1000;

/// Reads messages.
pub struct Reader {
    editor: DefaultEditor,
    /// Where the history is kept; nowhere if the machine has no place for it.
    history: Option<PathBuf>,
}

impl Reader {
    /// A reader with the history of earlier conversations.
    pub fn open() -> anyhow::Result<Self> {
        // With standard output in a file, prompts belong on the terminal all the same.
        let behavior = if io::stdout().is_terminal() { Behavior::Stdio } else { Behavior::PreferTerm };
        let config = Config::builder().max_history_size(HISTORY_LINES_MAX)?.behavior(behavior).build();
        let mut editor = DefaultEditor::with_config(config).context("the terminal cannot be used")?;
        let history = history_path(|name| std::env::var_os(name));
        if let Some(path) = &history {
            // There is none before the first conversation.
            let _ = editor.load_history(path);
        }
        Ok(Self { editor, history })
    }

    /// The next message; `None` when the person has left.
    pub fn read(&mut self) -> anyhow::Result<Option<String>> {
        let mut text = String::new();
        loop {
            let prompt = if text.is_empty() { PROMPT } else { PROMPT_CONTINUED };
            match self.editor.readline(prompt) {
                Ok(line) => {
                    if let Some(line) = line.strip_suffix('\\') {
                        text.push_str(line);
                        text.push('\n');
                        continue;
                    }
                    text.push_str(&line);
                    self.remember(&text);
                    return Ok(Some(text));
                }
                Err(ReadlineError::Interrupted) => {
                    if text.is_empty() {
                        eprint_aside("Ctrl-D or /exit leaves.");
                    }
                    text.clear();
                }
                Err(ReadlineError::Eof) => return Ok(None),
                Err(error) => return Err(error).context("the terminal cannot be read"),
            }
        }
    }

    /// A history that cannot be kept is no reason to stop talking.
    fn remember(&mut self, text: &str) {
        if text.trim().is_empty() {
            return;
        }
        let _ = self.editor.add_history_entry(text);
        if let Some(path) = &self.history {
            if let Some(folder) = path.parent() {
                let _ = fs::create_dir_all(folder);
            }
            let _ = self.editor.append_history(path);
        }
    }
}

/// Where the system wants state kept that should outlive a program, given its environment.
fn history_path(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    // The base directory specification: a relative path is to be ignored.
    let folder = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = if cfg!(windows) {
        folder("LOCALAPPDATA")?
    } else {
        folder("XDG_STATE_HOME").or_else(|| Some(folder("HOME")?.join(".local").join("state")))?
    };
    Some(state.join("kauri").join("history"))
}

#[cfg(all(test, unix))]
mod tests {
    use std::path::Path;

    use super::*;

    fn path(variables: &[(&str, &str)]) -> Option<PathBuf> {
        history_path(|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value)))
    }

    #[test]
    fn the_history_lies_in_the_state_directory() {
        let home = ("HOME", "/h");
        assert_eq!(path(&[home]).as_deref(), Some(Path::new("/h/.local/state/kauri/history")));
        assert_eq!(path(&[home, ("XDG_STATE_HOME", "/s")]).as_deref(), Some(Path::new("/s/kauri/history")));
        assert_eq!(path(&[home, ("XDG_STATE_HOME", "s")]).as_deref(), Some(Path::new("/h/.local/state/kauri/history")));
        assert_eq!(path(&[]), None);
    }
}
