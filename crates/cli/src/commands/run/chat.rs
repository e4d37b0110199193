//! A conversation at a terminal: lines with history, answers that Ctrl-C stops, and a few words that begin with `/`.

mod line;
mod reader;
mod transcript;

use std::io::{self, IsTerminal};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use kauri_engine::{Chat, Done, Engine, Error, Finish, Session};

use self::line::Line;
use self::reader::Reader;
use super::answer::{self, Format, Manner, eprint_aside};
use crate::failure::print_line;
use crate::interrupt::{self, Second};

const HELP: &str = "\
/clear         forget the conversation, keep the system text
/exit          leave; so does Ctrl-D
/help          this list
/save FILE     write the conversation to FILE, as .json or .md
/stats         counts and speeds of the last answer
/system TEXT   what the model is told before the conversation
Ctrl-C stops an answer. A line that ends in \\ goes on in the next. A message that begins with / needs a space before it.";

/// Talks until the person leaves.
///
/// # Errors
/// When the model cannot chat, or the terminal or the device is gone. What a turn asks too much of is said, and the
/// conversation goes on.
pub fn talk(engine: &mut Engine, manner: &Manner, name: &str, chat: Chat) -> anyhow::Result<()> {
    // Before anything is typed: a model that cannot chat says so now.
    let mut probe = chat.clone();
    probe.push("user", "?");
    engine.chat_tokens(&probe)?;
    interrupt::catch(Second::Repeats)?;
    let mut reader = Reader::open()?;
    if io::stderr().is_terminal() {
        let window = engine.window_tokens();
        eprint_aside(&format!("{name}, window {window} tokens. /help lists what you may type; Ctrl-D leaves."));
    }
    let mut talk = Talk { session: engine.session(), manner, name, chat, last: None, saved: Vec::new() };
    while let Some(text) = reader.read()? {
        if talk.hear(&text)?.is_break() {
            break;
        }
    }
    Ok(())
}

/// A conversation and what is known about it.
struct Talk<'e> {
    session: Session<'e>,
    manner: &'e Manner,
    name: &'e str,
    chat: Chat,
    /// What the last answer took.
    last: Option<Done>,
    /// Files that this conversation wrote, which it may write again.
    saved: Vec<PathBuf>,
}

impl Talk<'_> {
    /// Does what a line asks for; breaks off when it asks to leave.
    fn hear(&mut self, text: &str) -> anyhow::Result<ControlFlow<()>> {
        match Line::parse(text) {
            Line::Nothing => {}
            Line::Say(text) => self.say(text)?,
            Line::Clear => {
                self.chat.clear();
                self.last = None;
                eprint_aside("The conversation is forgotten.");
            }
            Line::Exit => return Ok(ControlFlow::Break(())),
            Line::Help => eprint_aside(HELP),
            Line::Save(file) => self.save(Path::new(file)),
            Line::Stats => match &self.last {
                Some(done) => eprint_aside(&answer::stats(done, self.manner.sampling.seed)),
                None => eprint_aside("There is no answer yet."),
            },
            Line::System(text) => {
                self.chat.set_system(text);
                eprint_aside("The model is told this from the next message on.");
            }
            Line::Wrong(message) => print_line(&message),
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Answers a message. One that cannot be answered is not kept.
    fn say(&mut self, text: &str) -> anyhow::Result<()> {
        self.chat.push("user", text);
        let asked = match self.session.engine().ask(&self.chat) {
            Ok(asked) => asked,
            Err(error) => return self.refuse(error.into()),
        };
        let answer = match answer::write(&mut self.session, self.manner, asked, Format::Text) {
            Ok(answer) => answer,
            Err(error) => return self.refuse(error),
        };
        match answer.done.finish {
            Finish::Window => eprint_aside("The window is full: /clear starts afresh, a larger --context holds more."),
            Finish::Length => eprint_aside("Cut off by --max-tokens."),
            Finish::Time => eprint_aside("Cut off by --max-time."),
            Finish::Cancelled => eprint_aside("Stopped."),
            Finish::EndToken | Finish::Complete | Finish::Stop(_) => {}
        }
        self.chat.push("assistant", &answer.text);
        self.last = Some(answer.done);
        Ok(())
    }

    /// Goes on as if the last message had not been, if it was to blame.
    fn refuse(&mut self, error: anyhow::Error) -> anyhow::Result<()> {
        match error.downcast_ref::<Error>() {
            Some(Error::PromptTooLong { prompt, window }) => print_line(&format!(
                "with this message the conversation has {prompt} tokens, but the window holds {window}, the answer \
                 included; the message is not kept: shorten it, or /clear the conversation"
            )),
            Some(cause) if cause.is_input() => print_line(&format!("{error:#}")),
            Some(_) | None => return Err(error),
        }
        self.chat.pop();
        Ok(())
    }

    fn save(&mut self, file: &Path) {
        let is_ours = self.saved.iter().any(|saved| saved == file);
        match transcript::save(file, is_ours, self.name, self.chat.messages()) {
            Ok(()) => {
                eprint_aside(&format!("Saved in {}.", file.display()));
                self.saved.push(file.to_owned());
            }
            Err(error) => print_line(&format!("{}: {error}", file.display())),
        }
    }
}
