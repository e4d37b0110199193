//! Makes the requests of a load, each at its moment, and writes down when its tokens came.
//!
//! A thread makes one request after the other; there are as many threads as requests may be open. Where requests have moments, a
//! wait counts from the moment, whether a thread was free at it or not: a server that falls behind is not asked more kindly. It
//! does not know whom it asks.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::load::Outline;

/// Who answers.
pub trait Target: Sync {
    /// What a request is, made before its moment.
    type Asked;

    /// Makes a request of a prompt and the tokens of its answer.
    fn prepare(&self, prompt: Vec<u32>, gen_tokens: u32) -> Self::Asked;

    /// Asks, and hears the whole answer.
    ///
    /// # Errors
    /// When there is no whole answer: why, in words.
    fn ask(&self, asked: Self::Asked, heard: &mut Heard) -> Result<(), String>;

    /// Ids of tokens are under it.
    fn vocab(&self) -> u32;
}

/// What is heard of an answer while it comes.
#[derive(Debug)]
pub struct Heard {
    start: Instant,
    /// When something new was heard, in seconds from the start of the measurement.
    pub token_s: Vec<f64>,
    /// Tokens of the answer, where who answers counted them: several may have come at once.
    pub output_tokens: Option<u64>,
    /// Tokens of the prompt, where who answers counted them.
    pub prompt_tokens: Option<u64>,
    /// Of those, how many were known, where who answers says it.
    pub cached_tokens: Option<u64>,
}

/// What became of one request.
#[derive(Debug)]
pub struct Served {
    /// Its moment, or that at which it was made where it had none, in seconds from the start.
    pub came_s: f64,
    /// When its answer was over.
    pub over_s: f64,
    /// Tokens of the prompt that was wanted.
    pub prompt_tokens: u64,
    /// What was heard.
    pub heard: Heard,
    /// Why there is no whole answer.
    pub error: Option<String>,
}

/// What became of all of them.
#[derive(Debug)]
pub struct Measured {
    /// In the order in which they ended.
    pub served: Vec<Served>,
    /// From the start to the end of the last answer.
    pub seconds: f64,
}

impl Heard {
    /// Nothing yet, of a measurement that began at `start`.
    pub fn new(start: Instant) -> Self {
        Self { start, token_s: Vec::new(), output_tokens: None, prompt_tokens: None, cached_tokens: None }
    }

    /// Something new was heard just now.
    pub fn token(&mut self) {
        self.token_s.push(self.start.elapsed().as_secs_f64());
    }
}

impl Served {
    /// Tokens of the answer.
    pub fn output_tokens(&self) -> u64 {
        self.heard.output_tokens.unwrap_or(self.heard.token_s.len() as u64)
    }

    /// Milliseconds from the request to its first token.
    pub fn first_ms(&self) -> f64 {
        1e3 * (self.heard.token_s.first().copied().unwrap_or(self.over_s) - self.came_s)
    }

    /// Milliseconds between each token and the next.
    pub fn between_ms(&self) -> impl Iterator<Item = f64> {
        self.heard.token_s.windows(2).map(|pair| 1e3 * (pair[1] - pair[0]))
    }

    /// Milliseconds from a token to the next on average; none where there is only one.
    pub fn mean_between_ms(&self) -> Option<f64> {
        let (first, last) = (self.heard.token_s.first()?, self.heard.token_s.last()?);
        let gaps = self.output_tokens().saturating_sub(1);
        (gaps > 0).then(|| 1e3 * (last - first) / gaps as f64)
    }

    /// Milliseconds from the request to the end of its answer.
    pub fn whole_ms(&self) -> f64 {
        1e3 * (self.over_s - self.came_s)
    }
}

