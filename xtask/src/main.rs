//! Chores of the repository, run as `cargo run -p xtask -- <chore>`.
//!
//! Each chore is a module; this file only picks one. Nothing here is part of the program that users run.
#![forbid(unsafe_code)]

mod tidy;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str =
    "usage: cargo run -p xtask -- <chore>\n\nchores:\n  tidy    check the house rules that the compiler does not\n";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["tidy"] => tidy::command(repository()),
        ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            ExitCode::SUCCESS
        }
        _ => {
            eprint!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// The root of the working tree that this program was built from.
fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}
