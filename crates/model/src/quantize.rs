//! Writes a draft as a GGUF file, each tensor as the type that was chosen for it: a slab of rows at a time, on all threads.
//!
//! The file grows under another name, `<name>.partial`, beside a journal of how many tensors are whole; whoever is asked for the same
//! file again goes on behind them. Under its own name there is only ever a whole file. Which types, others have chosen.

mod partial;

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use kauri_formats::gguf::{Slot, Writer};
use kauri_formats::{Metadata, Quant, Value};

use self::partial::Partial;
use crate::draft::{Draft, Planned};
use crate::importance::Importance;
use crate::pull::free_bytes;

/// Values that a thread takes at a time: 4 MiB of `f32`.
const CHUNK_VALUES: usize = 1 << 20;
/// Such parts that are made before they are written.
const SLAB_CHUNKS: usize = 16;
/// After so many bytes the journal says how far it got.
const JOURNAL_BYTES: u64 = 64 << 20;

/// A file to be written.
pub struct Work<'a> {
    /// What goes in.
    pub draft: &'a Draft,
    /// A type for each tensor.
    pub types: &'a [Quant],
    /// How much each input matters, where it is known.
    pub importance: Option<&'a Importance>,
    /// Whether what is quantised already may be quantised otherwise.
    pub requantise: bool,
    /// Whether to say how far the values of each tensor are from what they were.
    pub measure: bool,
    /// Threads that share the work.
    pub threads: usize,
    /// What tells this work from another that would have the same settings and tensors: where the values come from, and when
    /// that was written.
    pub fingerprint: String,
}

/// How far it is.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// The tensor that is being written, from 0, of how many.
    pub tensor: [usize; 2],
    /// Its name.
    pub name: &'a str,
    /// Bytes written, of how many.
    pub bytes: [u64; 2],
}

/// What was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    /// Bytes of the whole file.
    pub bytes: u64,
    /// Tensors that an earlier run had written.
    pub resumed: usize,
    /// For each tensor that this run wrote, if it was to be measured and changed its type: the root of the mean square of what
    /// each value is off, and of the values.
    pub errors: Vec<Option<[f64; 2]>>,
}

/// Why a file was not written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file system said no.
    #[error("{path}: {reason}")]
    File {
        /// The file.
        path: String,
        /// What it said.
        reason: io::Error,
    },
    /// There is not enough room to begin.
    #[error(
        "{path}: {needed} bytes are to be written, and the disk has room for {free}: make room, or choose another disk"
    )]
    NoRoom {
        /// The file.
        path: String,
        /// Bytes to be written.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// The disk is full.
    #[error("{path}: the disk is full; what was written stays: make room, and the same command goes on where it was")]
    DiskFull {
        /// The file.
        path: String,
    },
    /// Another process writes the same file.
    #[error("{path}: another process is writing this file; wait for it, or choose another name")]
    Busy {
        /// The file.
        path: String,
    },
    /// The source is quantised.
    #[error(
        "the tensor {tensor} is {found} already; quantising it again costs quality: give a source in F32, F16 or BF16, or --requantise"
    )]
    Quantised {
        /// The tensor.
        tensor: String,
        /// Its type.
        found: &'static str,
    },
    /// A value is no number.
    #[error("the tensor {tensor} has a value that is no finite number; the source is damaged")]
    NotFinite {
        /// The tensor.
        tensor: String,
    },
    /// A type does not suit a tensor.
    #[error("the tensor {tensor}: {reason}")]
    Type {
        /// The tensor.
        tensor: String,
        /// Why.
        reason: String,
    },
    /// Somebody asked to stop; the next run goes on.
    #[error("stopped; the same command goes on where it was")]
    Stopped,
}

impl Error {
    /// What the file system said about a file.
    fn file(path: &Path) -> impl Fn(io::Error) -> Self + use<> {
        let name = path.display().to_string();
        move |reason| {
            let path = name.clone();
            match reason.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull { path },
                _ => Self::File { path, reason },
            }
        }
    }
}

/// The settings of a file with tensors of these types: what readers of the format expect beside those of the model.
pub fn state(metadata: &mut Metadata, file_type: u32) {
    let mut stated = Metadata::default();
    let own = ["general.quantization_version", "general.file_type"];
    for (key, value) in metadata.iter().filter(|(key, _)| !own.contains(key)) {
        stated.insert(key.to_owned(), value.clone());
    }
    stated.insert(own[0].to_owned(), Value::Unsigned(2));
    stated.insert(own[1].to_owned(), Value::Unsigned(u64::from(file_type)));
    *metadata = stated;
}

