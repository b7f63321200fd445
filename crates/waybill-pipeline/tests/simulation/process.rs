//! A process: a runtime of its own, which runs only when the simulation lets it, and which dies by being dropped.
//!
//! Invariants:
//! - [`Process::drive`] returns when nothing in the process can go on: every task waits at the gate, for another task, or for time.
//! - The runtime's clock stands still but for [`Process::advance`]. All runtimes tell the same time: a new one is set to
//!   [`Timeline`], to the millisecond. What is outside of the processes runs on the timeline itself.

use crate::{database::Slot, gate::Gate};
use std::{
    future::{Future, poll_fn},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
        mpsc,
    },
    task::{Poll, Waker},
    time::Duration,
};
use tokio::{
    runtime::{Builder, Runtime},
    time::Instant,
};

/// The time of the simulated world.
pub(crate) struct Timeline(Runtime);

impl Timeline {
    pub(crate) fn new() -> Self {
        let timeline = Self(Builder::new_current_thread().enable_time().start_paused(true).build().unwrap());
        // So far ahead of the real clock that no runtime begins behind it.
        timeline.advance(Duration::from_secs(86_400));
        timeline
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.0.block_on(tokio::time::advance(by));
    }

    pub(crate) fn now(&self) -> Instant {
        let _entered = self.0.enter();
        Instant::now()
    }

    /// Runs what is outside of all processes.
    pub(crate) fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.0.block_on(future)
    }

    /// For fakes that ask for the time.
    pub(crate) fn enter(&self) -> tokio::runtime::EnterGuard<'_> {
        self.0.enter()
    }
}

/// Nothing to do: seen so often in a row, all timers that are due have fired.
const IDLE_ROUNDS: u32 = 3;

#[derive(Default)]
struct Idle {
    rounds: AtomicU32,
    driver: Mutex<Option<Waker>>,
}

pub(crate) struct Process {
    runtime: Option<Runtime>,
    idle: Arc<Idle>,
    slot: Arc<Slot>,
    /// While it lives, the runtime's clock does not go forward by itself.
    _still: mpsc::Sender<()>,
    /// Time that passed while it was frozen.
    pub(crate) missed: Option<Duration>,
}

impl Process {
    /// Number `number` at the gate, with the connections of `slot`.
    pub(crate) fn start(number: usize, gate: &Gate, slot: &Arc<Slot>, timeline: &Timeline) -> Self {
        slot.use_gate(Some((gate.clone(), number)));
        let idle = Arc::<Idle>::default();
        let runtime = runtime(&idle, slot);
        // Tokio's paused clock jumps to the next timer when nothing runs, also while an answer of the database is on its way, but not
        // while a blocking task runs.
        let (still, over) = mpsc::channel::<()>();
        runtime.spawn_blocking(move || over.recv());
        let behind = {
            let _entered = runtime.enter();
            let now = Instant::now();
            timeline.now() - now
        };
        let process = Self { runtime: Some(runtime), idle, slot: slot.clone(), _still: still, missed: None };
        // Timers count whole milliseconds from the runtime's beginning; beside them it would be luck which of two is due.
        process.advance(Duration::from_millis(behind.as_millis() as u64));
        process
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("it lives until it is dropped")
    }

    /// Adds a task.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.runtime().spawn(task);
    }

    pub(crate) fn enter(&self) -> tokio::runtime::EnterGuard<'_> {
        self.runtime().enter()
    }

    pub(crate) fn drive(&self) {
        self.idle.rounds.store(0, Ordering::SeqCst);
        self.runtime().block_on(poll_fn(|context| {
            *self.idle.driver.lock().unwrap_or_else(PoisonError::into_inner) = Some(context.waker().clone());
            if self.idle.rounds.load(Ordering::SeqCst) >= IDLE_ROUNDS && self.slot.is_quiet() {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        }));
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.runtime().block_on(tokio::time::advance(by));
        self.drive();
    }
}

impl Drop for Process {
    /// As by SIGKILL: every future is dropped where it stands.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
        self.slot.use_gate(None);
    }
}

fn runtime(idle: &Arc<Idle>, slot: &Arc<Slot>) -> Runtime {
    let (seen, quiet) = (idle.clone(), slot.clone());
    Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .on_thread_park(move || {
            if !quiet.is_quiet() {
                seen.rounds.store(0, Ordering::SeqCst);
                return;
            }
            seen.rounds.fetch_add(1, Ordering::SeqCst);
            if let Some(driver) = &*seen.driver.lock().unwrap_or_else(PoisonError::into_inner) {
                driver.wake_by_ref();
            }
        })
        .build()
        .unwrap()
}
