//! `kauri quantize`: a model with fewer bits for each weight.

pub(super) mod making;

use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use kauri_engine::draft::{Draft, Planned};
use kauri_engine::importance::Importance;
use kauri_engine::making::{Error, Study};
use kauri_engine::mix::{self, Facts, MIXES, Mix};
use kauri_engine::{Quant, choose};
use regex::Regex;

use self::making::Job;
use crate::failure::BadInput;
use crate::input;
use crate::terminal::{self, Progress};

/// Makes a smaller file of a model: a mix of types by name, one type for a tensor, or what fits a size best.
///
/// The source is a GGUF file or a safetensors directory, best as it was trained (F32, F16 or BF16). The file is written a piece at
/// a time, whatever its size, and a run that was stopped goes on where it was when it is started again.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct Arguments {
    /// A GGUF file or a safetensors directory.
    #[arg(value_name = "SRC")]
    source: String,

    /// The file to make.
    #[arg(value_name = "DST")]
    target: PathBuf,

    /// The mix, by the name that files have: `Q4_K_M`, `Q5_K_S`, `Q6_K`, `Q8_0`, `IQ4_XS` and others.
    #[arg(long = "type", value_name = "TYPE", value_parser = mix_named, required_unless_present = "target_size")]
    mix: Option<Mix>,

    /// Choose a type for each tensor so that the file takes at most this much and is as near to its source as it can be.
    #[arg(long, value_name = "SIZE", value_parser = size, conflicts_with = "mix")]
    target_size: Option<u64>,

    /// Measure on this text how much the model minds an error in each tensor: reads it once for each tensor. Without, a small model writes
    /// a short text itself and is measured on that; for a larger one a table says it.
    #[arg(long, value_name = "TEXT", requires = "target_size")]
    calibrate: Option<PathBuf>,

    /// Take from a table how much models mind an error in each tensor, whatever their size: at once.
    #[arg(long, requires = "target_size", conflicts_with = "calibrate")]
    by_table: bool,

    /// A type for tensors whose name a regular expression finds, such as `ffn_down=Q6_K`; the first that does counts.
    #[arg(long = "tensor-type", value_name = "REGEX=TYPE", value_parser = rule)]
    rules: Vec<Rule>,

    /// What matters, as kauri imatrix (or llama.cpp) found it.
    #[arg(long, value_name = "FILE")]
    imatrix: Option<PathBuf>,

    /// Take a source that is quantised already; it gets no better by that.
    #[arg(long)]
    requantise: bool,

    /// Say how far the values of each tensor are from what they were.
    #[arg(long)]
    measure: bool,

    /// Do not compare what the two vocabularies of a directory make of a sample text.
    #[arg(long)]
    skip_vocabulary_check: bool,

    /// CPU threads; one for each core unless said otherwise.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,

    /// Write over DST if it is there.
    #[arg(long)]
    force: bool,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Tokens of a chunk that `--calibrate` reads, and how many such chunks.
const CALIBRATION: [usize; 2] = [512, 4];

/// The same of a text that the model writes itself.
const OWN_CALIBRATION: [usize; 2] = [256, 2];
/// Values of the largest model that this is done for: with half a billion it takes minutes on a few cores.
const OWN_CALIBRATION_VALUES_MAX: usize = 1_000_000_000;

/// `--tensor-type`.
#[derive(Clone, Debug)]
struct Rule {
    pattern: Regex,
    quant: Quant,
}

const EXAMPLES: &str = "\x1b[1;32mExamples:\x1b[0m
  kauri quantize model-BF16.gguf model-Q4_K_M.gguf --type q4_k_m
  kauri quantize ./Qwen3-8B qwen3.gguf --type q4_k_m --imatrix qwen3.imatrix.gguf
  kauri quantize model-BF16.gguf small.gguf --target-size 6GB --imatrix model.imatrix.gguf
  kauri quantize model-BF16.gguf mine.gguf --type q4_k_m --tensor-type 'attn_v=q8_0' --tensor-type 'blk\\.0\\.=q6_k'";

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let importance = arguments.imatrix.as_deref().map(Importance::open).transpose();
    let importance = importance.map_err(|error| BadInput(error.to_string()))?;
    let origin = making::origin(&arguments.source, !arguments.skip_vocabulary_check)?;
    let mut notes = Vec::new();
    if let Some(importance) = &importance {
        let known = origin.draft.tensors.iter().filter(|tensor| importance.means(&tensor.name).is_some()).count();
        if known == 0 {
            bail!(BadInput("the importance matrix knows none of these tensors: it is of another model".to_owned()));
        }
    }
    let mut types = match (arguments.mix, arguments.target_size) {
        (Some(mix), _) => {
            mix::types(mix, &origin.draft.tensors, &Facts::of(&origin.draft.metadata), importance.is_some())
        }
        (None, Some(size)) => chosen(arguments, &origin.draft, importance.as_ref(), size)?,
        (None, None) => bail!(BadInput("say --type or --target-size".to_owned())),
    };
    overrule(&origin.draft, &arguments.rules, &mut types)?;
    if importance.is_none() && types.contains(&Quant::Q2_K) {
        notes.push("two bits a weight without --imatrix lose much: kauri imatrix makes one");
    }
    let file_type = arguments.mix.map_or_else(|| making::file_type(&origin.draft, &types), |mix| mix.file_type);
    Job {
        origin,
        types,
        file_type,
        importance,
        requantise: arguments.requantise,
        measure: arguments.measure,
        threads: arguments.threads,
        force: arguments.force,
        json: arguments.json,
        notes,
    }
    .run(&arguments.target)
}

