//! The queues of a world, local or SQS, for tests that look at them or put something on them.

use super::aws::AwsUnderTest;
use sqlx::PgPool;
use std::time::{Duration, Instant};
use waybill_aws::SqsQueue;
use waybill_core::ports::{MAX_BATCH, OutgoingMessage, QueueName};
use waybill_local::{LocalQueue, LocalQueueConfig};

pub enum QueueUnderTest {
    Local(LocalQueue),
    Sqs(SqsQueue),
}

impl QueueUnderTest {
    pub async fn of(pool: &PgPool, aws: Option<&AwsUnderTest>) -> Self {
        match aws {
            Some(aws) => Self::Sqs(aws.queue().await),
            None => Self::Local(LocalQueue::new(pool.clone(), LocalQueueConfig { max_receive_count: 5 })),
        }
    }

    fn port(&self) -> &dyn waybill_core::ports::Queue {
        match self {
            Self::Local(queue) => queue,
            Self::Sqs(queue) => queue,
        }
    }

    /// Messages on a queue, whether they are visible or not.
    pub async fn depth(&self, queue: QueueName) -> u64 {
        let depth = self.port().depth(queue).await.expect("asks the queue");
        depth.visible + depth.in_flight + depth.delayed
    }

    pub async fn dead_letters(&self) -> u64 {
        let mut sum = 0;
        for queue in QueueName::ALL.into_iter().filter(|queue| queue.dead_letter().is_none()) {
            sum += self.depth(queue).await;
        }
        sum
    }

    /// Waits until a queue holds so many messages.
    pub async fn until(&self, what: &str, queue: QueueName, wanted: u64) {
        let started = Instant::now();
        loop {
            let found = self.depth(queue).await;
            if found == wanted {
                return;
            }
            assert!(started.elapsed() < Duration::from_secs(60), "{what}: still {found}, not {wanted}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub async fn send(&self, queue: QueueName, bodies: &[String]) {
        let messages: Vec<_> =
            bodies.iter().map(|body| OutgoingMessage { body: body.clone(), ..OutgoingMessage::default() }).collect();
        let sent = self.port().send_batch(queue, &messages).await.expect("sends");
        assert!(sent.iter().all(Result::is_ok), "{sent:?}");
    }

    /// Takes what is visible off a queue, as an expiry would.
    pub async fn lose(&self, queue: QueueName) -> usize {
        let mut lost = 0;
        loop {
            let hidden = Duration::from_secs(30);
            let received = self.port().receive(queue, MAX_BATCH, Duration::ZERO, hidden).await.expect("receives");
            if received.is_empty() {
                return lost;
            }
            let receipts: Vec<_> = received.into_iter().map(|message| message.receipt).collect();
            let deleted = self.port().delete_batch(queue, &receipts).await.expect("deletes");
            assert!(deleted.iter().all(Result::is_ok), "{deleted:?}");
            lost += receipts.len();
        }
    }
}
