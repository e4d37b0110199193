//! The containers of a render: Python's list, tuple and dict as templates know them, each with its own measure, so that
//! no template can build a value too deep to drop or too large to print. A value shared many times counts many times.
//! Knows what a value is; what can be done with it is in the other files.

use super::budget::{Budget, failed, is_engine_object, limit};
use super::json::{Json, Object as JsonObject};
use super::methods;
use super::text::{Text, clean};
use indexmap::IndexMap;
use minijinja::value::{Enumerator, Object, ObjectRepr, Value};
use minijinja::{Error, State};
use std::sync::Arc;

/// The deepest a value may be nested, twice what a conversation may be.
pub(super) const VALUE_DEPTH_MAX: u32 = 128;

/// How large a value is with everything in it, shared parts counted each time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Measure {
    pub bytes: u64,
    pub depth: u32,
}

/// A list or a tuple.
#[derive(Debug)]
pub(super) struct List {
    pub items: Vec<Value>,
    pub is_tuple: bool,
    measure: Measure,
}

/// A dict, in the order of insertion.
#[derive(Debug)]
pub(super) struct Map {
    /// By key: the key as the value it was given as (a string may carry marks), and the value.
    pub entries: IndexMap<Key, (Value, Value)>,
    measure: Measure,
}

/// A key of a dict. Python's `1`, `1.0` and `True` are one key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    Text(String),
    Integer(i128),
    Float(u64),
    None,
}

/// The digits of an integer over 128 bits: it can be printed and passed on, nothing else.
#[derive(Debug)]
pub(super) struct LongInteger(pub String);

impl Object for LongInteger {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }
}

impl Object for List {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.items.get(key.as_usize()?).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.items.len())
    }

    fn call_method(self: &Arc<Self>, state: &mut State<'_, '_>, method: &str, args: &[Value]) -> Result<Value, Error> {
        methods::list_method(state, self, method, args)
    }
}

impl Object for Map {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.get(&Key::new(key)?)
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        self.get(&Key::Text(key.to_owned()))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.entries.values().map(|(key, _)| key.clone()).collect())
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.entries.len())
    }

    fn call_method(self: &Arc<Self>, state: &mut State<'_, '_>, method: &str, args: &[Value]) -> Result<Value, Error> {
        methods::map_method(state, self, method, args)
    }
}

impl Map {
    pub fn get(&self, key: &Key) -> Option<Value> {
        self.entries.get(key).map(|(_, value)| value.clone())
    }

    pub fn keys(&self) -> Vec<Value> {
        self.entries.values().map(|(key, _)| key.clone()).collect()
    }

    pub fn values(&self) -> Vec<Value> {
        self.entries.values().map(|(_, value)| value.clone()).collect()
    }
}

impl Key {
    /// The key that a value is, or `None` where Python calls it unhashable.
    pub fn new(value: &Value) -> Option<Self> {
        if let Some(text) = value.as_str() {
            return Some(Self::Text(clean(text).into_owned()));
        }
        if value.is_none() {
            return Some(Self::None);
        }
        match Number::of(value)? {
            Number::Integer(integer) => Some(Self::Integer(integer)),
            Number::Float(float) if float.fract() == 0.0 && float.abs() < 1e30 => Some(Self::Integer(float as i128)),
            Number::Float(float) => Some(Self::Float(float.to_bits())),
        }
    }
}

/// A number; Python's booleans are numbers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Number {
    Integer(i128),
    Float(f64),
}

impl Number {
    pub fn of(value: &Value) -> Option<Self> {
        if let Some(flag) = as_bool(value) {
            return Some(Self::Integer(i128::from(flag)));
        }
        if value.is_integer() {
            return i128::try_from(value.clone()).ok().map(Self::Integer);
        }
        if value.is_number() {
            return f64::try_from(value.clone()).ok().map(Self::Float);
        }
        None
    }

    pub fn as_float(self) -> f64 {
        match self {
            Self::Integer(integer) => integer as f64,
            Self::Float(float) => float,
        }
    }
}

/// The flag, when the value is one (and not a number that equals one).
pub(super) fn as_bool(value: &Value) -> Option<bool> {
    (value.kind() == minijinja::value::ValueKind::Bool).then(|| value.is_true())
}

pub(super) fn as_list(value: &Value) -> Option<&List> {
    value.downcast_object_ref()
}

pub(super) fn as_map(value: &Value) -> Option<&Map> {
    value.downcast_object_ref()
}

/// The size with everything in it.
pub(super) fn measure(value: &Value) -> Measure {
    if let Some(list) = as_list(value) {
        list.measure
    } else if let Some(map) = as_map(value) {
        map.measure
    } else {
        Measure { bytes: shallow_bytes(value), depth: 0 }
    }
}

