//! Tokens are chosen on the device: masks and a few numbers a row go there, and only ids come back.
//!
//! What goes there goes beside the step that is under way, through a stream of its own (`driver/beside.rs`), and only what chooses waits for both.
//!
//! The likeliest tokens are one kernel's work (`kernels/sample.cu`), draws that of two to five (`kernels/draw.cu`). Everything is sized at load.
//! How a request came to its choice is not known here.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kauri_device::{CHANGES_MAX, Choice, DeviceError, Draw, Effect};

use crate::detect::{Device, lost, no_room};
use crate::driver::{self, Allocation, Arg, Beside, Failure, Gate, Gpu, Grid, Pinned};

/// What is started here.
const KERNELS: [&str; 6] = ["greedy", "draw_change", "draw_first", "draw_count", "draw_cut", "draw"];
/// Masks that are sent at a time.
const MASKS_TOGETHER: usize = 16;
/// Rows that are drawn from at once: the rest is drawn behind them.
const DRAWN_TOGETHER: usize = 256;
/// Bytes of the structures in `kernels/draw.cu`.
const DRAW_BYTES: usize = 40;
const CHANGE_BYTES: usize = 8;
const REACHED_BYTES: usize = 32;
/// As they are there: bins of a row, tokens that are listed of it, tokens of a span, and threads of a block that counts.
const BINS: usize = 2304;
const LISTED: usize = 2048;
const SPAN: usize = 1024;
const COUNTING: usize = 512;
/// What a step is measured with: as much is written so many times, some three milliseconds on an H200.
const STEP_BYTES: usize = 256 << 20;
const STEP_TIMES: usize = 40;
/// The bit of a change that divides or multiplies.
const REPEATED: u32 = 1 << 31;

/// Chooses tokens of rows.
pub struct Chooser {
    // Waits for copies out of what follows, so it goes first.
    beside: Beside,
    gpu: Arc<Gpu>,
    vocab: usize,
    masks: Masks,
    /// (outputs): tokens, there and here.
    chosen: Allocation,
    fetched: Pinned,
    /// (outputs): what the blocks of a row have found so far, and how many have come; zeros between launches.
    best: Allocation,
    arrived: Allocation,
    desk: Desk,
}

impl Chooser {
    /// Sized for so many rows at most, of a vocabulary.
    ///
    /// # Errors
    /// When the device has no room.
    pub fn new(device: &Device, rows: usize, vocab: usize) -> Result<Self, DeviceError> {
        let gpu = &device.0;
        let beside = Beside::new(gpu).map_err(lost)?;
        gpu.ready(&KERNELS);
        let masks = Masks::new(gpu, rows, vocab)?;
        let room = no_room("chosen tokens", 20 * rows as u64);
        let (chosen, fetched) = (gpu.allocate(4 * rows).map_err(&room)?, gpu.pin(4 * rows).map_err(&room)?);
        let (best, arrived) = (gpu.allocate(8 * rows).map_err(&room)?, gpu.allocate(4 * rows).map_err(&room)?);
        gpu.set(&best, 0).and(gpu.set(&arrived, 0)).map_err(lost)?;
        let desk = Desk::new(gpu, if vocab == 0 { 0 } else { rows.min(DRAWN_TOGETHER) }, vocab)?;
        Ok(Self { beside, gpu: gpu.clone(), vocab, masks, chosen, fetched, best, arrived, desk })
    }

