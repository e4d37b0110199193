//! A layout as a list of steps with the places where the text decides how it goes on.

use super::literal::Dialect;
use super::{Keys, Layout, Marks, Part};

/// The steps of a section of calls, from the mark that opens it.
#[derive(Debug)]
pub(in crate::tools) struct Program {
    pub ops: Vec<Op>,
    /// Texts that may begin a section, and where each leads.
    pub triggers: Vec<Branch>,
    /// Where an answer begins, if calls may stand there without a mark.
    pub first: Option<usize>,
    /// What ends a call that went wrong, and where to go from there.
    pub ends: Option<(&'static str, usize)>,
    pub id: Option<&'static str>,
}

/// A step.
#[derive(Debug)]
pub(in crate::tools) enum Op {
    Text(&'static str),
    Space,
    Name,
    Number(&'static str),
    Skip(&'static str),
    Arguments(Dialect),
    Envelope(&'static Keys),
    Parameters(&'static Marks),
    /// The way that the text takes, white space before it left out.
    Fork(Vec<Branch>),
    CallEnd,
    SectionEnd,
}

/// A way to go on.
#[derive(Clone, Debug)]
pub(in crate::tools) struct Branch {
    /// The text that it begins with; nothing where it is taken when no other is.
    pub text: &'static str,
    /// Whether the text is still to be read there.
    pub peeks: bool,
    pub to: usize,
}

impl Program {
    pub(in crate::tools) fn new(layout: &Layout) -> Self {
        let mut ops = Vec::new();
        push(&mut ops, layout.open);
        let fork = ops.len();
        ops.push(Op::Fork(Vec::new()));
        let mut starts = Vec::new();
        let mut call_ends = Vec::new();
        for call in layout.calls {
            starts.push(branch(call, ops.len()));
            push(&mut ops, call);
            call_ends.push(ops.len());
            ops.push(Op::CallEnd);
            // Filled in below, when it is known what lies where.
            ops.push(Op::Fork(Vec::new()));
        }
        let mut closes = Vec::new();
        if !layout.close.is_empty() {
            closes.push(branch(layout.close, ops.len()));
            push(&mut ops, layout.close);
        }
        let end = ops.len();
        ops.push(Op::SectionEnd);
        if closes.is_empty() {
            closes.push(Branch { text: "", peeks: false, to: end });
        }
        let mut nexts = starts.clone();
        // White space alone decides nothing.
        if layout.between.iter().any(|part| matches!(part, Part::Text(_))) {
            nexts = vec![branch(layout.between, ops.len())];
            push(&mut ops, layout.between);
            ops.push(Op::Fork(starts.clone()));
        }
        // Where calls open by themselves, text may stand between them: the next is found by its mark.
        let is_section = !layout.close.is_empty() || !layout.between.is_empty();
        let follow = if is_section { [nexts, closes.clone()].concat() } else { closes.clone() };
        for at in &call_ends {
            ops[at + 1] = Op::Fork(follow.clone());
        }
        let has_close = !layout.close.is_empty();
        ops[fork] = Op::Fork(if has_close { [starts.clone(), closes].concat() } else { starts.clone() });
        let triggers = triggers(layout, &starts);
        let last = layout.calls.first().and_then(|call| call.last());
        let ends = match (last, layout.close.last()) {
            (Some(&Part::Text(text)), _) => call_ends.first().map(|at| (text, at + 1)),
            (_, Some(&Part::Text(text))) if text.len() > 1 => Some((text, end)),
            _ => None,
        };
        Self { ops, triggers, first: layout.first.then_some(fork), ends, id: layout.id }
    }
}

/// What the text between calls is watched for.
fn triggers(layout: &Layout, starts: &[Branch]) -> Vec<Branch> {
    if let Some(&Part::Text(text)) = layout.open.first() {
        return vec![Branch { text, peeks: false, to: 1 }];
    }
    starts.iter().filter(|start| !start.peeks && !start.text.is_empty()).cloned().collect()
}

/// The way that begins with these parts, the first of which is at `to`.
fn branch(parts: &[Part], to: usize) -> Branch {
    match parts.first() {
        Some(&Part::Text(text)) => Branch { text, peeks: false, to: to + 1 },
        Some(Part::Envelope(_)) => Branch { text: "{", peeks: true, to },
        Some(Part::Space(_)) => branch(&parts[1..], to + 1),
        _ => Branch { text: "", peeks: false, to },
    }
}

fn push(ops: &mut Vec<Op>, parts: &[Part]) {
    ops.extend(parts.iter().map(|part| match *part {
        Part::Text(text) => Op::Text(text),
        Part::Space(_) => Op::Space,
        Part::Name => Op::Name,
        Part::Number(end) => Op::Number(end),
        Part::Skip(_, end) => Op::Skip(end),
        Part::Arguments(dialect) => Op::Arguments(dialect),
        Part::Envelope(keys) => Op::Envelope(keys),
        Part::Parameters(marks) => Op::Parameters(marks),
    }));
}
