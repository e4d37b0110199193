//! Weights that are not in memory yet: brought there with a line that says how far, instead of a silence before the first token.

use std::path::PathBuf;
use std::time::Instant;

use kauri_engine::{Options, warm};

use crate::terminal::{self, Progress};

/// With this share in memory the rest is no matter.
const SHARE_ENOUGH: f64 = 0.9;
/// Smaller files are read faster than anything could be said of it.
const BYTES_MIN: u64 = 64 << 20;

/// Brings the files of a model into memory, if there are some, they are not there, and the model has room: one that has not is refused at
/// once.
pub fn bring(name: Option<&str>, options: &Options) {
    // What cannot be opened is said by who loads it.
    let Ok(files) = kauri_engine::files(name) else { return };
    let bytes_of = |path: &PathBuf| std::fs::metadata(path).map_or(0, |file| file.len());
    let is_missing = |path: &&PathBuf| warm::share_in_memory(path).is_some_and(|share| share < SHARE_ENOUGH);
    let missing: Vec<&PathBuf> = files.iter().filter(is_missing).collect();
    let (all, bytes): (u64, u64) = (files.iter().map(bytes_of).sum(), missing.iter().map(|path| bytes_of(path)).sum());
    let has_room = kauri_engine::Memory::of_this_machine().is_some_and(|memory| all < memory.free_bytes);
    if bytes < BYTES_MIN || !has_room || !kauri_engine::fit(name, options).is_ok_and(|fitted| fitted.fits()) {
        return;
    }
    let progress = Progress::start("reading the model");
    let (start, mut done) = (Instant::now(), 0);
    for path in missing {
        // What cannot be read is said by who loads it.
        let _ = warm::read(path, |count| {
            done += count;
            progress.show(|| {
                let speed = done as f64 / start.elapsed().as_secs_f64().max(1e-3);
                let left = (bytes.saturating_sub(done)) as f64 / speed.max(1.0);
                let (here, all) = (terminal::bytes(done), terminal::bytes(bytes));
                format!("reading the model: {here} of {all}, {}/s, {left:.0} s left", terminal::bytes(speed as u64))
            });
            true
        });
    }
}
