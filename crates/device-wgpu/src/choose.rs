//! Tokens are chosen on the device: masks and a few numbers a row go there, and only ids come back.
//!
//! The likeliest tokens are one kernel's work (`greedy.wgsl`), draws that of three to seven: changes of single logits where there are some
//! (`draw_change.wgsl`), the largest logit (`draw_first.wgsl`), sums in bins, a list and the last place that is kept where top-k or top-p
//! keep a part (`draw_count.wgsl`, `draw_list.wgsl`, `draw_cut.wgsl`), sums of what tokens weigh (`draw_weigh.wgsl`), and the draw (`draw_pick.wgsl`). A kernel sees what another
//! workgroup found out only when it begins behind it, so what one decides of a row is a kernel of its own. Everything is sized at load. How a
//! request came to its choice is not known here.

use std::sync::Arc;
use std::time::Instant;

use kauri_device::{CHANGES_MAX, Choice, DeviceError, Draw, Effect};

use crate::detect::{Device, lost, no_room};
use crate::driver::{Dispatch, Failure, Gpu, Words};
use crate::shader::{Entry, Kernel};

/// Rows that are drawn from at once: the rest is drawn behind them.
const DRAWN_TOGETHER: usize = 128;
/// Words of a draw that are sent, that are worked out, and of a change.
const HEAD_WORDS: usize = 12;
const STATE_WORDS: usize = 7;
const CHANGE_WORDS: usize = 2;
/// Bins of a row, places that are listed of it, tokens of a span, and tokens that a workgroup goes through.
const TALLIES: usize = 1024;
const LISTED: usize = 4096;
const SPAN: usize = 1024;
const CHUNK: usize = 2048;
/// The bit of a change that divides or multiplies.
const REPEATED: u32 = 1 << 31;

/// The words of a draw that are worked out, as they begin: no largest logit, no token that has it, no place behind which nothing is kept, and of places that
/// are listed none, no least and no largest word.
const NOTHING_KNOWN: [u32; STATE_WORDS] = [0, u32::MAX, u32::MAX, u32::MAX, 0, u32::MAX, 0];

/// What kernels of draws are written with.
pub(crate) const CONSTANTS: [(&str, usize); 6] = [
    ("HEAD_WORDS", HEAD_WORDS),
    ("STATE_WORDS", STATE_WORDS),
    ("TALLIES", TALLIES),
    ("LISTED", LISTED),
    ("SPAN", SPAN),
    ("CHUNK", CHUNK),
];

/// Chooses tokens of rows.
pub struct Chooser {
    gpu: Arc<Gpu>,
    vocab: usize,
    /// Rows that are drawn from at once.
    together: usize,
    /// Where the rows are, in values.
    arena: wgpu::Buffer,
    logits: usize,
    /// (rows) whether a row has a mask, then (rows, words) a bit a token.
    masks: wgpu::Buffer,
    /// (draws, head), then changes of all of them.
    sent: wgpu::Buffer,
    work: wgpu::Buffer,
    places: Places,
    group: wgpu::BindGroup,
    /// What is on its way to the device, as words and as bytes, and what came back.
    words: Vec<u32>,
    bytes: Vec<u8>,
    /// The changes of a draw, by token and then as they come; all of a round.
    order: Vec<u64>,
    changes: Vec<u32>,
    started: Vec<Dispatch>,
}

/// Where things lie, in words: masks in theirs, changes in what is sent, all else in `work`.
#[derive(Clone, Copy)]
struct Places {
    masks: usize,
    mask_words: usize,
    changes: usize,
    chosen: usize,
    states: usize,
    bins: usize,
    list: usize,
    spans: usize,
    saved: usize,
}

/// Draws that were sent.
#[derive(Clone, Copy, Default)]
struct Round {
    count: usize,
    /// Whether some have changes, and whether some keep only a part of their rows behind them.
    changed: bool,
    cut: bool,
}

