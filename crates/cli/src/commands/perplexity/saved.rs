//! Probabilities kept in a file, for comparison with another form of the same model.
//!
//! Little endian: the magic `KAURILP1`; vocab, context and chunks as u32; the chunks x context tokens as u32; then a row
//! for each counted token, in order: `step` as f32, and for each token of the vocabulary a u16 `code`. The natural
//! logarithm of a probability is that of the likeliest token less `code * step`, up to a constant that normalising
//! settles. A row spans [`SPAN`] at most; what is less likely is kept as that. So half of a step, the largest error, is
//! 1.8e-4, in half the bytes of f32.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::score::LogProbabilities;
use crate::failure::BadInput;

const MAGIC: &[u8; 8] = b"KAURILP1";
const HEADER_BYTES: u64 = 20;
/// The least likely token that is told apart: a probability of 4e-11 of the likeliest one's.
const SPAN: f64 = 24.0;
const CODE_MAX: f64 = u16::MAX as f64;

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Tokens of the vocabulary.
    pub vocab: u32,
    /// Tokens of a chunk.
    pub context: u32,
    /// Chunks.
    pub chunks: u32,
}

/// A file being written.
pub struct Writer {
    path: PathBuf,
    file: BufWriter<File>,
    row: Vec<u8>,
}

/// A file being read.
pub struct Reader {
    path: PathBuf,
    file: BufReader<File>,
    header: Header,
    tokens: Vec<u32>,
    row: Vec<u8>,
    logits: Vec<f32>,
}

impl Header {
    /// Bytes of the whole file; `None` when no file is that long.
    fn bytes(self) -> Option<u64> {
        let [vocab, context, chunks] = [self.vocab, self.context, self.chunks].map(u64::from);
        let rows = chunks.checked_mul(self.rows_per_chunk())?;
        let tokens = chunks.checked_mul(context)?.checked_mul(4)?;
        rows.checked_mul(4 + 2 * vocab)?.checked_add(tokens)?.checked_add(HEADER_BYTES)
    }

    fn rows_per_chunk(self) -> u64 {
        u64::from(self.context - self.context / 2).saturating_sub(1)
    }
}

impl Writer {
    /// A file for the probabilities of `tokens`, (chunks, context).
    pub fn create(path: &Path, header: Header, tokens: &[u32]) -> anyhow::Result<Self> {
        let file =
            File::create(path).map_err(|error| BadInput(format!("{}: cannot be written: {error}", path.display())))?;
        let mut file = BufWriter::new(file);
        let numbers = [header.vocab, header.context, header.chunks];
        file.write_all(MAGIC)?;
        numbers.iter().chain(tokens).try_for_each(|number| file.write_all(&number.to_le_bytes()))?;
        Ok(Self { path: path.to_owned(), file, row: Vec::new() })
    }

    /// Writes a row.
    pub fn write(&mut self, row: &LogProbabilities<'_>) -> io::Result<()> {
        let top = row.iter().fold(f64::NEG_INFINITY, f64::max);
        let bottom = row.iter().fold(f64::INFINITY, f64::min);
        let step = ((top - bottom).min(SPAN) / CODE_MAX) as f32;
        self.row.clear();
        self.row.extend(step.to_le_bytes());
        for logarithm in row.iter() {
            // A row of equals has no step, and no distance to its top either.
            let code =
                if step > 0.0 { ((top - logarithm) / f64::from(step)).round().min(CODE_MAX) } else { 0.0 } as u16;
            self.row.extend(code.to_le_bytes());
        }
        self.file.write_all(&self.row)
    }

    /// Writes what is left.
    pub fn finish(mut self) -> anyhow::Result<()> {
        self.file.flush().with_context(|| self.path.display().to_string())
    }
}

