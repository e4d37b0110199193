//! Connections: taken in up to a number, given up where they are too slow, and drained when the server ends.

mod door;
mod patient;
mod places;
mod tls;

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, watch};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

use crate::guard::Peer;
use crate::metrics::Metrics;
use patient::Patient;
use places::Places;

pub use door::{Door, Stream};
pub use tls::{TlsFiles, acceptor};

/// Most bytes of what is read of a request before its body, its line and headers together.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Most headers.
const HEADERS_MAX: usize = 100;
/// How long turning a connection away may take.
const REFUSAL_TIME: Duration = Duration::from_secs(1);
/// What is said on a connection that there is no room for.
const FULL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// What connections may cost.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// Most connections at a time.
    pub connections_max: usize,
    /// How long the headers of a request may take, and a connection may be idle.
    pub head_time_max: Duration,
    /// How long a client may take nothing of what it is sent.
    pub write_time_max: Duration,
    /// How long answers may go on when the server ends.
    pub drain_time_max: Duration,
}

/// Serves until `end` comes, and then until every answer is given or the time for that is over. Whether all were.
pub async fn serve(
    door: Door,
    tls: Option<TlsAcceptor>,
    router: Router,
    limits: ConnectionLimits,
    metrics: Arc<Metrics>,
    end: impl Future<Output = ()>,
) -> bool {
    let places = Places::new(limits.connections_max);
    let (ending, ended) = watch::channel(false);
    // Nothing is sent: when all who hold the one end are gone, the other one says so.
    let (open, mut closed) = mpsc::channel::<()>(1);
    let mut end = pin!(end);
    loop {
        let accepted = tokio::select! {
            accepted = door.accept() => accepted,
            () = &mut end => break,
        };
        let Ok((stream, peer)) = accepted else {
            // No more files may be open, or the client is gone already.
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let Some(place) = places.take(peer) else {
            tokio::spawn(refuse(stream, tls.is_some()));
            continue;
        };
        let (router, ended, open, metrics) = (router.clone(), ended.clone(), open.clone(), Arc::clone(&metrics));
        let tls = tls.clone();
        tokio::spawn(async move {
            metrics.connections.up();
            match tls {
                None => talk(stream, peer, router, limits, ended).await,
                Some(tls) => {
                    // Who does not come to an understanding in time is given up, like one whose headers do not come.
                    let greeted = tokio::time::timeout(limits.head_time_max, tls.accept(stream)).await;
                    if let Ok(Ok(stream)) = greeted {
                        talk(stream, peer, router, limits, ended).await;
                    }
                }
            }
            metrics.connections.down();
            drop((place, open));
        });
    }
    drop((door, open));
    // Whoever is gone needs not hear it.
    _ = ending.send(true);
    tokio::time::timeout(limits.drain_time_max, closed.recv()).await.is_ok()
}

/// One connection, from its first request to its last.
async fn talk<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    peer: Option<IpAddr>,
    router: Router,
    limits: ConnectionLimits,
    mut ended: watch::Receiver<bool>,
) {
    let service = hyper::service::service_fn(move |request: hyper::Request<Incoming>| {
        let mut request: Request = request.map(Body::new);
        request.extensions_mut().insert(Peer(peer));
        router.clone().oneshot(request)
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_time_max)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX);
    let stream = TokioIo::new(Patient::new(stream, limits.write_time_max));
    let mut connection = pin!(builder.serve_connection(stream, service));
    tokio::select! {
        _ = &mut connection => return,
        _ = ended.wait_for(|ended| *ended) => {}
    }
    connection.as_mut().graceful_shutdown();
    // What goes wrong on a connection is its client's affair.
    _ = connection.await;
}

/// Turns a connection away; one that is to be encrypted without a word, since nothing is agreed on.
async fn refuse(mut stream: Stream, is_encrypted: bool) {
    if is_encrypted {
        return;
    }
    let say = async {
        stream.write_all(FULL).await?;
        stream.shutdown().await?;
        // What the client sends must be taken, or the system forgets what it was told.
        let mut sent = [0; 4096];
        while stream.read(&mut sent).await? > 0 {}
        Ok::<(), io::Error>(())
    };
    _ = tokio::time::timeout(REFUSAL_TIME, say).await;
}