/// Bytes of a file with these types; the first tensor that cannot have its type.
///
/// # Errors
/// As [`write()`].
pub fn file_bytes(draft: &Draft, types: &[Quant]) -> Result<u64, Error> {
    let slots = slots(draft, types);
    let mut head = Vec::new();
    let refused = |reason: io::Error| Error::Type { tensor: "list".to_owned(), reason: reason.to_string() };
    let mut writer = Writer::new(&mut head, &draft.metadata, &slots).map_err(refused)?;
    let mut bytes = 0;
    for _ in &slots {
        bytes += writer.skip().map_err(refused)?;
    }
    drop(writer);
    Ok(bytes + head.len() as u64)
}

fn slots<'a>(draft: &'a Draft, types: &[Quant]) -> Vec<Slot<'a>> {
    let slot = |(tensor, &quant): (&'a Planned, &Quant)| Slot { name: &tensor.name, quant, dims: &tensor.dims };
    draft.tensors.iter().zip(types).map(slot).collect()
}

/// Writes the file at `path`, or goes on with it; `progress` is told after every slab, and says whether to go on.
///
/// # Errors
/// See [`Error`]. What was written until then stays for the next run.
pub fn write(work: &Work<'_>, path: &Path, progress: &mut dyn FnMut(Progress<'_>) -> bool) -> Result<Written, Error> {
    check(work)?;
    let all = file_bytes(work.draft, work.types)?;
    let slots = slots(work.draft, work.types);
    let mut partial = Partial::open(path, &work.fingerprint)?;
    let failed = Error::file(path);
    let mut head = Vec::new();
    Writer::new(&mut head, &work.draft.metadata, &slots).map_err(&failed)?;
    let done = partial.done(&head).map_err(&failed)?.min(slots.len());
    partial.rewind().map_err(&failed)?;
    let mut writer = Writer::new(partial.file(), &work.draft.metadata, &slots).map_err(&failed)?;
    let mut bytes = head.len() as u64;
    for _ in 0..done {
        bytes += writer.skip().map_err(&failed)?;
    }
    partial.cut(bytes).map_err(&failed)?;
    has_room(path, all - bytes)?;
    let (mut errors, mut unsaved) = (vec![None; slots.len()], 0);
    for (index, tensor) in work.draft.tensors.iter().enumerate().skip(done) {
        let mut told = |written: u64| {
            progress(Progress { tensor: [index, slots.len()], name: &tensor.name, bytes: [bytes + written, all] })
        };
        let size = tensor.bytes(work.types[index]).unwrap_or_default();
        let wrote = write_tensor(work, tensor, work.types[index], &mut writer, &mut told, path);
        errors[index] = wrote.inspect_err(|_| {
            // What is whole stays so; why it stopped is what the caller hears.
            drop(partial.save(index));
        })?;
        bytes += size;
        unsaved += size;
        if unsaved >= JOURNAL_BYTES {
            partial.save(index + 1).map_err(&failed)?;
            unsaved = 0;
        }
    }
    writer.finish().map_err(&failed)?;
    partial.finish(path).map_err(&failed)?;
    Ok(Written { bytes: all, resumed: done, errors })
}

