//! Group commit for anything: requests that arrive while a batch is running share the next one.
//!
//! No timer: an idle system adds no delay, a busy one forms batches by itself, and each request gets its own answer. This is where
//! Waybill's speed comes from, since the expensive things are round trips and commits.

use futures::FutureExt as _;
use std::{future::Future, panic::AssertUnwindSafe, sync::Arc};
use tokio::sync::{Mutex, mpsc, oneshot};

/// A handle to a running batcher; clones share it. The lanes end when the last handle is dropped.
pub struct Batcher<Request, Answer> {
    sender: mpsc::Sender<(Request, oneshot::Sender<Answer>)>,
}

impl<Request, Answer> Clone for Batcher<Request, Answer> {
    fn clone(&self) -> Self {
        Self { sender: self.sender.clone() }
    }
}

/// The batch's task ended without an answer (it panicked, or the process is stopping).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the batch ended without an answer")]
pub struct BatchLost;

impl<Request: Send + 'static, Answer: Send + 'static> Batcher<Request, Answer> {
    /// Starts `lanes` tasks that each run one batch of at most `max` requests at a time. `run` answers in the order of its requests.
    pub fn spawn<F, Fut>(max: usize, lanes: usize, run: F) -> Self
    where
        F: Fn(Vec<Request>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Vec<Answer>> + Send + 'static,
    {
        let (sender, receiver) = mpsc::channel(max.saturating_mul(8).max(64));
        let receiver = Arc::new(Mutex::new(receiver));
        let run = Arc::new(run);
        for _ in 0..lanes.max(1) {
            tokio::spawn(lane(receiver.clone(), run.clone(), max));
        }
        Self { sender }
    }

    /// Waits for the answer to one request.
    ///
    /// # Errors
    /// [`BatchLost`]: nobody can say whether the batch ran.
    pub async fn submit(&self, request: Request) -> Result<Answer, BatchLost> {
        let (sender, receiver) = oneshot::channel();
        self.sender.send((request, sender)).await.map_err(|_| BatchLost)?;
        receiver.await.map_err(|_| BatchLost)
    }

    /// Submits several requests at once (they stand side by side in one batch where they fit) and waits for all answers.
    pub async fn submit_all(&self, requests: Vec<Request>) -> Vec<Result<Answer, BatchLost>> {
        let mut waiting = Vec::with_capacity(requests.len());
        for request in requests {
            let (sender, receiver) = oneshot::channel();
            let sent = self.sender.send((request, sender)).await.is_ok();
            waiting.push(sent.then_some(receiver));
        }
        let mut answers = Vec::with_capacity(waiting.len());
        for receiver in waiting {
            answers.push(match receiver {
                Some(receiver) => receiver.await.map_err(|_| BatchLost),
                None => Err(BatchLost),
            });
        }
        answers
    }
}

type Receiver<Request, Answer> = Arc<Mutex<mpsc::Receiver<(Request, oneshot::Sender<Answer>)>>>;

async fn lane<Request, Answer, F, Fut>(receiver: Receiver<Request, Answer>, run: Arc<F>, max: usize)
where
    F: Fn(Vec<Request>) -> Fut,
    Fut: Future<Output = Vec<Answer>>,
{
    loop {
        let mut requests = Vec::new();
        let mut answers = Vec::new();
        {
            // Only one lane collects at a time; the others are running their batches.
            let mut receiver = receiver.lock().await;
            let Some((request, answer)) = receiver.recv().await else { return };
            requests.push(request);
            answers.push(answer);
            while requests.len() < max {
                let Ok((request, answer)) = receiver.try_recv() else { break };
                requests.push(request);
                answers.push(answer);
            }
        }
        // A batch that panics loses its own answers and not the lane: a process without it would go on receiving and do nothing. Nothing
        // of the batch is looked at again, so there is no half-done state to trip over.
        let batch = AssertUnwindSafe(async { run(requests).await }).catch_unwind().await;
        match batch {
            Ok(done) => {
                for (sender, answer) in answers.into_iter().zip(done) {
                    // The caller may have gone away; its request was carried out all the same.
                    let _ = sender.send(answer);
                }
            }
            Err(_) => tracing::error!(requests = answers.len(), "batcher.batch_panicked"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        time::Duration,
    };

    fn counting(max: usize) -> (Batcher<usize, usize>, Arc<AtomicUsize>) {
        let batches = Arc::new(AtomicUsize::new(0));
        let counter = batches.clone();
        let batcher = Batcher::spawn(max, 1, move |requests: Vec<usize>| {
            counter.fetch_add(1, Ordering::Relaxed);
            async move {
                tokio::time::sleep(Duration::from_millis(5)).await;
                requests.into_iter().map(|r| r * 2).collect()
            }
        });
        (batcher, batches)
    }

    #[tokio::test(start_paused = true)]
    async fn requests_that_arrive_during_a_batch_share_the_next_one_and_each_gets_its_own_answer() {
        let (batcher, batches) = counting(100);
        let answers = futures::future::join_all((0..50).map(|n| batcher.submit(n))).await;
        assert_eq!(answers, (0..50).map(|n| Ok(n * 2)).collect::<Vec<_>>());
        assert!(batches.load(Ordering::Relaxed) <= 2, "{batches:?} batches for 50 requests");
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_is_no_larger_than_its_maximum() {
        let (batcher, batches) = counting(10);
        let answers = batcher.submit_all((0..25).collect()).await;
        assert_eq!(answers.len(), 25);
        assert!(batches.load(Ordering::Relaxed) >= 3);
    }

    #[tokio::test]
    async fn a_batch_that_panics_loses_its_own_answers_and_the_next_one_runs() {
        let batcher: Batcher<u8, u8> = Batcher::spawn(10, 1, |requests: Vec<u8>| {
            assert!(!requests.contains(&1), "before its first await");
            async move {
                assert!(!requests.contains(&2), "and within it");
                requests
            }
        });
        for bad in [1, 2] {
            assert_eq!(batcher.submit(bad).await, Err(BatchLost));
        }
        assert_eq!(batcher.submit(3).await, Ok(3));
    }

    #[tokio::test]
    async fn an_answer_that_is_missing_is_an_error_and_not_a_hang() {
        let batcher: Batcher<u8, u8> = Batcher::spawn(10, 1, |_| async { Vec::new() });
        assert_eq!(batcher.submit(1).await, Err(BatchLost));
    }
}
