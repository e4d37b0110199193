//! The models that there are, and those that are loaded: by name, when they are asked for, as many as may be at a time.
//!
//! A model that is let go of is out of the table at once and ends when the last answer that it writes is over. The one that is asked for is
//! loaded before another goes, so that a load that fails costs nobody anything.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use kauri_engine::{
    AdapterFile, Applied, DEFAULT_NAME, Engine, Inspection, Options, Remembering, Service, Serving, Status, Tokenizer,
};
use tokio::sync::{OnceCell, watch};

use crate::answers::blocking;
use crate::desk::Desk;
use crate::error::Problem;
use crate::wire::now_s;

/// The longest name that is looked for.
const NAME_BYTES_MAX: usize = 256;
/// Seconds after which a model that could not be loaded may be asked for again.
const LOAD_RETRY_S: u32 = 5;

/// A model that can be had by its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// What requests call it.
    pub name: String,
    /// What the engine loads.
    pub source: String,
    /// The adapters that go with it, in the order of their numbers.
    pub adapters: Vec<AdapterFile>,
}

/// How models are loaded and served.
#[derive(Clone)]
pub struct Loading {
    /// The engine's sizes.
    pub options: Options,
    /// The rules of its service.
    pub serving: Serving,
    /// What outlives its cache.
    pub remembering: Remembering,
    /// Most models that are loaded at a time.
    pub loaded_max: usize,
    /// A model that nobody asks for so long is let go of; none is where unset.
    pub idle_time_max: Option<Duration>,
}

/// A model as a request asks for it.
#[derive(Clone)]
pub struct Model {
    resident: Arc<Resident>,
    /// Its name, or that of the adapter that was asked for.
    pub name: String,
    /// What a request has of its adapters that says nothing of them.
    pub adapters: Vec<Applied>,
}

/// A model that is loaded.
pub struct Resident {
    pub name: String,
    /// Whether it writes text.
    writes: bool,
    /// Gone while it is dropped, which takes a step of the engine and is not for a thread of the network.
    service: Option<Service>,
    source: String,
    adapters: Vec<AdapterFile>,
    options: Options,
    /// Made when it is first asked to read.
    desk: OnceCell<Desk>,
}

/// The models of a server.
pub struct Models {
    loading: Loading,
    slots: Mutex<Vec<Slot>>,
    /// Held by who loads: one at a time.
    turn: tokio::sync::Mutex<()>,
    /// Says that something has become of a model.
    changes: watch::Sender<()>,
}

/// A model that can be had.
#[derive(Clone)]
pub struct Known {
    pub entry: Entry,
    /// What is in its file.
    pub facts: Arc<Inspection>,
    /// Seconds since 1970 when it was found.
    pub found_s: u64,
}

/// A model, and whether it is loaded.
struct Slot {
    known: Known,
    resident: Option<Arc<Resident>>,
    /// How much of it is in memory, in hundredths, while it is loaded.
    loading: Option<Arc<AtomicU32>>,
    failure: Option<String>,
    asked: Option<Instant>,
    /// How long it stays when nobody asks, where a client said so.
    keep: Option<Keep>,
    /// How much of each adapter requests have that say nothing.
    scales: Vec<f32>,
}

/// How long a model stays when nobody asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    For(Duration),
    Forever,
}

/// What becomes of a model, in a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    Unloaded,
    Loading { percent: u32 },
    Loaded,
    Failed(String),
}

impl Entry {
    /// From a word of the command line: a name or path, or `NAME=PATH`.
    ///
    /// # Errors
    /// When the name is none.
    pub fn parse(word: &str) -> Result<Self, String> {
        let (name, source) = match word.split_once('=') {
            Some((name, source)) => (name.to_owned(), source),
            None => (name_of(word), word),
        };
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || "._-:/".contains(letter);
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(is_name) || name.contains("..") {
            return Err(format!(
                "{name:?} cannot be a model's name: give letters, digits and . _ - : / only, as in small=path/of/model.gguf"
            ));
        }
        Ok(Self { name, source: source.to_owned(), adapters: Vec::new() })
    }
}

/// The last part of a path, without `.gguf`.
fn name_of(word: &str) -> String {
    let path = std::path::Path::new(word);
    let full = std::fs::canonicalize(path).ok();
    let path = full.as_deref().filter(|_| word != DEFAULT_NAME).unwrap_or(path);
    let name = path.file_name().map_or_else(|| word.to_owned(), |name| name.to_string_lossy().into_owned());
    name.strip_suffix(".gguf").map(str::to_owned).unwrap_or(name).replace(' ', "-")
}

