//! A shelf for the simulation: what it holds is what the machine had there at the moment of keeping.

use std::collections::{BTreeMap, BTreeSet};

use crate::name::Name;
use crate::prefix::{Kept, Move};
use crate::schedule::{Beside, Found, Kind, Limits, Shelf};

use super::{Machine, Random, hash};

/// Ticks that something may be on its way.
const TICKS_MAX: u64 = 6;

type Key = (Kind, Name);

/// The shelf.
pub(super) struct Outside {
    random: Random,
    held: BTreeMap<Key, Vec<u64>>,
    /// The ticks until each comes.
    coming: BTreeMap<Key, u64>,
    at_hand: BTreeSet<Key>,
    /// Whether things are carried out behind a step, and not only before the next one.
    at_once: bool,
}

impl Outside {
    /// The shelf of a seed: none, one that is told at once, one that is told what is forgotten, or both.
    pub(super) fn new(seed: u64, limits: &mut Limits) -> Self {
        let mut random = Random(hash(seed + 77_777));
        let [keeps, spills] = [random.one_in(3), random.one_in(4)];
        limits.beside = Beside { keeps, spills, restores: keeps || spills };
        let at_once = random.one_in(2);
        Self { random, held: BTreeMap::new(), coming: BTreeMap::new(), at_hand: BTreeSet::new(), at_once }
    }

    pub(super) fn at_once(&self) -> bool {
        self.at_once
    }

    /// Whether something is on its way.
    pub(super) fn is_busy(&self) -> bool {
        !self.coming.is_empty()
    }

    /// Does what is to be done to pages and slots.
    pub(super) fn carry(&mut self, next: &Move, machine: &mut Machine) -> Result<(), String> {
        match next {
            &Move::CopyState { from, to } => machine.states[to as usize] = machine.states[from as usize],
            Move::LoadPage { page, name } => {
                let content = self.taken((Kind::Page, *name))?;
                machine.page_mut(*page).copy_from_slice(&content);
            }
            Move::LoadState { slot, name } => machine.states[*slot as usize] = self.taken((Kind::State, *name))?[0],
            Move::KeepPage(kept) | Move::SpillPage(kept) => {
                let content = machine.page_mut(kept.at).to_vec();
                self.keep(Kind::Page, kept, content);
            }
            Move::KeepState(kept) | Move::SpillState(kept) => {
                self.keep(Kind::State, kept, vec![machine.states[kept.at as usize]]);
            }
            Move::Used(names) => {
                if names.iter().collect::<BTreeSet<_>>().len() != names.len() {
                    return Err(format!("names that are used twice: {names:?}"));
                }
            }
        }
        Ok(())
    }

    /// From now on something is held under the name of another; whether there is another.
    pub(super) fn confuse(&mut self, kind: Kind, name: Name) -> bool {
        let own = self.held.get(&(kind, name)).cloned();
        let others = self.held.iter().find(|((other, _), content)| *other == kind && Some(*content) != own.as_ref());
        let Some(wrong) = others.map(|(_, content)| content.clone()) else { return false };
        self.held.insert((kind, name), wrong);
        true
    }

    fn taken(&self, key: Key) -> Result<Vec<u64>, String> {
        if !self.at_hand.contains(&key) {
            return Err(format!("{key:?} is loaded and was not at hand"));
        }
        Ok(self.held[&key].clone())
    }

    /// Keeps something, if it has room for it. The same name is the same content.
    fn keep(&mut self, kind: Kind, kept: &Kept, content: Vec<u64>) {
        assert_eq!(kept.before.then(&kept.tokens), kept.name, "a name is of the tokens");
        if !self.random.one_in(8) {
            self.held.entry((kind, kept.name)).or_insert(content);
        }
    }
}

impl Shelf for Outside {
    /// What is on its way comes nearer, or is lost; what nobody took is put back.
    fn turn(&mut self) {
        self.at_hand.clear();
        let random = &mut self.random;
        let (held, at_hand) = (&mut self.held, &mut self.at_hand);
        self.coming.retain(|key, ticks| {
            *ticks -= 1;
            if *ticks == 0 {
                if random.one_in(12) {
                    held.remove(key);
                } else {
                    at_hand.insert(*key);
                }
            }
            *ticks > 0
        });
    }

    fn holds(&self, kind: Kind, name: &Name) -> bool {
        self.held.contains_key(&(kind, *name))
    }

    fn find(&mut self, kind: Kind, name: &Name, _: &[u32]) -> Found {
        let key = (kind, *name);
        if self.at_hand.contains(&key) {
            return Found::AtHand;
        }
        if !self.held.contains_key(&key) {
            return Found::Missing;
        }
        let ticks = self.random.within(0, TICKS_MAX);
        if ticks == 0 && !self.coming.contains_key(&key) {
            self.at_hand.insert(key);
            return Found::AtHand;
        }
        self.coming.entry(key).or_insert(ticks.max(1));
        Found::Coming
    }

    fn expect(&mut self, kind: Kind, name: &Name, tokens: &[u32]) -> bool {
        self.random.one_in(2) && self.find(kind, name, tokens) != Found::Missing
    }
}
