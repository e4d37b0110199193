//! `kauri convert`: a safetensors directory to one GGUF file, values as they are.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use kauri_engine::Quant;
use kauri_engine::mix::{self, Mix};

use super::quantize::making::{self, Job};
use crate::failure::BadInput;

/// Makes one GGUF file of a safetensors directory: settings, vocabulary, chat template and tensors as other engines read them.
///
/// Values stay as they are, or become what --type says; kauri quantize makes them smaller. A run that was stopped goes on where it
/// was when it is started again.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The directory: config.json, tokenizer.json and *.safetensors.
    #[arg(value_name = "DIR")]
    source: String,

    /// The file to make.
    #[arg(value_name = "OUT.gguf")]
    target: PathBuf,

    /// How matrices are stored; as in the directory where unset.
    #[arg(long = "type", value_enum)]
    kind: Option<Floats>,

    /// Do not compare what the two vocabularies make of a sample text.
    #[arg(long)]
    skip_vocabulary_check: bool,

    /// CPU threads; one for each core unless said otherwise.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,

    /// Write over OUT.gguf if it is there.
    #[arg(long)]
    force: bool,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// `--type`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Floats {
    /// 4 bytes a value.
    F32,
    /// 2 bytes a value, of a smaller range.
    F16,
    /// 2 bytes a value, less exact.
    Bf16,
}

const EXAMPLES: &str = "\x1b[1;32mExamples:\x1b[0m
  kauri convert ./Qwen3-8B qwen3-8b.gguf
  kauri convert ./Qwen3-8B qwen3-8b-F16.gguf --type f16
  kauri convert ./model out.gguf && kauri quantize out.gguf out-Q4_K_M.gguf --type q4_k_m";

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if !Path::new(&arguments.source).is_dir() {
        return Err(BadInput(format!(
            "{}: is no directory; expected a model in the Hugging Face layout",
            arguments.source
        ))
        .into());
    }
    let origin = making::origin(&arguments.source, !arguments.skip_vocabulary_check)?;
    let types: Vec<Quant> = match arguments.kind {
        None => origin.draft.tensors.iter().map(|tensor| tensor.quant).collect(),
        Some(kind) => {
            let mix = Mix::named(match kind {
                Floats::F32 => "F32",
                Floats::F16 => "F16",
                Floats::Bf16 => "BF16",
            });
            let mix = mix.ok_or_else(|| BadInput("no such type".to_owned()))?;
            mix::types(mix, &origin.draft.tensors, &mix::Facts::of(&origin.draft.metadata), false)
        }
    };
    let file_type = making::file_type(&origin.draft, &types);
    Job {
        origin,
        types,
        file_type,
        importance: None,
        // What is in MXFP4 stays so.
        requantise: arguments.kind.is_some(),
        measure: false,
        threads: arguments.threads,
        force: arguments.force,
        json: arguments.json,
        notes: Vec::new(),
    }
    .run(&arguments.target)
}