/// Makes all requests, at most `open` at a time; `said` hears how many are over.
pub fn replay<T: Target>(
    target: &T,
    outlines: &[Outline],
    seed: u64,
    open: u32,
    said: impl Fn(usize) + Sync,
) -> Measured {
    let served = Mutex::new(Vec::with_capacity(outlines.len()));
    let next = AtomicUsize::new(0);
    let start = Instant::now();
    thread::scope(|scope| {
        for _ in 0..outlines.len().min(open as usize) {
            scope.spawn(|| {
                while let Some(outline) = outlines.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let one = serve(target, outline, seed, start);
                    let mut served = served.lock().expect("nobody panics with it");
                    served.push(one);
                    said(served.len());
                }
            });
        }
    });
    let seconds = start.elapsed().as_secs_f64();
    Measured { served: served.into_inner().expect("nobody panics with it"), seconds }
}

fn serve<T: Target>(target: &T, outline: &Outline, seed: u64, start: Instant) -> Served {
    let prompt = outline.prompt(seed, target.vocab());
    let prompt_tokens = prompt.len() as u64;
    let asked = target.prepare(prompt, outline.gen_tokens);
    let mut heard = Heard::new(start);
    heard.token_s.reserve_exact(outline.gen_tokens as usize);
    let moment = |moment: Duration| {
        thread::sleep(moment.saturating_sub(start.elapsed()));
        moment.as_secs_f64()
    };
    let came_s = outline.comes.map_or_else(|| start.elapsed().as_secs_f64(), moment);
    let result = target.ask(asked, &mut heard);
    let over_s = start.elapsed().as_secs_f64();
    Served { came_s, over_s, prompt_tokens, heard, error: result.err() }
}

#[cfg(test)]
mod tests {
    use super::super::load::Piece;
    use super::*;

    /// Writes a token every ten milliseconds, one request at a time, and fails where the prompt is of one token.
    struct Slow(Mutex<()>);

    impl Target for Slow {
        type Asked = (usize, u32);

        fn prepare(&self, prompt: Vec<u32>, gen_tokens: u32) -> (usize, u32) {
            (prompt.len(), gen_tokens)
        }

        fn ask(&self, asked: (usize, u32), heard: &mut Heard) -> Result<(), String> {
            let _alone = self.0.lock().unwrap();
            for _ in 0..asked.1 {
                thread::sleep(Duration::from_millis(10));
                heard.token();
            }
            if asked.0 == 1 { Err("no".to_owned()) } else { Ok(()) }
        }

        fn vocab(&self) -> u32 {
            10
        }
    }

    fn outline(comes: Option<u64>, tokens: u32) -> Outline {
        let pieces = vec![Piece { name: 0, tokens }];
        Outline { comes: comes.map(Duration::from_millis), pieces, gen_tokens: 3 }
    }

    #[test]
    fn a_wait_counts_from_the_moment_even_if_nobody_was_free() {
        let outlines = [outline(Some(0), 2), outline(Some(5), 2), outline(Some(10), 1)];
        for open in [1, 3] {
            let measured = replay(&Slow(Mutex::default()), &outlines, 1, open, |_| ());
            let mut served = measured.served;
            served.sort_by(|one, other| one.came_s.total_cmp(&other.came_s));
            assert_eq!([0, 1, 2].map(|index| served[index].came_s), [0.0, 0.005, 0.01]);
            // The three take 30 ms each, one after the other, whoever stands in between.
            let last = served.iter().map(Served::whole_ms).fold(0.0, f64::max);
            assert!(last >= 78.0, "{open} open: the last waited for two others: {last}");
            assert!(served.iter().all(|one| one.output_tokens() == 3 && one.mean_between_ms().unwrap() >= 10.0));
            assert_eq!(served.iter().filter(|one| one.error.is_some()).count(), 1);
        }
    }

    #[test]
    fn without_moments_a_wait_counts_from_the_asking() {
        let measured = replay(&Slow(Mutex::default()), &[outline(None, 2), outline(None, 2)], 1, 1, |_| ());
        assert!(measured.served[1].came_s >= measured.served[0].over_s, "{measured:?}");
    }
}
