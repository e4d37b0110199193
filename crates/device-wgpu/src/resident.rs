//! Weights on the device: copied once, as they are stored; what several slots share is copied once too. Of a mapped file a piece at a time
//! is in memory beside what arrived, and nothing of it behind that.
//!
//! A binding has a largest size, so weights lie in several buffers. A matrix that is larger than one is cut between rows.

use std::collections::HashMap;

use kauri_arch::{Dense, Ffn, Linear, Mixer, Shape};
use kauri_device::{Adapted, DeviceError, Matrix, Weight};
use kauri_formats::Quant;

use crate::detect::{DEVICE, lost, no_room};
use crate::driver::{Failure, Gpu, PIECE_BYTES, filled};
use crate::experts;
use crate::shader;

/// What fills a slot of a shape on the device.
#[derive(Clone, Copy, Debug)]
pub struct Resident {
    /// A matrix's pieces, in [`Weights::pieces`]; where a vector begins, in values.
    pub(crate) at: usize,
    /// How many pieces; none of a vector.
    pub(crate) pieces: usize,
    /// How values are stored; those of a vector as `F32`.
    pub(crate) quant: Quant,
    /// Rows; one of a vector.
    pub(crate) rows: usize,
    /// Columns, or values of a vector.
    pub(crate) columns: usize,
}

/// Some rows of a matrix.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    /// Which buffer of weights.
    pub(crate) chunk: usize,
    /// Its first byte there.
    pub(crate) at: usize,
    pub(crate) first_row: usize,
    pub(crate) rows: usize,
}

impl Resident {
    /// Bytes of a row.
    pub(crate) fn row_bytes(&self) -> usize {
        self.columns / self.quant.block_len() * self.quant.block_bytes()
    }
}

/// Weights begin at a multiple of this many bytes.
const ALIGNMENT: usize = 256;
/// Bytes of a buffer of weights at most: a byte of it is named with 32 bits.
const CHUNK_BYTES_MAX: u64 = 0xf000_0000;
/// Kernels read a word behind the last byte that they want.
const MARGIN_BYTES: usize = 16;

/// All weights of a model.
pub(crate) struct Weights {
    pub(crate) chunks: Vec<wgpu::Buffer>,
    pub(crate) vectors: wgpu::Buffer,
    pieces: Vec<Piece>,
    /// Tables in `vectors` by the first matrix of the list that they are of.
    by_first: HashMap<usize, usize>,
}

impl Weights {
    /// Copies the weights of `shape` to the device, and gives the shape with where they are.
    pub(crate) fn new(gpu: &Gpu, shape: &Shape<Weight>) -> Result<(Self, Shape<Resident>), DeviceError> {
        let chunk_bytes_max = gpu.binding_bytes_max.min(CHUNK_BYTES_MAX) as usize;
        let mut layout = Layout { chunk_bytes_max, ..Layout::default() };
        let mut unsupported = None;
        for group in together(shape) {
            layout.group(&group)?;
        }
        shape.for_each(|weight| match weight {
            // Refused before any product is: what they add to it has no kernels.
            Weight::Adapted(_) => unsupported = Some("adapters (--lora)".to_owned()),
            Weight::Matrix(matrix) if !shader::is_known(matrix.quant) => {
                unsupported = Some(format!("weights stored as {}", matrix.quant.name()));
            }
            Weight::Matrix(matrix) if matrix.scales.is_some() => {
                unsupported = Some(format!("weights stored as {} with factors apart", matrix.quant.name()));
            }
            Weight::Matrix(matrix) if matrix.row_bytes() + MARGIN_BYTES > chunk_bytes_max => {
                unsupported = Some(format!("rows of {} bytes", matrix.row_bytes()));
            }
            Weight::Matrix(matrix) => layout.matrix(matrix),
            Weight::Vector(values) => layout.vector(values),
        });
        if let Some(what) = unsupported {
            return Err(DeviceError::Unsupported { device: DEVICE, what });
        }
        let bytes: usize = layout.chunks.iter().sum();
        let chunks = layout.chunks.iter().map(|&bytes| gpu.weights(bytes as u64));
        let chunks: Vec<_> = chunks.collect::<Result<_, _>>().map_err(no_room("the weights", bytes as u64))?;
        layout.send(gpu, shape, &chunks);
        let Ok(resident) = shape.try_map(&mut |weight| Ok::<_, std::convert::Infallible>(layout.resident(weight)));
        let by_first = tabulate(&mut layout, &resident)?;
        let vectors: Vec<u8> = layout.numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        let room = no_room("short vectors", vectors.len() as u64);
        let buffer = gpu.buffer("vectors", vectors.len() as u64).map_err(room)?;
        gpu.write(&buffer, 0, &vectors);
        gpu.arrive();
        gpu.outcome().map_err(lost)?;
        Ok((Self { chunks, vectors: buffer, pieces: layout.pieces, by_first }, resident))
    }

