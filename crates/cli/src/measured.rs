//! What was measured of this machine, kept for commands that only want to know about how fast something would be.

use std::fs;

use kauri_engine::{Machine, machine};
use serde_json::{Value as Json, json};

use crate::library::Library;

/// Bytes a second that this machine reads from memory: as it was measured last, or now.
pub fn bandwidth(library: &Library) -> f64 {
    let kept: Option<Json> = fs::read(&library.measured).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let known = kept.as_ref().and_then(|kept| {
        // Another machine may share the folder.
        let same = kept.get("cpus")?.as_u64()? == cores as u64;
        kept.get("bandwidth_bytes_per_s")?.as_f64().filter(|bandwidth| same && *bandwidth > 0.0)
    });
    known.unwrap_or_else(|| {
        let machine = machine();
        keep(library, &machine);
        machine.ceilings.bandwidth_bytes_per_s
    })
}

/// Keeps what was measured. It is worth little: a disk that takes nothing is no reason to fail.
pub fn keep(library: &Library, machine: &Machine) {
    let json = json!({
        "cpus": machine.logical_cpus,
        "bandwidth_bytes_per_s": machine.ceilings.bandwidth_bytes_per_s,
        "operations_per_s": machine.ceilings.operations_per_s,
        "arithmetic": machine.ceilings.arithmetic,
    });
    if let Some(folder) = library.measured.parent() {
        let _ = fs::create_dir_all(folder);
    }
    let _ = fs::write(&library.measured, json.to_string());
}
