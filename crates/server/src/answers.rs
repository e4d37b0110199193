//! The answers to one request while they are written; dropping them cancels those that are not over.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use kauri_engine::{Call, Done, Reply, Ticket};

use crate::App;
use crate::ask::Ask;
use crate::error::Problem;
use crate::guard::Caller;
use crate::mailbox::Mailbox;
use crate::metrics::Metrics;
use crate::models::{Model, Resident};
use crate::trace::Span;
use crate::wire::ChoiceLikelihood;

/// Answers of a model to one request, in the order of [`Ask::submissions`].
pub struct Answers {
    pub model: Model,
    mailbox: Mailbox,
    /// What came before the answers were all taken in.
    early: std::collections::VecDeque<(usize, Reply)>,
    tickets: Vec<Ticket>,
    /// Those that are not over.
    open: usize,
    metrics: Arc<Metrics>,
    span: Option<Span>,
    /// Tokens of each prompt.
    pub prompt_tokens: Vec<usize>,
}

/// One answer when it is over.
#[derive(Debug)]
pub struct Whole {
    pub text: String,
    pub reasoning: String,
    pub calls: Vec<Call>,
    pub tokens: Vec<ChoiceLikelihood>,
    pub done: Done,
}

impl Answers {
    /// Asks the model, and waits until every answer waits or runs.
    ///
    /// # Errors
    /// When it cannot be asked so, or the queue is full.
    pub async fn open(app: &App, model: Model, ask: Ask, caller: Caller) -> Result<Self, Problem> {
        let metrics = Arc::clone(&app.metrics);
        let work = move || {
            let service = model.service()?;
            let mailbox = Mailbox::default();
            let Caller { number, span, .. } = caller;
            let submissions = ask.submissions(service, &model.adapters, number, &mailbox.pace())?;
            let (mut tickets, mut prompt_tokens) = (Vec::new(), Vec::new());
            for (choice, submission) in submissions.into_iter().enumerate() {
                prompt_tokens.push(submission.request.prompt.len());
                tickets.push(service.submit_to(submission, mailbox.listener(choice))?);
            }
            let (open, early) = (tickets.len(), std::collections::VecDeque::new());
            let model = model.clone();
            Ok::<_, Problem>(Self { model, mailbox, early, tickets, open, metrics, span, prompt_tokens })
        };
        let mut answers: Self = blocking(work).await??;
        let mut queued = 0;
        while queued < answers.tickets.len() {
            match poll_fn(|context| answers.mailbox.poll_next(context)).await {
                (_, Reply::Queued) => queued += 1,
                (_, Reply::Failed(error)) => return Err(error.into()),
                other => answers.early.push_back(other),
            }
        }
        Ok(answers)
    }

    /// What comes next, and of which answer; nothing when all are over.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<(usize, Reply)>> {
        if self.open == 0 {
            return Poll::Ready(None);
        }
        let next = match self.early.pop_front() {
            Some(early) => Poll::Ready(early),
            None => self.mailbox.poll_next(context),
        };
        if next.is_pending() && self.mailbox.has_caught_up() {
            self.tickets.iter().for_each(Ticket::resume);
        }
        match &next {
            Poll::Ready((_, Reply::Done(done))) => {
                self.open -= 1;
                self.metrics.done(done);
                self.span.iter().for_each(|span| span.answered(&self.model.name, done));
            }
            Poll::Ready((_, Reply::Failed(_))) => {
                self.open -= 1;
                self.span.iter().for_each(Span::failed);
            }
            Poll::Ready(_) | Poll::Pending => {}
        }
        next.map(Some)
    }

    /// Waits for the end of all.
    ///
    /// # Errors
    /// When one fails.
    pub async fn whole(mut self) -> Result<Vec<Whole>, Problem> {
        let mut parts: BTreeMap<usize, Part> = BTreeMap::new();
        while let Some((choice, reply)) = poll_fn(|context| self.poll_next(context)).await {
            parts.entry(choice).or_default().hear(reply, &self.model)?;
        }
        let whole = |part: Part| {
            let Part { text, reasoning, calls, tokens, done } = part;
            let done = done.ok_or_else(|| Problem::internal("an answer ended without an end"))?;
            Ok(Whole { text, reasoning, calls, tokens, done })
        };
        parts.into_values().map(whole).collect()
    }
}

/// An answer so far.
#[derive(Default)]
struct Part {
    text: String,
    reasoning: String,
    calls: Vec<Call>,
    tokens: Vec<ChoiceLikelihood>,
    done: Option<Done>,
}

impl Part {
    fn hear(&mut self, reply: Reply, model: &Resident) -> Result<(), Problem> {
        match reply {
            Reply::Queued | Reply::Prefill { .. } | Reply::CallEnd { .. } => {}
            Reply::Token { id, text, likelihood } => {
                self.text += &text;
                if let Some(told) = likelihood {
                    self.tokens.push(ChoiceLikelihood::of(model.tokenizer(), id, &told));
                }
            }
            Reply::Rest(text) => self.text += &text,
            Reply::Reasoning(text) => self.reasoning += &text,
            Reply::Call { id, name, .. } => self.calls.push(Call { id, name, arguments: String::new() }),
            Reply::Arguments { index, text } => {
                if let Some(call) = self.calls.get_mut(index as usize) {
                    call.arguments += &text;
                }
            }
            Reply::Done(done) => self.done = Some(done),
            Reply::Failed(error) => return Err(error.into()),
        }
        Ok(())
    }
}

/// Does work that takes longer than a thread of the network may take.
///
/// # Errors
/// When it panics.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Problem> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Problem::internal("reading the request failed"))
}
