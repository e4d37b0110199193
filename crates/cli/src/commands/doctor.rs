//! `kauri doctor`: what this machine has, what kauri will use of it, and what is wrong, in plain words.

use std::fs;
use std::io::Write;

use clap::Args;
use kauri_engine::pull::free_bytes;
use kauri_engine::{Adapter, Isa, Machine, Memory, machine};
use serde_json::{Value as Json, json};

use crate::library::Library;
use crate::measured;
use crate::terminal::{self, HEADING};

/// Looks at this machine and measures it: cores, instructions, memory, GPUs, disk; then says what kauri uses and what is wrong.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Print one JSON object.
    #[arg(long)]
    json: bool,

    /// Print a report for a bug: versions and the above, and nothing that says who or where you are.
    #[arg(long, conflicts_with = "json")]
    report: bool,
}

const EXAMPLES: &str = "\x1b[1;32mExamples:\x1b[0m
  kauri doctor
  kauri doctor --json | jq .bandwidth_bytes_per_s
  kauri doctor --report > report.txt";

/// Less is too little for any model worth having.
const MEMORY_BYTES_MIN: u64 = 2 << 30;
/// A disk with less room takes no model of common size.
const DISK_BYTES_MIN: u64 = 5 << 30;
/// One channel of old memory gives more than this.
const BANDWIDTH_MIN: f64 = 8e9;

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let library = Library::open();
    let machine = machine();
    if let Ok(library) = &library {
        measured::keep(library, &machine);
    }
    let memory = Memory::of_this_machine();
    let disk = library.as_ref().ok().and_then(|library| free_bytes(&library.places.hub).ok().flatten());
    let mut troubles = troubles(&machine, memory.as_ref(), disk);
    if let Err(error) = &library {
        troubles.push(format!("{error:#}"));
    }
    let mut out = anstream::stdout().lock();
    if arguments.json {
        writeln!(out, "{}", to_json(&machine, memory.as_ref(), disk, &troubles))?;
        return Ok(());
    }
    if arguments.report {
        writeln!(out, "kauri {} on {} {}", env!("CARGO_PKG_VERSION"), std::env::consts::OS, std::env::consts::ARCH)?;
    }
    for (name, value) in rows(&machine, memory.as_ref(), disk) {
        writeln!(out, "{HEADING}{name:<14}{HEADING:#} {}", terminal::printable(&value))?;
    }
    writeln!(out)?;
    if troubles.is_empty() {
        writeln!(out, "Nothing is wrong.")?;
    }
    for trouble in &troubles {
        writeln!(out, "- {}", terminal::printable(trouble))?;
    }
    Ok(())
}

fn rows(machine: &Machine, memory: Option<&Memory>, disk: Option<u64>) -> Vec<(&'static str, String)> {
    let isas: Vec<&str> = machine.isas.iter().map(|isa| isa.name()).collect();
    let ceilings = &machine.ceilings;
    let (bandwidth, operations) = (ceilings.bandwidth_bytes_per_s, ceilings.operations_per_s);
    let memory = memory.map_or("unknown".to_owned(), |memory| {
        let limit = memory.limited_by.as_ref().map_or(String::new(), |by| format!(", limited by {by}"));
        format!("{} free of {}{limit}", terminal::bytes(memory.free_bytes), terminal::bytes(memory.total_bytes))
    });
    let gpu = match &machine.gpu {
        Ok(gpu) => {
            format!("{}, {} free of {}", gpu.name, terminal::bytes(gpu.free_bytes), terminal::bytes(gpu.total_bytes))
        }
        Err(reason) => format!("none: {reason}"),
    };
    let uses = match &machine.gpu {
        Ok(gpu) => format!("the {}, unless --device cpu says otherwise", gpu.name),
        Err(_) => format!("the CPU: {} threads, {}", machine.cores, machine.isa.name()),
    };
    let speed = |bytes: f64| bandwidth / bytes;
    let mut rows = vec![
        ("CPU", cpu_name().unwrap_or_else(|| "unknown".to_owned())),
        ("cores", format!("{} ({} logical)", machine.cores, machine.logical_cpus)),
        ("instructions", isas.join(", ")),
        ("bandwidth", format!("{:.1} GB/s read from memory, measured", bandwidth / 1e9)),
        ("arithmetic", format!("{:.0} GOPS measured, {}", operations / 1e9, ceilings.arithmetic)),
        ("memory", memory),
        ("GPU", gpu),
        ("disk", disk.map_or("unknown".to_owned(), |free| format!("{} free for models", terminal::bytes(free)))),
        ("kauri uses", uses),
        (
            "so",
            format!(
                "a model of 5 GB writes at most {:.1} tokens/s on the CPU, one of 1 GB {:.0}",
                speed(5e9),
                speed(1e9)
            ),
        ),
    ];
    rows.extend(machine.adapters.iter().map(|adapter| ("adapter", adapter_words(adapter))));
    rows
}

