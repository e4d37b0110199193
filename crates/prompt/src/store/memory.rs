//! Pages and states in memory: what was used longest ago makes way.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::{Content, Key};

/// Contents up to a limit in bytes.
pub(super) struct Memory {
    bytes_max: u64,
    bytes: u64,
    held: HashMap<Key, Held>,
    /// By last use.
    order: BTreeMap<u64, Key>,
    clock: u64,
}

struct Held {
    content: Arc<Content>,
    tokens: Box<[u32]>,
    used: u64,
}

impl Memory {
    pub(super) fn new(bytes_max: u64) -> Self {
        Self { bytes_max, bytes: 0, held: HashMap::new(), order: BTreeMap::new(), clock: 0 }
    }

    pub(super) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether so many bytes fit at all.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        bytes as u64 <= self.bytes_max
    }

    pub(super) fn holds(&self, key: &Key) -> bool {
        self.held.contains_key(key)
    }

    /// What is held under this key, if it is of these tokens; used from now on.
    pub(super) fn get(&mut self, key: &Key, tokens: &[u32]) -> Option<Arc<Content>> {
        let held = self.held.get_mut(key).filter(|held| *held.tokens == *tokens)?;
        self.clock += 1;
        self.order.remove(&held.used);
        self.order.insert(self.clock, *key);
        held.used = self.clock;
        Some(Arc::clone(&held.content))
    }

    /// Holds one more; what was used longest ago makes way.
    pub(super) fn insert(&mut self, key: Key, tokens: &[u32], content: Arc<Content>) {
        if !self.has_room(content.len()) {
            return;
        }
        self.remove(&key);
        self.clock += 1;
        self.bytes += content.len() as u64;
        self.order.insert(self.clock, key);
        self.held.insert(key, Held { content, tokens: tokens.into(), used: self.clock });
        while self.bytes > self.bytes_max {
            let (_, &oldest) = self.order.first_key_value().expect("what is held has its order");
            self.remove(&oldest);
        }
    }

    fn remove(&mut self, key: &Key) {
        if let Some(held) = self.held.remove(key) {
            self.bytes -= held.content.len() as u64;
            self.order.remove(&held.used);
        }
    }
}
