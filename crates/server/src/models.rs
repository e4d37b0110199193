//! The models that there are, and those that are loaded: by name, when they are asked for, as many as may be at a time.
//!
//! A model that is let go of is out of the table at once and ends when the last answer that it writes is over. The one that is asked for is
//! loaded before another goes, so that a load that fails costs nobody anything.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use kauri_engine::{DEFAULT_NAME, Engine, Inspection, Options, Remembering, Service, Serving, Status, Tokenizer};
use tokio::sync::OnceCell;

use crate::answers::blocking;
use crate::desk::Desk;
use crate::error::Problem;
use crate::wire::now_s;

/// The longest name that is looked for.
const NAME_BYTES_MAX: usize = 256;
/// Seconds after which a model that could not be loaded may be asked for again.
const LOAD_RETRY_S: u32 = 5;

/// A model that can be had by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What requests call it.
    pub name: String,
    /// What the engine loads.
    pub source: String,
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

/// A model that is loaded.
pub struct Resident {
    pub name: String,
    /// Whether it writes text.
    writes: bool,
    /// Gone while it is dropped, which takes a step of the engine and is not for a thread of the network.
    service: Option<Service>,
    source: String,
    options: Options,
    /// Made when it is first asked to read.
    desk: OnceCell<Desk>,
}

/// The models of a server.
pub struct Models {
    known: Vec<Known>,
    loading: Loading,
    slots: Mutex<Vec<Slot>>,
    /// Held by who loads: one at a time.
    turn: tokio::sync::Mutex<()>,
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

/// Whether it is loaded.
#[derive(Default)]
struct Slot {
    resident: Option<Arc<Resident>>,
    is_loading: bool,
    failure: Option<String>,
    asked: Option<Instant>,
    /// How long it stays when nobody asks, where a client said so.
    keep: Option<Keep>,
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
    Loading,
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
        Ok(Self { name, source: source.to_owned() })
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

impl Models {
    /// Looks into all files and loads the first models, as many as may be loaded at a time.
    ///
    /// # Errors
    /// The model that cannot be read or loaded, and why.
    pub fn open(entries: &[Entry], loading: Loading) -> Result<Self, Box<(Entry, kauri_engine::Error)>> {
        let look = |entry: &Entry| match kauri_engine::inspect(Some(&entry.source)) {
            Ok(facts) => Ok(Known { entry: entry.clone(), facts: Arc::new(facts), found_s: now_s() }),
            Err(error) => Err(Box::new((entry.clone(), error))),
        };
        let known = entries.iter().map(look).collect::<Result<Vec<_>, _>>()?;
        let mut slots: Vec<Slot> = known.iter().map(|_| Slot::default()).collect();
        for (known, slot) in known.iter().zip(&mut slots).take(loading.loaded_max) {
            let resident = Resident::load(known, &loading).map_err(|error| Box::new((known.entry.clone(), error)))?;
            (slot.resident, slot.asked) = (Some(Arc::new(resident)), Some(Instant::now()));
        }
        Ok(Self { known, loading, slots: Mutex::new(slots), turn: tokio::sync::Mutex::default() })
    }

    /// The model that a request names, loaded. A name that nobody knows is answered by the model that is loaded, where there is but one:
    /// many clients always say the same.
    ///
    /// # Errors
    /// 404 with the names that there are; 503 where it cannot be loaded.
    pub async fn get(&self, name: Option<&str>) -> Result<Arc<Resident>, Problem> {
        let place = self.place(name)?;
        if let Some(resident) = self.slots()[place].take_up() {
            return Ok(resident);
        }
        let _turn = self.turn.lock().await;
        if let Some(resident) = self.slots()[place].take_up() {
            return Ok(resident);
        }
        self.slots()[place].is_loading = true;
        let (known, loading) = (self.known[place].clone(), self.loading.clone());
        let loaded = blocking(move || Resident::load(&known, &loading)).await;
        let mut slots = self.slots();
        slots[place].is_loading = false;
        let failure = match loaded {
            Ok(Ok(resident)) => {
                let resident = Arc::new(resident);
                slots[place].resident = Some(Arc::clone(&resident));
                (slots[place].asked, slots[place].failure) = (Some(Instant::now()), None);
                self.make_room(&mut slots, place);
                return Ok(resident);
            }
            Ok(Err(error)) => error.to_string(),
            Err(problem) => problem.message,
        };
        let message = format!("{:?} cannot be loaded: {failure}", self.known[place].entry.name);
        slots[place].failure = Some(failure);
        Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, message)
            .with_code("model_not_loaded")
            .retry_after(LOAD_RETRY_S))
    }

