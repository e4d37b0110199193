//! A conversation with a model whose layers keep a state: what was computed is gone on with, or computed anew, and never taken
//! back to an earlier token.

use std::ops::ControlFlow;
use std::path::Path;

use kauri_engine::{Engine, Options, Request, Sampling};

fn engine() -> Engine {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/families/lfm2");
    let options = Options { threads: Some(2), batch_tokens: 16, context_tokens: Some(256), ..Options::default() };
    Engine::load(path.to_str(), &options).expect("the golden loads")
}

/// Answers `prompt` greedily and gives the tokens of prompt and answer, and how many of the prompt were kept.
fn answer(session: &mut kauri_engine::Session<'_>, prompt: &[u32]) -> (Vec<u32>, usize) {
    let request = Request {
        prompt: prompt.to_vec(),
        sampling: Sampling { temperature: 0.0, ..Sampling::default() },
        stops: Vec::new(),
        max_tokens: Some(9),
        ..Request::default()
    };
    let done = session.generate(&request, |_| ControlFlow::Continue(())).expect("an answer");
    (session.tokens().to_vec(), done.cached_tokens)
}

#[test]
fn a_prompt_that_goes_on_keeps_the_state_and_any_other_starts_over() {
    let first: Vec<u32> = (0..40).map(|index| 5 + index * 37 % 400).collect();
    let mut alone = engine();
    let (written, _) = answer(&mut alone.session(), &first);
    let longer = [&written[..], &[7, 8, 9]].concat();
    let other = [&first[..30], &[11, 12]].concat();
    let expected: Vec<_> = [&longer, &other].map(|prompt| answer(&mut engine().session(), prompt).0).into();

    let mut shared = engine();
    let mut session = shared.session();
    assert_eq!(answer(&mut session, &first), (written.clone(), 0));
    assert_eq!(answer(&mut session, &longer), (expected[0].clone(), written.len()), "an extension keeps what there is");
    assert_eq!(answer(&mut session, &other), (expected[1].clone(), 0), "another end starts over");
    assert_eq!(answer(&mut session, &first[..20]).1, 0, "a beginning starts over");
    assert_eq!(answer(&mut session, &first), (written, 0), "and so does the same again");
}
