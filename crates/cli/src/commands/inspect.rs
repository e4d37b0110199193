//! `kauri inspect`: what is in a model file, in numbers; nothing is computed.

use std::io::{self, Write};

use clap::Args;
use kauri_engine::{Inspection, TensorLine};
use serde_json::{Value as Json, json};

use crate::failure::{BadInput, about_model};
use crate::library;
use crate::terminal::{self, HEADING};

/// Says what is in a model file: its shape, its size, what a token costs, its tokenizer and its chat template.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// A GGUF file, a safetensors directory, or kauri-nano, the model inside this program (the default).
    #[arg(value_name = "FILE", conflicts_with = "model")]
    file: Option<String>,

    /// The same, as other commands take it.
    #[arg(long, value_name = "NAME|PATH")]
    model: Option<String>,

    /// List every tensor.
    #[arg(long)]
    tensors: bool,

    /// Print the chat template instead, whole.
    #[arg(long, conflicts_with_all = ["json", "tensors"])]
    template: bool,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\x1b[1;32mExamples:\x1b[0m
  kauri inspect                                 the model inside this program
  kauri inspect model.gguf --tensors
  kauri inspect model.gguf --json | jq .bytes_per_token
  kauri inspect model.gguf --template > chat.jinja";

/// Windows whose cache is worth knowing, up to the trained one.
const WINDOWS_TOKENS: [u32; 4] = [2048, 8192, 32_768, 131_072];

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let word = arguments.file.as_deref().or(arguments.model.as_deref());
    let path = word.map(library::find).transpose()?;
    let name = path.as_deref();
    if arguments.template {
        let template = kauri_engine::template_source(name)?
            .ok_or_else(|| BadInput("this model has no chat template to print".to_owned()))?;
        io::stdout().lock().write_all(template.as_bytes())?;
        return Ok(());
    }
    let inspection = kauri_engine::inspect(name).map_err(|error| about_model(name, error))?;
    if arguments.json {
        writeln!(io::stdout().lock(), "{}", to_json(&inspection))?;
        return Ok(());
    }
    let mut stdout = anstream::stdout().lock();
    for (name, value) in rows(&inspection) {
        writeln!(stdout, "{HEADING}{name:<14}{HEADING:#} {}", terminal::printable(&value))?;
    }
    if arguments.tensors {
        writeln!(stdout)?;
        for line in tensor_lines(&inspection.tensors) {
            writeln!(stdout, "{}", terminal::printable(&line))?;
        }
    }
    Ok(())
}

/// The fixed fields.
fn to_json(inspection: &Inspection) -> Json {
    let blocks =
        inspection.structure.iter().map(|(structure, count)| json!({ "structure": structure, "count": count }));
    let tensors = inspection.tensors.iter().map(
        |tensor| json!({ "name": tensor.name, "quant": tensor.quant, "dims": tensor.dims, "bytes": tensor.bytes }),
    );
    json!({
        "architecture": inspection.architecture,
        "name": inspection.name,
        "format": inspection.format,
        "shape": {
            "layers": inspection.layers,
            "hidden": inspection.hidden,
            "vocab": inspection.vocab,
            "context_tokens": inspection.context_tokens,
            "blocks": blocks.collect::<Vec<_>>(),
        },
        "parameters": inspection.parameters,
        "active_parameters": inspection.active_parameters,
        "bytes": inspection.bytes,
        "bytes_per_token": inspection.bytes_per_token,
        "kv_bytes_per_token": inspection.kv_bytes_per_token,
        "window_tokens": inspection.window_tokens,
        "window_bytes_per_sequence": inspection.window_bytes_per_sequence,
        "state_bytes_per_sequence": inspection.state_bytes_per_sequence,
        "tokenizer": inspection.tokenizer,
        "writes": inspection.writes,
        "vector": inspection.vector,
        "pooling": inspection.pooling.name(),
        "judges": inspection.judges,
        "template": inspection.template,
        "tensors": tensors.collect::<Vec<_>>(),
    })
}

/// What people read: a name and a value a line.
fn rows(inspection: &Inspection) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    let name = inspection.name.as_ref().map_or(String::new(), |name| format!("{name}: "));
    rows.push(("model", format!("{name}{}, {}", inspection.architecture, inspection.format)));
    rows.push(("shape", format!("{} layers, {} wide", inspection.layers, inspection.hidden)));
    for (structure, count) in &inspection.structure {
        rows.push(("", format!("{count} x {structure}")));
    }
    rows.push(("context", format!("{} tokens trained", inspection.context_tokens)));
    let active = if inspection.active_parameters == inspection.parameters {
        String::new()
    } else {
        format!(", {} active", terminal::count(inspection.active_parameters))
    };
    rows.push(("parameters", format!("{}{active}", terminal::count(inspection.parameters))));
    rows.push(("weights", format!("{}, {}", terminal::bytes(inspection.bytes), quant_mix(&inspection.tensors))));
    rows.push(("reads a token", terminal::bytes(inspection.bytes_per_token)));
    rows.push(("cache a token", format!("{} in f16", terminal::bytes(inspection.kv_bytes_per_token))));
    let caches = windows(inspection.context_tokens).map(|window| {
        let slides = inspection.window_tokens.map_or(0, |tokens| {
            let filled = u64::from(window.min(tokens));
            (u128::from(inspection.window_bytes_per_sequence) * u128::from(filled) / u128::from(tokens.max(1))) as u64
        });
        let cache = u64::from(window) * inspection.kv_bytes_per_token + slides + inspection.state_bytes_per_sequence;
        format!("{} for {window} tokens", terminal::bytes(cache))
    });
    rows.push(("cache", caches.collect::<Vec<_>>().join(", ")));
    if let Some(tokens) = inspection.window_tokens {
        let bytes = terminal::bytes(inspection.window_bytes_per_sequence);
        rows.push((
            "window layers",
            format!("{bytes} a sequence in f16, however long: their window is {tokens} tokens"),
        ));
    }
    if inspection.state_bytes_per_sequence > 0 {
        rows.push(("state", format!("{} a sequence", terminal::bytes(inspection.state_bytes_per_sequence))));
    }
    rows.push(("tokenizer", inspection.tokenizer.clone()));
    let judges = if inspection.judges { ", and scores" } else { "" };
    rows.push(("vectors", format!("{} wide, pooling {}{judges}", inspection.vector, inspection.pooling.name())));
    if !inspection.writes {
        rows.push(("writes", "nothing: it reads texts for vectors or scores".to_owned()));
    }
    let template = match &inspection.template {
        Some(template) => format!("{} (--template prints it)", terminal::bytes(template.len() as u64)),
        None => "none".to_owned(),
    };
    rows.push(("template", template));
    rows
}