/// Those of `others` that are not among `entries`, neither by name nor by file, each once.
fn beside<'a>(entries: &'a [Entry], others: &'a [Entry]) -> Vec<&'a Entry> {
    let mut all: Vec<&Entry> = entries.iter().collect();
    for other in others {
        if !all.iter().any(|entry| entry.name == other.name || entry.source == other.source) {
            all.push(other);
        }
    }
    all.split_off(entries.len())
}

impl Models {
    /// Looks into all files and loads the first of `entries`, as many as may be loaded at a time; of `others` those that cannot be read are
    /// left out.
    ///
    /// # Errors
    /// The model that cannot be read or loaded, and why.
    pub fn open(
        entries: &[Entry],
        others: &[Entry],
        loading: Loading,
    ) -> Result<Self, Box<(Entry, kauri_engine::Error)>> {
        let look = |entry: &Entry| Slot::find(entry).map_err(|error| Box::new((entry.clone(), error)));
        let mut slots = entries.iter().map(look).collect::<Result<Vec<Slot>, _>>()?;
        for slot in slots.iter_mut().take(loading.loaded_max) {
            let resident = Resident::load(&slot.known, &loading, None);
            let resident = resident.map_err(|error| Box::new((slot.known.entry.clone(), error)))?;
            (slot.resident, slot.asked) = (Some(Arc::new(resident)), Some(Instant::now()));
        }
        slots.extend(beside(entries, others).into_iter().filter_map(|entry| Slot::find(entry).ok()));
        let (changes, turn) = (watch::Sender::new(()), tokio::sync::Mutex::default());
        Ok(Self { loading, slots: Mutex::new(slots), turn, changes })
    }

    /// Makes these the models that there are, with those of `others` that can be read. Those that there were already stay as they are; what is
    /// loaded and is not among them writes its answers to their end. Where one of `entries` cannot be read, nothing changes.
    ///
    /// # Errors
    /// The name of the model that cannot be read, and why.
    pub fn replace(&self, entries: &[Entry], others: &[Entry]) -> Result<(), Box<(String, kauri_engine::Error)>> {
        let is_new = |entry: &&Entry| !self.slots().iter().any(|slot| slot.known.entry == **entry);
        let look = |entry: &Entry| Slot::find(entry).map_err(|error| Box::new((entry.name.clone(), error)));
        let mut found = entries.iter().filter(is_new).map(look).collect::<Result<Vec<Slot>, _>>()?;
        let others = beside(entries, others);
        found.extend(others.iter().copied().filter(is_new).filter_map(|entry| Slot::find(entry).ok()));
        let mut slots = self.slots();
        found.append(&mut slots);
        let place = |entry: &Entry| found.iter().position(|slot| slot.known.entry == *entry);
        let places: Vec<usize> = entries.iter().chain(others).filter_map(place).collect();
        let mut found: Vec<Option<Slot>> = found.into_iter().map(Some).collect();
        *slots = places.into_iter().filter_map(|place| found[place].take()).collect();
        drop(slots);
        self.tell();
        Ok(())
    }

    /// The model that a request names, or the one of the adapter that it names, loaded. A name that nobody knows is answered by the model that is loaded, where there is but one:
    /// many clients always say the same.
    ///
    /// # Errors
    /// 404 with the names that there are; 503 where it cannot be loaded.
    pub async fn get(&self, name: Option<&str>) -> Result<Model, Problem> {
        let adapter = name.and_then(|name| find_adapter(&self.slots(), name));
        let Some((model, number, file)) = adapter else {
            let resident = self.resident(name).await?;
            let name = resident.name.clone();
            let slots = self.slots();
            let adapters = find(&slots, &name).map_or_else(Vec::new, |place| slots[place].applied());
            drop(slots);
            return Ok(Model { resident, name, adapters });
        };
        let resident = self.resident(Some(&model)).await?;
        Ok(Model { resident, name: file.name, adapters: vec![Applied { adapter: number, scale: file.scale }] })
    }

