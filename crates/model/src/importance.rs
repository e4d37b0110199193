//! How much each input of each matrix matters: the mean square of what met it while a text was read (an importance matrix).
//!
//! In a file, as llama.cpp has it (`tools/imatrix`): a GGUF of the type `imatrix` with, for each matrix, the sums of squares of its
//! inputs, `<name>.in_sum2`, and how many there were, `<name>.counts`; a stack of experts has as many of both.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use kauri_formats::gguf::{Slot, Writer};
use kauri_formats::{Checkpoint, Metadata, Quant, Source, Tensor, Value};

const SUMS: &str = ".in_sum2";
const COUNTS: &str = ".counts";

/// Sums of squares, by the names of tensors.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Importance {
    entries: BTreeMap<String, Entry>,
}

/// Of one tensor.
#[derive(Clone, Debug, PartialEq)]
struct Entry {
    columns: usize,
    /// `(matrices, columns)`.
    sums: Vec<f64>,
    /// Rows that were seen, for each matrix.
    counts: Vec<u64>,
}

/// Why a file is no importance matrix.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read.
    #[error(transparent)]
    File(#[from] kauri_formats::Error),
    /// It is something else, or something in it is.
    #[error("{0}")]
    Content(String),
}

impl Importance {
    /// Whether nothing was seen.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many tensors it knows.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// A number that another importance matrix hardly has: FNV-1a over all sums.
    pub fn digest(&self) -> u64 {
        let bits = self.entries.values().flat_map(|entry| entry.sums.iter().map(|sum| sum.to_bits()));
        bits.fold(0xcbf2_9ce4_8422_2325, |hash, bits| (hash ^ bits).wrapping_mul(0x0100_0000_01b3))
    }

    /// Adds rows of inputs of matrix `index` of `count` of the tensor `name`.
    pub fn add(
        &mut self,
        name: &str,
        [index, count]: [usize; 2],
        columns: usize,
        rows: impl Iterator<Item: AsRef<[f32]>>,
    ) {
        let entry = self.entries.entry(name.to_owned()).or_insert_with(|| Entry {
            columns,
            sums: vec![0.0; columns * count],
            counts: vec![0; count],
        });
        let sums = &mut entry.sums[index * columns..][..columns];
        for row in rows {
            for (sum, value) in sums.iter_mut().zip(row.as_ref()) {
                *sum += f64::from(value * value);
            }
            entry.counts[index] += 1;
        }
    }

    /// The mean squares of a tensor's inputs, `(matrices, columns)`; of a matrix that nothing met, as if all mattered alike.
    pub fn means(&self, name: &str) -> Option<Vec<f32>> {
        let entry = self.entries.get(name)?;
        let rows = entry.sums.chunks_exact(entry.columns).zip(&entry.counts);
        Some(
            rows.flat_map(|(sums, &count)| {
                sums.iter().map(move |sum| if count == 0 { 1.0 } else { (sum / count as f64) as f32 })
            })
            .collect(),
        )
    }

    /// Reads a file.
    ///
    /// # Errors
    /// When it is no importance matrix, or one with numbers that make no sense.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let checkpoint = Checkpoint::open(path)?;
        let content = |what: &str| Error::Content(format!("{}: {what}", path.display()));
        let of_type = match &checkpoint.source {
            Source::Gguf(metadata) => metadata.str("general.type"),
            Source::Safetensors(_) => None,
        };
        if of_type != Some("imatrix") {
            return Err(content(
                "this is no importance matrix; kauri imatrix makes one, as a GGUF file of the type imatrix",
            ));
        }
        let mut entries = BTreeMap::new();
        for (name, sums) in &checkpoint.tensors {
            let Some(name) = name.strip_suffix(SUMS) else { continue };
            let counts = checkpoint.tensors.get(&format!("{name}{COUNTS}"));
            let counts = counts.ok_or_else(|| content(&format!("{name} has sums and no counts")))?;
            let (sums, counts) = (numbers(sums), numbers(counts));
            let (Some(sums), Some(counts)) = (sums, counts) else {
                return Err(content(&format!("{name} is not of F32 numbers over zero")));
            };
            if counts.is_empty() || sums.is_empty() || sums.len() % counts.len() != 0 {
                return Err(content(&format!("{name} has {} sums for {} matrices", sums.len(), counts.len())));
            }
            let entry = Entry {
                columns: sums.len() / counts.len(),
                sums: sums.into_iter().map(f64::from).collect(),
                counts: counts.into_iter().map(|count| count as u64).collect(),
            };
            entries.insert(name.to_owned(), entry);
        }
        if entries.is_empty() {
            return Err(content("there is nothing in this importance matrix"));
        }
        Ok(Self { entries })
    }

    /// Writes a file that says what was read: the text by this name, in so many chunks of so many tokens.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: impl Write, text: &str, chunks: u64, chunk_tokens: u64) -> io::Result<()> {
        let mut metadata = Metadata::default();
        metadata.insert("general.type".to_owned(), Value::String("imatrix".to_owned()));
        metadata.insert("imatrix.datasets".to_owned(), Value::Strings([text].into_iter().collect()));
        metadata.insert("imatrix.chunk_count".to_owned(), Value::Unsigned(chunks));
        metadata.insert("imatrix.chunk_size".to_owned(), Value::Unsigned(chunk_tokens));
        let named: Vec<(String, [u64; 2], Vec<f32>)> = self
            .entries
            .iter()
            .flat_map(|(name, entry)| {
                let matrices = entry.counts.len() as u64;
                let sums = entry.sums.iter().map(|&sum| sum as f32).collect();
                let counts = entry.counts.iter().map(|&count| count as f32).collect();
                [
                    (format!("{name}{SUMS}"), [matrices, entry.columns as u64], sums),
                    (format!("{name}{COUNTS}"), [matrices, 1], counts),
                ]
            })
            .collect();
        let slots: Vec<Slot<'_>> = named.iter().map(|(name, dims, _)| Slot { name, quant: Quant::F32, dims }).collect();
        let mut writer = Writer::new(out, &metadata, &slots)?;
        for (_, _, values) in &named {
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            writer.data(&bytes)?;
        }
        writer.finish().map(drop)
    }
}

/// Numbers that are none below zero.
fn numbers(tensor: &Tensor) -> Option<Vec<f32>> {
    if tensor.quant != Quant::F32 {
        return None;
    }
    let mut values = vec![0.0; tensor.data.len() / 4];
    tensor.quant.dequantise(&tensor.data, &mut values);
    values.iter().all(|value| value.is_finite() && *value >= 0.0).then_some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_is_read_again_and_what_was_not_matters_alike() {
        let mut seen = Importance::default();
        seen.add("blk.0.ffn_up.weight", [0, 1], 2, [[1.0_f32, 2.0], [3.0, 0.0]].iter());
        seen.add("blk.0.ffn_up_exps.weight", [1, 2], 2, [[2.0_f32, 2.0]].iter());
        assert_eq!(seen.means("blk.0.ffn_up.weight"), Some(vec![5.0, 2.0]));
        assert_eq!(seen.means("blk.0.ffn_up_exps.weight"), Some(vec![1.0, 1.0, 4.0, 4.0]));
        assert_eq!(seen.means("other"), None);
        let path = std::env::temp_dir().join(format!("kauri-importance-{}.gguf", std::process::id()));
        seen.write(std::fs::File::create(&path).unwrap(), "a text", 1, 2).unwrap();
        let read = Importance::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read, seen);
    }
}