/// The size without what the items hold: what it costs to read or copy the value once.
pub(super) fn shallow_bytes(value: &Value) -> u64 {
    const SLOT_BYTES: usize = 24;
    let bytes = if let Some(text) = value.as_str() {
        text.len()
    } else if let Some(list) = as_list(value) {
        list.items.len() * SLOT_BYTES
    } else if let Some(map) = as_map(value) {
        map.entries.len() * 4 * SLOT_BYTES
    } else if let Some(digits) = value.downcast_object_ref::<LongInteger>() {
        digits.0.len()
    } else {
        0
    };
    (SLOT_BYTES + bytes) as u64
}

/// Makes a list.
pub(super) fn list(budget: &Budget, items: Vec<Value>) -> Result<Value, Error> {
    sequence(budget, items, false)
}

/// Makes a tuple.
pub(super) fn tuple(budget: &Budget, items: Vec<Value>) -> Result<Value, Error> {
    sequence(budget, items, true)
}

pub(super) fn sequence(budget: &Budget, mut items: Vec<Value>, is_tuple: bool) -> Result<Value, Error> {
    for item in &mut items {
        settle(budget, item)?;
    }
    let measure = contain(budget, items.iter())?;
    Ok(Value::from_object(List { items, is_tuple, measure }))
}

/// Makes a dict from keys and values; a repeated key keeps its first place and its last value.
pub(super) fn map(budget: &Budget, pairs: impl IntoIterator<Item = (Value, Value)>) -> Result<Value, Error> {
    let mut entries = IndexMap::new();
    for (name, mut value) in pairs {
        settle(budget, &mut value)?;
        let key = Key::new(&name).ok_or_else(|| failed("a list or dict cannot be the key of a dict"))?;
        let entry = entries.entry(key).or_insert((name, Value::UNDEFINED));
        entry.1 = value;
    }
    let parts = entries.values().flat_map(|(key, value)| [key, value]);
    let measure = contain(budget, parts)?;
    Ok(Value::from_object(Map { entries, measure }))
}

/// Measures a container of `items` and pays for its making.
fn contain<'a>(budget: &Budget, items: impl Iterator<Item = &'a Value>) -> Result<Measure, Error> {
    let mut total = Measure { bytes: 24, depth: 0 };
    let mut count = 0;
    for item in items {
        let item = measure(item);
        total.bytes = total.bytes.saturating_add(item.bytes);
        total.depth = total.depth.max(item.depth);
        count += 1;
    }
    total.depth += 1;
    if total.depth > VALUE_DEPTH_MAX {
        return Err(limit("value depth", u64::from(VALUE_DEPTH_MAX)));
    }
    budget.within_value(total.bytes)?;
    budget.work(24 * (count + 1))?;
    Ok(total)
}

/// Readies a value for being held by another. A namespace that is held could hold its holder, and then could neither be
/// measured nor freed: what is held is a dict of what it has now. A loop or an iterator cannot be held at all.
pub(super) fn settle(budget: &Budget, value: &mut Value) -> Result<(), Error> {
    if as_list(value).is_some() || as_map(value).is_some() {
        return Ok(());
    }
    let Some(object) = value.as_object().filter(|_| is_engine_object(value)) else {
        return Ok(());
    };
    if !object.type_name().ends_with("::Namespace") {
        return Err(failed("a loop or an iterator cannot be kept in a list, dict or namespace"));
    }
    let members: Vec<_> = object.try_iter_pairs().into_iter().flatten().collect();
    *value = map(budget, members)?;
    Ok(())
}

/// What of a conversation may be the template's own words.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The conversation's: every string is marked.
    User,
    /// The model's (`bos_token` and its like).
    Model,
}

/// The template value of a JSON value.
pub(super) fn from_json(budget: &Budget, json: &Json, origin: Origin) -> Result<Value, Error> {
    Ok(match json {
        Json::Null => Value::from(()),
        Json::Bool(flag) => Value::from(*flag),
        Json::Integer(integer) => from_integer(*integer),
        Json::LongInteger(digits) => Value::from_object(LongInteger(digits.clone())),
        Json::Float(float) => Value::from(*float),
        Json::String(text) => from_text(text, origin),
        Json::Array(items) => {
            let items = items.iter().map(|item| from_json(budget, item, origin)).collect::<Result<_, _>>()?;
            list(budget, items)?
        }
        Json::Object(members) => from_members(budget, members, origin)?,
    })
}

fn from_members(budget: &Budget, members: &JsonObject, origin: Origin) -> Result<Value, Error> {
    let mut pairs = Vec::with_capacity(members.len());
    for (key, value) in members {
        pairs.push((from_text(key, origin), from_json(budget, value, origin)?));
    }
    map(budget, pairs)
}

pub(super) fn from_text(text: &str, origin: Origin) -> Value {
    Value::from(match origin {
        Origin::User => Text::user(text).encode(),
        Origin::Model => Text::own(text).encode(),
    })
}

pub(super) fn from_integer(integer: i128) -> Value {
    i64::try_from(integer).map_or_else(|_| Value::from(integer), Value::from)
}
