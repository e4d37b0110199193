//! Weights on the device: copied once, as they are stored; what several slots share is copied once too.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use kauri_arch::{Dense, Embed, Ffn, Linear, Mixer, Shape};
use kauri_device::{Adapted, DeviceError, Weight};
use kauri_formats::Quant;

use crate::detect::{DEVICE, lost, no_room};
use crate::driver::{self, Allocation, Arg, Gpu, Grid, Pinned};
use crate::experts;
use crate::matmul;
use crate::scaled;

/// What fills a slot of a shape on the device.
#[derive(Clone, Copy, Debug)]
pub struct Resident {
    /// Where it begins.
    pub(crate) at: u64,
    /// How values are stored; those of a vector as `F32`.
    pub(crate) quant: Quant,
    /// Rows; one of a vector.
    pub(crate) rows: usize,
    /// Columns, or values of a vector.
    pub(crate) columns: usize,
    /// Whether each field of all blocks lies together (`kernels/quant.cuh`); else a matrix is as it is stored, or as [`scaled`] says.
    pub(crate) planes: bool,
}

impl Resident {
    /// The storage type as kernels know it.
    pub(crate) fn quant_number(&self) -> Arg<'static> {
        Arg::Int(self.quant as i32)
    }
}

/// Weights begin at a multiple of this many bytes: what the widest loads want.
const ALIGNMENT: usize = 256;
/// Bytes that are copied in one go. Two such pieces of pinned memory take turns.
const PIECE_BYTES: usize = 32 << 20;
/// Threads that fill a piece from the mapped file.
const FILLERS: usize = 8;

/// All weights of a model, and the tables of those that a kernel chooses from.
pub(crate) struct Weights {
    _memory: Allocation,
    tables: Vec<Allocation>,
    /// Tables by where the first matrix of a list is.
    by_first: HashMap<u64, u64>,
    /// Matrices in planes that have codes which are no numbers.
    irregular: HashSet<u64>,
}

impl Weights {
    /// Copies the weights of `shape` to the device, and gives the shape with where they are.
    /// Matrices of products whose fast kernels want it are cut into planes there: the same bytes in another order.
    pub(crate) fn new(
        gpu: &Arc<Gpu>,
        shape: &Shape<Weight>,
        exact: bool,
    ) -> Result<(Self, Shape<Resident>), DeviceError> {
        let stored = if exact { None } else { Some(stored_slots(shape)) };
        let planes = |weight: &Weight| match weight {
            Weight::Matrix(matrix) => {
                matmul::wants_planes(matrix.quant, matrix.columns)
                    && stored.as_ref().is_some_and(|slots| !slots.contains(&std::ptr::from_ref(weight)))
            }
            Weight::Vector(_) | Weight::Adapted(_) => false,
        };
        let mut layout = Layout::default();
        let mut unsupported = None;
        shape.for_each(|weight| {
            if weight.is_adapted() {
                unsupported = Some("adapters (--lora)".to_owned());
            }
            if let Weight::Matrix(matrix) = weight
                && (matrix.quant as usize) > Quant::F8_E4M3 as usize
            {
                unsupported = Some(format!("weights stored as {}", matrix.quant.name()));
            }
            layout.add(weight, planes(weight));
        });
        if let Some(what) = unsupported {
            return Err(DeviceError::Unsupported { device: DEVICE, what });
        }
        let memory = gpu.allocate(layout.bytes).map_err(no_room("the weights", layout.bytes as u64))?;
        let mut sender = Sender::new(gpu)?;
        let mut sent = HashSet::new();
        let (mut to_cut, mut eights) = (Vec::new(), Vec::new());
        let resident = shape.try_map(&mut |weight| {
            let (key, bytes) = bytes_of(weight, planes(weight));
            let at = memory.at() + layout.places[&key] as u64;
            let planes = key.2;
            if sent.insert(key) {
                match weight {
                    Weight::Matrix(matrix) if scaled::is(matrix) => {
                        scaled::each(matrix, planes, &mut |bytes, behind| sender.send(bytes, at + behind as u64))?;
                        if planes {
                            eights.push((at, bytes.len()));
                        }
                    }
                    Weight::Matrix(matrix) if planes => {
                        sender.send(bytes, at)?;
                        to_cut.push((at, bytes.len(), matrix.quant));
                    }
                    Weight::Matrix(_) | Weight::Vector(_) | Weight::Adapted(_) => sender.send(bytes, at)?,
                }
            }
            Ok::<_, DeviceError>(match weight {
                Weight::Matrix(matrix) | Weight::Adapted(Adapted { matrix, .. }) => {
                    Resident { at, quant: matrix.quant, rows: matrix.rows, columns: matrix.columns, planes }
                }
                Weight::Vector(values) => Resident { at, quant: Quant::F32, rows: 1, columns: values.len(), planes },
            })
        })?;
        sender.finish()?;
        cut(gpu, &to_cut)?;
        let irregular = irregular(gpu, &eights)?;
        let mut weights = Self { _memory: memory, tables: Vec::new(), by_first: HashMap::new(), irregular };
        weights.tabulate(gpu, &resident)?;
        Ok((weights, resident))
    }

