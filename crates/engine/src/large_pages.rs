//! Weights copied into large pages, where a CPU reads them a tenth to a quarter faster: a piece between two steps, so that neither the start
//! nor the first token waits for it.
//!
//! Decides nothing about tokens: the bytes and their places stay the same.

use kauri_device_cpu::Topology;
use kauri_formats::Checkpoint;
use kauri_formats::mapping::Bytes;

use crate::engine::Options;
use crate::fitting::Fitted;

/// Bytes that are copied at a time: a few milliseconds.
const PIECE_BYTES: usize = 32 << 20;
/// Smaller files stay as they are where nobody asks for more: a token reads them in no time, or from a cache.
const FILE_BYTES_MIN: usize = 2 * PIECE_BYTES;

/// What is still to be copied.
#[derive(Default)]
pub struct Copying {
    /// The pieces of each file.
    files: Vec<(Bytes, Vec<Bytes>)>,
    is_begun: bool,
}

impl Copying {
    /// Of the files of a model that is read where they are mapped: as `options` want it, or where there is room.
    pub fn begin(checkpoint: &Checkpoint, fitted: &Fitted, options: &Options) -> Self {
        let memories = Topology::of_this_machine().memories();
        if !is_wanted(options.large_pages, fitted.has_room_for_weights_twice(), memories) {
            return Self::default();
        }
        let files = checkpoint.files().map(|file| (file.clone(), file.large_pieces(PIECE_BYTES)));
        let bytes_min = if options.large_pages == Some(true) { 0 } else { FILE_BYTES_MIN };
        let files = files.filter(|(_, pieces)| pieces.iter().map(|piece| piece.len()).sum::<usize>() >= bytes_min);
        let mut copying = Self { files: files.collect(), is_begun: false };
        // Of what is locked no page may be replaced.
        if options.lock || options.large_pages == Some(true) {
            while copying.next() {}
        }
        copying
    }

    /// Copies the next piece; whether there was one. Where the system refuses, what is left stays where it is: it is as good, but slower.
    pub fn next(&mut self) -> bool {
        if !self.is_begun {
            self.is_begun = true;
            // By now they have been read. What came from the disk in large pages needs no copy.
            self.files.retain(|(file, _)| !file.is_in_large_pages());
        }
        let Some((_, pieces)) = self.files.last_mut() else { return false };
        let is_copied = pieces.pop().is_none_or(|piece| piece.copy_into_large_pages().is_ok());
        if pieces.is_empty() {
            self.files.pop();
        }
        if !is_copied {
            self.files.clear();
        }
        is_copied
    }
}

/// Whether weights are copied: as asked, else where there is room and one memory. Where there are several the copy of a large page would lie near
/// whoever copied it, and not near the thread that reads it in every pass.
fn is_wanted(asked: Option<bool>, has_room: bool, memories: usize) -> bool {
    asked.unwrap_or(has_room && memories == 1)
}

#[cfg(test)]
mod tests {
    use super::is_wanted;

    #[test]
    fn weights_are_copied_as_asked_or_where_there_is_room_and_one_memory() {
        for (has_room, memories, is_copied) in [(true, 1, true), (false, 1, false), (true, 2, false), (false, 2, false)]
        {
            assert_eq!(is_wanted(None, has_room, memories), is_copied, "room: {has_room}, {memories} memories");
            for asked in [true, false] {
                assert_eq!(is_wanted(Some(asked), has_room, memories), asked, "room: {has_room}, {memories} memories");
            }
        }
    }
}
