//! A request's body that notes whether it was read to its end.

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
};

/// Whether the body was read as a whole; asked when the answer is there and the body may be gone.
#[derive(Clone)]
pub(crate) struct ReadToEnd(Arc<AtomicBool>);

impl ReadToEnd {
    pub(crate) fn get(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

pub(crate) struct Watched {
    inner: Incoming,
    ended: ReadToEnd,
}

impl Watched {
    pub(crate) fn new(inner: Incoming) -> (Self, ReadToEnd) {
        let ended = ReadToEnd(Arc::new(AtomicBool::new(inner.is_end_stream())));
        (Self { inner, ended: ended.clone() }, ended)
    }
}

impl Body for Watched {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(cx));
        if frame.is_none() || (matches!(frame, Some(Ok(_))) && self.inner.is_end_stream()) {
            self.ended.0.store(true, Ordering::Release);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
