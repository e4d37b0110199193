//! What people see at a terminal and pipes do not: colours, a line of progress, and text made safe to show.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use clap::builder::Styles;

/// The colours of `--help`.
pub const HELP_STYLES: Styles = Styles::styled()
    .header(HEADING)
    .usage(HEADING)
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// What heads a paragraph.
pub const HEADING: Style = AnsiColor::Green.on_default().bold();
/// What stands beside the thing itself.
pub const ASIDE: Style = Style::new().dimmed();

/// Work that ends sooner shows no progress.
const QUIET: Duration = Duration::from_millis(500);

/// A line on standard error that is overwritten as work goes on, and vanishes. Only at a terminal, and only for work that
/// takes its time; a clock of its own shows it, so that a single long step is no riddle.
pub struct Progress {
    line: Arc<Line>,
    is_terminal: bool,
}

/// The line, shared with the thread that shows it when the time has come. Who prints holds the lock.
#[derive(Default)]
struct Line {
    state: Mutex<State>,
    is_over: Condvar,
}

#[derive(Default)]
struct State {
    message: String,
    is_shown: bool,
    is_over: bool,
}

impl Progress {
    /// Progress of work that begins now.
    pub fn start(message: &str) -> Self {
        let is_terminal = io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        let state = State { message: message.to_owned(), ..State::default() };
        let line = Arc::new(Line { state: Mutex::new(state), ..Line::default() });
        if is_terminal {
            let line = line.clone();
            thread::spawn(move || line.show_when_due());
        }
        Self { line, is_terminal }
    }

    /// Says how far the work is.
    pub fn show(&self, message: impl FnOnce() -> String) {
        if self.is_terminal {
            let mut state = self.line.lock();
            state.message = message();
            if state.is_shown && !state.is_over {
                state.print();
            }
        }
    }

    /// Takes the line away for good.
    pub fn clear(&self) {
        let mut state = self.line.lock();
        state.is_over = true;
        self.line.is_over.notify_all();
        if std::mem::take(&mut state.is_shown) {
            // Not through the stream that may strip colours: the line was shown, so it can be taken away.
            let _ = io::stderr().write_all(b"\r\x1b[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

impl Line {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A message half made is still a message.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn show_when_due(&self) {
        let waited = self.is_over.wait_timeout_while(self.lock(), QUIET, |state| !state.is_over);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if !state.is_over {
            state.is_shown = true;
            state.print();
        }
    }
}

impl State {
    fn print(&self) {
        let _ = write!(anstream::stderr(), "\r\x1b[K{ASIDE}{}{ASIDE:#}", self.message);
    }
}

/// `text` with every control character but line ends and tabs shown as U+FFFD: what a model or a file says must not drive
/// the terminal.
pub fn printable(text: &str) -> Cow<'_, str> {
    let drives = |letter: char| letter.is_control() && letter != '\n' && letter != '\t';
    if text.contains(drives) { Cow::Owned(text.replace(drives, "\u{fffd}")) } else { Cow::Borrowed(text) }
}

/// A count of bytes for people.
pub fn bytes(count: u64) -> String {
    scaled(count, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB"])
}

/// A count for people.
pub fn count(count: u64) -> String {
    scaled(count, 1000.0, &["", "K", "M", "B", "T"])
}

fn scaled(count: u64, step: f64, units: &[&str]) -> String {
    let mut value = count as f64;
    let mut unit = 0;
    // As it would be printed: 1023.96 KiB is 1.0 MiB.
    while (value * 10.0).round() / 10.0 >= step && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    let number = if unit == 0 { count.to_string() } else { format!("{value:.1}") };
    format!("{number} {}", units[unit]).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_take_the_largest_fitting_unit() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes((1 << 20) - 1), "1.0 MiB");
        assert_eq!(count(25_200_000), "25.2 M");
        assert_eq!(count(999), "999");
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(printable("a\x1b[2Jb\u{9b}c"), "a\u{fffd}[2Jb\u{fffd}c");
        assert!(matches!(printable("two\nlines\twide"), Cow::Borrowed(_)));
    }
}
