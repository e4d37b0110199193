//! The HTTP surface: the dialects that existing clients speak, over the one engine.
//!
//! A route reads its dialect's words into an `Ask` (`ask.rs`), which becomes requests of the engine; what the engine's thread says of
//! them arrives in a `Mailbox`, and is written as a whole (`answers.rs`) or as a stream (`sse.rs`) in the dialect's words again. No
//! dialect has a loop of its own. The only crate that knows wire types; it knows no template, no token and no device.
#![forbid(unsafe_code)]

mod answers;
mod ask;
mod assets;
mod body;
mod desk;
mod document;
mod error;
mod guard;
mod keys;
mod listen;
mod log;
mod mailbox;
mod metrics;
mod models;
mod routes;
mod sse;
mod trace;
mod watched;
mod wire;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::runtime::Builder;

pub use body::BodyLimits;
pub use guard::Doors;
pub use keys::{GivenKey, Keys};
pub use listen::{ConnectionLimits, TlsFiles};
pub use log::Log;
pub use models::{Entry, Loading};
pub use trace::Collector;

use listen::Door;
use metrics::Metrics;
use models::Models;
use trace::Tracer;

/// Threads that wait for the network. They do little: what takes time has threads of its own.
const NETWORK_THREADS: usize = 2;
/// How often models are looked at that nobody asks for.
const IDLE_LOOK: Duration = Duration::from_secs(1);
/// Most threads that read requests, run templates and compile grammars.
const WORK_THREADS_MAX: usize = 32;

/// Everything that is settled when a server starts.
pub struct Settings {
    /// The address to listen on.
    pub address: SocketAddr,
    /// A socket in the file system to listen on instead.
    pub socket: Option<Socket>,
    /// Connections are encrypted with these.
    pub tls: Option<TlsFiles>,
    /// What is written of each request.
    pub log: Log,
    /// Where a span of each request is sent, if anywhere.
    pub collector: Option<Collector>,
    /// What can be asked.
    pub models: Vec<Entry>,
    /// What can be asked, too, and is looked into as far as it can be: models of this machine that nobody named.
    pub others: Vec<Entry>,
    /// How it is loaded.
    pub loading: Loading,
    /// Who may ask.
    pub keys: Keys,
    /// Reads models and keys again, when SIGHUP asks for it.
    pub reread: Reread,
    /// Host names beside those of loopback.
    pub hosts: Vec<String>,
    /// Origins of pages that may ask.
    pub origins: Vec<String>,
    /// Lets anybody in who reaches an address beyond this machine.
    pub lets_anyone_in: bool,
    /// What bodies may be.
    pub body_limits: BodyLimits,
    /// What connections may cost.
    pub connection_limits: ConnectionLimits,
}

/// A socket in the file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Socket {
    /// Its file.
    pub path: PathBuf,
    /// Who may open it, as the permissions of a file.
    pub mode: u32,
}
/// What models are named, what others and what keys there are now, or why that cannot be said.
pub type Reread = Arc<dyn Fn() -> Result<(Vec<Entry>, Vec<Entry>, Keys), String> + Send + Sync>;

/// Why a server does not start, or ended before its time.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A model cannot be loaded.
    #[error("{name}: {error}")]
    Model {
        /// What it is called.
        name: String,
        /// What is wrong.
        error: Box<kauri_engine::Error>,
    },
    /// Anybody could come in.
    #[error(
        "{0} can be reached from other machines, and there is no API key: give --api-key-file, or --allow-anyone if you mean it"
    )]
    Open(IpAddr),
    /// The address cannot be listened on.
    #[error("{address}: {error}")]
    Address {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        error: io::Error,
    },
    /// The socket cannot be had.
    #[error("{}: {error}", path.display())]
    Socket {
        /// Its file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// Connections cannot be encrypted.
    #[error("{0}")]
    Tls(String),
    /// The machine gives no threads or no signals.
    #[error(transparent)]
    Machine(#[from] io::Error),
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            connections_max: 4096,
            head_time_max: Duration::from_secs(30),
            write_time_max: Duration::from_mins(1),
            drain_time_max: Duration::from_secs(30),
        }
    }
}

impl Default for BodyLimits {
    fn default() -> Self {
        Self { bytes_max: 16 << 20, time_max: Duration::from_mins(1) }
    }
}

/// What every request sees.
struct App {
    models: Models,
    keys: RwLock<Arc<Keys>>,
    doors: Doors,
    body_limits: BodyLimits,
    metrics: Arc<Metrics>,
    log: Log,
    tracer: Option<Tracer>,
    drains: AtomicBool,
}

