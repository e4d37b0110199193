//! Texts that are read for a vector or a score, not to be continued: several in one step, pooled on the host.
//!
//! What a device gives is the rows of tokens behind the last norm. Their mean, or the one that counts, goes through what the
//! model has behind its pooling: a row or two of arithmetic a text, in `f32` and in one order.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use kauri_arch::{Activation, Curve, Linear, Pooling, Refinement, Shape, Summary};
use kauri_device::{Applied, Batch, Weight, formula};
use kauri_formats::Checkpoint;
use kauri_tokenizer::{Special, Tokenizer};

use crate::engine::Engine;
use crate::error::Error;

/// What Qwen's rerankers were trained with; files that say otherwise bring their own.
const QUESTION: &str = "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the \
                        Instruct provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n\
                        <Instruct>: Given a web search query, retrieve relevant passages that answer the query\n\
                        <Query>: {query}\n<Document>: {document}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";

/// A text, or a pair of texts, as a model reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passage {
    /// Its tokens, with those that begin and end a text.
    pub tokens: Vec<u32>,
    /// Where the second text of a pair begins.
    pub second_start: u32,
}

/// What vectors are wanted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    /// How the rows of a text become one vector; as the model says where unset.
    pub pooling: Option<Pooling>,
    /// How many values are kept; all where unset.
    pub dimensions: Option<u32>,
}

/// Reads texts on an engine; one at a time.
pub struct Reader<'e> {
    engine: &'e mut Engine,
    batch: Batch,
    /// What all texts have of adapters.
    adapters: Vec<Applied>,
    pages: Vec<u32>,
    /// (texts of a step, hidden), or what became of them.
    pooled: Vec<f32>,
    /// What a refinement gives.
    refined: Vec<f32>,
}

impl Engine {
    /// A text that is read. No part of it becomes a special token.
    pub fn passage(&self, text: &str) -> Passage {
        let [before, after] = [self.tokenizer.prefix(), self.tokenizer.suffix()];
        let tokens = [before, &self.tokenizer.encode(text, Special::Text), after].concat();
        Passage { tokens, second_start: u32::MAX }
    }

    /// A document and the query that it is judged by.
    ///
    /// # Errors
    /// When the model judges nothing, or nobody says how it is asked.
    pub fn pair(&self, query: &str, document: &str) -> Result<Passage, Error> {
        if !self.summary.judges {
            return Err(Error::NoJudge);
        }
        if self.summary.pooling == Pooling::Last {
            let question = self.question.as_deref().unwrap_or(QUESTION);
            return Ok(Passage { tokens: self.asked(question, query, document), second_start: u32::MAX });
        }
        let [before, after] = [self.tokenizer.prefix(), self.tokenizer.suffix()];
        let [query, document] = [query, document].map(|text| self.tokenizer.encode(text, Special::Text));
        let mut tokens = [before, &query, after].concat();
        // RoBERTa's end of a text stands twice between two.
        if after.last().and_then(|&end| self.tokenizer.token_bytes(end)) == Some(b"</s>") {
            tokens.extend(after);
        }
        let second_start = tokens.len() as u32;
        tokens.extend([&document, after].concat());
        Ok(Passage { tokens, second_start })
    }

    /// The tokens of a question whose marks are filled in.
    fn asked(&self, question: &str, query: &str, document: &str) -> Vec<u32> {
        let mut spans = Vec::new();
        for (index, part) in question.split("{query}").enumerate() {
            if index > 0 {
                spans.push((query, Special::Text));
            }
            for (index, part) in part.split("{document}").enumerate() {
                if index > 0 {
                    spans.push((document, Special::Text));
                }
                spans.push((part, Special::Parse));
            }
        }
        self.tokenizer.encode_spans(&spans)
    }

    /// Whether a text can be read.
    ///
    /// # Errors
    /// When it is empty, does not fit the window or holds an unknown id.
    pub fn check_passage(&self, passage: &Passage) -> Result<(), Error> {
        let (tokens, window, vocab) = (passage.tokens.len(), self.window_tokens as usize, self.vocab);
        if tokens == 0 {
            return Err(Error::EmptyText);
        }
        if tokens > window {
            return Err(Error::TextTooLong { tokens, window });
        }
        match passage.tokens.iter().find(|&&token| token >= vocab) {
            Some(&token) => Err(Error::UnknownToken { token, vocab }),
            None => Ok(()),
        }
    }

    /// How the model's makers pool its rows.
    pub fn pooling(&self) -> Pooling {
        self.summary.pooling
    }

    /// Whether it judges a document by a query.
    pub fn judges(&self) -> bool {
        self.summary.judges
    }

    /// Whether it can write text: not, if it was made or loaded to read.
    pub fn writes(&self) -> bool {
        self.writes
    }

    /// Reads texts; one reader at a time.
    pub fn reader(&mut self) -> Reader<'_> {
        Reader::new(self)
    }
}