impl Reader {
    /// Opens a file and reads its tokens.
    ///
    /// # Errors
    /// When it is not such a file, or not whole.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let wrong = |message: &str| BadInput(format!("{}: {message}", path.display()));
        let file = File::open(path).map_err(|error| wrong(&format!("cannot be opened: {error}")))?;
        let found_bytes = file.metadata().map_or(0, |metadata| metadata.len());
        let mut file = BufReader::new(file);
        let mut start = [0; HEADER_BYTES as usize];
        let is_ours = file.read_exact(&mut start).is_ok() && start.starts_with(MAGIC);
        if !is_ours {
            bail!(wrong("is no file that --save-logits wrote"));
        }
        let number = |at: usize| u32::from_le_bytes([start[at], start[at + 1], start[at + 2], start[at + 3]]);
        let header = Header { vocab: number(8), context: number(12), chunks: number(16) };
        // Checked before anything is sized by it.
        if header.bytes() != Some(found_bytes) || header.vocab == 0 || header.chunks == 0 {
            bail!(wrong("is cut off or damaged; write it again with --save-logits"));
        }
        let mut bytes = vec![0; header.chunks as usize * header.context as usize * 4];
        file.read_exact(&mut bytes)?;
        let tokens = bytes.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
        let vocab = header.vocab as usize;
        Ok(Self { path: path.to_owned(), file, header, tokens, row: vec![0; 4 + 2 * vocab], logits: vec![0.0; vocab] })
    }

    /// What the file holds.
    pub fn header(&self) -> Header {
        self.header
    }

    /// Whether the file's chunks have as many tokens as asked for.
    ///
    /// # Errors
    /// Says how many they have.
    pub fn check_context(&self, asked: u32) -> Result<(), BadInput> {
        let context = self.header.context;
        if context == asked {
            return Ok(());
        }
        let path = self.path.display();
        Err(BadInput(format!("{path}: its chunks have {context} tokens, not {asked}; leave --context {asked} out")))
    }

    /// Whether the file is about these tokens, (chunks, context), of a vocabulary of this size; it may go on behind them.
    ///
    /// # Errors
    /// Says what does not fit.
    pub fn check(&self, vocab: u32, tokens: &[u32]) -> Result<(), BadInput> {
        let message = if self.header.vocab != vocab {
            format!("its vocabulary has {} tokens, this model's has {}", self.header.vocab, vocab)
        } else if !self.tokens.starts_with(tokens) {
            "it was made from another text, tokenizer, or fewer chunks".to_owned()
        } else {
            return Ok(());
        };
        Err(BadInput(format!("{}: {message}", self.path.display())))
    }

    /// The next row.
    ///
    /// # Errors
    /// When the file cannot be read, or ends.
    pub fn read(&mut self) -> io::Result<LogProbabilities<'_>> {
        self.file.read_exact(&mut self.row)?;
        let (step, codes) = self.row.split_at(4);
        let step = f32::from_le_bytes([step[0], step[1], step[2], step[3]]);
        if !step.is_finite() || step < 0.0 {
            return Err(io::Error::new(ErrorKind::InvalidData, "a row is damaged"));
        }
        for (logit, code) in self.logits.iter_mut().zip(codes.as_chunks::<2>().0) {
            *logit = -f32::from(u16::from_le_bytes(*code)) * step;
        }
        Ok(LogProbabilities::new(&self.logits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Header = Header { vocab: 5, context: 4, chunks: 2 };
    const TOKENS: [u32; 8] = [0, 1, 2, 3, 4, 0, 1, 2];

    fn written() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("base.bin");
        let mut writer = Writer::create(&path, HEADER, &TOKENS).expect("a file");
        writer.write(&LogProbabilities::new(&[1.0, 2.0, 3.0, -4.0, -100.0])).expect("a row");
        writer.write(&LogProbabilities::new(&[0.0; 5])).expect("a row");
        writer.finish().expect("written");
        (folder, path)
    }

    #[test]
    fn rows_come_back_within_half_a_step() {
        let (_folder, path) = written();
        let mut reader = Reader::open(&path).expect("ours");
        reader.check(HEADER.vocab, &TOKENS).expect("the same text");
        reader.check(HEADER.vocab, &TOKENS[..4]).expect("its beginning");
        let expected: Vec<f64> = LogProbabilities::new(&[1.0, 2.0, 3.0, -4.0, -21.0]).iter().collect();
        for (found, expected) in reader.read().expect("a row").iter().zip(expected) {
            assert!((found - expected).abs() < 1.9e-4, "{found} for {expected}");
        }
        for found in reader.read().expect("a row").iter() {
            assert!((found - 0.2_f64.ln()).abs() < 1e-9);
        }
        assert!(reader.read().is_err());
    }

    #[test]
    fn other_files_are_refused() {
        let (folder, path) = written();
        let whole = std::fs::read(&path).expect("the file");
        let refused = |bytes: &[u8]| {
            let path = folder.path().join("other");
            std::fs::write(&path, bytes).expect("a file");
            Reader::open(&path).err().expect("refused").to_string()
        };
        for length in 0..whole.len() {
            let message = refused(&whole[..length]);
            assert!(message.contains("is no file that") || message.contains("cut off"), "{message}");
        }
        let mut endless = whole.clone();
        endless[8..20].fill(0xff);
        assert!(refused(&endless).contains("cut off"));
        let reader = Reader::open(&path).expect("ours");
        assert!(reader.check(6, &TOKENS).is_err());
        assert!(reader.check(HEADER.vocab, &[1; 8]).is_err());
    }
}
