//! Between the engine's thread, which must never wait, and a response, which is read as fast as its client likes.
//!
//! What is not taken yet is merged: a client that reads slowly gets the same text in larger pieces, and one that does not read costs
//! the text of its answer and no more. A client that falls behind by so many tokens holds its answer: it has no part in any step until
//! what waits was taken. Over a limit of bytes the answer is cancelled.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use kauri_engine::{Listener, Pace, Reply};

/// Most bytes of an answer that wait for its client.
const BYTES_MAX: usize = 1 << 20;
/// Replies that a client may be behind. Threads of the network that have much to do are behind by a few; what the connection takes comes on top.
const BEHIND_MAX: usize = 32;
/// What a letter takes beside its text.
const LETTER_BYTES: usize = 96;
/// What a token with its likely ones takes.
const LIKELY_BYTES: usize = 16;

/// Where the answers to one request arrive.
#[derive(Default)]
pub struct Mailbox {
    shared: Arc<Mutex<State>>,
    pace: Pace,
}

#[derive(Default)]
struct State {
    letters: VecDeque<(usize, Reply)>,
    bytes: usize,
    /// Replies since nothing was left, those that were merged included.
    behind: usize,
    waker: Option<Waker>,
    is_closed: bool,
}

impl Mailbox {
    /// Puts what is heard of the request's answer number `choice` here.
    pub fn listener(&self, choice: usize) -> Listener {
        let (shared, pace) = (Arc::clone(&self.shared), self.pace.clone());
        Box::new(move |reply| {
            let waker = {
                let mut state = shared.lock().unwrap_or_else(PoisonError::into_inner);
                if state.is_closed {
                    return ControlFlow::Break(());
                }
                let is_last = matches!(reply, Reply::Done(_) | Reply::Failed(_));
                if state.bytes > BYTES_MAX && !is_last {
                    return ControlFlow::Break(());
                }
                state.put(choice, reply);
                if state.behind > BEHIND_MAX {
                    pace.hold();
                }
                state.waker.take()
            };
            if let Some(waker) = waker {
                waker.wake();
            }
            ControlFlow::Continue(())
        })
    }

    /// Whether this client keeps up, for the engine.
    pub fn pace(&self) -> Pace {
        self.pace.clone()
    }

    /// Whether the answers were held, and everything was taken since: they are to go on.
    pub fn has_caught_up(&mut self) -> bool {
        let mut state = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.letters.is_empty() {
            return false;
        }
        state.behind = 0;
        // Under the lock: whoever finds it held after this has put something since.
        let was_held = self.pace.is_held();
        self.pace.go_on();
        was_held
    }

    /// What came next, and of which answer.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<(usize, Reply)> {
        let mut state = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((choice, reply)) = state.letters.pop_front() {
            state.bytes -= bytes_of(&reply);
            return Poll::Ready((choice, reply));
        }
        if !state.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            state.waker = Some(context.waker().clone());
        }
        Poll::Pending
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        let mut state = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        state.is_closed = true;
        state.letters.clear();
    }
}

impl State {
    fn put(&mut self, choice: usize, reply: Reply) {
        self.behind += 1;
        let reply = match self.letters.back_mut() {
            Some((last, before)) if *last == choice => match merge(before, reply) {
                Ok(added) => {
                    self.bytes += added;
                    return;
                }
                Err(reply) => reply,
            },
            _ => reply,
        };
        self.bytes += bytes_of(&reply);
        self.letters.push_back((choice, reply));
    }
}

/// Puts a reply behind one of its kind; the bytes that this added, or the reply where it is of another kind.
fn merge(before: &mut Reply, reply: Reply) -> Result<usize, Reply> {
    match (before, reply) {
        (Reply::Token { text, likelihood: None, .. }, Reply::Token { text: more, likelihood: None, .. })
        | (Reply::Token { text, likelihood: None, .. }, Reply::Rest(more))
        | (Reply::Reasoning(text), Reply::Reasoning(more)) => {
            text.push_str(&more);
            Ok(more.len())
        }
        (Reply::Arguments { index, text }, Reply::Arguments { index: other, text: more }) if *index == other => {
            text.push_str(&more);
            Ok(more.len())
        }
        (Reply::Prefill { done, .. }, Reply::Prefill { done: further, .. }) => {
            *done = further;
            Ok(0)
        }
        (_, reply) => Err(reply),
    }
}

fn bytes_of(reply: &Reply) -> usize {
    let more = match reply {
        Reply::Token { text, likelihood, .. } => {
            text.len() + likelihood.as_ref().map_or(0, |told| LIKELY_BYTES * (told.likely.len() + 4))
        }
        Reply::Rest(text) | Reply::Reasoning(text) | Reply::Arguments { text, .. } => text.len(),
        Reply::Call { id, name, .. } => id.len() + name.len(),
        Reply::Queued | Reply::Prefill { .. } | Reply::CallEnd { .. } | Reply::Done(_) | Reply::Failed(_) => 0,
    };
    LETTER_BYTES + more
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(text: &str) -> Reply {
        Reply::Token { id: 0, text: text.to_owned(), likelihood: None }
    }

    fn next(mailbox: &mut Mailbox) -> Option<(usize, Reply)> {
        match mailbox.poll_next(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(letter) => Some(letter),
            Poll::Pending => None,
        }
    }

    #[test]
    fn what_is_not_taken_is_merged_and_nothing_is_lost() {
        let mut mailbox = Mailbox::default();
        let (mut first, mut second) = (mailbox.listener(0), mailbox.listener(1));
        for word in ["a", "b", ""] {
            assert!(first(token(word)).is_continue());
        }
        assert!(second(token("x")).is_continue());
        assert!(first(token("c")).is_continue());
        let mut heard = Vec::new();
        while let Some((choice, Reply::Token { text, .. })) = next(&mut mailbox) {
            heard.push((choice, text));
        }
        assert_eq!(heard, [(0, "ab".to_owned()), (1, "x".to_owned()), (0, "c".to_owned())]);
        let left = mailbox.shared.lock().unwrap().bytes;
        assert_eq!(left, 0, "what was taken takes no room");
    }

    #[test]
    fn who_is_behind_holds_the_answer_until_everything_is_taken() {
        let mut mailbox = Mailbox::default();
        let (mut listener, pace) = (mailbox.listener(0), mailbox.pace());
        let heard = (0..10_000).take_while(|_| listener(token("a")).is_continue() && !pace.is_held()).count();
        assert_eq!(heard, BEHIND_MAX);
        assert!(!mailbox.has_caught_up() && pace.is_held(), "nothing is taken yet");
        while next(&mut mailbox).is_some() {}
        assert!(mailbox.has_caught_up() && !pace.is_held() && !mailbox.has_caught_up(), "once");
        assert!(listener(token("a")).is_continue() && !pace.is_held(), "it counts anew");
    }

    #[test]
    fn who_never_reads_is_cancelled() {
        let mut mailbox = Mailbox::default();
        let mut listener = mailbox.listener(0);
        let word = "x".repeat(1000);
        let heard = (0..10_000).take_while(|_| listener(token(&word)).is_continue()).count();
        assert!((1000..1100).contains(&heard), "{heard}");
        assert!(listener(Reply::Failed(kauri_engine::Error::Stopped)).is_continue(), "the last word is always heard");
        assert!(next(&mut mailbox).is_some());
        drop(mailbox);
        assert!(listener(token("a")).is_break(), "nobody listens any more");
    }
}
