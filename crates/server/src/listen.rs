//! Connections: taken in up to a number, given up where they are too slow, and drained when the server ends.

mod patient;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Semaphore, mpsc, watch};
use tower::ServiceExt;

use crate::guard::Peer;
use patient::Patient;

/// Most bytes of what is read of a request before its body, its line and headers together.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Most headers.
const HEADERS_MAX: usize = 100;
/// How long turning a connection away may take.
const REFUSAL_TIME: Duration = Duration::from_secs(1);
/// Bytes of an answer that the system holds for a client that does not read.
const SEND_BYTES: u32 = 128 << 10;
/// Connections that wait to be taken in.
const BACKLOG: u32 = 1024;
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

/// Listens. What the system holds of answers is limited: who does not read is found out by it.
///
/// # Errors
/// When the address cannot be had.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    if cfg!(unix) {
        // One that was used a moment ago may be used again.
        socket.set_reuseaddr(true)?;
    }
    socket.set_send_buffer_size(SEND_BYTES)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Serves until `end` comes, and then until every answer is given or the time for that is over. Whether all were.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    limits: ConnectionLimits,
    end: impl Future<Output = ()>,
) -> bool {
    let places = Arc::new(Semaphore::new(limits.connections_max));
    let (ending, ended) = watch::channel(false);
    // Nothing is sent: when all who hold the one end are gone, the other one says so.
    let (open, mut closed) = mpsc::channel::<()>(1);
    let mut end = pin!(end);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut end => break,
        };
        let Ok((stream, peer)) = accepted else {
            // No more files may be open, or the client is gone already.
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            tokio::spawn(refuse(stream));
            continue;
        };
        let (router, ended, open) = (router.clone(), ended.clone(), open.clone());
        tokio::spawn(async move {
            talk(stream, peer, router, limits, ended).await;
            drop((place, open));
        });
    }
    drop((listener, open));
    // Whoever is gone needs not hear it.
    _ = ending.send(true);
    tokio::time::timeout(limits.drain_time_max, closed.recv()).await.is_ok()
}

/// One connection, from its first request to its last.
async fn talk(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    limits: ConnectionLimits,
    mut ended: watch::Receiver<bool>,
) {
    // Tokens are small, and each is to go at once.
    _ = stream.set_nodelay(true);
    let service = hyper::service::service_fn(move |request: hyper::Request<Incoming>| {
        let mut request: Request = request.map(Body::new);
        request.extensions_mut().insert(Peer(Some(peer.ip())));
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

async fn refuse(mut stream: TcpStream) {
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
