//! Reading a request's body: bounded in bytes (received and decompressed) and in time.
//!
//! Compressed bodies are decoded as they arrive, so that a small bomb is refused at the limit and not after it has filled the memory.

use crate::{
    problem::{Code, Problem},
    state::ApiConfig,
};
use axum::{body::Body, extract::Request};
use bytes::Bytes;
use flate2::write::MultiGzDecoder;
use http_body_util::BodyExt as _;
use hyper::{
    HeaderMap,
    body::Body as _,
    header::{ACCEPT_ENCODING, CONTENT_ENCODING},
};
use std::io::{self, Write};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Identity,
    Gzip,
}

/// Reads the whole body.
///
/// # Errors
/// 415 for an encoding other than one gzip, 413 beyond the limit (before a byte is read when Content-Length says so), 408 at the deadline,
/// 400 when it ends early or isn't what its encoding says.
pub async fn read(request: Request, config: &ApiConfig) -> Result<Bytes, Problem> {
    let encoding = encoding(request.headers())?;
    let body = request.into_body();
    // A body that only says how large it is doesn't get read at all.
    if body.size_hint().lower() > config.max_body_bytes as u64 {
        return Err(too_large(config));
    }
    match tokio::time::timeout(config.body_timeout, collect(body, encoding, config)).await {
        Ok(result) => result,
        Err(_) => {
            let limit = config.body_timeout.as_secs_f64();
            Err(Problem::new(
                Code::BodyTimeout,
                format!("the whole body has to arrive within {limit} s (body_timeout)"),
            ))
        }
    }
}

fn encoding(headers: &HeaderMap) -> Result<Encoding, Problem> {
    let mut codings = headers
        .get_all(CONTENT_ENCODING)
        .iter()
        .flat_map(|value| value.as_bytes().split(|b| *b == b','))
        .map(|coding| coding.trim_ascii().to_ascii_lowercase());
    let refused = || {
        Problem::new(Code::UnsupportedEncoding, "send the body as it is or with `Content-Encoding: gzip`, once")
            .with_header(ACCEPT_ENCODING, "gzip, identity")
    };
    let encoding = match codings.next().as_deref() {
        None | Some(b"identity") => Encoding::Identity,
        Some(b"gzip" | b"x-gzip") => Encoding::Gzip,
        Some(_) => return Err(refused()),
    };
    if codings.next().is_some() { Err(refused()) } else { Ok(encoding) }
}

async fn collect(mut body: Body, encoding: Encoding, config: &ApiConfig) -> Result<Bytes, Problem> {
    let mut sink = Sink::new(encoding, config.max_body_bytes);
    let mut received = 0usize;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Problem::new(Code::InvalidBody, "the body ended before it was complete"))?;
        let Ok(data) = frame.into_data() else { continue };
        received = received.saturating_add(data.len());
        if received > config.max_body_bytes {
            return Err(too_large(config));
        }
        sink.write(&data).map_err(|e| refusal(&e, config))?;
    }
    sink.finish().map_err(|e| refusal(&e, config))
}

fn too_large(config: &ApiConfig) -> Problem {
    let limit = config.max_body_bytes;
    Problem::new(
        Code::BodyTooLarge,
        format!("the limit max_body_bytes is {limit}, for the bytes received and after decompression"),
    )
}

fn refusal(error: &io::Error, config: &ApiConfig) -> Problem {
    if error.kind() == io::ErrorKind::FileTooLarge {
        too_large(config)
    } else {
        Problem::new(Code::InvalidBody, "the body is not complete gzip, as its Content-Encoding says")
    }
}

enum Sink {
    Identity(Capped),
    Gzip(Box<MultiGzDecoder<Capped>>),
}

impl Sink {
    fn new(encoding: Encoding, max: usize) -> Self {
        let capped = Capped { out: Vec::new(), max };
        match encoding {
            Encoding::Identity => Sink::Identity(capped),
            Encoding::Gzip => Sink::Gzip(Box::new(MultiGzDecoder::new(capped))),
        }
    }

    fn write(&mut self, data: &[u8]) -> io::Result<()> {
        match self {
            Sink::Identity(capped) => capped.write_all(data),
            Sink::Gzip(decoder) => decoder.write_all(data),
        }
    }

    fn finish(self) -> io::Result<Bytes> {
        match self {
            Sink::Identity(capped) => Ok(capped.out.into()),
            Sink::Gzip(decoder) => Ok(decoder.finish()?.out.into()),
        }
    }
}

/// Takes `max` bytes and not one more.
struct Capped {
    out: Vec<u8>,
    max: usize,
}

impl Write for Capped {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if self.out.len() + data.len() > self.max {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.out.extend_from_slice(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
