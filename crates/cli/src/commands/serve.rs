//! `kauri serve`: models for programs, over HTTP.

mod file;

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use clap::{Args, ValueEnum};
use kauri_engine::{AdapterFile, DEFAULT_NAME, Options, Serving, local};
use kauri_server::{
    BodyLimits, Collector, ConnectionLimits, Entry, Error, Keys, Loading, Log, Settings, Socket, TlsFiles,
};

use crate::cache_options::{CacheOptions, gigabytes};
use crate::failure::{BadInput, about_model};
use crate::input;
use crate::library::{self, Library, PullOptions};
use crate::lora_options::LoraOptions;
use crate::model_options::EngineOptions;
use crate::warming;
use file::Given;

/// Serves models over HTTP, for programs that speak OpenAI's protocol.
///
/// It listens on this machine only, unless --host says otherwise, and answers until Ctrl-C or SIGTERM: what was asked before is answered
/// to its end, up to --drain-time. A second Ctrl-C ends it at once.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    // The first of all: it looks at what the others take away.
    #[command(flatten)]
    given: Given,

    /// A name (kauri list), a GGUF file, a safetensors directory, or kauri-nano, the model inside this program (the default); requests call it by the
    /// file's name, or by NAME in NAME=MODEL. May be given several times.
    #[arg(value_name = "MODEL")]
    models: Vec<String>,

    /// A TOML file with any of these options as keys, without their dashes, and with models and API keys; what the command line
    /// says wins. SIGHUP reads its models and keys again.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    #[command(flatten)]
    pull: PullOptions,

    /// Answer for the models that are named here alone; otherwise those that were pulled can be asked for by their names, too.
    #[arg(long)]
    only: bool,

    #[command(flatten)]
    network: NetworkOptions,

    #[command(flatten)]
    load: LoadOptions,

    #[command(flatten)]
    engine: EngineOptions,

    #[command(flatten)]
    lora: LoraOptions,

    #[command(flatten)]
    cache: CacheOptions,
}

/// Who comes in, and how.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Network")]
struct NetworkOptions {
    /// The address to listen on.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    host: String,

    /// The port to listen on; 0 picks a free one.
    #[arg(long, value_name = "PORT", default_value_t = 8080)]
    port: u16,

    /// A socket of the file system to listen on, instead of an address.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["host", "port"])]
    unix: Option<PathBuf>,

    /// Who may open that socket, as the permissions of a file are written.
    #[arg(long, value_name = "MODE", default_value = "600", requires = "unix")]
    unix_mode: String,

    /// Encrypt connections: the server's certificate, with those behind it, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// The private key of --tls-cert, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// Write a line of each request to standard error when its answer is over, as text or as JSON; no word of what was said.
    #[arg(long, value_name = "FORM")]
    log: Option<LogForm>,

    /// Send a span of each request that is posted to an OpenTelemetry collector, by OTLP over HTTP: its address, such as
    /// <http://127.0.0.1:4318>.
    #[arg(long, value_name = "URL", value_parser = Collector::parse)]
    trace_to: Option<Collector>,

    /// A file of API keys, one a line: a name, the key, perhaps open=N for the most requests it may have open at a time, and admin where it may
    /// change what others get.
    #[arg(long, value_name = "FILE")]
    api_key_file: Option<PathBuf>,

    /// Let anybody in who reaches an address beyond this machine, without a key.
    #[arg(long)]
    allow_anyone: bool,

    /// Another name of this server, as clients write it; may be given several times.
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,

    /// An origin whose pages may ask, such as <https://chat.example>; may be given several times.
    #[arg(long, value_name = "ORIGIN")]
    allow_origin: Vec<String>,

    /// Most connections at a time.
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    connections: u32,

    /// Most megabytes of a request's body.
    #[arg(long, value_name = "MB", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1024))]
    body_size_mb: u32,

    /// Seconds that a request's headers, and then its body, may take to come.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=3600))]
    receive_time: u32,

    /// Seconds after which a client that takes nothing of its answer is given up.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=3600))]
    send_time: u32,

    /// Seconds that answers may go on when the server is told to end.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(0..=86_400))]
    drain_time: u32,
}

/// How requests are told of.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogForm {
    /// Words in a row.
    Text,
    /// An object a line.
    Json,
}

/// How many are answered at once.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Load")]
struct LoadOptions {
    /// Answers that a model writes at once; more wait.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1024))]
    sequences: u32,

    /// Requests that may wait; more are told to come back.
    #[arg(long, value_name = "N", default_value_t = Serving::default().waiting, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    waiting: u32,