/// Whether so many bytes can still be written beside `path`, where the system says.
fn has_room(path: &Path, needed: u64) -> Result<(), Error> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match free_bytes(folder) {
        Ok(Some(free)) if free < needed => Err(Error::NoRoom { path: path.display().to_string(), needed, free }),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// What can be said before anything is read.
fn check(work: &Work<'_>) -> Result<(), Error> {
    for (tensor, &quant) in work.draft.tensors.iter().zip(work.types) {
        let name = || tensor.name.clone();
        if tensor.quant == quant {
            continue;
        }
        if !matches!(tensor.quant, Quant::F32 | Quant::F16 | Quant::BF16) && !work.requantise {
            return Err(Error::Quantised { tensor: name(), found: tensor.quant.name() });
        }
        if !quant.can_quantise() {
            let reason = format!("there is no quantiser for {}; take a type such as Q4_K, Q6_K or Q8_0", quant.name());
            return Err(Error::Type { tensor: name(), reason });
        }
        if tensor.bytes(quant).is_none() {
            let (columns, block) = (tensor.columns(), quant.block_len());
            let reason = format!("rows of {columns} values cannot be {}, whose blocks are of {block}", quant.name());
            return Err(Error::Type { tensor: name(), reason });
        }
    }
    Ok(())
}

/// One tensor, slab by slab.
fn write_tensor(
    work: &Work<'_>,
    tensor: &Planned,
    quant: Quant,
    writer: &mut Writer<&File>,
    told: &mut dyn FnMut(u64) -> bool,
    path: &Path,
) -> Result<Option<[f64; 2]>, Error> {
    let means = work.importance.and_then(|importance| importance.means(&tensor.name));
    // That of another model is none of this one's.
    let matrices = tensor.rows() / tensor.rows_of_one().max(1);
    let means = means.filter(|means| means.len() == tensor.columns() * matrices);
    let rows_of_chunk = (CHUNK_VALUES / tensor.columns().max(1)).max(1);
    let (mut written, mut sums) = (0, [0.0; 2]);
    for slab in chunks(0..tensor.rows(), rows_of_chunk, tensor.rows_of_one()).chunks(SLAB_CHUNKS) {
        let made: Vec<OnceLock<Result<Made<'_>, Error>>> = slab.iter().map(|_| OnceLock::new()).collect();
        let next = AtomicUsize::new(0);
        let take = || {
            while let Some((rows, slot)) = {
                let index = next.fetch_add(1, Ordering::Relaxed);
                slab.get(index).zip(made.get(index))
            } {
                let result = chunk(work, tensor, quant, means.as_deref(), rows.clone());
                drop(slot.set(result));
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..work.threads.min(slab.len()) {
                scope.spawn(take);
            }
            take();
        });
        for made in made {
            let Some(made) = made.into_inner() else { continue };
            let Made { bytes, squares } = made?;
            written += bytes.len() as u64;
            writer.data(&bytes).map_err(Error::file(path))?;
            sums = [sums[0] + squares[0], sums[1] + squares[1]];
        }
        if !told(written) {
            return Err(Error::Stopped);
        }
    }
    let count = (tensor.rows() * tensor.columns()).max(1) as f64;
    Ok((work.measure && tensor.quant != quant).then(|| sums.map(|sum| (sum / count).sqrt())))
}

/// Rows in parts that no boundary between matrices goes through.
fn chunks(rows: Range<usize>, each: usize, rows_of_one: usize) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let mut start = rows.start;
    while start < rows.end {
        let end = (start + each).min(rows.end).min((start / rows_of_one + 1) * rows_of_one);
        parts.push(start..end);
        start = end;
    }
    parts
}

/// Rows as they will stand in the file.
struct Made<'a> {
    bytes: Cow<'a, [u8]>,
    /// Sums of squares: of what values are off, and of the values.
    squares: [f64; 2],
}

fn chunk<'a>(
    work: &Work<'_>,
    tensor: &'a Planned,
    quant: Quant,
    means: Option<&[f32]>,
    rows: Range<usize>,
) -> Result<Made<'a>, Error> {
    if let Some(bytes) = tensor.stored(quant, rows.clone()) {
        return Ok(Made { bytes, squares: [0.0; 2] });
    }
    let mut values = Vec::with_capacity(rows.len() * tensor.columns());
    tensor.values(rows.clone(), &mut values);
    if !values.iter().all(|value| value.is_finite()) {
        return Err(Error::NotFinite { tensor: tensor.name.clone() });
    }
    let bytes = encoded(tensor, quant, means, rows.start, &values)?;
    let squares = if work.measure { squares(quant, &bytes, &values) } else { [0.0; 2] };
    Ok(Made { bytes: Cow::Owned(bytes), squares })
}

/// Values of rows, the first of which is this, as blocks.
pub(crate) fn encoded(
    tensor: &Planned,
    quant: Quant,
    means: Option<&[f32]>,
    first_row: usize,
    values: &[f32],
) -> Result<Vec<u8>, Error> {
    let columns = tensor.columns();
    let matrix = first_row / tensor.rows_of_one().max(1);
    let means = means.map(|means| &means[matrix * columns..][..columns]);
    let mut bytes = Vec::new();
    let refused = |error: kauri_formats::quant::QuantError| Error::Type {
        tensor: tensor.name.clone(),
        reason: error.to_string(),
    };
    quant.quantise(values, columns, means, &mut bytes).map_err(refused)?;
    Ok(bytes)
}

fn squares(quant: Quant, bytes: &[u8], values: &[f32]) -> [f64; 2] {
    let mut back = vec![0.0; values.len()];
    quant.dequantise(bytes, &mut back);
    let off = values.iter().zip(&back).map(|(value, back)| f64::from(value - back).powi(2)).sum();
    [off, values.iter().map(|value| f64::from(*value).powi(2)).sum()]
}
