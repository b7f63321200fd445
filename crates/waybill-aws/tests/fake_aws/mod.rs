//! An endpoint on the loopback that speaks as SQS and EventBridge do (AWS JSON, action in `X-Amz-Target`) and as SNS does (form in, XML
//! out), and answers as the test says.

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_sqs::config::{Credentials, SharedCredentialsProvider};
use axum::{
    Router,
    body::{Body, Bytes},
    extract::{DefaultBodyLimit, Query, State},
    http::{HeaderMap, Response, Uri},
};
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

/// What the endpoint does with one request.
pub enum Reply {
    /// 200 as if all went well: every entry is taken.
    Well,
    Json(Value),
    /// An error of the service, with the code in the places where SQS has it.
    Error(u16, &'static str),
    /// The connection breaks within the answer: whatever was asked for has happened.
    BreakOff,
    /// No answer, ever.
    Hang,
}

type Handler = Box<dyn Fn(&Value) -> Reply + Send + Sync>;

#[derive(Default)]
struct Inner {
    handlers: Mutex<HashMap<&'static str, Handler>>,
    calls: Mutex<Vec<(String, Value)>>,
}

#[derive(Clone)]
pub struct FakeAws {
    pub url: String,
    inner: Arc<Inner>,
}

impl FakeAws {
    pub async fn start() -> Self {
        let inner = Arc::<Inner>::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let app = Router::new().fallback(serve).layer(DefaultBodyLimit::disable()).with_state(inner.clone());
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { url, inner }
    }

    /// From now on this action is answered so.
    pub fn on(&self, action: &'static str, handler: impl Fn(&Value) -> Reply + Send + Sync + 'static) {
        self.inner.handlers.lock().unwrap().insert(action, Box::new(handler));
    }

    /// The bodies of all requests for an action, in the order of their arrival.
    pub fn calls(&self, action: &str) -> Vec<Value> {
        let calls = self.inner.calls.lock().unwrap();
        calls.iter().filter(|(called, _)| called == action).map(|(_, body)| body.clone()).collect()
    }

    pub fn call_count(&self) -> usize {
        self.inner.calls.lock().unwrap().len()
    }

    /// With the SDK's own retries on: the adapters have to turn them off.
    pub async fn config(&self) -> SdkConfig {
        aws_config::defaults(BehaviorVersion::latest())
            .region(Region::new("eu-central-1"))
            .credentials_provider(SharedCredentialsProvider::new(Credentials::new("test", "test", None, None, "test")))
            .endpoint_url(&self.url)
            .load()
            .await
    }
}

async fn serve(State(inner): State<Arc<Inner>>, headers: HeaderMap, body: Bytes) -> Response<Body> {
    let (action, body) = match headers.get("x-amz-target").and_then(|target| target.to_str().ok()) {
        Some(target) => (target.rsplit('.').next().unwrap().to_owned(), serde_json::from_slice(&body).unwrap()),
        None => form(&body),
    };
    inner.calls.lock().unwrap().push((action.clone(), body.clone()));
    let reply = inner.handlers.lock().unwrap().get(action.as_str()).map_or(Reply::Well, |handler| handler(&body));
    match reply {
        Reply::Well => well(&action, &body),
        Reply::Json(answer) => answer_json(200, None, &answer),
        Reply::Error(status, code) => {
            let answer = json!({"__type": format!("com.amazonaws.sqs#{code}"), "message": "said the fake"});
            answer_json(status, Some(&format!("AWS.SimpleQueueService.{code};Sender")), &answer)
        }
        Reply::BreakOff => {
            let broken = futures::stream::iter([Ok(Bytes::from_static(b"{\"Succ")), Err(std::io::Error::other("cut"))]);
            Response::builder().header("content-length", "1000").body(Body::from_stream(broken)).unwrap()
        }
        Reply::Hang => std::future::pending().await,
    }
}

/// The query protocol: fields of a form.
fn form(body: &[u8]) -> (String, Value) {
    let uri: Uri = format!("/?{}", String::from_utf8_lossy(body)).parse().unwrap();
    let Query(fields) = Query::<HashMap<String, String>>::try_from_uri(&uri).unwrap();
    (fields["Action"].clone(), json!(fields))
}

fn answer_json(status: u16, query_error: Option<&str>, answer: &Value) -> Response<Body> {
    let mut response = Response::builder().status(status).header("content-type", "application/x-amz-json-1.0");
    if let Some(error) = query_error {
        response = response.header("x-amzn-query-error", error);
    }
    response.body(Body::from(answer.to_string())).unwrap()
}

fn well(action: &str, body: &Value) -> Response<Body> {
    let answer = match action {
        "GetQueueUrl" => json!({"QueueUrl": format!("http://fake/{}", body["QueueName"].as_str().unwrap())}),
        "GetQueueAttributes" => json!({"Attributes": attributes(body["QueueUrl"].as_str().unwrap())}),
        "PutEvents" => {
            let events = body["Entries"].as_array().unwrap();
            let ids: Vec<Value> = events.iter().map(|event| json!({"EventId": event["Detail"]})).collect();
            json!({"FailedEntryCount": 0, "Entries": ids})
        }
        "ReceiveMessage" => json!({}),
        "Publish" => {
            let xml = "<PublishResponse><PublishResult><MessageId>m</MessageId></PublishResult></PublishResponse>";
            return Response::new(Body::from(xml));
        }
        _ => json!({"Successful": ids(body).iter().map(|id| taken(id)).collect::<Vec<_>>(), "Failed": []}),
    };
    answer_json(200, None, &answer)
}

/// A queue as `infra/topology.json` has it.
pub fn attributes(url: &str) -> Value {
    let name = url.rsplit('/').next().unwrap();
    let mut attributes = json!({
        "MaximumMessageSize": "1048576", "VisibilityTimeout": "180", "MessageRetentionPeriod": "1209600",
        "ApproximateNumberOfMessages": "3", "ApproximateNumberOfMessagesNotVisible": "2",
        "ApproximateNumberOfMessagesDelayed": "1",
    });
    if !name.ends_with("-dead") {
        let target = format!("arn:aws:sqs:eu-central-1:000000000000:{name}-dead");
        let policy = json!({"deadLetterTargetArn": target, "maxReceiveCount": 5});
        attributes["RedrivePolicy"] = policy.to_string().into();
        attributes["MessageRetentionPeriod"] = "345600".into();
    }
    attributes
}

/// Ids of a batch request's entries.
pub fn ids(body: &Value) -> Vec<String> {
    body["Entries"].as_array().unwrap().iter().map(|entry| entry["Id"].as_str().unwrap().to_owned()).collect()
}

pub fn taken(id: &str) -> Value {
    json!({"Id": id, "MessageId": format!("m{id}"), "MD5OfMessageBody": "0".repeat(32)})
}

pub fn failed(id: &str, code: &str, sender_fault: bool) -> Value {
    json!({"Id": id, "Code": code, "SenderFault": sender_fault, "Message": "said the fake"})
}
