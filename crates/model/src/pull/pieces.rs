//! Which pieces of a file have come, on disk: a pull that was cut short, however, goes on from there.
//!
//! Beside the file in the making lies a journal: a line that says what file it is, then the number of each piece that has come.
//! It is written behind the piece. What a loss of power may do to the order of the two, the digest at the end finds.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Most pieces of one request: what a server sends in one go.
const RUN_PIECES_MAX: u64 = 16;

/// A file in the making.
pub struct Pieces {
    part: PathBuf,
    journal: File,
    bytes: u64,
    piece_bytes: u64,
    states: Vec<State>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Missing,
    Taken,
    Here,
}

impl Pieces {
    /// The file in the making at `part`, as far as it had come; `identity` is what must not have changed meanwhile.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn open(part: &Path, bytes: u64, piece_bytes: u64, identity: &str) -> io::Result<Self> {
        let path = journal_of(part);
        let title = format!("kauri-pieces 1 {bytes} {piece_bytes} {}\n", identity.replace(char::is_whitespace, "_"));
        let count = bytes.div_ceil(piece_bytes) as usize;
        let mut states = vec![State::Missing; count];
        let old = fs::read(&path).unwrap_or_default();
        let is_old = fs::metadata(part).is_ok_and(|part| part.is_file() && part.len() == bytes);
        let begun = old.strip_prefix(title.as_bytes()).filter(|_| is_old);
        let journal = if let Some(numbers) = begun {
            let whole = numbers.as_chunks::<4>().0;
            for number in whole {
                if let Some(state) = states.get_mut(u32::from_le_bytes(*number) as usize) {
                    *state = State::Here;
                }
            }
            // A number that was cut in half would shift those behind it.
            let journal = OpenOptions::new().append(true).open(&path)?;
            journal.set_len((title.len() + 4 * whole.len()) as u64)?;
            journal
        } else {
            remove(part)?;
            File::create(part)?.set_len(bytes)?;
            fs::write(&path, &title)?;
            OpenOptions::new().append(true).open(&path)?
        };
        Ok(Self { part: part.to_owned(), journal, bytes, piece_bytes, states })
    }

    /// Bytes that are here.
    pub fn here_bytes(&self) -> u64 {
        let here = self.states.iter().enumerate().filter(|(_, state)| **state == State::Here);
        here.map(|(number, _)| self.range(number as u64..number as u64 + 1)).map(|range| range.end - range.start).sum()
    }

    /// Whether all of it is here.
    pub fn is_whole(&self) -> bool {
        self.states.iter().all(|state| *state == State::Here)
    }

    /// The next pieces that nobody fetches.
    pub fn take(&mut self) -> Option<Range<u64>> {
        let first = self.states.iter().position(|state| *state == State::Missing)?;
        let run = self.states[first..].iter().take(RUN_PIECES_MAX as usize);
        let count = run.take_while(|state| **state == State::Missing).count();
        self.states[first..first + count].fill(State::Taken);
        Some(first as u64..(first + count) as u64)
    }

    /// All that is not here, where a server gives no parts.
    pub fn take_all(&mut self) -> Range<u64> {
        self.states.iter_mut().filter(|state| **state == State::Missing).for_each(|state| *state = State::Taken);
        0..self.states.len() as u64
    }

    /// A piece has come; the bytes that were not here before.
    ///
    /// # Errors
    /// When that cannot be noted.
    pub fn put(&mut self, piece: u64) -> io::Result<u64> {
        if self.states[piece as usize] == State::Here {
            return Ok(0);
        }
        self.journal.write_all(&(piece as u32).to_le_bytes())?;
        self.states[piece as usize] = State::Here;
        let range = self.range(piece..piece + 1);
        Ok(range.end - range.start)
    }

    /// Pieces that did not come after all.
    pub fn give_back(&mut self, pieces: Range<u64>) {
        for state in &mut self.states[pieces.start as usize..pieces.end as usize] {
            if *state == State::Taken {
                *state = State::Missing;
            }
        }
    }

    /// The bytes of pieces.
    pub fn range(&self, pieces: Range<u64>) -> Range<u64> {
        pieces.start * self.piece_bytes..(pieces.end * self.piece_bytes).min(self.bytes)
    }

    /// Where the file is made.
    pub fn part(&self) -> &Path {
        &self.part
    }

    /// Takes it all away: it was not what it should be.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn discard(self) -> io::Result<()> {
        drop(self.journal);
        remove(&journal_of(&self.part))?;
        remove(&self.part)
    }

    /// Gives it its name, now that it was verified.
    ///
    /// # Errors
    /// Those of the operating system.
    pub fn finish(self, name: &Path) -> io::Result<()> {
        File::open(&self.part)?.sync_all()?;
        fs::rename(&self.part, name)?;
        drop(self.journal);
        remove(&journal_of(&self.part))
    }
}

/// Where the journal of a file in the making is.
fn journal_of(part: &Path) -> PathBuf {
    let mut name = part.as_os_str().to_owned();
    name.push("-journal");
    PathBuf::from(name)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_come_is_remembered_and_another_file_begins_anew() {
        let folder = tempfile::tempdir().unwrap();
        let part = folder.path().join("part");
        let mut pieces = Pieces::open(&part, 105, 10, "one").unwrap();
        assert_eq!((pieces.take(), pieces.take()), (Some(0..11), None));
        pieces.put(0).unwrap();
        pieces.put(10).unwrap();
        pieces.give_back(1..3);
        assert_eq!(pieces.take(), Some(1..3));
        assert_eq!(pieces.here_bytes(), 15);
        drop(pieces);
        // A number that was being written when the power went.
        OpenOptions::new().append(true).open(journal_of(&part)).unwrap().write_all(&[3, 0]).unwrap();
        let mut pieces = Pieces::open(&part, 105, 10, "one").unwrap();
        assert_eq!(pieces.here_bytes(), 15);
        pieces.put(5).unwrap();
        drop(pieces);
        let pieces = Pieces::open(&part, 105, 10, "one").unwrap();
        assert_eq!((pieces.here_bytes(), pieces.is_whole()), (25, false));
        drop(pieces);
        assert_eq!(Pieces::open(&part, 105, 10, "two").unwrap().here_bytes(), 0);
        let pieces = Pieces::open(&part, 105, 10, "two").unwrap();
        fs::remove_file(pieces.part()).unwrap();
        assert_eq!(Pieces::open(&part, 105, 10, "two").unwrap().here_bytes(), 0);
    }
}