/// A few windows that the model can have, its whole context last.
fn windows(trained: u32) -> impl Iterator<Item = u32> {
    WINDOWS_TOKENS.into_iter().filter(move |&window| window < trained).chain([trained])
}

/// How the weights are stored: each type with its share of the bytes, the largest first.
fn quant_mix(tensors: &[TensorLine]) -> String {
    let mut mix: Vec<(&str, u64)> = Vec::new();
    for tensor in tensors {
        match mix.iter_mut().find(|(quant, _)| *quant == tensor.quant) {
            Some((_, bytes)) => *bytes += tensor.bytes,
            None => mix.push((tensor.quant, tensor.bytes)),
        }
    }
    mix.sort_by_key(|&(_, bytes)| std::cmp::Reverse(bytes));
    let all: u64 = mix.iter().map(|(_, bytes)| bytes).sum::<u64>().max(1);
    let parts = mix.iter().map(|(quant, bytes)| format!("{quant} {:.1}%", *bytes as f64 * 100.0 / all as f64));
    parts.collect::<Vec<_>>().join(", ")
}

/// Every tensor in columns.
fn tensor_lines(tensors: &[TensorLine]) -> Vec<String> {
    let dims = |tensor: &TensorLine| tensor.dims.iter().map(u64::to_string).collect::<Vec<_>>().join(" x ");
    let width = |cell: &dyn Fn(&TensorLine) -> usize| tensors.iter().map(cell).max().unwrap_or(0);
    let name_width = width(&|tensor| tensor.name.chars().count());
    let dims_width = width(&|tensor| dims(tensor).len());
    let line = |tensor: &TensorLine| {
        let size = terminal::bytes(tensor.bytes);
        format!("{:<name_width$}  {:<8} {:>dims_width$}  {size:>10}", tensor.name, tensor.quant, dims(tensor))
    };
    tensors.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quant_mix_is_by_bytes_and_the_largest_comes_first() {
        let tensor = |quant, bytes| TensorLine { name: "t".to_owned(), quant, dims: vec![bytes], bytes };
        let mix = quant_mix(&[tensor("F32", 100), tensor("Q4_K", 600), tensor("Q6_K", 200), tensor("F32", 100)]);
        assert_eq!(mix, "Q4_K 60.0%, F32 20.0%, Q6_K 20.0%");
        assert_eq!(quant_mix(&[]), "");
    }

    #[test]
    fn windows_end_with_the_trained_one() {
        assert_eq!(windows(2048).collect::<Vec<_>>(), [2048]);
        assert_eq!(windows(40_960).collect::<Vec<_>>(), [2048, 8192, 32_768, 40_960]);
    }
}