    /// The pieces of a matrix.
    pub(crate) fn pieces(&self, matrix: &Resident) -> &[Piece] {
        &self.pieces[matrix.at..][..matrix.pieces]
    }

    /// The piece of a matrix that has one.
    pub(crate) fn whole(&self, matrix: &Resident) -> Option<Piece> {
        let [piece] = self.pieces(matrix) else { return None };
        Some(*piece)
    }

    /// The table of the list whose first matrix is this.
    pub(crate) fn table(&self, first: &Resident) -> usize {
        self.by_first[&first.at]
    }
}

/// The lists of matrices that a kernel chooses from, so that each must be in one buffer: heads of latent attention, and gates, ups and
/// downs of experts.
fn together(shape: &Shape<Weight>) -> Vec<Vec<&Matrix>> {
    let mut groups = Vec::new();
    for latent in shape.mixers().filter_map(Mixer::latent) {
        for heads in [&latent.keys, &latent.values] {
            groups.push(heads.iter().map(|head| head.weight.matrix()).collect());
        }
    }
    for moe in shape.ffns().filter_map(Ffn::moe) {
        let of = |which: fn(&Dense<Weight>) -> Option<&Linear<Weight>>| -> Vec<&Matrix> {
            moe.experts.iter().filter_map(which).map(|linear| linear.weight.matrix()).collect()
        };
        groups.extend([
            of(|expert| expert.gate.as_ref()),
            of(|expert| Some(&expert.up)),
            of(|expert| Some(&expert.down)),
        ]);
    }
    groups
}

/// Where the bytes of a weight lie on the host, and how many there are: what is the same is shared.
type Key = (usize, usize);

/// Where weights go.
#[derive(Default)]
struct Layout {
    chunk_bytes_max: usize,
    /// Bytes of each buffer so far.
    chunks: Vec<usize>,
    pieces: Vec<Piece>,
    /// The first piece and the number of them, by matrix.
    matrices: HashMap<Key, (usize, usize)>,
    /// Words of vectors and tables.
    numbers: Vec<u32>,
    vectors: HashMap<Key, usize>,
}

impl Layout {
    /// Places matrices in one buffer.
    fn group(&mut self, matrices: &[&Matrix]) -> Result<(), DeviceError> {
        let bytes: usize = matrices.iter().map(|matrix| matrix.data.len().next_multiple_of(ALIGNMENT)).sum();
        if bytes + MARGIN_BYTES > self.chunk_bytes_max {
            let most = self.chunk_bytes_max;
            let what = format!("experts or heads of {bytes} bytes together: {most} at most in one piece");
            return Err(DeviceError::Unsupported { device: DEVICE, what });
        }
        if self.chunks.last().is_none_or(|&last| last + bytes + MARGIN_BYTES > self.chunk_bytes_max) {
            self.chunks.push(0);
        }
        matrices.iter().for_each(|matrix| self.matrix(matrix));
        Ok(())
    }

    fn matrix(&mut self, matrix: &Matrix) {
        let key = key(&matrix.data);
        if self.matrices.contains_key(&key) {
            return;
        }
        let (first, row_bytes) = (self.pieces.len(), matrix.row_bytes().max(1));
        let mut row = 0;
        loop {
            let rest = (matrix.rows - row) * row_bytes;
            let room = |used: usize| self.chunk_bytes_max.saturating_sub(used + MARGIN_BYTES);
            if self.chunks.is_empty() || room(self.chunks[self.chunks.len() - 1]) < rest.min(room(0)) {
                self.chunks.push(0);
            }
            let chunk = self.chunks.len() - 1;
            let rows = (room(self.chunks[chunk]) / row_bytes).min(matrix.rows - row);
            self.pieces.push(Piece { chunk, at: self.chunks[chunk], first_row: row, rows });
            self.chunks[chunk] = (self.chunks[chunk] + rows * row_bytes).next_multiple_of(ALIGNMENT);
            row += rows;
            if row == matrix.rows {
                break;
            }
        }
        self.matrices.insert(key, (first, self.pieces.len() - first));
    }