/// An adapter of `--device wgpu`, with its limits.
fn adapter_words(adapter: &Adapter) -> String {
    let mut words = vec![
        adapter.name.clone(),
        format!("{} in one piece", terminal::bytes(adapter.binding_bytes_max)),
        match adapter.subgroup {
            Some([least, most]) if least == most => format!("subgroups of {least}"),
            Some([least, most]) => format!("subgroups of {least} to {most}"),
            None => "no subgroups".to_owned(),
        },
    ];
    words.extend(adapter.has_f16.then(|| "f16".to_owned()));
    words.extend(adapter.has_matrix_units.then(|| "matrix units".to_owned()));
    words.extend(adapter.is_software.then(|| "computes on the CPU: used only if --device wgpu asks for it".to_owned()));
    words.extend(adapter.lacks.as_ref().map(|lack| format!("cannot be used: it has no {lack}")));
    words.join("; ")
}

fn adapter_json(adapter: &Adapter) -> Json {
    json!({
        "name": adapter.name,
        "is_software": adapter.is_software,
        "binding_bytes_max": adapter.binding_bytes_max,
        "subgroup_sizes": adapter.subgroup,
        "has_f16": adapter.has_f16,
        "has_matrix_units": adapter.has_matrix_units,
        "lacks": adapter.lacks,
    })
}

/// What is wrong, and what to do about it.
fn troubles(machine: &Machine, memory: Option<&Memory>, disk: Option<u64>) -> Vec<String> {
    let mut troubles = Vec::new();
    if machine.isa == Isa::Scalar {
        troubles.push("This CPU has no vector instructions that kauri has kernels for: everything is slow.".to_owned());
    }
    if machine.ceilings.bandwidth_bytes_per_s < BANDWIDTH_MIN {
        troubles.push(
            "Memory is slow: other programs may be using it now, or only one of several memory slots is filled."
                .to_owned(),
        );
    }
    if let Some(memory) = memory.filter(|memory| memory.free_bytes < MEMORY_BYTES_MIN) {
        let free = terminal::bytes(memory.free_bytes);
        troubles.push(match &memory.limited_by {
            Some(by) => format!("Only {free} of memory are free, by the limit of {by}: raise that limit."),
            None => format!("Only {free} of memory are free: close other programs."),
        });
    }
    if let Some(free) = disk.filter(|free| *free < DISK_BYTES_MIN) {
        let free = terminal::bytes(free);
        troubles
            .push(format!("The disk has room for {free} only: make room, or set HF_HOME to a folder on another disk."));
    }
    if machine.logical_cpus < machine.cores {
        troubles.push(
            "This process may use fewer CPUs than the machine has: its group or its container limits it.".to_owned(),
        );
    }
    let has_driver =
        ["/dev/nvidia0", "/proc/driver/nvidia/version"].iter().any(|path| fs::exists(path).unwrap_or(false));
    if let Some(reason) = machine.gpu.as_ref().err().filter(|_| has_driver) {
        troubles.push(format!("There is an NVIDIA GPU that kauri cannot use: {reason}."));
    }
    troubles
}

fn to_json(machine: &Machine, memory: Option<&Memory>, disk: Option<u64>, troubles: &[String]) -> Json {
    let gpu = machine.gpu.as_ref();
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "cpu": cpu_name(),
        "cores": machine.cores,
        "logical_cpus": machine.logical_cpus,
        "isa": machine.isa.name(),
        "isas": machine.isas.iter().map(|isa| isa.name()).collect::<Vec<_>>(),
        "bandwidth_bytes_per_s": machine.ceilings.bandwidth_bytes_per_s,
        "peak_ops_per_s": machine.ceilings.operations_per_s,
        "arithmetic": machine.ceilings.arithmetic,
        "memory_bytes": memory.map(|memory| memory.total_bytes),
        "free_memory_bytes": memory.map(|memory| memory.free_bytes),
        "memory_limited_by": memory.and_then(|memory| memory.limited_by.clone()),
        "gpu": gpu.ok().map(|gpu| json!({ "name": gpu.name, "free_bytes": gpu.free_bytes, "bytes": gpu.total_bytes })),
        "no_gpu_because": gpu.err(),
        "adapters": machine.adapters.iter().map(adapter_json).collect::<Vec<_>>(),
        "free_disk_bytes": disk,
        "troubles": troubles,
    })
}

/// What the CPU calls itself.
fn cpu_name() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}