    /// The model of this name, loaded, as [`Self::get`] says.
    async fn resident(&self, name: Option<&str>) -> Result<Arc<Resident>, Problem> {
        if let Taken::Loaded(resident) = self.take_up(name)? {
            return Ok(resident);
        }
        let _turn = self.turn.lock().await;
        // Somebody may have loaded it meanwhile, or the models may be others.
        let known = match self.take_up(name)? {
            Taken::Loaded(resident) => return Ok(resident),
            Taken::Known(known) => known,
        };
        let percent = Arc::<AtomicU32>::default();
        self.change(&known.entry, |slot| slot.loading = Some(Arc::clone(&percent)));
        let (wanted, loading, changes) = (known.clone(), self.loading.clone(), self.changes.clone());
        let told = move |now: u32| {
            if percent.swap(now, Ordering::Relaxed) != now {
                changes.send_replace(());
            }
        };
        let loaded = blocking(move || Resident::load(&wanted, &loading, Some(&told))).await;
        let failure = match loaded {
            Ok(Ok(resident)) => {
                let resident = Arc::new(resident);
                let mut slots = self.slots();
                // Where it is no more, it answers this request and ends.
                if let Some(place) = slots.iter().position(|slot| slot.known.entry == known.entry) {
                    let slot = &mut slots[place];
                    (slot.resident, slot.asked) = (Some(Arc::clone(&resident)), Some(Instant::now()));
                    (slot.loading, slot.failure) = (None, None);
                    self.make_room(&mut slots, place);
                }
                drop(slots);
                self.tell();
                return Ok(resident);
            }
            Ok(Err(error)) => error.to_string(),
            Err(problem) => problem.message,
        };
        let message = format!("{:?} cannot be loaded: {failure}", known.entry.name);
        self.change(&known.entry, |slot| (slot.loading, slot.failure) = (None, Some(failure)));
        Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, message)
            .with_code("model_not_loaded")
            .retry_after(LOAD_RETRY_S))
    }

    /// The model that a request names, loaded or not.
    fn take_up(&self, name: Option<&str>) -> Result<Taken, Problem> {
        let mut slots = self.slots();
        let named = name.and_then(|name| find(&slots, name)).or_else(|| only(&slots));
        let place = named.ok_or_else(|| unknown(&slots, name))?;
        Ok(slots[place].take_up().map_or_else(|| Taken::Known(slots[place].known.clone()), Taken::Loaded))
    }

    /// Changes what is said of a model, if it is there still.
    fn change(&self, entry: &Entry, change: impl FnOnce(&mut Slot)) {
        if let Some(slot) = self.slots().iter_mut().find(|slot| slot.known.entry == *entry) {
            change(slot);
        }
        self.tell();
    }

    /// Hears that something has become of a model; what, [`Models::all`] says.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Says to those who listen that there is something to look at.
    pub fn tell(&self) {
        self.changes.send_replace(());
    }

    /// Lets go of those that were asked for longest ago, but for the one that was just loaded.
    fn make_room(&self, slots: &mut [Slot], kept: usize) {
        while slots.iter().filter(|slot| slot.resident.is_some()).count() > self.loading.loaded_max {
            let others = (0..slots.len()).filter(|&place| place != kept && slots[place].resident.is_some());
            let Some(oldest) = others.min_by_key(|&place| slots[place].asked) else { return };
            slots[oldest].resident = None;
        }
    }

    /// Lets go of those that nobody asked for in their time.
    pub fn let_idle_go(&self) {
        let mut went = false;
        for slot in self.slots().iter_mut() {
            let keep = match slot.keep {
                Some(Keep::For(time)) => Some(time),
                Some(Keep::Forever) => None,
                None => self.loading.idle_time_max,
            };
            // Whoever is being answered holds it, too.
            let is_idle = slot.resident.as_ref().is_some_and(|resident| Arc::strong_count(resident) == 1);
            if is_idle && keep.is_some_and(|time| slot.asked.is_none_or(|asked| asked.elapsed() >= time)) {
                (slot.resident, slot.keep, went) = (None, None, true);
            }
        }
        if went {
            self.tell();
        }
    }

    /// How long a model stays from now on when nobody asks for it.
    pub fn keep(&self, name: &str, keep: Keep) {
        let mut slots = self.slots();
        if let Some(place) = find(&slots, name) {
            slots[place].keep = Some(keep);
        }
    }

    /// What is known of the model of exactly this name.
    ///
    /// # Errors
    /// 404 with the names that there are.
    pub fn look_up(&self, name: &str) -> Result<Known, Problem> {
        let slots = self.slots();
        find(&slots, name).map(|place| slots[place].known.clone()).ok_or_else(|| unknown(&slots, Some(name)))
    }

    /// All that there are, with what becomes of each.
    pub fn all(&self) -> Vec<(Known, State)> {
        self.slots().iter().map(|slot| (slot.known.clone(), slot.state())).collect()
    }

    /// The adapters that there are, in the order of their numbers, and how much of each requests have that say nothing.
    pub fn adapters(&self) -> Vec<(AdapterFile, f32)> {
        let slots = self.slots();
        let slot = slots.iter().find(|slot| !slot.scales.is_empty());
        slot.into_iter().flat_map(|slot| slot.known.entry.adapters.iter().cloned().zip(slot.scales.clone())).collect()
    }

    /// Sets how much of each requests have from now on that say nothing; none of those that are left out.
    pub fn set_adapters(&self, scales: &[Applied]) {
        let mut slots = self.slots();
        let Some(slot) = slots.iter_mut().find(|slot| !slot.scales.is_empty()) else { return };
        slot.scales.fill(0.0);
        for one in scales {
            slot.scales[one.adapter as usize] = one.scale;
        }
    }

    /// Those that are loaded.
    pub fn residents(&self) -> Vec<Arc<Resident>> {
        self.slots().iter().filter_map(|slot| slot.resident.clone()).collect()
    }

    fn slots(&self) -> MutexGuard<'_, Vec<Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is there of a model that is asked for.
