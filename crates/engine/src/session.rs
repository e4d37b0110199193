//! One conversation: what of it is in the cache, and how to bring the cache to a new prompt.

mod remembered;

use std::ops::ControlFlow;

use kauri_device::{Applied, Batch, Choice};

use crate::engine::Engine;
use crate::error::Error;

/// The slot of the one sequence there is.
const SLOT: u32 = 0;
/// The slot of what it had at the end of its last prompt.
const MARK: u32 = 1;

/// A conversation on an engine.
pub struct Session<'e> {
    pub(crate) engine: &'e mut Engine,
    /// Tokens whose keys and values are in `pages`.
    pub(crate) tokens: Vec<u32>,
    pages: Vec<u32>,
    reach_tokens: u32,
    /// What it has of adapters.
    adapters: Vec<Applied>,
    batch: Batch,
    /// The last state that it passed while it wrote.
    trail: Option<remembered::Trail>,
    /// The most tokens that it had since its rings were begun.
    furthest: usize,
    /// What it had at the end of its last prompt: next turns often go on from there, without what was thought before an answer.
    mark: Option<Mark>,
}

/// Rings that were put aside.
#[derive(Clone, Copy)]
struct Mark {
    /// Tokens that they hold.
    tokens: usize,
    /// See [`Session::furthest`].
    furthest: usize,
}

/// What bringing the cache to a prompt took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Synced {
    /// Tokens that were in the cache already.
    pub cached_tokens: usize,
}

impl<'e> Session<'e> {
    pub(crate) fn new(engine: &'e mut Engine) -> Self {
        // Room for a full window: no token of an answer allocates.
        let (reach_tokens, plan) = (engine.window_tokens(), engine.executor.plan());
        let pages = Vec::with_capacity(reach_tokens.div_ceil(plan.page_tokens) as usize);
        let batch = Batch::with_room(plan);
        let tokens = Vec::with_capacity(reach_tokens as usize);
        let adapters = engine.adapters.of(None).expect("those that were loaded");
        Self { engine, tokens, pages, reach_tokens, adapters, batch, trail: None, furthest: 0, mark: None }
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        self.engine
    }

    /// The prompt in the cache and what was written behind it.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Brings the cache to exactly `prompt`: keeps the longest prefix it has, computes the rest, and leaves the logits of
    /// the last token ready. `reach_tokens` is the longest the sequence may become; `progress` hears the tokens done.
    ///
    /// # Errors
    /// When the prompt is empty, does not fit the window, or holds an unknown id; when the device is lost.
    pub fn sync(
        &mut self,
        prompt: &[u32],
        reach_tokens: u32,
        mut progress: impl FnMut(usize) -> ControlFlow<()>,
    ) -> Result<Synced, Error> {
        self.check(prompt)?;
        let window = self.engine.window_tokens() as usize;
        if prompt.len() >= window {
            return Err(Error::PromptTooLong { prompt: prompt.len(), window });
        }
        self.reach(reach_tokens);
        let same = self.tokens.iter().zip(prompt).take_while(|(a, b)| a == b).count();
        // The last token is computed again where all are known: its logits are wanted.
        let kept = same.min(prompt.len() - 1);
        self.go_back(kept)?;
        self.restore(prompt)?;
        let cached_tokens = self.tokens.len();
        let step = self.engine.executor.plan().batch_tokens as usize;
        while self.tokens.len() < prompt.len() {
            let rest = &prompt[self.tokens.len()..];
            let chunk = &rest[..rest.len().min(self.chunk(prompt.len(), step))];
            self.launch_prompt(chunk, usize::from(chunk.len() == rest.len()))?;
            if progress(self.tokens.len()).is_break() {
                return Ok(Synced { cached_tokens });
            }
        }
        self.set_mark()?;
        Ok(Synced { cached_tokens })
    }

    /// Forgets all but the first `kept` tokens, or more where that cannot be done. The state of recurrent layers holds all that was
    /// computed: it goes on, or starts over. Rings hold the last tokens, and those of the mark.
    fn go_back(&mut self, kept: usize) -> Result<(), Error> {
        if !self.engine.has_state || kept == self.tokens.len() {
            self.truncate(kept);
            return Ok(());
        }
        let Some(ring) = self.engine.ring else {
            self.truncate(0);
            return Ok(());
        };
        let page_tokens = self.page_tokens();
        let mark = self.mark.filter(|mark| kept >= mark.tokens || ring.holds(mark.furthest, kept, page_tokens));
        if ring.holds(self.furthest, kept, page_tokens) {
            self.truncate(kept);
        } else if let Some(mark) = mark {
            self.engine.executor.copy_state(MARK, SLOT)?;
            self.furthest = mark.furthest;
            self.truncate(kept.min(mark.tokens));
        } else {
            self.truncate(0);
        }
        Ok(())
    }

    /// Puts aside what the rings hold at the end of a prompt.
    fn set_mark(&mut self) -> Result<(), Error> {
        if self.engine.ring.is_some() && self.engine.executor.plan().slots > MARK {
            self.engine.executor.copy_state(SLOT, MARK)?;
            self.mark = Some(Mark { tokens: self.tokens.len(), furthest: self.furthest });
        }
        Ok(())
    }

