//! Where models are found on this machine, and how a name becomes a file: the catalog with what a person added, the caches, the web.
//!
//! The one place of the commands that reads the environment for it; everything below is handed what it says.

use std::fs;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use kauri_engine::catalog::Catalog;
use kauri_engine::pull::{self, Manner, Places, Plan, Proxy, Puller, Sources};
use kauri_engine::resolve::{self, Reference};
use kauri_engine::{DEFAULT_NAME, Memory, local};

use crate::failure::{BadInput, print_line};
use crate::pulling::Bar;
use crate::terminal;

/// A share of the free memory that weights may have when nobody says which quantisation is wanted: the rest is for the cache.
const WEIGHTS_SHARE: f64 = 0.8;

/// What to do about models that are not here.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct PullOptions {
    /// Pull a model that is not here without asking.
    #[arg(long, short = 'y')]
    pub yes: bool,

    /// Use only what is on this machine.
    #[arg(long, conflicts_with = "yes")]
    pub offline: bool,
}

/// The models that can be named.
pub struct Library {
    /// What is known.
    pub catalog: Catalog,
    /// Where files are kept.
    pub places: Places,
    /// Where a person's own words for models are kept.
    pub aliases: PathBuf,
    /// Where what was measured of this machine is kept.
    pub measured: PathBuf,
    sources: Sources,
}

impl Library {
    /// As the environment and a person's files say.
    ///
    /// # Errors
    /// When a file of theirs is wrong: which, and where.
    pub fn open() -> anyhow::Result<Self> {
        let text = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let folder = |name: &str| text(name).map(PathBuf::from);
        let home = folder("HOME").or_else(|| folder("USERPROFILE")).unwrap_or_default();
        let cache = folder("XDG_CACHE_HOME").unwrap_or_else(|| home.join(".cache"));
        let config = folder("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config")).join("kauri");
        let hub_home = folder("HF_HOME").unwrap_or_else(|| cache.join("huggingface"));
        let token_file = folder("HF_TOKEN_PATH").unwrap_or_else(|| hub_home.join("token"));
        let token = text("HF_TOKEN").or_else(|| fs::read_to_string(token_file).ok());
        let cache = cache.join("kauri");
        let mut catalog = Catalog::built_in()?;
        for file in ["models.toml", "aliases.toml"].map(|file| config.join(file)) {
            match fs::read_to_string(&file) {
                Ok(text) => {
                    catalog = catalog.with(&text).map_err(|error| BadInput(format!("{}: {error}", file.display())))?;
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => bail!(BadInput(format!("{}: {error}", file.display()))),
            }
        }
        Ok(Self {
            catalog,
            places: Places {
                hub: folder("HF_HUB_CACHE").unwrap_or_else(|| hub_home.join("hub")),
                registry: cache.join("registry"),
                web: cache.join("web"),
            },
            aliases: config.join("aliases.toml"),
            measured: cache.join("machine.json"),
            sources: Sources {
                hub: text("HF_ENDPOINT").unwrap_or_else(|| "https://huggingface.co".to_owned()),
                token: token.map(|token| token.trim().to_owned()).filter(|token| !token.is_empty()),
                registry: text("KAURI_REGISTRY").unwrap_or_else(|| "https://registry.ollama.ai".to_owned()),
            },
        })
    }

    /// What a word stands for.
    ///
    /// # Errors
    /// When it stands for nothing.
    pub fn parse(&self, word: &str) -> Result<Reference, BadInput> {
        resolve::parse(word, &self.catalog).map_err(|error| BadInput(error.to_string()))
    }

    /// What brings models here.
    pub fn puller(&self) -> Puller {
        Puller::new(self.sources.clone(), self.places.clone(), Manner::default(), Proxy::try_from_env())
    }

    /// What it would take to have a model here.
    ///
    /// # Errors
    /// When nobody has it.
    pub fn plan(&self, reference: &Reference) -> anyhow::Result<Option<Plan>> {
        let budget = Memory::of_this_machine().map(|memory| (memory.free_bytes as f64 * WEIGHTS_SHARE) as u64);
        self.puller().plan(reference, budget).map_err(as_input)
    }