    /// The table of the list whose first matrix is this.
    pub(crate) fn table(&self, first: &Resident) -> u64 {
        self.by_first[&first.at]
    }

    /// Whether all codes of a matrix are numbers.
    pub(crate) fn is_regular(&self, matrix: &Resident) -> bool {
        !self.irregular.contains(&matrix.at)
    }

    /// Makes the tables: of the heads of latent attention, and of experts.
    fn tabulate(&mut self, gpu: &Arc<Gpu>, shape: &Shape<Resident>) -> Result<(), DeviceError> {
        for latent in shape.mixers().filter_map(Mixer::latent) {
            for heads in [&latent.keys, &latent.values] {
                let first = &heads[0].weight;
                if heads.iter().any(|head| head.weight.quant != first.quant || head.bias.is_some()) {
                    let what = "heads of latent attention that are stored in different ways".to_owned();
                    return Err(DeviceError::Unsupported { device: DEVICE, what });
                }
                self.add(gpu, first.at, &heads.iter().map(|head| head.weight.at).collect::<Vec<_>>())?;
            }
        }
        for moe in shape.ffns().filter_map(Ffn::moe) {
            let words: Vec<u64> = moe.experts.iter().flat_map(expert_words).collect();
            self.add(gpu, moe.experts[0].up.weight.at, &words)?;
        }
        Ok(())
    }

    fn add(&mut self, gpu: &Arc<Gpu>, first: u64, words: &[u64]) -> Result<(), DeviceError> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let table = gpu.allocate(bytes.len()).map_err(no_room("tables of weights", bytes.len() as u64))?;
        gpu.write(table.at(), &bytes).map_err(lost)?;
        self.by_first.insert(first, table.at());
        self.tables.push(table);
        Ok(())
    }
}

/// The slots whose kernels take matrices as they are stored: tables, heads of latent attention, experts of several kinds.
fn stored_slots(shape: &Shape<Weight>) -> HashSet<*const Weight> {
    let Embed { table, places, kinds, .. } = &shape.embed;
    let mut slots: HashSet<*const Weight> =
        [Some(table), places.as_ref(), kinds.as_ref()].into_iter().flatten().map(std::ptr::from_ref).collect();
    for latent in shape.mixers().filter_map(Mixer::latent) {
        slots.extend(latent.keys.iter().chain(&latent.values).map(|head| std::ptr::from_ref(&head.weight)));
    }
    for moe in shape.ffns().filter_map(Ffn::moe).filter(|moe| !experts::are_alike(moe)) {
        for expert in &moe.experts {
            let linears = expert.gate.iter().chain([&expert.up, &expert.down]);
            slots.extend(linears.map(|linear| std::ptr::from_ref(&linear.weight)));
        }
    }
    slots
}

/// Cuts matrices into planes, by way of a copy.
fn cut(gpu: &Arc<Gpu>, matrices: &[(u64, usize, Quant)]) -> Result<(), DeviceError> {
    let most = matrices.iter().map(|&(_, bytes, _)| bytes).max().unwrap_or(0);
    let copy = gpu.allocate(most).map_err(no_room("cutting weights into planes", most as u64))?;
    for &(at, bytes, quant) in matrices {
        gpu.copy(at, copy.at(), bytes).map_err(lost)?;
        let blocks = bytes / quant.block_bytes();
        let arguments = [copy.at().into(), at.into(), Arg::Place(blocks as u64)];
        let name = format!("planes_{}", matmul::type_name(quant));
        gpu.launch(&name, Grid::new([blocks.div_ceil(256), 1, 1], 256), &arguments).map_err(lost)?;
    }
    gpu.wait().map_err(lost)
}

/// Those of matrices of eight-bit floats that have codes which are no numbers.
fn irregular(gpu: &Arc<Gpu>, matrices: &[(u64, usize)]) -> Result<HashSet<u64>, DeviceError> {
    let mut found = vec![0; 4 * matrices.len()];
    let there = gpu.allocate(found.len()).map_err(no_room("looking through weights", found.len() as u64))?;
    gpu.set(&there, 0).map_err(lost)?;
    let grid = Grid::new([8 * gpu.processors as usize, 1, 1], 256);
    for (index, &(at, bytes)) in matrices.iter().enumerate() {
        let arguments = [at.into(), Arg::Place((bytes / 16) as u64), Arg::Place(there.at() + 4 * index as u64)];
        gpu.launch("find_no_numbers", grid, &arguments).map_err(lost)?;
    }
    gpu.read(there.at(), &mut found).map_err(lost)?;
    let found = found.as_chunks().0.iter().map(|flag| u32::from_ne_bytes(*flag) != 0);
    Ok(matrices.iter().zip(found).filter_map(|(&(at, _), found)| found.then_some(at)).collect())
}