    /// Computes `tokens` from an empty cache in pieces of at most `chunk` and hands over the logits of every position.
    ///
    /// # Errors
    /// As [`Session::sync`]; here the window may be filled whole.
    pub fn logits(&mut self, tokens: &[u32], chunk: usize, mut row: impl FnMut(usize, &[f32])) -> Result<(), Error> {
        self.check(tokens)?;
        let window = self.engine.window_tokens() as usize;
        if tokens.len() > window {
            return Err(Error::PromptTooLong { prompt: tokens.len(), window });
        }
        self.reach(tokens.len() as u32);
        self.truncate(0);
        let plan = self.engine.executor.plan();
        let chunk = chunk.clamp(1, plan.batch_tokens.min(plan.batch_outputs) as usize);
        let vocab = self.engine.vocab as usize;
        for piece in tokens.chunks(chunk) {
            let start = self.tokens.len();
            self.launch_prompt(piece, piece.len())?;
            let sampled = self.engine.executor.sample(&vec![Choice::Logits; piece.len()])?;
            for (index, logits) in sampled.logits.chunks_exact(vocab).enumerate() {
                row(start + index, logits);
            }
        }
        Ok(())
    }

    /// Launches the next tokens of the prompt; the logits of the last `outputs` are computed.
    fn launch_prompt(&mut self, tokens: &[u32], outputs: usize) -> Result<(), Error> {
        self.launch(tokens, u32::MAX, outputs)
    }

    /// Launches the next tokens that are written behind the prompt; the same.
    pub(crate) fn launch_written(&mut self, tokens: &[u32], outputs: usize) -> Result<(), Error> {
        self.launch(tokens, self.tokens.len() as u32, outputs)
    }

    fn launch(&mut self, tokens: &[u32], prompt_end: u32, outputs: usize) -> Result<(), Error> {
        // Behind a prompt, whose first token is out by now.
        if tokens.len() == 1 && !self.tokens.is_empty() {
            self.engine.copy_weights();
        }
        self.take_pages((self.tokens.len() + tokens.len()).div_ceil(self.page_tokens()));
        self.furthest = self.furthest.max(self.tokens.len() + tokens.len());
        self.batch.clear();
        self.batch.push(tokens, self.tokens.len() as u32, &self.pages, SLOT, self.reach_tokens, outputs);
        self.batch.write(prompt_end);
        if !self.adapters.is_empty() {
            self.batch.adapt(&self.adapters);
        }
        let launched = self.engine.executor.launch(&self.batch).map_err(Error::from);
        if let Err(error) = launched.and_then(|()| self.engine.verify_unchanged()) {
            // Nobody knows what the cache holds now, and a state cannot be computed again on top of itself.
            self.truncate(0);
            return Err(error);
        }
        let before = self.tokens.len();
        self.tokens.extend_from_slice(tokens);
        self.keep(before)
    }

    /// Sees that it has so many pages.
    fn take_pages(&mut self, needed: usize) {
        while self.pages.len() < needed {
            let page = self.engine.pages.take().expect("the window was checked against the pool");
            self.pages.push(page);
        }
    }

    fn page_tokens(&self) -> usize {
        self.engine.executor.plan().page_tokens as usize
    }

    /// Sets how long the sequence may become; forgets what was computed for another length where that matters.
    pub(crate) fn reach(&mut self, reach_tokens: u32) {
        let is_long = |reach: u32| self.engine.long_from_tokens.is_some_and(|from| reach > from);
        if is_long(reach_tokens) != is_long(self.reach_tokens) {
            self.truncate(0);
        }
        self.reach_tokens = reach_tokens;
    }

    /// Sets what it has of adapters: what is said, or those that all have; forgets what was computed with others.
    ///
    /// # Errors
    /// When an adapter or a scale is none.
    pub fn adapt(&mut self, wanted: Option<&[Applied]>) -> Result<(), Error> {
        let adapters = self.engine.adapters.of(wanted)?;
        if adapters != self.adapters {
            self.truncate(0);
            self.adapters = adapters;
        }
        Ok(())
    }

    fn truncate(&mut self, tokens: usize) {
        self.tokens.truncate(tokens);
        self.mark = self.mark.filter(|mark| mark.tokens <= tokens);
        if tokens == 0 {
            self.furthest = 0;
        }
        let page_tokens = self.engine.executor.plan().page_tokens as usize;
        for page in self.pages.drain(tokens.div_ceil(page_tokens)..) {
            self.engine.pages.give(page);
        }
    }

    fn check(&self, tokens: &[u32]) -> Result<(), Error> {
        let vocab = self.engine.vocab;
        if let Some(&token) = tokens.iter().find(|&&token| token >= vocab) {
            return Err(Error::UnknownToken { token, vocab });
        }
        if !self.engine.writes {
            return Err(Error::OnlyReads);
        }
        if tokens.is_empty() { Err(Error::EmptyPrompt) } else { Ok(()) }
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.truncate(0);
    }
}