/// The types that fit the size best.
fn chosen(
    arguments: &Arguments,
    draft: &Draft,
    importance: Option<&Importance>,
    size: u64,
) -> anyhow::Result<Vec<Quant>> {
    choose::spare_bytes(draft, size).map_err(|error| BadInput(error.to_string()))?;
    let progress = Progress::start("reading the text");
    let (name, threads) = (Some(arguments.source.as_str()), arguments.threads.map(usize::from));
    let values: usize = draft.tensors.iter().map(|tensor| tensor.rows() * tensor.columns()).sum();
    let (text, chunks) = match &arguments.calibrate {
        Some(path) => (Some(input::file(path)?), CALIBRATION),
        None if arguments.by_table || values > OWN_CALIBRATION_VALUES_MAX => (None, OWN_CALIBRATION),
        None => {
            let [chunk, count] = OWN_CALIBRATION;
            let text = kauri_engine::making::own_text(name, chunk * count + chunk / 2, threads);
            (text.map(Some).map_err(|error| making::about(name, error))?, OWN_CALIBRATION)
        }
    };
    let measured = text.map(|text| {
        let tell = &mut |done, all| progress.show(|| format!("measured tensor {done} of {all}"));
        let study = Study::new(name, &text, chunks, threads);
        study.and_then(|mut study| study.minds(draft, importance, tell))
    });
    let measured = match measured {
        // What a model has written of its own may be too little: it is not for the person who asked to give more.
        Some(Err(Error::TextTooShort { .. })) if arguments.calibrate.is_none() => None,
        measured => measured.transpose().map_err(|error| making::about(name, error))?,
    };
    let measured = measured.unwrap_or_default();
    let mean = measured.values().sum::<f64>() / measured.len().max(1) as f64;
    let tied = draft.tensors.iter().all(|tensor| tensor.name != "output.weight");
    let minds = |tensor: &Planned| {
        if measured.is_empty() {
            return choose::usual_minds(tensor, tied);
        }
        measured.get(&tensor.name).copied().unwrap_or(mean)
    };
    let tell = &mut |done, all| progress.show(|| format!("tried types for tensor {done} of {all}"));
    let types = choose::types(draft, importance, size, &minds, tell);
    progress.clear();
    types.map_err(|error| BadInput(error.to_string()).into())
}

/// What rules say, where the mix says something else.
fn overrule(draft: &Draft, rules: &[Rule], types: &mut [Quant]) -> anyhow::Result<()> {
    let mut used = vec![false; rules.len()];
    for (tensor, quant) in draft.tensors.iter().zip(types) {
        let rule = rules.iter().position(|rule| rule.pattern.is_match(&tensor.name));
        if let Some(rule) = rule.filter(|_| mix::may_change(tensor)) {
            used[rule] = true;
            *quant = mix::fitting(rules[rule].quant, tensor.columns());
        }
    }
    if let Some(rule) = used.iter().position(|used| !used) {
        let pattern = &rules[rule].pattern;
        bail!(BadInput(format!(
            "--tensor-type {pattern}: no tensor of this model that can be quantised has such a name"
        )));
    }
    Ok(())
}

fn mix_named(name: &str) -> Result<Mix, String> {
    Mix::named(name).ok_or_else(|| {
        let names: Vec<&str> = MIXES.iter().map(|mix| mix.name).collect();
        format!("there is no such mix; there are {}", names.join(", "))
    })
}

fn rule(text: &str) -> Result<Rule, String> {
    let (pattern, name) = text.rsplit_once('=').ok_or("expected REGEX=TYPE, such as ffn_down=Q6_K")?;
    let pattern = Regex::new(pattern).map_err(|error| format!("{pattern}: {error}"))?;
    let name = name.to_ascii_uppercase();
    let found = Quant::ALL.into_iter().find(|quant| quant.name() == name && quant.can_quantise());
    found.map(|quant| Rule { pattern, quant }).ok_or_else(|| {
        let names: Vec<&str> =
            Quant::ALL.iter().filter(|quant| quant.can_quantise()).map(|quant| quant.name()).collect();
        format!("{name} is no type that can be written; there are {}", names.join(", "))
    })
}

/// Bytes: a number and perhaps a unit, of thousands (GB) or of 1024 (GiB).
fn size(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..digits].parse().map_err(|_| "expected a size, such as 6GB or 700MiB".to_owned())?;
    let unit = match text[digits..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kb" => 1e3,
        "m" | "mb" => 1e6,
        "g" | "gb" => 1e9,
        "t" | "tb" => 1e12,
        "kib" => 1024.0,
        "mib" => 1024.0 * 1024.0,
        "gib" => 1024.0 * 1024.0 * 1024.0,
        "tib" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        other => return Err(format!("{other} is no unit of size; there are kB, MB, GB, TB, KiB, MiB, GiB, TiB")),
    };
    let bytes = number * unit;
    if bytes >= 1.0 && bytes < u64::MAX as f64 {
        Ok(bytes as u64)
    } else {
        Err(format!("{} is no size of a file", terminal::printable(text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_rules_are_read_or_refused() {
        assert_eq!(size("6GB"), Ok(6_000_000_000));
        assert_eq!(size("1.5 KiB"), Ok(1536));
        assert_eq!(size("12"), Ok(12));
        for wrong in ["", "GB", "6 parsecs", "-1", "0", "1e400GB", "99999999999999TB"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
        assert_eq!(rule("blk\\.0\\.=q6_k").unwrap().quant, Quant::Q6_K);
        for wrong in ["ffn", "(=Q6_K", "ffn=Q9_K", "ffn=IQ1_S"] {
            assert!(rule(wrong).is_err(), "{wrong}");
        }
        assert_eq!(mix_named("q4_k").unwrap().name, "Q4_K_M");
        assert!(mix_named("q9").unwrap_err().contains("Q4_K_S"));
    }
}
