//! How a pull looks at a terminal: one line with what has come, how fast, and how long it will take.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kauri_engine::pull::Watch;

use crate::failure::print_line;
use crate::terminal::{self, Progress};

/// The speed is that of about so long.
const MEMORY: Duration = Duration::from_secs(8);
/// The line is not written more often.
const PERIOD: Duration = Duration::from_millis(100);
const WIDTH: usize = 24;

/// The line.
pub struct Bar {
    line: Progress,
    total_bytes: u64,
    state: Mutex<State>,
}

struct State {
    done_bytes: u64,
    start: Instant,
    shown: Instant,
    /// What came in this session, and when it began to count.
    since: (Instant, u64),
    speed_bytes_per_s: f64,
}

impl Bar {
    /// Of a pull of so many bytes.
    pub fn start(total_bytes: u64) -> Self {
        let now = Instant::now();
        let state = State { done_bytes: 0, start: now, shown: now, since: (now, 0), speed_bytes_per_s: 0.0 };
        Self { line: Progress::start("pulling"), total_bytes, state: Mutex::new(state) }
    }

    /// It is done.
    pub fn finish(&self) {
        self.line.clear();
        let state = self.state();
        let seconds = state.start.elapsed().as_secs_f64();
        if self.total_bytes > 0 && seconds > 1.0 {
            print_line(&format!("{} are here, after {seconds:.0} s", terminal::bytes(self.total_bytes)));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watch for Bar {
    fn came(&self, bytes: u64) {
        let mut state = self.state();
        state.done_bytes += bytes;
        let now = Instant::now();
        if now - state.shown < PERIOD {
            return;
        }
        state.shown = now;
        let (since, before) = state.since;
        let seconds = (now - since).as_secs_f64();
        if seconds > 0.0 {
            state.speed_bytes_per_s = state.done_bytes.saturating_sub(before) as f64 / seconds;
        }
        if now - since > MEMORY {
            state.since = (now, state.done_bytes);
        }
        let text = line(state.done_bytes, self.total_bytes, state.speed_bytes_per_s);
        drop(state);
        self.line.show(|| text);
    }

    fn lost(&self, bytes: u64) {
        let mut state = self.state();
        state.done_bytes = state.done_bytes.saturating_sub(bytes);
    }

    fn note(&self, text: &str) {
        self.line.show(|| text.to_owned());
    }
}

/// `[=====     ] 21%  1.0 GiB of 4.7 GiB  85.0 MiB/s  45 s left`
fn line(done_bytes: u64, total_bytes: u64, speed_bytes_per_s: f64) -> String {
    let share = (done_bytes as f64 / total_bytes.max(1) as f64).min(1.0);
    let filled = (share * WIDTH as f64) as usize;
    let bar = format!("{}{}", "=".repeat(filled), " ".repeat(WIDTH - filled));
    let (done, total) = (terminal::bytes(done_bytes), terminal::bytes(total_bytes));
    let speed = terminal::bytes(speed_bytes_per_s as u64);
    let left = if speed_bytes_per_s > 1.0 {
        format!("  {} left", time((total_bytes.saturating_sub(done_bytes) as f64 / speed_bytes_per_s) as u64))
    } else {
        String::new()
    };
    format!("[{bar}] {:.0}%  {done} of {total}  {speed}/s{left}", 100.0 * share)
}

fn time(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_how_far_how_fast_and_how_long() {
        let text = line(1 << 30, 4 << 30, 64.0 * 1024.0 * 1024.0);
        assert_eq!(
            text,
            format!("[{}{}] 25%  1.0 GiB of 4.0 GiB  64.0 MiB/s  48 s left", "=".repeat(6), " ".repeat(18))
        );
        assert!(line(0, 0, 0.0).contains("0%"));
        assert_eq!(time(8000), "2 h 13 min");
    }
}
