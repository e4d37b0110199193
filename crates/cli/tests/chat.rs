//! The interactive conversation, on a pseudo-terminal that `script` (util-linux) makes. Skipped where that is missing.
#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Nothing here takes as long; a test that waits for what does not come must end some time.
const PATIENCE: Duration = Duration::from_mins(2);

#[test]
fn a_conversation_is_held_saved_and_left() {
    let folder = tempfile::tempdir().expect("a folder");
    let saved = folder.path().join("talk.json");
    let Some(mut terminal) =
        Terminal::open(folder.path(), "--temperature 0 --max-tokens 8 --context 128 --system 'Be brief.'")
    else {
        return;
    };
    terminal.wait_for(">>> ");
    assert!(terminal.seen.contains("window 128 tokens. /help"), "{}", terminal.seen);
    terminal.type_line("What is \\");
    terminal.type_line("kauri?");
    terminal.wait_for("Cut off by --max-tokens.");
    terminal.type_line("/nonsense");
    terminal.wait_for("/nonsense is not known; /help");
    terminal.type_line("/stats");
    terminal.wait_for("8 tokens, ended by --max-tokens");
    terminal.type_line("Why?");
    terminal.wait_for("Cut off by --max-tokens.");
    // The second turn found the first one in the cache.
    terminal.type_line("/stats");
    terminal.wait_for("cached");
    assert!(!terminal.seen.rsplit("prompt ").next().expect("a line").contains(" 0 cached"), "{}", terminal.seen);
    terminal.type_line(&"word ".repeat(200));
    terminal.wait_for("the message is not kept");
    terminal.type_line(&format!("/save {}", saved.display()));
    terminal.wait_for("Saved in");
    terminal.type_line("/clear");
    terminal.wait_for("forgotten");
    terminal.type_line("/exit");
    assert_eq!(terminal.end(), Some(0));

    let talk: serde_json::Value = serde_json::from_slice(&std::fs::read(saved).expect("the file")).expect("JSON");
    let roles: Vec<&str> =
        talk["messages"].as_array().expect("messages").iter().map(|m| m["role"].as_str().expect("a role")).collect();
    assert_eq!(roles, ["system", "user", "assistant", "user", "assistant"]);
    assert_eq!(talk["messages"][1]["content"], "What is \nkauri?");
    assert!(folder.path().join("kauri/history").exists());
}

#[test]
fn ctrl_c_stops_the_answer_and_not_the_program() {
    let folder = tempfile::tempdir().expect("a folder");
    // Sampling at this temperature wanders until the window is full.
    let Some(mut terminal) = Terminal::open(folder.path(), "--temperature 3 --seed 1") else {
        return;
    };
    terminal.wait_for(">>> ");
    terminal.type_line("Tell me a story.");
    // The echo of the line, then the first of the answer.
    terminal.wait_for("story.\r\n");
    terminal.wait_for(" ");
    terminal.type_text("\x03");
    terminal.wait_for("Stopped.");
    // What is typed before the prompt is there is echoed in front of it, and the prompt ends in a space too.
    terminal.wait_for(">>> ");
    // The next answer is not stopped by what stopped this one.
    terminal.type_line("Tell me another story.");
    terminal.wait_for("another story.\r\n");
    terminal.wait_for(" ");
    terminal.type_text("\x03");
    terminal.type_line("/stats");
    terminal.wait_for("tokens, stopped;");
    assert!(!terminal.seen.contains(" 0 tokens, stopped"), "{}", terminal.seen);
    terminal.type_text("\x04");
    assert_eq!(terminal.end(), Some(0));
}

/// `kauri run` at a terminal without editing, so that what is seen does not depend on cursor movements.
struct Terminal {
    child: Child,
    stdin: ChildStdin,
    output: Receiver<Vec<u8>>,
    /// What was not waited for yet, and where that begins.
    seen: String,
    at: usize,
}

impl Terminal {
    fn open(state: &Path, options: &str) -> Option<Self> {
        // In the place of the shell, which would answer Ctrl-C too.
        let command = format!("exec {} run {options}", env!("CARGO_BIN_EXE_kauri"));
        let spawned = Command::new("script")
            .args(["-q", "-e", "-f", "-c", &command, "/dev/null"])
            .env("TERM", "dumb")
            .env("SHELL", "/bin/sh")
            .env("XDG_STATE_HOME", state)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut child) = spawned else {
            eprintln!("skipped: there is no `script` to make a pseudo-terminal");
            return None;
        };
        let stdin = child.stdin.take().expect("a pipe");
        let mut stdout = child.stdout.take().expect("a pipe");
        let (sender, output) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = stdout.read(&mut bytes) {
                if sender.send(bytes[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        Some(Self { child, stdin, output, seen: String::new(), at: 0 })
    }

    fn type_line(&mut self, line: &str) {
        self.type_text(line);
        self.type_text("\n");
    }

    fn type_text(&mut self, text: &str) {
        self.stdin.write_all(text.as_bytes()).and_then(|()| self.stdin.flush()).expect("a terminal");
    }

    /// Waits until `part` is seen behind what was waited for before.
    fn wait_for(&mut self, part: &str) {
        loop {
            if let Some(found) = self.seen[self.at..].find(part) {
                self.at += found + part.len();
                return;
            }
            let Ok(bytes) = self.output.recv_timeout(PATIENCE) else {
                panic!("{part:?} did not come; seen: {}", self.seen);
            };
            self.seen.push_str(&String::from_utf8_lossy(&bytes));
        }
    }

    fn end(mut self) -> Option<i32> {
        drop(self.stdin);
        self.child.wait().expect("it ends").code()
    }
}
