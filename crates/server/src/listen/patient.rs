//! A stream whose other end must take what it is sent within a time.

use std::future::Future;
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// A stream that breaks when nothing could be written for a time though something was to be.
pub struct Patient<S> {
    stream: S,
    time_max: Duration,
    clock: Pin<Box<Sleep>>,
    is_waiting: bool,
}

impl<S> Patient<S> {
    pub fn new(stream: S, time_max: Duration) -> Self {
        Self { stream, time_max, clock: Box::pin(sleep(time_max)), is_waiting: false }
    }

    fn watch<T>(&mut self, result: Poll<Result<T>>, context: &mut Context<'_>) -> Poll<Result<T>> {
        if result.is_ready() {
            self.is_waiting = false;
            return result;
        }
        if !self.is_waiting {
            self.is_waiting = true;
            self.clock.as_mut().reset(Instant::now() + self.time_max);
        }
        match self.clock.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(Error::new(ErrorKind::TimedOut, "the client takes nothing"))),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(result, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.watch(result, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let result = Pin::new(&mut self.stream).poll_flush(context);
        self.watch(result, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let result = Pin::new(&mut self.stream).poll_shutdown(context);
        self.watch(result, context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_takes_nothing_for_too_long_is_given_up() {
        let (ours, mut theirs) = tokio::io::duplex(16);
        let mut stream = Patient::new(ours, Duration::from_secs(5));
        stream.write_all(&[0; 16]).await.expect("there is room");
        let wait = async {
            sleep(Duration::from_secs(4)).await;
            let mut taken = [0; 8];
            theirs.read_exact(&mut taken).await.expect("what was sent");
        };
        let (written, ()) = tokio::join!(stream.write_all(&[0; 8]), wait);
        written.expect("it was taken in time");
        let error = stream.write_all(&[0; 1]).await.expect_err("nobody takes it");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }
}
