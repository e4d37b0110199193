//! Where connections come in: an address, or a socket in the file system. Nothing here knows what is said on them.

use std::fs::{self, Permissions};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream};

/// Bytes of an answer that the system takes before the client has room for them. The less, the sooner an answer is held whose client does
/// not read; what is on its way is not counted, so that a long way does not slow anybody. A client's own system takes 128 kB besides.
const UNSENT_BYTES: u32 = 4 << 10;
/// Connections that wait to be taken in.
const BACKLOG: u32 = 1024;

/// What a server listens on.
#[derive(Debug)]
pub enum Door {
    /// An address.
    Tcp(TcpListener),
    /// A socket in the file system.
    Unix(UnixListener, SocketFile),
}

/// The file of a socket, until it is dropped.
#[derive(Debug)]
pub struct SocketFile(PathBuf);

/// A connection of either kind.
#[derive(Debug)]
pub enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Door {
    /// Listens on an address. What the system holds of answers is limited: who does not read is found out by it.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub fn at(address: SocketAddr) -> io::Result<Self> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // One that was used a moment ago may be used again.
        socket.set_reuseaddr(true)?;
        hold_little(&socket)?;
        socket.bind(address)?;
        socket.listen(BACKLOG).map(Self::Tcp)
    }

    /// Listens on a socket in the file system, which those may open that `mode` lets. One that a server left behind when it was killed is
    /// replaced, one on which somebody answers is not, and no other kind of file is.
    ///
    /// # Errors
    /// When there is something else, or the folder takes no socket.
    pub fn file(path: &Path, mode: u32) -> io::Result<Self> {
        match fs::symlink_metadata(path) {
            Ok(facts) if !facts.file_type().is_socket() => {
                return Err(io::Error::new(
                    io::ErrorKind::AlreadyExists,
                    "there is a file already, and it is no socket",
                ));
            }
            Ok(_) if std::os::unix::net::UnixStream::connect(path).is_ok() => {
                return Err(io::Error::new(io::ErrorKind::AddrInUse, "a server listens there already"));
            }
            Ok(_) | Err(_) => {}
        }
        // It gets its name when nobody can open it any more who may not.
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let early = path.with_file_name(format!(".{name}.{}", std::process::id()));
        let listener = UnixListener::bind(&early)?;
        let named = fs::set_permissions(&early, Permissions::from_mode(mode)).and_then(|()| fs::rename(&early, path));
        if let Err(error) = named {
            // What cannot be removed cannot be helped.
            _ = fs::remove_file(&early);
            return Err(error);
        }
        Ok(Self::Unix(listener, SocketFile(path.to_owned())))
    }

    /// The next connection, and where it comes from; nothing of one on this machine's own file.
    ///
    /// # Errors
    /// When no more files may be open, or the client is gone already.
    pub async fn accept(&self) -> io::Result<(Stream, Option<IpAddr>)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                // Tokens are small, and each is to go at once.
                _ = stream.set_nodelay(true);
                Ok((Stream::Tcp(stream), Some(peer.ip())))
            }
            Self::Unix(listener, _) => Ok((Stream::Unix(listener.accept().await?.0), None)),
        }
    }

    /// What clients call it.
    ///
    /// # Errors
    /// When the system does not know.
    pub fn url(&self, is_encrypted: bool) -> io::Result<String> {
        match self {
            Self::Tcp(listener) => {
                let scheme = if is_encrypted { "https" } else { "http" };
                Ok(format!("{scheme}://{}", listener.local_addr()?))
            }
            Self::Unix(_, SocketFile(path)) => Ok(format!("unix:{}", path.display())),
        }
    }
}

/// Has the system take little of what cannot be sent yet, on every connection that comes in at this socket.
#[cfg(target_os = "linux")]
fn hold_little(socket: &TcpSocket) -> io::Result<()> {
    socket2::SockRef::from(socket).set_tcp_notsent_lowat(UNSENT_BYTES)
}

/// The same where only the whole can be limited, with what is on its way.
#[cfg(not(target_os = "linux"))]
fn hold_little(socket: &TcpSocket) -> io::Result<()> {
    socket.set_send_buffer_size(8 * UNSENT_BYTES)
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Somebody may have removed it already.
        _ = fs::remove_file(&self.0);
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Unix(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Self::Unix(stream) => Pin::new(stream).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(context),
            Self::Unix(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_is_for_those_that_may_open_it_and_one_left_behind_is_replaced() {
        let folder = std::env::temp_dir().join(format!("kauri-door-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("kauri.sock");
        let door = Door::file(&path, 0o600).expect("a socket");
        assert_eq!(fs::metadata(&path).expect("it is there").permissions().mode() & 0o777, 0o600);
        assert_eq!(door.url(false).expect("a name"), format!("unix:{}", path.display()));
        let refused = Door::file(&path, 0o600).expect_err("somebody listens");
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        // A server that was killed leaves its file.
        let Door::Unix(listener, file) = door else { panic!("it is a socket") };
        std::mem::forget(file);
        drop(listener);
        let door = Door::file(&path, 0o660).expect("nobody answers there");
        assert_eq!(fs::metadata(&path).expect("it is there").permissions().mode() & 0o777, 0o660);
        drop(door);
        assert!(!path.exists(), "it goes with its server");
        fs::write(&path, "a letter").expect("written");
        let refused = Door::file(&path, 0o600).expect_err("a file that is no socket");
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).expect("untouched"), "a letter");
        fs::remove_dir_all(&folder).expect("removed");
    }
}