/// An expert as `Expert` of `kernels/experts.cu`.
fn expert_words(expert: &Dense<Resident>) -> [u64; 8] {
    let place = |linear: &Linear<Resident>| linear.weight.at;
    let bias = |linear: &Linear<Resident>| linear.bias.map_or(0, |bias| bias.at);
    let quant = |linear: &Linear<Resident>| u64::from(linear.weight.quant as u32);
    let gate = expert.gate.as_ref();
    let (up, down) = (&expert.up, &expert.down);
    [
        gate.map_or(0, place),
        place(up),
        place(down),
        gate.map_or(0, bias),
        bias(up),
        bias(down),
        gate.map_or(0, quant) | quant(up) << 32,
        quant(down),
    ]
}

/// Where the bytes of a weight lie on the host, how many there are, and whether they are cut into planes: what is the same is shared.
type Key = (usize, usize, bool);

/// Where weights go.
#[derive(Default)]
struct Layout {
    places: HashMap<Key, usize>,
    bytes: usize,
}

impl Layout {
    fn add(&mut self, weight: &Weight, planes: bool) {
        let (key, bytes) = bytes_of(weight, planes);
        self.places.entry(key).or_insert_with(|| {
            let place = self.bytes;
            let length = match weight {
                Weight::Matrix(matrix) if scaled::is(matrix) => scaled::bytes(matrix, planes),
                Weight::Matrix(_) | Weight::Vector(_) | Weight::Adapted(_) => bytes.len(),
            };
            self.bytes = (place + length.max(1)).next_multiple_of(ALIGNMENT);
            place
        });
    }
}

/// The stored bytes of a weight. Numbers of vectors are those of this machine, which has the device's order of bytes.
fn bytes_of(weight: &Weight, planes: bool) -> (Key, &[u8]) {
    let bytes: &[u8] = match weight {
        Weight::Matrix(matrix) | Weight::Adapted(Adapted { matrix, .. }) => &matrix.data,
        Weight::Vector(values) => driver::bytes_of_floats(values),
    };
    ((bytes.as_ptr() as usize, bytes.len(), planes), bytes)
}

/// Copies by way of pinned memory, which is twice as quick and lets one piece be filled while another is under way.
struct Sender<'a> {
    gpu: &'a Arc<Gpu>,
    pieces: [Pinned; 2],
    next: usize,
    filled: usize,
    /// Where the piece that is being filled goes.
    to: u64,
}

impl<'a> Sender<'a> {
    fn new(gpu: &'a Arc<Gpu>) -> Result<Self, DeviceError> {
        let piece = || gpu.pin(PIECE_BYTES).map_err(no_room("copying weights", PIECE_BYTES as u64));
        Ok(Self { gpu, pieces: [piece()?, piece()?], next: 0, filled: 0, to: 0 })
    }

    fn send(&mut self, mut bytes: &[u8], mut at: u64) -> Result<(), DeviceError> {
        while !bytes.is_empty() {
            // What does not lie behind the last begins a piece of its own; gaps of the layout are sent along.
            let gap = at.wrapping_sub(self.to + self.filled as u64);
            if self.filled > 0 && (gap >= ALIGNMENT as u64 || self.filled + gap as usize >= PIECE_BYTES) {
                self.flush()?;
            }
            if self.filled == 0 {
                self.to = at;
            } else {
                self.filled += gap as usize;
            }
            let count = bytes.len().min(PIECE_BYTES - self.filled);
            let (now, later) = bytes.split_at(count);
            fill(now, &mut self.pieces[self.next].bytes_mut()[self.filled..][..count]);
            self.filled += count;
            at += count as u64;
            bytes = later;
        }
        Ok(())
    }

    /// Sends the piece; the other one has arrived before it is filled again.
    fn flush(&mut self) -> Result<(), DeviceError> {
        self.gpu.wait().map_err(lost)?;
        self.gpu.send(&self.pieces[self.next], 0, self.filled, self.to).map_err(lost)?;
        self.next = 1 - self.next;
        self.filled = 0;
        Ok(())
    }

    fn finish(mut self) -> Result<(), DeviceError> {
        self.flush()?;
        self.gpu.wait().map_err(lost)
    }
}

/// Copies, by several threads where it is much: a mapped file comes in page by page.
fn fill(from: &[u8], to: &mut [u8]) {
    if from.len() < 1 << 20 {
        to.copy_from_slice(from);
        return;
    }
    let share = from.len().div_ceil(FILLERS);
    std::thread::scope(|scope| {
        for (from, to) in from.chunks(share).zip(to.chunks_mut(share)) {
            scope.spawn(|| to.copy_from_slice(from));
        }
    });
}
