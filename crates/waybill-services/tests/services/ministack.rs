//! A real emulator of AWS. It comes from PyPI, so all of its tests are left out by default.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use super::support::{Folder, cache, runs, signal};
use waybill_services::{Ministack, MinistackOptions};

/// The signature says whose region it is; nobody checks it.
const SIGNATURE: &str =
    "AWS4-HMAC-SHA256 Credential=test/20260101/eu-central-1/sqs/aws4_request, SignedHeaders=host, Signature=0";

fn start(folder: &Folder) -> Ministack {
    Ministack::start(&MinistackOptions::new(folder.0.join("data"), cache())).unwrap()
}

fn request(ministack: &Ministack, line: &str, headers: &str, body: &str) -> String {
    let address = ministack.endpoint().strip_prefix("http://").unwrap().to_owned();
    let mut stream = TcpStream::connect(&address).unwrap();
    let head = format!("{line} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}");
    stream.write_all(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn sqs(ministack: &Ministack, action: &str, body: &str) -> String {
    let headers = format!(
        "X-Amz-Target: AmazonSQS.{action}\r\nContent-Type: application/x-amz-json-1.0\r\nAuthorization: {SIGNATURE}\r\n"
    );
    request(ministack, "POST /", &headers, body)
}

fn left(folder: &Path) -> usize {
    std::fs::read_dir(folder).map_or(0, Iterator::count)
}

#[test]
#[ignore = "downloads 22 MB from PyPI once; `cargo xtask test --wheels` runs it"]
fn the_wheel_of_the_emulator_answers_and_leaves_nothing_behind() {
    let folder = Folder::new("ministack");
    let mut ministack = start(&folder);
    let created = sqs(&ministack, "CreateQueue", r#"{"QueueName":"q"}"#);
    assert!(created.starts_with("HTTP/1.1 200") && created.contains("/q\""), "{created}");
    let put = request(&ministack, "PUT /bucket", "", "");
    assert!(put.starts_with("HTTP/1.1 200"), "{put}");
    request(&ministack, "PUT /bucket/key", "", "hello");
    let got = request(&ministack, "GET /bucket/key", "", "");
    assert!(got.ends_with("hello"), "{got}");

    let (pid, endpoint) = (ministack.pid(), ministack.endpoint());
    assert!(runs(pid) && ministack.folder().is_dir());
    ministack.stop().unwrap();
    assert!(!runs(pid));
    assert_eq!(left(&folder.0.join("data")), 0);
    assert!(TcpStream::connect(endpoint.strip_prefix("http://").unwrap()).is_err());
    ministack.stop().unwrap();
}

#[test]
#[ignore = "downloads 22 MB from PyPI once; `cargo xtask test --wheels` runs it"]
fn the_wheel_of_the_emulator_comes_back_empty_at_the_same_address() {
    let folder = Folder::new("ministack-restart");
    let mut ministack = start(&folder);
    sqs(&ministack, "CreateQueue", r#"{"QueueName":"lost"}"#);
    assert!(sqs(&ministack, "ListQueues", "{}").contains("/lost"));
    let (endpoint, pid) = (ministack.endpoint(), ministack.pid());
    signal("KILL", pid);
    ministack.restart().unwrap();
    assert_ne!(ministack.pid(), pid);
    assert_eq!(ministack.endpoint(), endpoint);
    let listed = sqs(&ministack, "ListQueues", "{}");
    assert!(listed.starts_with("HTTP/1.1 200") && !listed.contains("/lost"), "{listed}");
}

/// The kernel's list of its sockets: every one that listens does so on 127.0.0.1.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "downloads 22 MB from PyPI once; `cargo xtask test --wheels` runs it"]
fn the_wheel_of_the_emulator_listens_on_loopback_only_and_knows_nothing_of_ours() {
    let folder = Folder::new("ministack-closed");
    let ministack = start(&folder);
    let process = Path::new("/proc").join(ministack.pid().to_string());
    let sockets: Vec<String> = std::fs::read_dir(process.join("fd"))
        .unwrap()
        .filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok())
        .filter_map(|to| Some(to.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect();
    let mut listening = Vec::new();
    for table in ["net/tcp", "net/tcp6"] {
        let table = std::fs::read_to_string(process.join(table)).unwrap_or_default();
        for line in table.lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            if fields[3] == "0A" && sockets.iter().any(|inode| inode == fields[9]) {
                listening.push(fields[1].split(':').next().unwrap().to_owned());
            }
        }
    }
    assert_eq!(listening, ["0100007F"]);

    let environment = std::fs::read(process.join("environ")).unwrap();
    let environment = String::from_utf8_lossy(&environment);
    let names: Vec<&str> = environment.split('\0').filter_map(|line| line.split('=').next()).collect();
    assert!(names.contains(&"GATEWAY_PORT"), "{names:?}");
    assert!(!names.iter().any(|name| name.starts_with("CARGO")), "{names:?}");
}