    /// The token of every row that is to be chosen here, when it is there. `logits` are on the device, and so is their number, `count`. The step that writes
    /// them may be under way: what is sent goes beside it.
    pub(crate) fn choose(
        &mut self,
        count: u64,
        logits: u64,
        choices: &[Choice<'_>],
        tokens: &mut Vec<Option<u32>>,
    ) -> Result<(), Failure> {
        if !choices.iter().any(|choice| matches!(choice, Choice::Greedy { .. } | Choice::Draw(_))) {
            tokens.resize(choices.len(), None);
            return Ok(());
        }
        self.start(count, logits, choices)?;
        self.finish(choices, tokens)
    }

    /// Starts what chooses, behind the step. Whoever calls has waited for what was started before.
    fn start(&mut self, count: u64, logits: u64, choices: &[Choice<'_>]) -> Result<(), Failure> {
        let any = self.masks.send(&self.beside, choices)?;
        let mut draws = choices.iter().enumerate().filter_map(|(row, choice)| match choice {
            Choice::Nothing | Choice::Logits | Choice::Greedy { .. } => None,
            Choice::Draw(draw) => Some((row, draw)),
        });
        let (masks, which) = self.masks.places();
        let place = Rows { logits, masks, chosen: self.chosen.at(), vocab: self.vocab };
        let mut round = self.desk.stage(draws.by_ref(), &self.masks.which, self.vocab);
        self.desk.send(&self.beside, &round)?;
        if any || round.count > 0 {
            self.beside.join()?;
        }
        if choices.iter().any(|choice| matches!(choice, Choice::Greedy { .. })) {
            let arguments = [count, logits, masks, if any { which } else { 0 }].map(Arg::from);
            let places = [self.best.at(), self.arrived.at(), self.chosen.at()].map(Arg::from);
            let arguments = [&arguments[..], &[self.vocab.into()], &places].concat();
            self.gpu.launch("greedy", Grid::new(share(&self.gpu, choices.len(), self.vocab, 256), 256), &arguments)?;
        }
        while round.count > 0 {
            self.desk.start(&self.gpu, &round, &place)?;
            if round.count < self.desk.rows {
                break;
            }
            let Some(next) = draws.next() else { break };
            // What was staged is on its way still.
            self.gpu.wait()?;
            round = self.desk.stage(std::iter::once(next).chain(draws.by_ref()), &self.masks.which, self.vocab);
            self.desk.send(&self.beside, &round)?;
            self.beside.join()?;
        }
        Ok(())
    }

    /// Waits for what was started, and brings the tokens.
    fn finish(&mut self, choices: &[Choice<'_>], tokens: &mut Vec<Option<u32>>) -> Result<(), Failure> {
        let bytes = 4 * choices.len();
        self.gpu.fetch(self.chosen.at(), &mut self.fetched, bytes)?;
        let chosen = self.fetched.bytes_mut()[..bytes].as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes));
        tokens.extend(choices.iter().zip(chosen).map(|(choice, token)| match choice {
            Choice::Nothing | Choice::Logits => None,
            Choice::Greedy { .. } | Choice::Draw(_) => Some(token).filter(|&token| token != u32::MAX),
        }));
        Ok(())
    }
}

/// As many blocks for each of so many rows as the processors hold at once; each thread has four tokens or more.
fn share(gpu: &Gpu, rows: usize, vocab: usize, threads: usize) -> [usize; 3] {
    let resident = gpu.processors as usize * 2048 / threads;
    [resident.div_ceil(rows).min(vocab.div_ceil(4 * threads)), rows, 1]
}

/// Masks of a step: those that there are, one behind the other, and which of them each row has.
struct Masks {
    /// Of a mask: a bit a token.
    words: usize,
    /// (outputs): from 1 on, or 0.
    which: Vec<u32>,
    /// Both, `which` first.
    staged: Pinned,
    sent: Allocation,
    start: usize,
}

impl Masks {
    fn new(gpu: &Arc<Gpu>, rows: usize, vocab: usize) -> Result<Self, DeviceError> {
        let (words, start) = (vocab.div_ceil(32), (4 * rows).next_multiple_of(256));
        let bytes = start + 4 * rows * words;
        let room = no_room("masks", bytes as u64);
        let (staged, sent) = (gpu.pin(bytes).map_err(&room)?, gpu.allocate(bytes).map_err(&room)?);
        Ok(Self { words, which: Vec::with_capacity(rows), staged, sent, start })
    }