impl<'e> Reader<'e> {
    fn new(engine: &'e mut Engine) -> Self {
        let plan = *engine.executor.plan();
        let widest = engine.summary.refinements.iter().map(|refinement| refinement.linear.rows).max();
        let width = widest.unwrap_or(0).max(engine.hidden) as usize;
        Self {
            batch: Batch::with_room(&plan),
            adapters: engine.adapters.of(None).expect("those that were loaded"),
            pages: Vec::with_capacity(plan.pages as usize),
            pooled: Vec::with_capacity(width),
            refined: Vec::with_capacity(width),
            engine,
        }
    }

    /// Hands over the vector of each text, in order, of length one; or with [`Pooling::Each`] the rows of its tokens as they are.
    ///
    /// # Errors
    /// When a text is empty, does not fit the window or holds an unknown id, when there are not as many values as are wanted, when
    /// the device is lost; and when the model computes no numbers.
    pub fn embed(
        &mut self,
        passages: &[Passage],
        wanted: Wanted,
        mut each: impl FnMut(usize, &[f32]),
    ) -> Result<(), Error> {
        let summary = Arc::clone(&self.engine.summary);
        let pooling = wanted.pooling.unwrap_or(summary.pooling);
        let refinements = if summary.judges || pooling == Pooling::Each { &[] } else { &summary.refinements[..] };
        let width = refinements.last().map_or(self.engine.hidden, |last| last.linear.rows);
        let kept = wanted.dimensions.unwrap_or(width);
        if kept == 0 || kept > width {
            return Err(Error::Dimensions { asked: kept, width });
        }
        self.read(passages, pooling, |index, reader| {
            if pooling == Pooling::Each {
                let rows = &mut reader.pooled;
                finite(rows)?;
                let (width, kept) = (width as usize, kept as usize);
                for row in 1..rows.len() / width {
                    rows.copy_within(row * width..row * width + kept, row * kept);
                }
                rows.truncate(rows.len() / width * kept);
                each(index, rows);
                return Ok(());
            }
            reader.refine(refinements);
            let vector = &mut reader.pooled;
            vector.truncate(kept as usize);
            finite(vector)?;
            unit(vector);
            each(index, vector);
            Ok(())
        })
    }

    /// Hands over how well each document answers its query, in order: from 0 to 1.
    ///
    /// # Errors
    /// As [`Reader::embed`]; when the model judges nothing.
    pub fn judge(&mut self, passages: &[Passage], mut each: impl FnMut(usize, f32)) -> Result<(), Error> {
        let summary = Arc::clone(&self.engine.summary);
        if !summary.judges {
            return Err(Error::NoJudge);
        }
        self.read(passages, summary.pooling, |index, reader| {
            reader.refine(&summary.refinements);
            finite(&reader.pooled)?;
            each(index, score(&reader.pooled));
            Ok(())
        })
    }

    /// Reads texts, several in a step where they fit; `done` finds what was pooled of each in `pooled`.
    fn read(
        &mut self,
        passages: &[Passage],
        pooling: Pooling,
        mut done: impl FnMut(usize, &mut Self) -> Result<(), Error>,
    ) -> Result<(), Error> {
        passages.iter().try_for_each(|passage| self.engine.check_passage(passage))?;
        let (slots, step) = (self.engine.executor.plan().slots as usize, self.engine.step_tokens);
        let mut next = 0;
        while next < passages.len() {
            let mut tokens = 0;
            let fit = passages[next..].iter().take(slots).take_while(|passage| {
                tokens += passage.tokens.len();
                tokens <= step
            });
            let together = &passages[next..][..fit.count().max(1)];
            let longest = together.iter().map(|passage| passage.tokens.len()).max().unwrap_or(0);
            // Who sees what is behind it is read in one step, however long.
            let step = if self.engine.both_ways { longest } else { step.min(longest) };
            self.release();
            self.pooled.clear();
            for start in (0..longest).step_by(step) {
                self.launch(together, start..start + step, pooling)?;
                if together.len() == 1 {
                    let rows = 0..self.batch.outputs.len();
                    self.take(rows, pooling)?;
                }
            }
            let mut row = 0;
            for (index, passage) in (next..).zip(together) {
                if together.len() > 1 {
                    let rows = outputs(pooling, &(0..longest), passage.tokens.len()).len();
                    self.pooled.clear();
                    self.take(row..row + rows, pooling)?;
                    row += rows;
                }
                if pooling == Pooling::Mean {
                    let count = passage.tokens.len() as f32;
                    self.pooled.iter_mut().for_each(|value| *value /= count);
                }
                done(index, self)?;
            }
            next += together.len();
        }
        self.release();
        Ok(())
    }