    /// The model that a request names, whether it is loaded or not.
    fn place(&self, name: Option<&str>) -> Result<usize, Problem> {
        let named = name.and_then(|name| self.find(name));
        named.or_else(|| self.only()).ok_or_else(|| self.unknown(name))
    }

    /// The one that is loaded, or the one that there is.
    fn only(&self) -> Option<usize> {
        if self.known.len() == 1 {
            return Some(0);
        }
        let slots = self.slots();
        let mut loaded = (0..slots.len()).filter(|&place| slots[place].resident.is_some());
        loaded.next().filter(|_| loaded.next().is_none())
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
        for slot in self.slots().iter_mut() {
            let keep = match slot.keep {
                Some(Keep::For(time)) => Some(time),
                Some(Keep::Forever) => None,
                None => self.loading.idle_time_max,
            };
            // Whoever is being answered holds it, too.
            let is_idle = slot.resident.as_ref().is_some_and(|resident| Arc::strong_count(resident) == 1);
            if is_idle && keep.is_some_and(|time| slot.asked.is_none_or(|asked| asked.elapsed() >= time)) {
                (slot.resident, slot.keep) = (None, None);
            }
        }
    }

    /// How long a model stays from now on when nobody asks for it.
    pub fn keep(&self, name: &str, keep: Keep) {
        if let Some(place) = self.find(name) {
            self.slots()[place].keep = Some(keep);
        }
    }

    /// The place of exactly this name.
    fn find(&self, name: &str) -> Option<usize> {
        let name = name.strip_suffix(":latest").unwrap_or(name);
        self.known.iter().position(|known| known.entry.name == name)
    }

    /// What is known of the model of exactly this name.
    ///
    /// # Errors
    /// 404 with the names that there are.
    pub fn look_up(&self, name: &str) -> Result<&Known, Problem> {
        self.find(name).map(|place| &self.known[place]).ok_or_else(|| self.unknown(Some(name)))
    }

    fn unknown(&self, name: Option<&str>) -> Problem {
        let names: Vec<&str> = self.known.iter().map(|known| known.entry.name.as_str()).collect();
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

    /// All that there are, with what becomes of each.
    pub fn all(&self) -> Vec<(&Known, State)> {
        let slots = self.slots();
        self.known.iter().zip(slots.iter()).map(|(known, slot)| (known, slot.state())).collect()
    }

    /// Those that are loaded.
    pub fn residents(&self) -> Vec<Arc<Resident>> {
        self.slots().iter().filter_map(|slot| slot.resident.clone()).collect()
    }

    fn slots(&self) -> MutexGuard<'_, Vec<Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    fn take_up(&mut self) -> Option<Arc<Resident>> {
        let resident = self.resident.clone()?;
        self.asked = Some(Instant::now());
        Some(resident)
    }

    fn state(&self) -> State {
        match (&self.resident, &self.failure) {
            (Some(_), _) => State::Loaded,
            (None, _) if self.is_loading => State::Loading,
            (None, Some(failure)) => State::Failed(failure.clone()),
            (None, None) => State::Unloaded,
        }
    }
}

impl State {
    /// In a word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Unloaded => "unloaded",
            Self::Loading => "loading",
            Self::Loaded => "loaded",
            Self::Failed(_) => "failed",
        }
    }
}

impl Resident {
    fn load(known: &Known, loading: &Loading) -> Result<Self, kauri_engine::Error> {
        let entry = &known.entry;
        let mut engine = Engine::load(Some(&entry.source), &loading.options)?;
        engine.remember(&loading.remembering)?;
        Ok(Self {
            name: entry.name.clone(),
            writes: engine.writes(),
            service: Some(engine.serve(&loading.serving)),
            source: entry.source.clone(),
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
            let load = move || Engine::load(Some(&source), &options);
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
        let entry = |name: &str, source: &str| Ok(Entry { name: name.to_owned(), source: source.to_owned() });
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