    /// Sends the masks that there are, a few at a time, so that some are on their way while others are staged; says whether there is any.
    fn send(&mut self, beside: &Beside, choices: &[Choice<'_>]) -> Result<bool, Failure> {
        let bytes = 4 * self.words;
        let (mut count, mut sent) = (0, 0);
        self.which.clear();
        for choice in choices {
            let mask = match choice {
                Choice::Greedy { mask } | Choice::Draw(Draw { mask, .. }) => *mask,
                Choice::Nothing | Choice::Logits => None,
            };
            let Some(mask) = mask else {
                self.which.push(0);
                continue;
            };
            let (to, rest) = self.staged.bytes_mut()[self.start + count * bytes..][..bytes]
                .split_at_mut(4 * mask.len().min(self.words));
            to.copy_from_slice(&driver::bytes_of_words(mask)[..to.len()]);
            // Tokens past the end of a mask are not allowed.
            rest.fill(0);
            count += 1;
            self.which.push(count as u32);
            if count - sent == MASKS_TOGETHER {
                self.send_some(beside, sent..count)?;
                sent = count;
            }
        }
        if count > 0 {
            self.send_some(beside, sent..count)?;
            let which = driver::bytes_of_words(&self.which);
            self.staged.bytes_mut()[..which.len()].copy_from_slice(which);
            beside.send(&self.staged, 0, which.len(), self.sent.at())?;
        }
        Ok(count > 0)
    }

    fn send_some(&self, beside: &Beside, masks: Range<usize>) -> Result<(), Failure> {
        let (bytes, start) = (4 * self.words, self.start + 4 * self.words * masks.start);
        beside.send(&self.staged, start, bytes * masks.len(), self.sent.at() + start as u64)
    }

    /// Where masks are on the device, and which each row has.
    fn places(&self) -> (u64, u64) {
        (self.sent.at() + self.start as u64, self.sent.at())
    }
}

/// Rows that are brought along: for tests.
impl Chooser {
    /// Makes everything that was never written not-a-number, and every mask allow all, so that reading it shows.
    ///
    /// # Errors
    /// When the device is lost.
    pub fn poison(&mut self) -> Result<(), DeviceError> {
        for staged in [&mut self.masks.staged, &mut self.desk.staged, &mut self.fetched] {
            staged.bytes_mut().fill(0xff);
        }
        let poisoned = [&self.masks.sent, &self.chosen, &self.desk.sent, &self.desk.work];
        poisoned.into_iter().try_for_each(|allocation| self.gpu.set(allocation, 0xff)).map_err(lost)?;
        // Copies beside it come later.
        self.gpu.wait().map_err(lost)
    }