    /// Tokens that the cache holds, all requests together; four windows, or one for each answer, whichever is less, unless said
    /// otherwise.
    #[arg(long, value_name = "N")]
    cache_tokens: Option<u32>,

    /// Most tokens of prompts in a step while answers are being written; fewer are read where a step would take more than about twice as long
    /// as without.
    #[arg(long, value_name = "N", default_value_t = Serving::default().chunk_tokens, value_parser = clap::value_parser!(u32).range(1..))]
    chunk_tokens: u32,

    /// Most models that are loaded at a time, each with a cache of its own; the first ones at once, others when they are asked for, in place
    /// of the one that was asked for longest ago.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    loaded: u16,

    /// Let go of a model that nobody asked for in so many seconds.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    idle_time: Option<u32>,

    /// Gigabytes of memory for what the cache has no room for.
    #[arg(long, value_name = "GB", default_value_t = 0.0, value_parser = gigabytes)]
    cache_ram_gb: f64,
}

const EXAMPLES: &str = "\x1b[1;32mExamples:\x1b[0m
  kauri serve                              the model inside this program, at http://127.0.0.1:8080
  kauri serve model.gguf --port 9000
  kauri serve small=a.gguf large=b.gguf    two models, by these names
  kauri serve model.gguf --host 0.0.0.0 --api-key-file keys.txt
  kauri serve --config kauri.toml
  curl http://127.0.0.1:8080/v1/chat/completions -d '{\"messages\": [{\"role\": \"user\", \"content\": \"What is kauri?\"}]}'";

/// Runs the command.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let locate = |word: &str, pull| Ok(library::locate(Some(word), pull)?.unwrap_or_else(|| word.to_owned()));
    let (first, setup) = (arguments, Setup::read(arguments, locate)?);
    let arguments = &setup.arguments;
    for model in &setup.models {
        warming::bring(Some(&model.source), &arguments.engine.options());
    }
    let network = &arguments.network;
    let seconds = |seconds: u32| Duration::from_secs(u64::from(seconds));
    let settings = Settings {
        address: address(&network.host, network.port)?,
        socket: network.socket()?,
        tls: network
            .tls_cert
            .clone()
            .zip(network.tls_key.clone())
            .map(|(certificate, key)| TlsFiles { certificate, key }),
        log: match network.log {
            None => Log::Nothing,
            Some(LogForm::Text) => Log::Text,
            Some(LogForm::Json) => Log::Json,
        },
        collector: network.trace_to.clone(),
        models: setup.models,
        others: setup.others,
        loading: arguments.loading(),
        keys: setup.keys,
        reread: {
            let first = first.clone();
            Arc::new(move || {
                // A server that runs brings nothing here, and asks nobody at the terminal it was started from.
                let setup = Setup::read(&first, |word, _| library::find(word));
                let setup = setup.map_err(|error| format!("{error:#}"))?;
                Ok((setup.models, setup.others, setup.keys))
            })
        },
        hosts: network.allow_host.clone(),
        origins: network.allow_origin.clone(),
        lets_anyone_in: network.allow_anyone,
        body_limits: BodyLimits {
            bytes_max: network.body_size_mb as usize * 1_000_000,
            time_max: seconds(network.receive_time),
        },
        connection_limits: ConnectionLimits {
            connections_max: network.connections as usize,
            head_time_max: seconds(network.receive_time),
            write_time_max: seconds(network.send_time),
            drain_time_max: seconds(network.drain_time),
        },
    };
    let served = kauri_server::serve(settings, |url| eprintln!("listening on {url}"));
    served.map_err(|error| match error {
        Error::Model { name, error } => about_model(Some(&name), *error),
        Error::Open(_) | Error::Address { .. } | Error::Socket { .. } | Error::Tls(_) => {
            BadInput(error.to_string()).into()
        }
        Error::Machine(_) => error.into(),
    })
}

/// What the command line and the file say together.
struct Setup {
    arguments: Arguments,
    models: Vec<Entry>,
    /// Models that nobody named here, and that are on this machine.
    others: Vec<Entry>,
    keys: Keys,
}

