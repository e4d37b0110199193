//! A response's body with somebody who watches it: how much of it goes out, whether all of it did, and when it is let go of.
//!
//! What a watcher does of it is its own affair: a line of the log, a span of a trace, a key that is held until then.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};

/// Who watches a body. It is dropped when the body is: after its last byte, or when its client is gone.
pub trait Watch: Send + Unpin + 'static {
    /// So many more bytes were handed over.
    fn sent(&mut self, _bytes: u64) {}
    /// All of it was handed over; may be said more than once.
    fn ended(&mut self) {}
}

/// The body as it was, watched.
pub fn watched(body: Body, watch: impl Watch) -> Body {
    Body::new(Watched { body, watch })
}

struct Watched<W: Watch> {
    body: Body,
    watch: W,
}

impl<W: Watch> http_body::Body for Watched<W> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let next = Pin::new(&mut self.body).poll_frame(context);
        match &next {
            Poll::Ready(Some(Ok(frame))) => {
                self.watch.sent(frame.data_ref().map_or(0, |data| data.len() as u64));
            }
            Poll::Ready(None) => self.watch.ended(),
            Poll::Ready(Some(Err(_))) | Poll::Pending => {}
        }
        next
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<W: Watch> Drop for Watched<W> {
    fn drop(&mut self) {
        // Where the length is known, nobody asks for what is behind the last.
        if self.body.is_end_stream() {
            self.watch.ended();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use http_body_util::BodyExt;

    use super::*;

    /// A body of unknown length.
    struct Pieces(Vec<&'static str>);

    impl http_body::Body for Pieces {
        type Data = Bytes;
        type Error = axum::Error;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
            Poll::Ready(self.0.pop().map(|text| Ok(Frame::data(Bytes::from(text)))))
        }
    }

    /// Bytes, whether that was all, and whether the watcher is gone.
    type Seen = Arc<Mutex<(u64, bool, bool)>>;

    struct Watcher(Seen);

    impl Watch for Watcher {
        fn sent(&mut self, bytes: u64) {
            self.0.lock().unwrap().0 += bytes;
        }

        fn ended(&mut self) {
            self.0.lock().unwrap().1 = true;
        }
    }

    impl Drop for Watcher {
        fn drop(&mut self) {
            self.0.lock().unwrap().2 = true;
        }
    }

    #[tokio::test]
    async fn a_watcher_hears_what_goes_out_and_is_gone_with_the_body() {
        let seen = Seen::default();
        let open = || watched(Body::new(Pieces(vec!["three", "one"])), Watcher(Arc::clone(&seen)));
        let all = open().collect().await.unwrap().to_bytes();
        assert_eq!((&all[..], *seen.lock().unwrap()), (&b"onethree"[..], (8, true, true)));

        *seen.lock().unwrap() = (0, false, false);
        let mut body = open();
        body.frame().await.unwrap().unwrap();
        assert_eq!(*seen.lock().unwrap(), (3, false, false), "it goes on");
        drop(body);
        assert_eq!(*seen.lock().unwrap(), (3, false, true), "its client is gone");

        *seen.lock().unwrap() = (0, false, false);
        let mut body = watched(Body::from("whole"), Watcher(Arc::clone(&seen)));
        body.frame().await.unwrap().unwrap();
        drop(body);
        assert_eq!(*seen.lock().unwrap(), (5, true, true), "its length is known");
    }
}