enum Taken {
    Loaded(Arc<Resident>),
    Known(Known),
}

/// The place of exactly this name.
fn find(slots: &[Slot], name: &str) -> Option<usize> {
    let name = name.strip_suffix(":latest").unwrap_or(name);
    slots.iter().position(|slot| slot.known.entry.name == name)
}

/// The model with the adapter of this name, its number, and what it is; a model of that name comes first.
fn find_adapter(slots: &[Slot], name: &str) -> Option<(String, u32, AdapterFile)> {
    if find(slots, name).is_some() {
        return None;
    }
    slots.iter().find_map(|slot| {
        let entry = &slot.known.entry;
        let number = entry.adapters.iter().position(|file| file.name == name)?;
        Some((entry.name.clone(), number as u32, entry.adapters[number].clone()))
    })
}

/// The one that is loaded, or the one that there is.
fn only(slots: &[Slot]) -> Option<usize> {
    if slots.len() == 1 {
        return Some(0);
    }
    let mut loaded = (0..slots.len()).filter(|&place| slots[place].resident.is_some());
    loaded.next().filter(|_| loaded.next().is_none())
}

fn unknown(slots: &[Slot], name: Option<&str>) -> Problem {
    let names: Vec<&str> = slots.iter().map(|slot| slot.known.entry.name.as_str()).collect();
    let names = names.join(", ");
    let message = match name {
        Some(name) => {
            let name: String = name.chars().take(NAME_BYTES_MAX).collect();
            format!("there is no model {name:?} here; there are: {names}")
        }
        None => format!("say which model is asked, there are several: {names}"),
    };
    let problem = Problem::new(StatusCode::NOT_FOUND, message).with_code("model_not_found");
    Problem { param: Some("model".to_owned()), ..problem }
}

impl Slot {
    /// A model that is not loaded yet.
    fn find(entry: &Entry) -> Result<Self, kauri_engine::Error> {
        let facts = Arc::new(kauri_engine::inspect(Some(&entry.source))?);
        let known = Known { entry: entry.clone(), facts, found_s: now_s() };
        let scales = entry.adapters.iter().map(|file| if file.always { file.scale } else { 0.0 }).collect();
        Ok(Self { known, resident: None, loading: None, failure: None, asked: None, keep: None, scales })
    }

    /// What a request has of its adapters that says nothing of them.
    fn applied(&self) -> Vec<Applied> {
        let all = (0..).zip(&self.scales).filter(|(_, scale)| **scale != 0.0);
        all.map(|(adapter, &scale)| Applied { adapter, scale }).collect()
    }

    fn take_up(&mut self) -> Option<Arc<Resident>> {
        let resident = self.resident.clone()?;
        self.asked = Some(Instant::now());
        Some(resident)
    }