impl Setup {
    /// Reads all of it; `locate` says where a model lies.
    fn read(
        arguments: &Arguments,
        locate: impl Fn(&str, PullOptions) -> anyhow::Result<String>,
    ) -> anyhow::Result<Self> {
        let (arguments, keys) = match &arguments.config {
            None => (arguments.clone(), None),
            Some(path) => {
                let said = file::read(path, &arguments.given)?;
                (said.arguments, said.keys)
            }
        };
        let keys = match (keys, &arguments.network.api_key_file) {
            (Some(keys), _) => keys,
            (None, None) => Keys::default(),
            (None, Some(file)) => {
                Keys::parse(&input::file(file)?).map_err(|error| BadInput(format!("{}: {error}", file.display())))?
            }
        };
        let models = models(&arguments, locate)?;
        let others = if arguments.only { Vec::new() } else { others()? };
        Ok(Self { arguments, models, others, keys })
    }
}

/// The models that are named, each where it lies on this machine.
fn models(
    arguments: &Arguments,
    locate: impl Fn(&str, PullOptions) -> anyhow::Result<String>,
) -> anyhow::Result<Vec<Entry>> {
    let words = if arguments.models.is_empty() { vec![DEFAULT_NAME.to_owned()] } else { arguments.models.clone() };
    let mut models: Vec<Entry> = Vec::new();
    for word in &words {
        let entry = Entry::parse(word).map_err(BadInput)?;
        if models.iter().any(|other| other.name == entry.name) {
            bail!(BadInput(format!("two models are called {}; give one another name, as in other={word}", entry.name)));
        }
        models.push(entry);
    }
    for model in &mut models {
        model.source = locate(&model.source, arguments.pull)?;
    }
    give_adapters(arguments.lora.given(), &mut models)?;
    Ok(models)
}

/// Adapters go with the one model that is named.
fn give_adapters(adapters: &[AdapterFile], models: &mut [Entry]) -> Result<(), BadInput> {
    let [model] = models else {
        let several = "--lora goes with one model, and several are named: start a server for the one that it is of";
        return if adapters.is_empty() { Ok(()) } else { Err(BadInput(several.to_owned())) };
    };
    for (index, adapter) in adapters.iter().enumerate() {
        if adapter.name == model.name || adapters[..index].iter().any(|other| other.name == adapter.name) {
            let (name, path) = (&adapter.name, adapter.path.display());
            return Err(BadInput(format!("two are called {name}; give one another name, as in --lora other={path}")));
        }
    }
    model.adapters = adapters.to_vec();
    Ok(())
}

/// What was pulled, by the names that kauri list shows, and a person's own words.
fn others() -> anyhow::Result<Vec<Entry>> {
    let library = Library::open()?;
    let pulled = local::list(&library.places).into_iter().map(|local| (local.name, local.source));
    let aliases = library.catalog.aliases().iter().filter_map(|(alias, target)| {
        let path = local::find(&library.places, &library.parse(target).ok()?)?;
        Some((alias.clone(), path))
    });
    let entry =
        |(name, path): (String, PathBuf)| Some(Entry { name, source: path.to_str()?.to_owned(), adapters: Vec::new() });
    Ok(aliases.chain(pulled).filter_map(entry).collect())
}

impl Arguments {
    fn loading(&self) -> Loading {
        let load = &self.load;
        let options = self.engine.options();
        let options = Options {
            sequences: load.sequences,
            batch_outputs: load.sequences,
            batch_tokens: options.batch_tokens.max(load.sequences),
            cache_tokens: load.cache_tokens,
            cache_windows: Some(4),
            snapshots: load.sequences,
            ..options
        };
        let serving = Serving { waiting: load.waiting, chunk_tokens: load.chunk_tokens, ..Serving::default() };
        Loading {
            options,
            serving,
            remembering: self.cache.remembering(load.cache_ram_gb),
            loaded_max: usize::from(load.loaded),
            idle_time_max: load.idle_time.map(|seconds| Duration::from_secs(u64::from(seconds))),
        }
    }
}

impl NetworkOptions {
    fn socket(&self) -> Result<Option<Socket>, BadInput> {
        let Some(path) = self.unix.clone() else { return Ok(None) };
        let mode = u32::from_str_radix(&self.unix_mode, 8).ok().filter(|mode| *mode <= 0o777);
        let mode = mode.ok_or_else(|| BadInput(format!("--unix-mode {}: write it as 600 or 660", self.unix_mode)))?;
        Ok(Some(Socket { path, mode }))
    }
}

/// An address of a host's name.
fn address(host: &str, port: u16) -> Result<SocketAddr, BadInput> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Ok(SocketAddr::new(address, port));
    }
    let found = (host, port).to_socket_addrs().ok().and_then(|mut found| found.next());
    found.ok_or_else(|| BadInput(format!("--host {host}: no such address")))
}
