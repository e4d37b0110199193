//! Chores of the repository, run as `cargo run -p xtask -- <chore>`.
//!
//! Each chore is a module; this file only picks one. Nothing here is part of the program that users run.
#![forbid(unsafe_code)]

mod tidy;

use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str =
    "usage: cargo run -p xtask -- <chore>\n\nchores:\n  tidy    check the house rules that the compiler does not\n";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["tidy"] => tidy::command(&repository()),
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

/// The root of the working tree that cargo runs this program for. Asked at run time: build outputs that were copied from
/// another checkout must not look at that one.
fn repository() -> PathBuf {
    let manifest_folder = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    PathBuf::from(manifest_folder).join("..")
}
