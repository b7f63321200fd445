//! The binary under test as a child process, and what Linux says about it.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use tokio::time::Instant;

use crate::world::{REGION, World};

const READY_WITHIN: Duration = Duration::from_secs(30);
/// More than a drain takes: what it has received goes back to the queue before it ends.
const STOPPED_WITHIN: Duration = Duration::from_secs(40);
/// Of memory, while under load.
const SAMPLE: Duration = Duration::from_millis(100);
/// `utime` and `stime` in proc(5) are in these; it is 100 on every architecture that Linux reports to user space.
const TICKS_PER_SECOND: f64 = 100.0;

/// A running `waybill all`; killed when dropped, which is as good an end as any for a process with nothing in flight.
pub(crate) struct Waybill {
    child: Child,
    log: PathBuf,
    /// From the start of the process to its first good `/readyz`.
    pub(crate) ready_after: Duration,
}

impl Waybill {
    /// Starts it with default settings, apart from addresses and from the order of `providers`, and waits until it is ready.
    pub(crate) async fn start(world: &World, providers: &str) -> Result<Waybill> {
        let log = world.folder.join(format!("waybill-{}.log", providers.replace(',', "-")));
        let file = File::create(&log).with_context(|| format!("creating {}", log.display()))?;
        let mut command = Command::new(&world.binary);
        // Nothing of the caller's environment but what a process needs to run: no setting may leak into the measurement.
        command.arg("all").env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.envs([
            ("DATABASE_URL", world.database_url.as_str()),
            ("REDIS_URL", &world.redis_url),
            ("WAYBILL_API_LISTEN", &world.api.to_string()),
            ("WAYBILL_OPS_LISTEN", &world.ops.to_string()),
            ("WAYBILL_PROVIDERS", providers),
            ("AWS_ENDPOINT_URL_SESV2", &world.sink_url),
            ("AWS_REGION", REGION),
            ("AWS_ACCESS_KEY_ID", "bench"),
            ("AWS_SECRET_ACCESS_KEY", "bench"),
            ("WAYBILL_SENDGRID_BASE_URL", &world.sink_url),
            ("WAYBILL_SENDGRID_API_KEY", "SG.bench"),
            ("WAYBILL_DATA_DIR", &world.folder.join("data").to_string_lossy()),
        ]);
        if let Some(sqs) = &world.sqs {
            command.envs([
                ("WAYBILL_QUEUE", "sqs"),
                ("WAYBILL_SQS_PREFIX", &sqs.prefix),
                ("AWS_ENDPOINT_URL_SQS", &sqs.endpoint),
            ]);
        }
        command.stdin(Stdio::null()).stdout(file.try_clone().context("sharing the log")?).stderr(file);
        let started = Instant::now();
        let child = command.spawn().with_context(|| format!("starting {}", world.binary.display()))?;
        let mut process = Waybill { child, log, ready_after: Duration::ZERO };
        let url = format!("http://{}/readyz", world.ops);
        while !world.http.get(&url).send().await.is_ok_and(|answer| answer.status().is_success()) {
            process.still_runs()?;
            if started.elapsed() > READY_WITHIN {
                bail!("waybill is not ready after {} s, see {}", READY_WITHIN.as_secs(), process.log.display());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        process.ready_after = started.elapsed();
        Ok(process)
    }

    /// # Errors
    /// When the process has ended, with the end of its log.
    pub(crate) fn still_runs(&mut self) -> Result<()> {
        let Some(status) = self.child.try_wait().context("looking at the process")? else { return Ok(()) };
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let tail: Vec<&str> = log.lines().rev().take(10).collect();
        bail!("waybill ended with {status}:\n{}", tail.into_iter().rev().collect::<Vec<_>>().join("\n"));
    }

    /// Resident memory (`VmRSS` in proc(5)) in MB of 1,000,000 octets.
    pub(crate) fn rss_mb(&self) -> Result<f64> {
        let kib = resident(self.child.id()).context("no VmRSS")?;
        Ok(kib_to_mb(kib))
    }

    /// CPU time so far, user and system, in seconds.
    pub(crate) fn cpu_seconds(&self) -> Result<f64> {
        cpu_seconds(self.child.id())
    }

    /// Open files and sockets.
    pub(crate) fn open_files(&self) -> Result<f64> {
        let folder = format!("/proc/{}/fd", self.child.id());
        Ok(std::fs::read_dir(folder).context("looking at the open files")?.count() as f64)
    }

    /// Octets of log so far.
    pub(crate) fn logged(&self) -> Result<u64> {
        Ok(std::fs::metadata(&self.log).context("looking at the log")?.len())
    }

    /// Watches resident memory until the returned value is asked.
    pub(crate) fn watch_memory(&self) -> MemoryWatch {
        watch_memory(vec![self.child.id()])
    }

    /// Ends it as a deploy does, and waits. A killed process takes its open receives with it: what a queue answers to them is invisible for
    /// as long as if somebody worked on it.
    pub(crate) async fn stop(mut self) -> Result<()> {
        let asked =
            Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().context("running kill")?;
        ensure!(asked.success(), "the process could not be asked to end");
        let started = Instant::now();
        while self.child.try_wait().context("looking at the process")?.is_none() {
            ensure!(started.elapsed() < STOPPED_WITHIN, "waybill did not end within {} s", STOPPED_WITHIN.as_secs());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// Lines of the log at WARN or ERROR: a quiet log is part of a good run.
    pub(crate) fn complaints(&self) -> usize {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        log.lines().filter(|line| line.contains(" WARN ") || line.contains(" ERROR ")).count()
    }
}

impl Drop for Waybill {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) struct MemoryWatch {
    most: Arc<AtomicU64>,
    task: tokio::task::JoinHandle<()>,
}

impl MemoryWatch {
    /// The most that was seen so far, in MB.
    pub(crate) fn so_far_mb(&self) -> f64 {
        kib_to_mb(self.most.load(Ordering::Relaxed))
    }

    /// The most that was seen, in MB.
    pub(crate) fn most_mb(self) -> f64 {
        self.task.abort();
        kib_to_mb(self.most.load(Ordering::Relaxed))
    }
}

/// Watches the resident memory of processes together, until one of them ends or the returned value is asked.
pub(crate) fn watch_memory(pids: Vec<u32>) -> MemoryWatch {
    let most = Arc::new(AtomicU64::new(0));
    let seen = most.clone();
    let task = tokio::spawn(async move {
        while let Some(kib) = pids.iter().map(|pid| resident(*pid)).sum() {
            seen.fetch_max(kib, Ordering::Relaxed);
            tokio::time::sleep(SAMPLE).await;
        }
    });
    MemoryWatch { most, task }
}

/// CPU time of a process so far, user and system, in seconds.
pub(crate) fn cpu_seconds(pid: u32) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).context("reading /proc")?;
    ticks(&stat).map(|ticks| ticks / TICKS_PER_SECOND).context("no CPU time in /proc")
}

fn resident(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    vm_rss(&status)
}

/// `VmRSS:   12345 kB`, where kB are 1,024 octets.
fn vm_rss(status: &str) -> Option<u64> {
    status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.split_whitespace().next()?.parse().ok()
}

fn kib_to_mb(kib: u64) -> f64 {
    kib as f64 * 1_024.0 / 1_000_000.0
}

/// Fields 14 and 15 of proc(5) `stat`. The name in field 2 may hold anything, so counting begins after its parenthesis.
fn ticks(stat: &str) -> Option<f64> {
    let (_, after) = stat.rsplit_once(')')?;
    let mut fields = after.split_whitespace().skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some((user + system) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_and_time_are_read_as_the_kernel_writes_them() {
        assert_eq!(vm_rss("Name:\twaybill\nVmHWM:\t  9 kB\nVmRSS:\t   47104 kB\n"), Some(47_104));
        assert_eq!(vm_rss("Name:\tx\n"), None);
        let stat = "12 (a ) b) S 1 12 12 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 4 0 100 1 2";
        assert_eq!(ticks(stat), Some(300.0));
        assert_eq!(ticks("12 (x"), None);
    }

    #[test]
    fn our_own_process_has_memory() {
        assert!(resident(std::process::id()).unwrap() > 100);
    }
}
