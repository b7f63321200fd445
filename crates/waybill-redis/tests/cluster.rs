//! The lock on a real cluster: three `redis-server` processes on loopback, a third of the slots each.

#![allow(clippy::disallowed_methods, reason = "tests run on the real clock")]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use redis::{Client, Connection, cmd};
use std::{
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};
use waybill_core::ports::{Lock, LockAnswer, LockRequest};
use waybill_redis::RedisLock;
use waybill_testkit::contract;

const TTL: Duration = Duration::from_secs(60);
const SLOTS: u16 = 16_384;

struct Node {
    port: u16,
    folder: PathBuf,
    process: Child,
}

impl Node {
    fn start(port: u16, folder: PathBuf) -> Node {
        std::fs::create_dir_all(&folder).unwrap();
        let process = spawn(port, &folder);
        Node { port, folder, process }
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    fn again(&mut self) {
        self.process = spawn(self.port, &self.folder);
    }

    fn connection(&self) -> Connection {
        let client = Client::open(("127.0.0.1", self.port)).unwrap();
        eventually("a node answers", || client.get_connection_with_timeout(Duration::from_millis(500)).ok())
    }

    fn ask(&self, words: &[&str]) -> String {
        cmd("CLUSTER").arg(words).query(&mut self.connection()).unwrap()
    }

    fn is_ready(&self) -> bool {
        self.ask(&["INFO"]).contains("cluster_state:ok")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn spawn(port: u16, folder: &Path) -> Child {
    let port = port.to_string();
    let settings = ["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"];
    let cluster = ["--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-node-timeout", "2000"];
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("services").join("cache");
    let server = waybill_services::redis_server(&waybill_services::RedisOptions::new(cache)).expect("a Redis");
    let mut command = Command::new(server);
    command.args(settings).args(cluster).arg("--dir").arg(folder).stdout(Stdio::null());
    command.spawn().expect("starts redis-server")
}

fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(30) {
        if let Some(found) = look() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("not within 30 s: {what}");
}

/// Nodes talk to each other on a second port, 10,000 above.
fn free_ports() -> u16 {
    eventually("two free ports", || {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let other = port.checked_add(10_000)?;
        TcpListener::bind(("127.0.0.1", other)).ok().map(|_| port)
    })
}

fn cluster(name: &str) -> Vec<Node> {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let nodes: Vec<Node> = (0..3_u16)
        .map(|n| {
            let port = free_ports();
            Node::start(port, folder.join(format!("cluster-{name}-{n}-{}", std::process::id())))
        })
        .collect();
    for (n, node) in (0_u16..).zip(&nodes) {
        let third = |n: u16| u16::try_from(u32::from(SLOTS) * u32::from(n) / 3).unwrap();
        let slots: Vec<u16> = (third(n)..third(n + 1)).collect();
        let mut connection = node.connection();
        let () = cmd("CLUSTER").arg("ADDSLOTS").arg(slots).query(&mut connection).unwrap();
        let () = cmd("CLUSTER").arg("MEET").arg("127.0.0.1").arg(nodes[0].port).query(&mut connection).unwrap();
    }
    eventually("the cluster is whole", || nodes.iter().all(Node::is_ready).then_some(()));
    nodes
}

fn lock(nodes: &[Node]) -> RedisLock {
    RedisLock::connect(&format!("redis-cluster://127.0.0.1:{}", nodes[0].port)).unwrap()
}

fn requests(count: usize, owner: &str) -> Vec<LockRequest> {
    (0..count).map(|n| LockRequest { key: format!("notif:cluster:{n}"), owner: owner.into() }).collect()
}

async fn until_it_answers(lock: &RedisLock, requests: &[LockRequest]) -> Vec<LockAnswer> {
    for _ in 0..300 {
        match lock.acquire(requests, TTL).await {
            Ok(answers) => return answers,
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
    panic!("no answer for thirty seconds");
}

#[tokio::test(flavor = "multi_thread")]
async fn rl_01_a_cluster_keeps_the_contract_of_the_lock() {
    let nodes = cluster("contract");
    contract::lock::run(&lock(&nodes)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_of_all_nodes_are_one_batch_each_way() {
    let nodes = cluster("batch");
    let lock = lock(&nodes);
    let (mine, others) = (requests(90, "a"), requests(90, "b"));
    assert_eq!(lock.acquire(&mine, TTL).await.unwrap(), vec![LockAnswer::Acquired; 90]);
    assert_eq!(lock.acquire(&mine, TTL).await.unwrap(), vec![LockAnswer::HeldBySelf; 90]);
    assert_eq!(lock.acquire(&others, TTL).await.unwrap(), vec![LockAnswer::HeldByOther("a".into()); 90]);
    assert_eq!(lock.round_trips(), 3);
    for node in &nodes {
        let keys: usize = cmd("DBSIZE").query(&mut node.connection()).unwrap();
        assert!(keys > 10, "port {}: {keys} keys", node.port);
    }
    assert_eq!(lock.release(&others).await, Ok(0), "no node knew the script; each has it now");
    assert_eq!(lock.round_trips(), 5);
    assert_eq!(lock.release(&mine).await, Ok(90));
    assert_eq!(lock.round_trips(), 6);
}

/// Scaling moves slots between nodes while we run: the old owner's answer names the new one.
#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_moved_is_followed() {
    let nodes = cluster("moved");
    let lock = lock(&nodes);
    let mine = [LockRequest { key: "notif:cluster:moved".into(), owner: "a".into() }];
    assert_eq!(lock.acquire(&mine, TTL).await.unwrap(), [LockAnswer::Acquired]);
    assert_eq!(lock.release(&mine).await, Ok(1)); // an empty slot moves without its keys
    let slot: u16 = cmd("CLUSTER").arg("KEYSLOT").arg(&mine[0].key).query(&mut nodes[0].connection()).unwrap();
    let from = usize::from(slot) * 3 / usize::from(SLOTS);
    let to = (from + 1) % 3;
    let id = nodes[to].ask(&["MYID"]);
    for node in [to, from] {
        nodes[node].ask(&["SETSLOT", &slot.to_string(), "NODE", &id]);
    }
    assert_eq!(until_it_answers(&lock, &mine).await, [LockAnswer::Acquired]);
    let keys: Vec<String> =
        cmd("CLUSTER").arg("GETKEYSINSLOT").arg(slot).arg(10).query(&mut nodes[to].connection()).unwrap();
    assert_eq!(keys, [mine[0].key.clone()]);
    assert_eq!(lock.release(&mine).await, Ok(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_is_down_costs_little_and_is_found_when_it_comes_back() {
    let mut nodes = cluster("down");
    let lock = lock(&nodes);
    let mine = requests(30, "a");
    assert_eq!(lock.acquire(&mine, TTL).await.unwrap(), vec![LockAnswer::Acquired; 30]);
    nodes.iter_mut().for_each(Node::kill);
    let begin = Instant::now();
    assert!(lock.acquire(&mine, TTL).await.is_err());
    assert!(begin.elapsed() < Duration::from_millis(1500), "{:?}", begin.elapsed());
    let (begin, asked) = (Instant::now(), lock.round_trips());
    for _ in 0..1000 {
        assert!(lock.acquire(&mine, TTL).await.is_err());
    }
    assert!(begin.elapsed() < Duration::from_millis(500), "nobody waits: {:?}", begin.elapsed());
    assert_eq!(lock.round_trips(), asked, "and nobody asks");
    nodes.iter_mut().for_each(Node::again);
    eventually("the cluster is whole again", || nodes.iter().all(Node::is_ready).then_some(()));
    assert_eq!(until_it_answers(&lock, &mine).await, vec![LockAnswer::Acquired; 30], "a restart forgets all locks");
    assert_eq!(lock.release(&mine).await, Ok(30));
}

#[tokio::test]
async fn a_wrong_address_of_a_cluster_is_refused_without_repeating_it() {
    let Err(error) = RedisLock::connect("no-redis-cluster://:secret@127.0.0.1") else { panic!("taken") };
    assert!(!error.to_string().contains("secret"), "{error}");
}
