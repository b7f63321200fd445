//! A server that reads one request per connection and answers with fixed bytes, for answers that the sink never gives.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

pub(crate) struct TestServer {
    pub(crate) url: String,
    requests: Arc<AtomicUsize>,
    connections: Arc<AtomicUsize>,
}

impl TestServer {
    /// `answer` is written as it is, then the connection is closed. It may hold `{url}`.
    pub(crate) async fn start(answer: &str) -> Self {
        Self::serving(answer, false).await
    }

    /// The same, but the connection stays open for a second request.
    pub(crate) async fn keeping(answer: &str) -> Self {
        Self::serving(answer, true).await
    }

    async fn serving(answer: &str, keep: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (requests, connections) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let server = Self { requests: Arc::clone(&requests), connections: Arc::clone(&connections), url };
        let answer = answer.replace("{url}", &server.url);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::SeqCst);
                let (answer, requests) = (answer.clone(), Arc::clone(&requests));
                tokio::spawn(async move {
                    // Two requests at most: enough to see whether a connection is used again.
                    for _ in 0..if keep { 2 } else { 1 } {
                        serve(&mut stream, &answer, &requests).await;
                    }
                });
            }
        });
        server
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

async fn serve(stream: &mut TcpStream, answer: &str, requests: &AtomicUsize) {
    let mut request = Vec::new();
    while !is_whole(&request) {
        let mut chunk = [0; 8192];
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => return,
            Ok(read) => request.extend_from_slice(&chunk[..read]),
        }
    }
    requests.fetch_add(1, Ordering::SeqCst);
    // The client may be gone; then there is nobody to tell.
    drop(stream.write_all(answer.as_bytes()).await);
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length =
        head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
    body.len() >= length.unwrap_or(0)
}

/// Answers that no provider documents and that gateways, proxies and broken connections give all the same; with the outcome's word.
pub(crate) const STRANGE_ANSWERS: &[(&str, &str)] = &[
    ("", "unknown"),
    ("HTTP/1.1 20", "unknown"),
    ("this is not HTTP\r\n\r\n", "unknown"),
    ("HTTP/1.1 500 Oops\r\ncontent-length: 100\r\n\r\ncut", "unknown"),
    ("HTTP/1.1 307 Moved\r\nlocation: {url}/elsewhere\r\ncontent-length: 0\r\n\r\n", "unusable"),
    ("HTTP/1.1 404 Not Found\r\ncontent-type: text/html\r\ncontent-length: 13\r\n\r\n<html></html>", "unusable"),
    (
        "HTTP/1.1 413 Too Large\r\ncontent-type: text/html\r\ncontent-length: 13\r\n\r\n<html></html>",
        "rejected_message",
    ),
    ("HTTP/1.1 407 Proxy\r\ncontent-length: 0\r\n\r\n", "unusable"),
    ("HTTP/1.1 408 Timeout\r\ncontent-length: 0\r\n\r\n", "unknown"),
    ("HTTP/1.1 503 Unavailable\r\nretry-after: 5\r\ncontent-length: 0\r\n\r\n", "unknown"),
    ("HTTP/1.1 204 No Content\r\n\r\n", "unknown"),
];
