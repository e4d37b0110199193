//! What commands that make model files share: opening the source, writing with progress, and saying what came of it.

use std::io::Write;
use std::path::Path;
use std::time::Instant;

use anyhow::bail;
use kauri_engine::Quant;
use kauri_engine::draft::Draft;
use kauri_engine::importance::Importance;
use kauri_engine::making::{Error, Origin};
use kauri_engine::mix::MIXES;
use kauri_engine::quantize::{self, Work, Written};
use serde_json::{Value as Json, json};

use crate::failure::{BadInput, Interrupted, about_model};
use crate::interrupt::{self, Second};
use crate::library;
use crate::terminal::{self, HEADING, Progress};

/// A file to be made.
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct Job {
    /// Of what.
    pub origin: Origin,
    /// A type for each tensor.
    pub types: Vec<Quant>,
    /// What a GGUF calls that.
    pub file_type: u32,
    /// What matters, where it is known.
    pub importance: Option<Importance>,
    /// Take what is quantised already.
    pub requantise: bool,
    /// Say how far values are off.
    pub measure: bool,
    /// Threads asked for.
    pub threads: Option<u16>,
    /// Write over what is there.
    pub force: bool,
    /// Print JSON.
    pub json: bool,
    /// To be said first.
    pub notes: Vec<&'static str>,
}

/// Opens what a file is to be made of.
pub fn origin(name: &str, check_vocabulary: bool) -> anyhow::Result<Origin> {
    let path = library::find(name)?;
    kauri_engine::making::source(Some(&path), check_vocabulary).map_err(|error| about(Some(name), error))
}

/// Says which model an error is about, and that it is one of input.
pub fn about(name: Option<&str>, error: Error) -> anyhow::Error {
    match error {
        Error::Engine(error) => about_model(name, error),
        Error::Convert(_)
        | Error::Vocabulary(_)
        | Error::OtherVocabulary
        | Error::Quantize(_)
        | Error::TextTooShort { .. } => {
            BadInput(format!("{}: {error}", name.unwrap_or(kauri_engine::DEFAULT_NAME))).into()
        }
    }
}

/// What a GGUF calls a file whose tensors are mostly of one type.
pub fn file_type(draft: &Draft, types: &[Quant]) -> u32 {
    let bytes = |quant: Quant| -> u64 {
        let of_type = draft.tensors.iter().zip(types).filter(|(_, found)| **found == quant);
        of_type.filter_map(|(tensor, quant)| tensor.bytes(*quant)).sum()
    };
    let most = MIXES.iter().max_by_key(|mix| bytes(mix.quant));
    most.map_or(0, |mix| mix.file_type)
}

impl Job {
    /// Writes the file and says what came of it.
    pub fn run(mut self, target: &Path) -> anyhow::Result<()> {
        if target.exists() && !self.force {
            bail!(BadInput(format!("{}: is there already; --force writes over it", target.display())));
        }
        for note in &self.notes {
            writeln!(anstream::stderr(), "note: {note}")?;
        }
        quantize::state(&mut self.origin.draft.metadata, self.file_type);
        let start = Instant::now();
        let from: u64 = self.origin.draft.tensors.iter().filter_map(|tensor| tensor.bytes(tensor.quant)).sum();
        let values: usize = self.origin.draft.tensors.iter().map(|tensor| tensor.rows() * tensor.columns()).sum();
        let written = self.write(target)?;
        let seconds = start.elapsed().as_secs_f64();
        let bits = written.bytes as f64 * 8.0 / values.max(1) as f64;
        if self.json {
            let object = json!({
                "file": target,
                "bytes": written.bytes,
                "source_bytes": from,
                "bits_per_weight": bits,
                "tensors": self.tensors(&written),
                "resumed_tensors": written.resumed,
                "seconds": seconds,
            });
            writeln!(anstream::stdout(), "{object}")?;
            return Ok(());
        }
        let mut stderr = anstream::stderr();
        if self.measure {
            for (tensor, off) in self.origin.draft.tensors.iter().zip(&written.errors) {
                if let Some([off, all]) = off {
                    let share = 100.0 * off / all.max(f64::MIN_POSITIVE);
                    writeln!(
                        stderr,
                        "{:<40} RMSE {off:.6}, {share:.2}% of the values",
                        terminal::printable(&tensor.name)
                    )?;
                }
            }
        }
        let resumed = if written.resumed > 0 {
            format!(", {} tensors of them by an earlier run", written.resumed)
        } else {
            String::new()
        };
        writeln!(
            stderr,
            "{HEADING}{}{HEADING:#}: {} of {} ({bits:.2} bits a weight) in {seconds:.1} s{resumed}",
            target.display(),
            terminal::bytes(written.bytes),
            terminal::bytes(from),
        )?;
        Ok(())
    }

    fn write(&self, target: &Path) -> anyhow::Result<Written> {
        interrupt::catch(Second::Ends)?;
        let threads = self.threads.map(usize::from);
        let work = Work {
            draft: &self.origin.draft,
            types: &self.types,
            importance: self.importance.as_ref(),
            requantise: self.requantise,
            measure: self.measure,
            threads: threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)),
            fingerprint: format!(
                "{}{}",
                self.origin.fingerprint,
                self.importance.as_ref().map_or(0, Importance::digest)
            ),
        };
        let progress = Progress::start("writing the first tensor");
        let written = quantize::write(&work, target, &mut |at| {
            progress.show(|| {
                let [done, all] = at.bytes.map(terminal::bytes);
                format!(
                    "{done} of {all}: tensor {} of {}, {}",
                    at.tensor[0] + 1,
                    at.tensor[1],
                    terminal::printable(at.name)
                )
            });
            !interrupt::is_requested()
        });
        progress.clear();
        written.map_err(|error| match error {
            quantize::Error::Stopped => Interrupted.into(),
            quantize::Error::Quantised { .. } | quantize::Error::Type { .. } | quantize::Error::Busy { .. } => {
                BadInput(error.to_string()).into()
            }
            quantize::Error::File { .. }
            | quantize::Error::NoRoom { .. }
            | quantize::Error::DiskFull { .. }
            | quantize::Error::NotFinite { .. } => error.into(),
        })
    }

    fn tensors(&self, written: &Written) -> Vec<Json> {
        let tensors = self.origin.draft.tensors.iter().zip(&self.types).zip(&written.errors);
        tensors
            .map(|((tensor, quant), off)| {
                let mut object = json!({
                    "name": tensor.name,
                    "from": tensor.quant.name(),
                    "quant": quant.name(),
                    "bytes": tensor.bytes(*quant),
                });
                if let Some([off, all]) = off {
                    object["rmse"] = json!(off);
                    object["rms"] = json!(all);
                }
                object
            })
            .collect()
    }
}
