//! A structure of a kernel's own, as the kernel's compiler lays it out.

/// A structure of a kernel's own, field by field: fields lie where the kernel's compiler puts them.
#[derive(Clone, Copy)]
pub(crate) struct Structure {
    pub(crate) bytes: [u8; STRUCTURE_BYTES_MAX],
    pub(crate) len: usize,
}

impl Structure {
    pub(crate) fn new() -> Self {
        Self { bytes: [0; STRUCTURE_BYTES_MAX], len: 0 }
    }

    /// A place, or another double word.
    pub(crate) fn place(self, place: u64) -> Self {
        self.aligned(8).put(&place.to_le_bytes())
    }

    pub(crate) fn int(self, number: usize) -> Self {
        let number = i32::try_from(number).expect("a number that kernels count with");
        self.put(&number.to_le_bytes())
    }

    pub(crate) fn float(self, number: f32) -> Self {
        self.put(&number.to_le_bytes())
    }

    /// Filled up to a multiple of so many bytes.
    pub(crate) fn aligned(mut self, alignment: usize) -> Self {
        self.len = self.len.next_multiple_of(alignment);
        self
    }

    /// As double words.
    pub(crate) fn words(&self) -> impl Iterator<Item = u64> {
        self.bytes[..self.len.next_multiple_of(8)].as_chunks().0.iter().map(|word| u64::from_le_bytes(*word))
    }

    fn put(mut self, bytes: &[u8]) -> Self {
        self.bytes[self.len..][..bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
        self
    }
}

/// The largest structure of a kernel.
const STRUCTURE_BYTES_MAX: usize = 640;