    fn state(&self) -> State {
        match (&self.resident, &self.loading, &self.failure) {
            (Some(_), _, _) => State::Loaded,
            (None, Some(percent), _) => State::Loading { percent: percent.load(Ordering::Relaxed) },
            (None, None, Some(failure)) => State::Failed(failure.clone()),
            (None, None, None) => State::Unloaded,
        }
    }
}

impl State {
    /// In a word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Unloaded => "unloaded",
            Self::Loading { .. } => "loading",
            Self::Loaded => "loaded",
            Self::Failed(_) => "failed",
        }
    }

    /// Why it could not be loaded, where that is what became of it.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Failed(reason) => Some(reason),
            Self::Unloaded | Self::Loading { .. } | Self::Loaded => None,
        }
    }

    /// How much of it is in memory, from 0 to 1, while it is loaded.
    pub fn progress(&self) -> Option<f64> {
        match self {
            Self::Loading { percent } => Some(f64::from(*percent) / 100.0),
            Self::Unloaded | Self::Loaded | Self::Failed(_) => None,
        }
    }
}

impl Resident {
    /// Loads a model. Where somebody is told, in hundredths, how much of it is in memory, it is brought there.
    fn load(known: &Known, loading: &Loading, told: Option<&dyn Fn(u32)>) -> Result<Self, kauri_engine::Error> {
        let entry = &known.entry;
        let mut engine = Engine::load_with(Some(&entry.source), &loading.options, &entry.adapters)?;
        if let Some(told) = told {
            engine.read_ahead(&mut |read, all| told((100 * read / all.max(1)) as u32));
            engine.verify_unchanged()?;
        }
        engine.remember(&loading.remembering)?;
        Ok(Self {
            name: entry.name.clone(),
            writes: engine.writes(),
            service: Some(engine.serve(&loading.serving)),
            source: entry.source.clone(),
            adapters: entry.adapters.clone(),
            options: loading.options,
            desk: OnceCell::new(),
        })
    }

    /// What answers.
    ///
    /// # Errors
    /// When the model only reads.
    pub fn service(&self) -> Result<&Service, Problem> {
        if self.writes { Ok(self.engine()) } else { Err(kauri_engine::Error::OnlyReads.into()) }
    }

    fn engine(&self) -> &Service {
        self.service.as_ref().expect("it is gone only while this is dropped")
    }

    /// What reads. The first time, the model is made ready for it.
    ///
    /// # Errors
    /// When it cannot be.
    pub async fn desk(&self) -> Result<&Desk, Problem> {
        let make = || async {
            let (source, options) = (self.source.clone(), Options { reads: true, ..self.options });
            let adapters = self.adapters.clone();
            let load = move || Engine::load_with(Some(&source), &options, &adapters);
            Ok::<_, Problem>(Desk::new(blocking(load).await??))
        };
        self.desk.get_or_try_init(make).await
    }

    /// How things stand, as of the latest step.
    pub fn status(&self) -> Status {
        self.engine().status()
    }

    pub fn tokenizer(&self) -> &Tokenizer {
        self.engine().tokenizer()
    }

    /// Tokens of prompt and answer together.
    pub fn window_tokens(&self) -> u32 {
        self.engine().window_tokens()
    }
}

impl std::ops::Deref for Model {
    type Target = Resident;

    fn deref(&self) -> &Resident {
        &self.resident
    }
}

impl Drop for Resident {
    fn drop(&mut self) {
        let service = self.service.take();
        // Where there can be no thread, whoever drops it waits.
        _ = std::thread::Builder::new().name("kauri-ending".to_owned()).spawn(move || drop(service));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_command_line_are_names_and_sources() {
        let entry = |name: &str, source: &str| {
            Ok(Entry { name: name.to_owned(), source: source.to_owned(), adapters: Vec::new() })
        };
        assert_eq!(Entry::parse("kauri-nano"), entry("kauri-nano", "kauri-nano"));
        assert_eq!(
            Entry::parse("models/some model-Q8_0.gguf"),
            entry("some-model-Q8_0", "models/some model-Q8_0.gguf")
        );
        assert_eq!(Entry::parse("small=a=b.gguf"), entry("small", "a=b.gguf"));
        for wrong in ["=a.gguf", "a b=c", "../x=c", ""] {
            assert!(Entry::parse(wrong).is_err(), "{wrong}");
        }
    }
}
