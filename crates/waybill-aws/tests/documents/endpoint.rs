use aws_config::{BehaviorVersion, Region, SdkConfig, retry::RetryConfig};
use aws_sdk_s3::config::Credentials;
use axum::{
    Router,
    body::{Body, to_bytes},
    extract::Request,
    http::{HeaderMap, Method, Response},
};
use bytes::Bytes;
use std::{
    collections::VecDeque,
    future::Future,
    sync::{Arc, Mutex},
};

#[derive(Debug, Clone)]
pub struct Seen {
    pub method: Method,
    /// Path and query as they came.
    pub uri: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Seen {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

pub enum Answer {
    With(Response<Body>),
    /// The request was read, and the connection ends.
    HangUp,
}

pub fn answer(status: u16, headers: &[(&str, &str)], body: impl Into<Body>) -> Answer {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    Answer::With(response.body(body.into()).unwrap())
}

/// An HTTP server that stands for one service of AWS; it ends with the test's runtime.
pub struct Endpoint {
    url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Endpoint {
    pub async fn start<F, A>(answers: F) -> Self
    where
        F: Fn(Seen) -> A + Clone + Send + Sync + 'static,
        A: Future<Output = Answer> + Send + 'static,
    {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = seen.clone();
        let app = Router::new().fallback(async move |request: Request| {
            let (parts, body) = request.into_parts();
            let body = to_bytes(body, usize::MAX).await.unwrap();
            let seen = Seen { method: parts.method, uri: parts.uri.to_string(), headers: parts.headers, body };
            log.lock().unwrap().push(seen.clone());
            match answers(seen).await {
                Answer::With(response) => response,
                // Takes the connection's task down without a message.
                Answer::HangUp => std::panic::resume_unwind(Box::new(())),
            }
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { url, seen }
    }

    /// Gives these answers, one each; a request too many is answered with 599.
    pub async fn script(answers: impl IntoIterator<Item = Answer>) -> Self {
        let answers: Arc<Mutex<VecDeque<Answer>>> = Arc::new(Mutex::new(answers.into_iter().collect()));
        Self::start(move |_| {
            let next = answers.lock().unwrap().pop_front();
            async move { next.unwrap_or_else(|| answer(599, &[], "not in the script")) }
        })
        .await
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub async fn config(&self) -> SdkConfig {
        config(&self.url).await
    }
}

pub async fn config(url: &str) -> SdkConfig {
    aws_config::defaults(BehaviorVersion::latest())
        .region(Region::new("eu-central-1"))
        .credentials_provider(Credentials::new("test", "test", None, None, "test"))
        .retry_config(RetryConfig::disabled())
        .endpoint_url(url)
        .load()
        .await
}