    fn vector(&mut self, values: &[f32]) {
        let numbers = &mut self.numbers;
        self.vectors.entry(vector_key(values)).or_insert_with(|| {
            let at = numbers.len();
            numbers.extend(values.iter().map(|value| value.to_bits()));
            at
        });
    }

    fn resident(&self, weight: &Weight) -> Resident {
        match weight {
            Weight::Matrix(Matrix { quant, rows, columns, data, .. })
            | Weight::Adapted(Adapted { matrix: Matrix { quant, rows, columns, data, .. }, .. }) => {
                let (at, pieces) = self.matrices[&key(data)];
                Resident { at, pieces, quant: *quant, rows: *rows, columns: *columns }
            }
            Weight::Vector(values) => {
                let at = self.vectors[&vector_key(values)];
                Resident { at, pieces: 0, quant: Quant::F32, rows: 1, columns: values.len() }
            }
        }
    }

    /// Copies every matrix to its pieces, and lets go of what was read of its file.
    fn send(&self, gpu: &Gpu, shape: &Shape<Weight>, chunks: &[wgpu::Buffer]) {
        let (mut sent, mut on_the_way) = (std::collections::HashSet::new(), 0);
        shape.for_each(|weight| {
            let Weight::Matrix(matrix) = weight else { return };
            let (first, count) = self.matrices[&key(&matrix.data)];
            if !sent.insert(first) {
                return;
            }
            for piece in &self.pieces[first..][..count] {
                let all = piece.first_row * matrix.row_bytes()..(piece.first_row + piece.rows) * matrix.row_bytes();
                for start in all.clone().step_by(PIECE_BYTES) {
                    let end = all.end.min(start + PIECE_BYTES);
                    let part = matrix.data.slice(start..end).expect("rows of the matrix");
                    gpu.fill(&chunks[piece.chunk], (piece.at + start - all.start) as u64, &part);
                    part.let_go();
                    on_the_way += part.len();
                    if on_the_way >= PIECE_BYTES {
                        gpu.arrive();
                        on_the_way = 0;
                    }
                }
            }
        });
        chunks.iter().for_each(filled);
    }
}

fn key(bytes: &[u8]) -> Key {
    (bytes.as_ptr() as usize, bytes.len())
}

fn vector_key(values: &[f32]) -> Key {
    (values.as_ptr() as usize, values.len())
}

/// Makes the tables: of the heads of latent attention, and of experts.
fn tabulate(layout: &mut Layout, shape: &Shape<Resident>) -> Result<HashMap<usize, usize>, DeviceError> {
    let mut tables = HashMap::new();
    let at_of = |layout: &Layout, matrix: &Resident| layout.pieces[matrix.at].at as u32;
    for latent in shape.mixers().filter_map(Mixer::latent) {
        for heads in [&latent.keys, &latent.values] {
            let first = &heads[0].weight;
            if heads.iter().any(|head| head.weight.quant != first.quant || head.bias.is_some()) {
                let what = "heads of latent attention that are stored in different ways".to_owned();
                return Err(DeviceError::Unsupported { device: DEVICE, what });
            }
            tables.insert(first.at, layout.numbers.len());
            let places: Vec<u32> = heads.iter().map(|head| at_of(layout, &head.weight)).collect();
            layout.numbers.extend(places);
        }
    }
    for moe in shape.ffns().filter_map(Ffn::moe) {
        tables.insert(moe.experts[0].up.weight.at, layout.numbers.len());
        let words: Vec<u32> =
            moe.experts.iter().flat_map(|expert| experts::words(expert, |it| at_of(layout, it))).collect();
        layout.numbers.extend(words);
    }
    Ok(tables)
}

impl From<Failure> for DeviceError {
    fn from(failure: Failure) -> Self {
        lost(failure)
    }
}