    /// Brings what `plan` says.
    ///
    /// # Errors
    /// What is in the way.
    pub fn pull(&self, plan: &Plan) -> anyhow::Result<PathBuf> {
        let puller = self.puller();
        let bar = Bar::start(plan.bytes());
        let path = puller.pull(plan, &bar).map_err(as_input)?;
        bar.finish();
        Ok(path)
    }

    /// The file or folder of the model called `word`, where it is on this machine.
    ///
    /// # Errors
    /// When the word stands for nothing.
    pub fn find(&self, word: &str) -> Result<Option<PathBuf>, BadInput> {
        Ok(local::find(&self.places, &self.parse(word)?))
    }

    /// The file or folder of the model called `word`, pulled if it is not here and that is wanted.
    ///
    /// # Errors
    /// When there is none, or it cannot be had.
    pub fn locate(&self, word: &str, wish: PullOptions) -> anyhow::Result<PathBuf> {
        if let Some(path) = self.find(word)? {
            return Ok(path);
        }
        let reference = self.parse(word)?;
        if wish.offline {
            bail!(BadInput(format!("{word} is not on this machine, and --offline says to pull nothing")));
        }
        let Some(plan) = self.plan(&reference)? else { bail!(BadInput(format!("{word}: no such file"))) };
        let missing = self.puller().missing_bytes(&plan);
        let what = format!("{word} is not here: {}, {} to pull", plan.name, terminal::bytes(missing));
        if !wish.yes && !asks(&what)? {
            bail!(BadInput(format!("{what}; say --yes, or pull it first: kauri pull {word}")));
        }
        if wish.yes {
            print_line(&what);
        }
        self.pull(&plan)
    }
}

/// Whether a person at a terminal wants it; nobody else is asked.
fn asks(what: &str) -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Ok(false);
    }
    write!(io::stderr(), "{}. Pull it now? [Y/n] ", terminal::printable(what)).context("asking")?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).context("asking")?;
    Ok(matches!(line.trim().to_ascii_lowercase().as_str(), "" | "y" | "yes"))
}

/// The file of the model that was asked for, if one was: a path, or `None` for the model inside this program.
///
/// # Errors
/// When there is none, or it cannot be had.
pub fn locate(word: Option<&str>, wish: PullOptions) -> anyhow::Result<Option<String>> {
    let Some(word) = word else { return Ok(None) };
    // The usual cases need no catalog.
    if resolve::is_model(word) {
        return Ok(Some(word.to_owned()));
    }
    let path = Library::open()?.locate(word, wish)?;
    Ok(Some(path_text(&path)?))
}

/// The file of a model that is on this machine already: nothing is pulled, and nobody is asked.
///
/// # Errors
/// When it is not here: how it would come.
pub fn find(word: &str) -> anyhow::Result<String> {
    if resolve::is_model(word) {
        return Ok(word.to_owned());
    }
    let path = Library::open()?.find(word)?;
    let path = path.ok_or_else(|| absent(word))?;
    Ok(path_text(&path)?)
}

/// What is said of a model that would have to be pulled.
pub fn absent(word: &str) -> BadInput {
    BadInput(format!("{word} is not on this machine: there is no such file, and none was pulled (kauri pull {word})"))
}

/// A path as the engine takes it.
///
/// # Errors
/// When it is no text.
pub fn path_text(path: &Path) -> Result<String, BadInput> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| BadInput(format!("{}: the name of this folder or file is not UTF-8", path.display())))
}

/// Whether a word can only be meant as a model.
pub fn is_name(word: &str) -> bool {
    word == DEFAULT_NAME
        || resolve::is_model(word)
        || (!word.contains(char::is_whitespace)
            && Library::open().is_ok_and(|library| resolve::is_name(word, &library.catalog)))
}

/// Names that are wrong are bad input; what fails on the way is not.
fn as_input(error: pull::Error) -> anyhow::Error {
    match error {
        pull::Error::Missing { .. } | pull::Error::Denied { .. } | pull::Error::Unusable { .. } => {
            BadInput(error.to_string()).into()
        }
        pull::Error::Disk { .. }
        | pull::Error::DiskFull { .. }
        | pull::Error::NoRoom { .. }
        | pull::Error::Web { .. }
        | pull::Error::WrongDigest { .. } => error.into(),
    }
}