    /// Computes these tokens of each text. Texts have their pages and slots in order.
    fn launch(&mut self, together: &[Passage], range: Range<usize>, pooling: Pooling) -> Result<(), Error> {
        let page_tokens = self.engine.executor.plan().page_tokens as usize;
        self.batch.clear();
        let mut page = 0;
        for (slot, passage) in (0..).zip(together) {
            let (length, pages) = (passage.tokens.len(), page..page + passage.tokens.len().div_ceil(page_tokens));
            page = pages.end;
            while self.pages.len() < page {
                self.pages.push(self.engine.pages.take().expect("a step was cut to the pool"));
            }
            let range = range.start..range.end.min(length);
            let (cached, tokens) = (range.start as u32, &passage.tokens[range.clone()]);
            let first = self.batch.tokens.len();
            self.batch.push(tokens, cached, &self.pages[pages], slot, length as u32, 0);
            self.batch.pair(passage.second_start);
            self.batch.adapt(&self.adapters);
            let wanted = outputs(pooling, &range, length);
            self.batch.outputs.extend(wanted.map(|place| (first + place - range.start) as u32));
        }
        self.engine.executor.launch(&self.batch)?;
        self.engine.verify_unchanged()
    }

    /// Takes these rows of the last step to what is pooled already, in order.
    fn take(&mut self, rows: Range<usize>, pooling: Pooling) -> Result<(), Error> {
        let hidden = self.engine.hidden as usize;
        let rows = &self.engine.executor.rows()?[rows.start * hidden..rows.end * hidden];
        match pooling {
            Pooling::Mean => {
                self.pooled.resize(hidden, 0.0);
                for row in rows.chunks_exact(hidden) {
                    self.pooled.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
                }
            }
            Pooling::First | Pooling::Last | Pooling::Each => self.pooled.extend_from_slice(rows),
        }
        Ok(())
    }

    /// Takes what is pooled through these, one after the other.
    fn refine(&mut self, refinements: &[Refinement<Weight>]) {
        for Refinement { linear, curve, norm } in refinements {
            self.refined.clear();
            self.refined.resize(linear.rows as usize, 0.0);
            formula::product(linear.weight.matrix(), &self.pooled, &mut self.refined);
            if let Some(bias) = &linear.bias {
                self.refined.iter_mut().zip(bias.vector()).for_each(|(value, bias)| *value += bias);
            }
            for value in &mut self.refined {
                *value = match curve {
                    Curve::Line => *value,
                    Curve::Tanh => value.tanh(),
                    Curve::Gelu => formula::activate(Activation::Gelu, *value),
                };
            }
            if let Some(norm) = norm {
                let bias = norm.bias.as_ref().map(Weight::vector);
                formula::norm(norm.kind, norm.epsilon, norm.weight.vector(), bias, &mut self.refined);
            }
            std::mem::swap(&mut self.pooled, &mut self.refined);
        }
    }

    fn release(&mut self) {
        for page in self.pages.drain(..) {
            self.engine.pages.give(page);
        }
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        self.release();
    }
}

/// The places in a text of so many tokens whose rows are wanted, of those in `range`.
fn outputs(pooling: Pooling, range: &Range<usize>, length: usize) -> Range<usize> {
    let wanted = match pooling {
        Pooling::Mean | Pooling::Each => 0..length,
        Pooling::First => 0..1,
        Pooling::Last => length - 1..length,
    };
    let start = wanted.start.max(range.start);
    start..wanted.end.min(range.end).max(start)
}

/// The classifier of a Qwen that answers its question with yes or no, by the rows of these two: of a file that is called a reranker
/// and does not have one.
pub(crate) fn answers(
    checkpoint: &Checkpoint,
    shape: &Shape<Weight>,
    tokenizer: &Tokenizer,
) -> Option<Summary<Weight>> {
    let called = |path: &PathBuf| path.to_string_lossy().to_lowercase().contains("reranker");
    if shape.family != "qwen3" || shape.summary.judges || !checkpoint.paths.iter().any(called) {
        return None;
    }
    let matrix = shape.head.output.as_ref()?.weight.matrix();
    let rows = [tokenizer.id_of("yes")? as usize, tokenizer.id_of("no")? as usize];
    if rows.iter().any(|&row| row >= matrix.rows) {
        return None;
    }
    let weight = Weight::Matrix(matrix.pick(&rows));
    let linear = Linear { rows: rows.len() as u32, columns: shape.hidden, weight, bias: None };
    let refinements = vec![Refinement { linear, curve: Curve::Line, norm: None }];
    Some(Summary { pooling: Pooling::Last, refinements, judges: true })
}

/// As many values over their length; zeros stay zeros.
fn unit(vector: &mut [f32]) {
    let length = formula::dot(vector, vector).sqrt();
    if length > 0.0 {
        vector.iter_mut().for_each(|value| *value /= length);
    }
}

fn finite(values: &[f32]) -> Result<(), Error> {
    if values.iter().all(|value| value.is_finite()) { Ok(()) } else { Err(Error::NotFinite) }
}

/// Of one label the sigmoid; of two the first's share.
fn score(labels: &[f32]) -> f32 {
    match labels {
        [yes, no, ..] => formula::sigmoid(yes - no),
        [label] => formula::sigmoid(*label),
        [] => 0.0,
    }
}