impl App {
    /// The keys as they are now.
    fn keys(&self) -> Arc<Keys> {
        Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes up what models and keys there are now. Where anything is wrong, nothing changes.
    ///
    /// # Errors
    /// What is wrong.
    fn reload(&self, reread: &Reread, may_be_open: bool) -> Result<String, String> {
        let (models, others, keys) = reread()?;
        if keys.is_empty() && !may_be_open {
            return Err("there would be no API key, and the server can be reached from other machines".to_owned());
        }
        let counts = format!("{} models, {} keys", models.len(), keys.len());
        self.models.replace(&models, &others).map_err(|failed| format!("{}: {}", failed.0, failed.1))?;
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
        Ok(counts)
    }

    fn is_draining(&self) -> bool {
        self.drains.load(Ordering::Acquire)
    }
}

/// Loads the models, listens, and serves until the program is told to end; then answers what was asked before. `listening` hears what
/// clients call it once requests are answered.
///
/// # Errors
/// When it cannot start.
pub fn serve(settings: Settings, listening: impl FnOnce(&str)) -> Result<(), Error> {
    let address = settings.address;
    // A socket of the file system is open to nobody beyond this machine.
    let is_loopback = settings.socket.is_some() || address.ip().is_loopback();
    if !is_loopback && settings.keys.is_empty() && !settings.lets_anyone_in {
        return Err(Error::Open(address.ip()));
    }
    let tls = settings.tls.as_ref().map(listen::acceptor).transpose().map_err(Error::Tls)?;
    let network = Builder::new_multi_thread()
        .worker_threads(NETWORK_THREADS)
        .max_blocking_threads(WORK_THREADS_MAX)
        .thread_name("kauri-network")
        .enable_all()
        .build()?;
    // Another server at the same address is found before a model is loaded.
    let notice = Arc::clone(&settings.loading.remembering.notice);
    let door = network.block_on(async {
        match &settings.socket {
            None => Door::at(address).map_err(|error| Error::Address { address, error }),
            Some(Socket { path, mode }) => {
                Door::file(path, *mode).map_err(|error| Error::Socket { path: path.clone(), error })
            }
        }
    })?;
    let models = Models::open(&settings.models, &settings.others, settings.loading);
    let models = models.map_err(|failed| Error::Model { name: failed.0.source, error: Box::new(failed.1) })?;
    let metrics = Arc::<Metrics>::default();
    let tracer =
        settings.collector.map(|collector| Tracer::start(collector, Arc::clone(&metrics), Arc::clone(&notice)));
    let app = Arc::new(App {
        models,
        keys: RwLock::new(Arc::new(settings.keys)),
        doors: Doors { is_loopback, hosts: settings.hosts, origins: settings.origins },
        body_limits: settings.body_limits,
        metrics: Arc::clone(&metrics),
        log: settings.log,
        tracer: tracer.transpose()?,
        drains: AtomicBool::new(false),
    });
    network.block_on(async {
        let told = told_to_end()?;
        let (draining, watching) = (Arc::clone(&app), Arc::clone(&app));
        let may_be_open = is_loopback || settings.lets_anyone_in;
        // Before anybody knows that it listens: a signal that nobody waits for ends the program.
        tokio::spawn(reload_when_told(Arc::clone(&app), settings.reread, may_be_open, notice)?);
        listening(&door.url(tls.is_some())?);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(IDLE_LOOK).await;
                watching.models.let_idle_go();
            }
        });
        let end = async move {
            told.await;
            draining.drains.store(true, Ordering::Release);
            // Who listens for changes is not waited for.
            draining.models.tell();
        };
        let router = routes::router(Arc::clone(&app));
        listen::serve(door, tls, router, settings.connection_limits, metrics, end).await;
        Ok::<_, Error>(())
    })?;
    app.tracer.iter().for_each(Tracer::finish);
    Ok(())
}

/// Reads models and keys again each time that SIGHUP comes, and says what became of it.
fn reload_when_told(
    app: Arc<App>,
    reread: Reread,
    may_be_open: bool,
    notice: kauri_engine::Notice,
) -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut hang_up = signal(SignalKind::hangup())?;
    Ok(async move {
        while hang_up.recv().await.is_some() {
            let (app, reread) = (Arc::clone(&app), Arc::clone(&reread));
            let work = move || app.reload(&reread, may_be_open);
            let outcome = answers::blocking(work).await.unwrap_or_else(|problem| Err(problem.message));
            match outcome {
                Ok(counts) => notice(&format!("read again: {counts}")),
                Err(error) => notice(&format!("nothing is changed: {error}")),
            }
        }
    })
}

/// Comes when the program is told to end, by Ctrl-C or by the system. A second time ends it at once.
fn told_to_end() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        tokio::spawn(async move {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            std::process::exit(130);
        });
    })
}