    /// The tokens of rows, (choices, vocabulary), which come back as they are left.
    ///
    /// # Errors
    /// When the device is lost.
    pub fn choose_of(&mut self, logits: &mut [f32], choices: &[Choice<'_>]) -> Result<Vec<Option<u32>>, DeviceError> {
        let (count, rows) = self.bring(logits, choices.len())?;
        let mut tokens = Vec::new();
        self.choose(count.at(), rows.at(), choices, &mut tokens).map_err(lost)?;
        let mut bytes = vec![0; 4 * logits.len()];
        self.gpu.read(rows.at(), &mut bytes).map_err(lost)?;
        let left = bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
        logits.iter_mut().zip(left).for_each(|(logit, left)| *logit = left);
        Ok(tokens)
    }

    /// The tokens of rows while something is kept back, and whether all else was as it must be then: masks on the device beside a step that is under way; or
    /// nothing chosen before they are there.
    ///
    /// # Errors
    /// When the device is lost.
    pub fn choose_held(
        &mut self,
        logits: &[f32],
        choices: &[Choice<'_>],
        held: Held,
    ) -> Result<(Vec<Option<u32>>, bool), DeviceError> {
        let (count, rows) = self.bring(logits, choices.len())?;
        let bytes = self.masks.sent.bytes();
        let mut there = self.gpu.pin(bytes).map_err(no_room("masks", bytes as u64))?;
        let mut tokens = Vec::new();
        let mut run = || -> Result<bool, Failure> {
            let mut gate = Gate::new(&self.gpu)?;
            let is_right = match held {
                Held::Step => {
                    self.gpu.hold(&gate)?;
                    self.start(count.at(), rows.at(), choices)?;
                    let came = self.beside.read(self.masks.sent.at(), &mut there, bytes, Duration::from_secs(10))?;
                    let masks = |memory: &mut Pinned| memory.bytes_mut()[self.masks.start..].to_vec();
                    came && masks(&mut there) == masks(&mut self.masks.staged) && !self.gpu.is_idle()?
                }
                Held::Copies => {
                    self.beside.hold(&gate)?;
                    self.start(count.at(), rows.at(), choices)?;
                    std::thread::sleep(Duration::from_millis(50));
                    !self.gpu.is_idle()?
                }
            };
            gate.open();
            self.finish(choices, &mut tokens)?;
            Ok(is_right)
        };
        let is_right = run().map_err(lost)?;
        Ok((tokens, is_right))
    }

    /// Seconds of a choice of rows: on the device, until its tokens are here, and on the device behind a step; of which the median of so many.
    ///
    /// # Errors
    /// When the device is lost.
    pub fn measure(&mut self, logits: &[f32], choices: &[Choice<'_>], times: usize) -> Result<[f64; 3], DeviceError> {
        let (count, rows) = self.bring(logits, choices.len())?;
        // A step that takes longer than what the host does meanwhile.
        let much = self.gpu.allocate(STEP_BYTES).map_err(no_room("a step", STEP_BYTES as u64))?;
        let gpu = self.gpu.clone();
        let step = || (0..STEP_TIMES).try_for_each(|_| gpu.set(&much, 0));
        let (mut tokens, mut seconds) = (Vec::new(), [(); 3].map(|()| Vec::new()));
        for _ in 0..times {
            tokens.clear();
            let start = Instant::now();
            self.choose(count.at(), rows.at(), choices, &mut tokens).map_err(lost)?;
            seconds[1].push(start.elapsed().as_secs_f64());
            seconds[0].push(gpu.time(|| self.start(count.at(), rows.at(), choices)).map_err(lost)?);
            seconds[2].push(gpu.time_behind(step, || self.start(count.at(), rows.at(), choices)).map_err(lost)?);
        }
        Ok(seconds.map(|mut seconds| {
            seconds.sort_by(f64::total_cmp);
            seconds[seconds.len() / 2]
        }))
    }

    /// Rows on the device, and their number.
    fn bring(&self, logits: &[f32], count: usize) -> Result<(Allocation, Allocation), DeviceError> {
        assert_eq!(logits.len(), count * self.vocab, "a row for each choice");
        self.gpu.bind().map_err(lost)?;
        let number = self.gpu.allocate(4).map_err(no_room("a number", 4))?;
        let bytes = driver::bytes_of_floats(logits);
        let rows = self.gpu.allocate(bytes.len()).map_err(no_room("logits", bytes.len() as u64))?;
        let sent = self.gpu.write(number.at(), &(count as u32).to_le_bytes());
        sent.and_then(|()| self.gpu.write(rows.at(), bytes)).map_err(lost)?;
        Ok((number, rows))
    }
}

/// What is kept back in [`Chooser::choose_held`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// The step whose rows are chosen from.
    Step,
    /// The copies beside it.
    Copies,
}

/// What draws read and write beside what is theirs.
struct Rows {
    logits: u64,
    masks: u64,
    chosen: u64,
    vocab: usize,
}

/// Draws that were staged.
struct Round {
    count: usize,
    changes: usize,
    /// Whether some have changes, and whether some keep only a part of their rows behind them.
    changed: bool,
    cut: bool,
}

/// Where draws are worked out.
struct Desk {
    /// Most at once.
    rows: usize,
    staged: Pinned,
    /// Draws, and their changes.
    sent: Allocation,
    work: Allocation,
    /// Zeros between launches: (rows) places, (rows, bins) sums, (rows) numbers of blocks.
    _zeros: Allocation,
    places: Places,
    /// The changes of a draw, by token and then as they come.
    order: Vec<u64>,
}

/// Where things lie.
struct Places {
    best: u64,
    bins: u64,
    arrived: u64,
    reached: u64,
    listed: u64,
    list: u64,
    lasts: u64,
    spans: u64,
    saved: u64,
}

impl Desk {
    fn new(gpu: &Arc<Gpu>, rows: usize, vocab: usize) -> Result<Self, DeviceError> {
        let lay = |sizes: &[usize]| -> (Vec<usize>, usize) {
            let mut bytes = 0;
            let starts = sizes.iter().map(|size| {
                let start = bytes;
                bytes += (rows * size).next_multiple_of(256);
                start
            });
            (starts.collect(), bytes)
        };
        let (zeros, zero_bytes) = lay(&[8, 8 * BINS, 4]);
        let (free, free_bytes) = lay(&[REACHED_BYTES, 4, 8 * LISTED, 8, 8 * vocab.div_ceil(SPAN), 4 * CHANGES_MAX]);
        let sent_bytes = rows * (DRAW_BYTES + CHANGE_BYTES * CHANGES_MAX);
        let room = no_room("drawing tokens", (zero_bytes + free_bytes + sent_bytes) as u64);
        let staged = gpu.pin(sent_bytes).map_err(&room)?;
        let sent = gpu.allocate(sent_bytes).map_err(&room)?;
        let (zeroed, work) = (gpu.allocate(zero_bytes).map_err(&room)?, gpu.allocate(free_bytes).map_err(&room)?);
        gpu.set(&zeroed, 0).map_err(lost)?;
        let [zero, free] = [(&zeroed, zeros), (&work, free)]
            .map(|(memory, starts)| starts.into_iter().map(|start| memory.at() + start as u64).collect::<Vec<_>>());
        let places = Places {
            best: zero[0],
            bins: zero[1],
            arrived: zero[2],
            reached: free[0],
            listed: free[1],
            list: free[2],
            lasts: free[3],
            spans: free[4],
            saved: free[5],
        };
        let order = Vec::with_capacity(CHANGES_MAX);
        Ok(Self { rows, staged, sent, work, _zeros: zeroed, places, order })
    }

    /// Takes as many draws as there is room for, with the rows that they are of. `masks`: which of them each row has.
    fn stage<'a>(&mut self, draws: impl Iterator<Item = (usize, &'a Draw<'a>)>, masks: &[u32], vocab: usize) -> Round {
        let Self { rows, staged, order, .. } = self;
        let (heads, changes) = staged.bytes_mut().split_at_mut(DRAW_BYTES * *rows);
        let (heads, changes) = (heads.as_chunks_mut::<DRAW_BYTES>().0, changes.as_chunks_mut::<CHANGE_BYTES>().0);
        let mut round = Round { count: 0, changes: 0, changed: false, cut: false };
        for (head, (row, draw)) in heads.iter_mut().zip(draws) {
            assert!(draw.changes.len() <= CHANGES_MAX, "{} changes of a row", draw.changes.len());
            order.clear();
            let own = draw.changes.iter().enumerate().filter(|(_, change)| (change.token as usize) < vocab);
            order.extend(own.map(|(index, change)| u64::from(change.token) << 32 | index as u64));
            order.sort_unstable();
            for (to, &at) in changes[round.changes..].iter_mut().zip(&*order) {
                let change = draw.changes[at as u32 as usize];
                let (bit, number) = match change.effect {
                    Effect::Repeated(penalty) => (REPEATED, penalty),
                    Effect::Added(number) => (0, number),
                };
                to[..4].copy_from_slice(&(change.token | bit).to_le_bytes());
                to[4..].copy_from_slice(&number.to_le_bytes());
            }
            let top_k = if (draw.top_k as usize) < vocab { draw.top_k } else { 0 };
            let words = [
                row as u32,
                top_k,
                draw.top_p.to_bits(),
                draw.below_max.to_bits(),
                draw.temperature.to_bits(),
                round.changes as u32,
                order.len() as u32,
                masks[row],
            ];
            let (numbers, uniform) = head.split_at_mut(DRAW_BYTES - 8);
            numbers.as_chunks_mut().0.iter_mut().zip(words).for_each(|(to, word)| *to = word.to_le_bytes());
            uniform.copy_from_slice(&draw.uniform.to_le_bytes());
            round.count += 1;
            round.changes += order.len();
            round.cut |= draw.temperature > 0.0 && (top_k > 0 || draw.top_p < 1.0);
        }
        round.changed = round.changes > 0;
        round
    }

    /// Sends what was staged.
    fn send(&self, beside: &Beside, round: &Round) -> Result<(), Failure> {
        // One copy: the way there takes longer than the bytes.
        let behind = DRAW_BYTES * self.rows + CHANGE_BYTES * round.changes;
        let bytes = if round.changed { behind } else { DRAW_BYTES * round.count };
        beside.send(&self.staged, 0, bytes, self.sent.at())
    }

    /// Starts what draws, behind what was sent.
    fn start(&self, gpu: &Gpu, round: &Round, rows: &Rows) -> Result<(), Failure> {
        let Places { best, bins, arrived, reached, listed, list, lasts, spans, saved } = self.places;
        let (count, vocab) = (round.count, Arg::from(rows.vocab));
        let changes = DRAW_BYTES * self.rows;
        let [draws, changes] = [self.sent.at(), self.sent.at() + changes as u64].map(Arg::from);
        let [logits, masks, chosen] = [rows.logits, rows.masks, rows.chosen].map(Arg::from);
        let [best, bins, arrived, reached, listed] = [best, bins, arrived, reached, listed].map(Arg::from);
        let [list, lasts, spans, saved] = [list, lasts, spans, saved].map(Arg::from);
        if round.changed {
            gpu.launch("draw_change", Grid::new([count, 1, 1], 256), &[draws, changes, saved, logits, vocab])?;
        }
        gpu.launch(
            "draw_first",
            Grid::new(share(gpu, count, rows.vocab, 256), 256),
            &[draws, logits, masks, vocab, best],
        )?;
        if round.cut {
            let grid = Grid::new(share(gpu, count, rows.vocab, COUNTING), COUNTING as u32);
            let counting = [draws, logits, masks, vocab, best, bins, arrived, reached, listed];
            gpu.launch("draw_count", grid, &counting)?;
            gpu.launch("draw_cut", grid, &[draws, logits, masks, vocab, best, reached, arrived, listed, list, lasts])?;
        }
        let grid = Grid::new([rows.vocab.div_ceil(4 * SPAN), count, 1], 128);
        let drawing = [draws, changes, saved, logits, masks, vocab, best, lasts, spans, arrived, chosen];
        gpu.launch("draw", grid, &drawing)
    }
}
