//! What the model really wrote for its calls, so that a conversation that comes back is the one that is in the cache.
//!
//! A client gets a call as a name and JSON, and sends that back; the template writes it in its own way, without what the model
//! thought, with other white space, with keys in another order. So tokens that were computed would be computed again, and the model
//! would read other words than it wrote. Here the tokens are kept, by a fingerprint of the conversation up to and with the call
//! and its id; whoever changes anything of it gets what the template makes of it.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::sync::Arc;

use kauri_prompt::template::Json;

use crate::chat::{Chat, Message, object};

/// The most tokens that are kept, all conversations together: 64 MiB.
const TOKENS_MAX: usize = 16 << 20;

/// Records by the fingerprint of their conversation.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    records: HashMap<Fingerprint, Arc<Record>>,
    /// The oldest first.
    order: VecDeque<Fingerprint>,
    tokens: usize,
}

/// A conversation up to and with the calls of a message, as the model saw and wrote it.
#[derive(Debug)]
pub(crate) struct Record {
    /// The record of an earlier message of the same conversation, which this one begins with.
    before: Option<Arc<Self>>,
    tokens: Vec<u32>,
}

/// Of a conversation; keyed anew in each process, so that nobody can make two that are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Fingerprint(u64, u64);

/// Makes fingerprints.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keys(RandomState, RandomState);

impl Record {
    /// `tokens` is the whole prompt and what was written; what `before` holds is kept once.
    pub(crate) fn new(before: Option<Arc<Self>>, tokens: &[u32]) -> Self {
        let known = before.as_ref().map_or(0, |before| before.len());
        Self { before, tokens: tokens[known.min(tokens.len())..].to_vec() }
    }

    /// The whole conversation.
    pub(crate) fn all(&self) -> Vec<u32> {
        let mut chain = vec![self];
        while let Some(before) = &chain[chain.len() - 1].before {
            chain.push(before);
        }
        chain.iter().rev().flat_map(|record| record.tokens.iter().copied()).collect()
    }

    fn len(&self) -> usize {
        let mut length = 0;
        let mut record = Some(self);
        while let Some(one) = record {
            length += one.tokens.len();
            record = one.before.as_deref();
        }
        length
    }
}

impl Drop for Record {
    /// A long conversation is a long chain: it is taken apart here and not by recursion.
    fn drop(&mut self) {
        let mut before = self.before.take();
        while let Some(mut record) = before.and_then(Arc::into_inner) {
            before = record.before.take();
        }
    }
}

impl Replay {
    pub(crate) fn get(&self, fingerprint: Fingerprint) -> Option<Arc<Record>> {
        self.records.get(&fingerprint).cloned()
    }

    /// Keeps a record, and lets go of the oldest where there are too many.
    pub(crate) fn keep(&mut self, fingerprint: Fingerprint, record: Record) {
        self.tokens += record.tokens.len();
        if let Some(old) = self.records.insert(fingerprint, Arc::new(record)) {
            self.tokens -= old.tokens.len();
        } else {
            self.order.push_back(fingerprint);
        }
        while self.tokens > TOKENS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            if let Some(old) = self.records.remove(&oldest) {
                // What later records begin with stays as long as they do; it is counted no more, and there is less of it.
                self.tokens -= old.tokens.len();
            }
        }
    }
}

impl Keys {
    /// Fingerprints of the conversation before its first message, behind its first, and so on.
    pub(crate) fn of(&self, chat: &Chat) -> Vec<Fingerprint> {
        let mut variables: Vec<_> = chat.variables.iter().collect();
        variables.sort_by_key(|(name, _)| *name);
        let tools = chat.tools.as_ref().map(|tools| format!("{:?}", tools.list()));
        let first = self.hash(|hasher| {
            tools.hash(hasher);
            variables.len().hash(hasher);
            variables.iter().for_each(|(name, value)| (name, format!("{value:?}")).hash(hasher));
        });
        let mut all = vec![first];
        for message in chat.messages() {
            all.push(self.after(all[all.len() - 1], message));
        }
        all
    }

    /// The fingerprint of a conversation that goes on with a message.
    pub(crate) fn after(&self, before: Fingerprint, message: &Message) -> Fingerprint {
        let calls: Vec<Json> = message
            .calls
            .iter()
            .map(|call| {
                let arguments = sorted(&call.arguments_json());
                object([("id", call.id.as_str().into()), ("name", call.name.as_str().into()), ("arguments", arguments)])
            })
            .collect();
        let calls = format!("{calls:?}");
        self.hash(|hasher| {
            (before, &message.role, &message.content, &message.call_id, &calls).hash(hasher);
        })
    }

    fn hash(&self, write: impl Fn(&mut DefaultHasher)) -> Fingerprint {
        let one = |keys: &RandomState| {
            let mut hasher = keys.build_hasher();
            write(&mut hasher);
            hasher.finish()
        };
        Fingerprint(one(&self.0), one(&self.1))
    }
}

/// The same value with the keys of objects in order: clients that read a call and write it again may change that.
fn sorted(json: &Json) -> Json {
    match json {
        Json::Object(members) => {
            let mut members: Vec<_> = members.iter().map(|(key, value)| (key.clone(), sorted(value))).collect();
            members.sort_by(|a, b| a.0.cmp(&b.0));
            Json::Object(members.into_iter().collect())
        }
        Json::Array(items) => Json::Array(items.iter().map(sorted).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_holds_each_token_once_and_the_oldest_goes_first() {
        let keys = Keys::default();
        let mut chat = Chat::new();
        let mut replay = Replay::default();
        let mut before = None;
        let mut tokens: Vec<u32> = Vec::new();
        let mut prints = Vec::new();
        for turn in 0..100_u32 {
            chat.push("user", &turn.to_string());
            tokens.extend(turn * 10..turn * 10 + 10);
            let print = *keys.of(&chat).last().unwrap();
            replay.keep(print, Record::new(before.take(), &tokens));
            before = replay.get(print);
            prints.push(print);
        }
        assert_eq!(replay.tokens, 1000);
        assert_eq!(replay.get(prints[99]).unwrap().all(), tokens);
        assert_eq!(replay.get(prints[49]).unwrap().all(), tokens[..500]);
        let large = vec![7; TOKENS_MAX - 500];
        replay.keep(Fingerprint(0, 0), Record::new(None, &large));
        assert!(replay.get(prints[49]).is_none() && replay.get(prints[50]).is_some());
        assert_eq!(replay.get(prints[99]).unwrap().all(), tokens);
    }

    #[test]
    fn anything_that_differs_is_another_conversation() {
        let keys = Keys::default();
        let call = |id: &str, arguments: &str| Message {
            role: "assistant".to_owned(),
            calls: vec![Call { id: id.to_owned(), name: "f".to_owned(), arguments: arguments.to_owned() }],
            ..Message::default()
        };
        let print = |system: &str, message: Message| {
            let mut chat = Chat::new();
            chat.push("system", system);
            chat.add(message);
            *keys.of(&chat).last().unwrap()
        };
        let first = print("a", call("1", r#"{"x": 1, "y": [2]}"#));
        assert_eq!(first, print("a", call("1", r#"{"y":[2],"x":1}"#)));
        assert_ne!(first, print("b", call("1", r#"{"x": 1, "y": [2]}"#)));
        assert_ne!(first, print("a", call("2", r#"{"x": 1, "y": [2]}"#)));
        assert_ne!(first, print("a", call("1", r#"{"x": 2, "y": [2]}"#)));
    }

    use crate::chat::Call;
}