impl Chooser {
    /// Sized for so many rows at most, of a vocabulary, which begin at a value of a buffer.
    ///
    /// # Errors
    /// When the device has no room.
    pub(crate) fn of(
        gpu: &Arc<Gpu>,
        arena: &wgpu::Buffer,
        logits: usize,
        rows: usize,
        vocab: usize,
    ) -> Result<Self, DeviceError> {
        let (rows, together) = if vocab == 0 { (0, 0) } else { (rows, rows.min(DRAWN_TOGETHER)) };
        let mask_words = vocab.div_ceil(32);
        let mut words = 0;
        let mut place = |count: usize| {
            let at = words;
            words += count;
            at
        };
        let places = Places {
            masks: rows,
            mask_words,
            changes: together * HEAD_WORDS,
            chosen: place(rows),
            states: place(together * STATE_WORDS),
            bins: place(together * 2 * TALLIES),
            list: place(together * 2 * LISTED),
            spans: place(together * vocab.div_ceil(SPAN)),
            saved: place(together * CHANGES_MAX),
        };
        let sent_words = together * (HEAD_WORDS + CHANGE_WORDS * CHANGES_MAX);
        let make = |label: &'static str, words: usize| {
            let bytes = 4 * words as u64;
            gpu.buffer(label, bytes).map_err(no_room(label, bytes))
        };
        let masks = make("masks", rows * (1 + mask_words))?;
        let (sent, work) = (make("draws", sent_words)?, make("drawing tokens", words)?);
        let group = gpu.group([arena, &masks, &sent, &masks, &masks, &masks, &work]);
        Ok(Self {
            gpu: gpu.clone(),
            vocab,
            together,
            arena: arena.clone(),
            logits,
            masks,
            sent,
            work,
            places,
            group,
            words: Vec::with_capacity(mask_words.max(rows).max(together * HEAD_WORDS)),
            bytes: Vec::with_capacity(4 * mask_words.max(rows).max(together * CHANGE_WORDS * CHANGES_MAX)),
            order: Vec::with_capacity(CHANGES_MAX),
            changes: Vec::with_capacity(together * CHANGE_WORDS * CHANGES_MAX),
            started: Vec::with_capacity(8),
        })
    }

    /// The token of every row that is to be chosen here, when it is there. `start` is given what is to be started, in pieces, each ahead of
    /// the next.
    pub(crate) fn choose(
        &mut self,
        choices: &[Choice<'_>],
        tokens: &mut Vec<Option<u32>>,
        start: &mut impl FnMut(&mut Vec<Dispatch>),
    ) -> Result<(), Failure> {
        if !choices.iter().any(|choice| matches!(choice, Choice::Greedy { .. } | Choice::Draw(_))) {
            tokens.resize(choices.len(), None);
            return Ok(());
        }
        self.start(choices, start);
        let bytes = 4 * choices.len();
        self.bytes.clear();
        self.bytes.resize(bytes, 0);
        self.gpu.read(&[(&self.work, 4 * self.places.chosen as u64, bytes as u64)], &mut self.bytes)?;
        let chosen = self.bytes.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes));
        tokens.extend(choices.iter().zip(chosen).map(|(choice, token)| match choice {
            Choice::Nothing | Choice::Logits => None,
            Choice::Greedy { .. } | Choice::Draw(_) => Some(token).filter(|&token| token != u32::MAX),
        }));
        Ok(())
    }

    /// Starts what chooses.
    fn start(&mut self, choices: &[Choice<'_>], start: &mut impl FnMut(&mut Vec<Dispatch>)) {
        self.send_masks(choices);
        if choices.iter().any(|choice| matches!(choice, Choice::Greedy { .. })) {
            let Places { masks, mask_words, chosen, .. } = self.places;
            let words = Words::of([self.logits, self.vocab, masks, mask_words, chosen]);
            self.note(Entry::Greedy, [1, choices.len()], words);
        }
        let mut draws = choices.iter().enumerate().filter_map(|(row, choice)| match choice {
            Choice::Nothing | Choice::Logits | Choice::Greedy { .. } => None,
            Choice::Draw(draw) => Some((row, draw)),
        });
        loop {
            let round = self.send(draws.by_ref().take(self.together));
            if round.count > 0 {
                self.draw(round);
            }
            if !self.started.is_empty() {
                start(&mut self.started);
                self.started.clear();
            }
            // What is sent next arrives behind what was started.
            if round.count < self.together || round.count == 0 {
                return;
            }
        }
    }

    /// Sends which rows have a mask, and the masks.
    fn send_masks(&mut self, choices: &[Choice<'_>]) {
        let mask = |choice: &Choice<'_>| match choice {
            Choice::Greedy { mask } | Choice::Draw(Draw { mask, .. }) => mask.is_some(),
            Choice::Nothing | Choice::Logits => false,
        };
        self.words.clear();
        self.words.extend(choices.iter().map(|choice| u32::from(mask(choice))));
        write(&self.gpu, &self.masks, 0, &self.words, &mut self.bytes);
        for (row, choice) in choices.iter().enumerate() {
            let (Choice::Greedy { mask: Some(mask) } | Choice::Draw(Draw { mask: Some(mask), .. })) = choice else {
                continue;
            };
            let Places { masks, mask_words, .. } = self.places;
            // Tokens past the end of a mask are not allowed.
            self.words.clear();
            self.words.extend(mask.iter().copied().chain(std::iter::repeat(0)).take(mask_words));
            write(&self.gpu, &self.masks, masks + row * mask_words, &self.words, &mut self.bytes);
        }
    }

    /// Sends draws, with the rows that they are of.
    fn send<'a>(&mut self, draws: impl Iterator<Item = (usize, &'a Draw<'a>)>) -> Round {
        let Self { vocab, words, order, changes, .. } = self;
        let mut round = Round::default();
        words.clear();
        changes.clear();
        for (row, draw) in draws {
            assert!(draw.changes.len() <= CHANGES_MAX, "{} changes of a row", draw.changes.len());
            let first = changes.len() / CHANGE_WORDS;
            order.clear();
            let own = draw.changes.iter().enumerate().filter(|(_, change)| (change.token as usize) < *vocab);
            order.extend(own.map(|(index, change)| u64::from(change.token) << 32 | index as u64));
            order.sort_unstable();
            changes.extend(order.iter().flat_map(|&at| {
                let change = draw.changes[at as u32 as usize];
                let (bit, number) = match change.effect {
                    Effect::Repeated(penalty) => (REPEATED, penalty),
                    Effect::Added(number) => (0, number),
                };
                [change.token | bit, number.to_bits()]
            }));
            let top_k = if (draw.top_k as usize) < *vocab { draw.top_k } else { 0 };
            let is_drawn = draw.temperature > 0.0;
            let is_cut = is_drawn && (top_k > 0 || draw.top_p < 1.0);
            let inverse = if is_drawn { (1.0 / draw.temperature).min(f32::MAX) } else { 0.0 };
            let uniform = parts_of_one(draw.uniform);
            words.extend([
                row as u32,
                top_k,
                draw.top_p.to_bits(),
                draw.below_max.to_bits(),
                inverse.to_bits(),
                first as u32,
                order.len() as u32,
                u32::from(draw.mask.is_some()),
                uniform as u32,
                (uniform >> 32) as u32,
                u32::from(is_drawn),
                u32::from(is_cut),
            ]);
            round.count += 1;
            round.cut |= is_cut;
        }
        round.changed = !changes.is_empty();
        write(&self.gpu, &self.sent, 0, words, &mut self.bytes);
        write(&self.gpu, &self.sent, self.places.changes, changes, &mut self.bytes);
        words.clear();
        words.extend(NOTHING_KNOWN.into_iter().cycle().take(STATE_WORDS * round.count));
        write(&self.gpu, &self.work, self.places.states, words, &mut self.bytes);
        round
    }

    /// Notes what draws.
    fn draw(&mut self, round: Round) {
        let Places { masks, mask_words, changes, chosen, states, bins, list, spans, saved } = self.places;
        let words = Words::of([
            self.logits,
            self.vocab,
            masks,
            mask_words,
            changes,
            chosen,
            states,
            bins,
            list,
            spans,
            saved,
            // What no compiler may know to be zero.
            0,
        ]);
        let (count, chunks) = (round.count, self.vocab.div_ceil(CHUNK));
        let together = self.gpu.lanes.threads() as usize / 16;
        if round.changed {
            self.note(Entry::DrawChange, [1, count], words);
        }
        self.note(Entry::DrawFirst, [chunks, count], words);
        if round.cut {
            self.note(Entry::DrawCount, [chunks, count], words);
            self.note(Entry::DrawList, [chunks, count], words);
            self.note(Entry::DrawCut, [1, count], words);
        }
        self.note(Entry::DrawWeigh, [self.vocab.div_ceil(SPAN * together), count], words);
        self.note(Entry::DrawPick, [1, count], words);
    }

    fn note(&mut self, entry: Entry, [x, y]: [usize; 2], words: Words) {
        let kernel = Kernel::plain(entry);
        let (pipeline, group) = (self.gpu.pipeline(kernel), self.group.clone());
        self.started.push(Dispatch { name: kernel.name(), pipeline, group, words, grid: [x as u32, y as u32, 1] });
    }
}

