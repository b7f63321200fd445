//! The server over real sockets.

use crate::support::*;
use std::time::{Duration, Instant};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
    time::{sleep, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;
use waybill_api::{ApiConfig, ServeOptions, Served, Shutdown, serve};

struct Running {
    api: Api,
    address: std::net::SocketAddr,
    hard: CancellationToken,
    ended: JoinHandle<Served>,
}

async fn start(drain_delay: Duration, options: ServeOptions) -> Running {
    let api = api_with(ApiConfig { body_timeout: Duration::from_secs(30), ..ApiConfig::default() });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let hard = CancellationToken::new();
    let shutdown = Shutdown { soft: api.soft.clone(), hard: hard.clone(), drain_delay };
    let ended = tokio::spawn(serve(listener, api.router.clone(), shutdown, options));
    Running { api, address, hard, ended }
}

impl Running {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }
}

fn head(id: &str) -> (String, String) {
    let body = EVENT.replace("\"id\":\"1\"", &format!("\"id\":\"{id}\""));
    let head = format!(
        "POST /events HTTP/1.1\r\nhost: t\r\nauthorization: Bearer {KEY}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    (head, body)
}

/// Everything until the peer closes, or what came within five seconds.
async fn read_to_end(stream: &mut TcpStream) -> String {
    let mut out = Vec::new();
    timeout(Duration::from_secs(5), stream.read_to_end(&mut out)).await.expect("the server closes").ok();
    String::from_utf8(out).unwrap()
}

async fn read_some(stream: &mut TcpStream) -> String {
    let mut buffer = vec![0; 8192];
    let n = timeout(Duration::from_secs(5), stream.read(&mut buffer)).await.expect("an answer").unwrap();
    String::from_utf8(buffer[..n].to_vec()).unwrap()
}

async fn request(stream: &mut TcpStream, path: &str) -> String {
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: t\r\n\r\n").as_bytes()).await.unwrap();
    read_some(stream).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_03_a_stop_drains_finishes_what_is_in_flight_and_cuts_what_is_endless() {
    let server = start(Duration::from_millis(600), ServeOptions::default()).await;
    let begin = tokio::time::Instant::now();
    let after = |ms| sleep_until(begin + Duration::from_millis(ms));

    // One POST whose body takes 1.5 s, one idle keep-alive, one that never finishes its body, one that never says a word.
    let (head_a, body_a) = head("slow");
    let mut slow = server.connect().await;
    slow.write_all(format!("{head_a}{}", &body_a[..20]).as_bytes()).await.unwrap();
    let mut idle = server.connect().await;
    let alive = request(&mut idle, "/readyz").await;
    assert!(alive.starts_with("HTTP/1.1 200") && !alive.contains("connection: close"), "{alive}");
    let (head_c, body_c) = head("endless");
    let mut endless = server.connect().await;
    endless.write_all(format!("{head_c}{}", &body_c[..20]).as_bytes()).await.unwrap();
    let mut silent = server.connect().await;

    after(200).await;
    server.api.soft.cancel();

    // Within the drain delay: not ready, but new connections are served, and told not to stay.
    after(400).await;
    let not_ready = request(&mut server.connect().await, "/readyz").await;
    assert!(not_ready.starts_with("HTTP/1.1 503") && not_ready.contains("\"draining\""), "{not_ready}");
    let (head_d, body_d) = head("late");
    let mut late = server.connect().await;
    late.write_all(format!("{head_d}{body_d}").as_bytes()).await.unwrap();
    let late = read_to_end(&mut late).await;
    assert!(late.starts_with("HTTP/1.1 202") && late.contains("connection: close"), "{late}");

    // After it: no listener; idle connections are closed.
    after(1100).await;
    assert!(TcpStream::connect(server.address).await.is_err());
    assert_eq!(read_to_end(&mut idle).await, "");
    assert_eq!(read_to_end(&mut silent).await, "");
    assert!(!server.ended.is_finished());

    // The slow one gets its 202.
    after(1500).await;
    slow.write_all(&body_a.as_bytes()[20..]).await.unwrap();
    let answer = read_to_end(&mut slow).await;
    assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");

    // The endless one is cut at the deadline, and every 202 has its row.
    assert!(!server.ended.is_finished());
    server.hard.cancel();
    assert_eq!(timeout(Duration::from_secs(2), server.ended).await.unwrap().unwrap(), Served { cut: 1 });
    assert_eq!(read_to_end(&mut endless).await, "");
    let ids: Vec<_> = server.api.fake.rows.lock().unwrap().iter().map(|row| row.2.id.clone()).collect();
    assert_eq!(ids, ["late", "slow"]);
}

#[tokio::test]
async fn in_03_an_idle_server_stops_right_after_the_drain_delay() {
    let server = start(Duration::from_millis(100), ServeOptions::default()).await;
    let started = Instant::now();
    server.api.soft.cancel();
    assert_eq!(timeout(Duration::from_secs(3), server.ended).await.unwrap().unwrap(), Served { cut: 0 });
    assert!(started.elapsed() >= Duration::from_millis(100) && !server.hard.is_cancelled());
}

#[tokio::test]
async fn in_02_a_refusal_before_the_body_was_read_reaches_a_client_that_is_still_sending() {
    let server = start(Duration::ZERO, ServeOptions::default()).await;
    let mut stream = server.connect().await;
    let head = "POST /events HTTP/1.1\r\nhost: t\r\ncontent-type: application/json\r\ncontent-length: 1000000\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    for _ in 0..10 {
        // Slowly: after a reset one of the later writes would fail.
        stream.write_all(&[b' '; 100_000]).await.unwrap();
        sleep(Duration::from_millis(20)).await;
    }
    let answer = read_to_end(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 401") && answer.contains("/problems/unauthorized"), "{answer}");
}

#[tokio::test]
async fn sqs_03_a_control_character_in_a_header_never_gets_in() {
    let server = start(Duration::ZERO, ServeOptions::default()).await;
    let mut stream = server.connect().await;
    let (head, body) = head("1");
    let head = head.replace("host: t", "host: t\r\nx-request-id: a\u{1}b");
    stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    let answer = read_to_end(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert!(server.api.fake.rows_of(TENANT).is_empty());
}

#[tokio::test]
async fn silent_and_dawdling_connections_are_closed_and_the_number_of_connections_is_bounded() {
    let options = ServeOptions {
        max_connections: 1,
        first_byte_timeout: Duration::from_millis(150),
        header_read_timeout: Duration::from_millis(150),
    };
    let server = start(Duration::ZERO, options).await;
    let mut silent = server.connect().await;
    sleep(Duration::from_millis(30)).await;
    // Waits in the backlog until the silent one is gone.
    let mut second = server.connect().await;
    let started = Instant::now();
    assert!(request(&mut second, "/healthz").await.starts_with("HTTP/1.1 200"));
    assert!(started.elapsed() >= Duration::from_millis(80), "{:?}", started.elapsed());
    assert_eq!(read_to_end(&mut silent).await, "");
    drop(second);
    let mut dawdling = server.connect().await;
    dawdling.write_all(b"GET /healthz HTTP/1.1\r\nhost:").await.unwrap();
    assert!(!read_to_end(&mut dawdling).await.contains("200"));
}

/// An answer that comes before the body was read ends the connection: the rest of the body is thrown away, and so would be the next
/// request. Whoever keeps connections in a pool has to be told (RFC 9112 section 9.6).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_02_an_answer_before_the_body_was_read_says_that_the_connection_closes() {
    let server = start(Duration::ZERO, ServeOptions::default()).await;
    let refused = "POST /events HTTP/1.1\r\nhost: t\r\ncontent-length: 5\r\n\r\n";
    for body_comes_with_the_head in [false, true] {
        let mut stream = server.connect().await;
        let text = if body_comes_with_the_head { format!("{refused}12345") } else { refused.to_owned() };
        stream.write_all(text.as_bytes()).await.unwrap();
        let answer = read_some(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
        assert!(answer.contains("connection: close"), "{answer}");
        assert_eq!(read_to_end(&mut stream).await, "");
    }
    // Whatever was read as a whole leaves the connection as it was.
    let (head, body) = head("whole");
    let mut stream = server.connect().await;
    for status in ["202", "202"] {
        stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        let answer = read_some(&mut stream).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")) && !answer.contains("connection: close"), "{answer}");
    }
    let empty = request(&mut stream, "/readyz").await;
    assert!(empty.starts_with("HTTP/1.1 200") && !empty.contains("connection: close"), "{empty}");
}