/// Rows that are brought along: for tests.
impl Chooser {
    /// Sized for so many rows at most, with room for them.
    ///
    /// # Errors
    /// When the device has none.
    pub fn new(device: &Device, rows: usize, vocab: usize) -> Result<Self, DeviceError> {
        let bytes = 4 * (rows * vocab) as u64;
        let arena = device.0.buffer("logits", bytes).map_err(no_room("logits", bytes))?;
        Self::of(&device.0, &arena, 0, rows, vocab)
    }

    /// Makes everything that was never written not-a-number, so that reading it shows.
    ///
    /// # Errors
    /// When the device is lost.
    pub fn poison(&mut self) -> Result<(), DeviceError> {
        for buffer in [&self.masks, &self.sent, &self.work] {
            self.gpu.write(buffer, 0, &vec![u8::MAX; buffer.size() as usize]);
        }
        self.gpu.outcome().map_err(lost)
    }

    /// The tokens of rows, (choices, vocabulary), which come back as they are left.
    ///
    /// # Errors
    /// When the device is lost.
    pub fn choose_of(&mut self, logits: &mut [f32], choices: &[Choice<'_>]) -> Result<Vec<Option<u32>>, DeviceError> {
        self.bring(logits, choices.len());
        let (gpu, mut tokens) = (self.gpu.clone(), Vec::new());
        self.choose(choices, &mut tokens, &mut |work| gpu.submit(work)).map_err(lost)?;
        let mut bytes = vec![0; 4 * logits.len()];
        gpu.read(&[(&self.arena, 0, bytes.len() as u64)], &mut bytes).map_err(lost)?;
        let left = bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
        logits.iter_mut().zip(left).for_each(|(logit, left)| *logit = left);
        Ok(tokens)
    }

    /// Seconds of a choice of rows: until all that was started is done, and until its tokens are here, of which the median of so many.
    ///
    /// # Errors
    /// When the device is lost.
    pub fn measure(&mut self, logits: &[f32], choices: &[Choice<'_>], times: usize) -> Result<[f64; 2], DeviceError> {
        self.bring(logits, choices.len());
        let (gpu, mut tokens, mut seconds) = (self.gpu.clone(), Vec::new(), [Vec::new(), Vec::new()]);
        for _ in 0..times {
            gpu.wait();
            let start = Instant::now();
            self.start(choices, &mut |work| gpu.submit(work));
            gpu.wait();
            seconds[0].push(start.elapsed().as_secs_f64());
            tokens.clear();
            let start = Instant::now();
            self.choose(choices, &mut tokens, &mut |work| gpu.submit(work)).map_err(lost)?;
            seconds[1].push(start.elapsed().as_secs_f64());
        }
        Ok(seconds.map(|mut seconds| {
            seconds.sort_by(f64::total_cmp);
            seconds[seconds.len() / 2]
        }))
    }

    /// Brings rows to the device.
    fn bring(&self, logits: &[f32], count: usize) {
        assert_eq!(logits.len(), count * self.vocab, "a row for each choice");
        let bytes: Vec<u8> = logits.iter().flat_map(|logit| logit.to_le_bytes()).collect();
        self.gpu.write(&self.arena, 0, &bytes);
    }
}

/// A number of at least 0 and less than 1 in parts of 2^64.
fn parts_of_one(number: f64) -> u64 {
    const PARTS: f64 = 18_446_744_073_709_551_616.0;
    (number * PARTS) as u64
}

/// Writes words into a buffer, from a word on, by way of bytes that are kept for that.
fn write(gpu: &Gpu, buffer: &wgpu::Buffer, at: usize, words: &[u32], bytes: &mut Vec<u8>) {
    if words.is_empty() {
        return;
    }
    bytes.clear();
    bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    gpu.write(buffer, 4 * at as u64, bytes);
}
