//! Balancing the books after a test: what was accepted, what the database says, what the sink counted.

use super::World;
use serde_json::Value;
use std::time::Duration;

/// What the three sides say together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Books {
    pub deliveries: i64,
    pub not_final: i64,
    pub sent: i64,
    /// Acceptances at the sink.
    pub accepted: u64,
    /// Deliveries that the sink accepted more than once.
    pub doubled: u64,
}

impl World {
    /// Waits until nothing is open and checks what has to hold after any crash: every delivery final, the ledger gap-free and full of
    /// legal moves, at most one acceptance per delivery, every acceptance known to the database.
    pub async fn balanced(&self, jobs: &[String]) -> Books {
        for job in jobs {
            self.finished(job).await;
        }
        self.until("open deliveries", "SELECT count(*) FROM deliveries WHERE due_at IS NOT NULL", |n| n == 0).await;
        // A provider's event may still be on its way.
        tokio::time::sleep(Duration::from_millis(300)).await;
        self.check_ledger().await;
        let accepted = self.sink.acceptances_by_delivery();
        let books = Books {
            deliveries: self.count("SELECT count(*) FROM deliveries").await,
            not_final: self.count("SELECT count(*) FROM deliveries WHERE due_at IS NOT NULL").await,
            sent: self
                .count("SELECT count(*) FROM deliveries WHERE state IN ('SENT', 'DELIVERED', 'BOUNCED', 'COMPLAINED')")
                .await,
            accepted: self.sink.accepted(),
            doubled: accepted.values().filter(|n| **n > 1).count() as u64,
        };
        crate::support::report(&books);
        books
    }

    /// Nothing lost, nothing doubled, and all of it sent.
    pub async fn all_sent_once(&self, jobs: &[String]) -> Books {
        let books = self.balanced(jobs).await;
        assert_eq!(books.doubled, 0, "doubled mails: {books:?}");
        assert_eq!(books.sent, books.deliveries, "lost mails: {books:?}");
        assert_eq!(books.accepted, books.sent as u64, "the sink and the database disagree: {books:?}");
        books
    }

    async fn check_ledger(&self) {
        let gaps = self
            .count("SELECT count(*) FROM deliveries d WHERE (SELECT count(*) FROM ledger l WHERE l.delivery_id = d.id) <> d.version OR (SELECT max(version) FROM ledger l WHERE l.delivery_id = d.id) <> d.version")
            .await;
        assert_eq!(gaps, 0, "the ledger has gaps");
        let moves: Vec<(Option<String>, String)> =
            sqlx::query_as("SELECT lag(state) OVER (PARTITION BY delivery_id ORDER BY version), state FROM ledger")
                .fetch_all(&self.db.pool)
                .await
                .expect("reads the ledger");
        for (from, to) in moves {
            let Some(from) = from else { continue };
            let state = |text: &str| waybill_core::state::DeliveryState::parse(text).expect("a state");
            assert!(state(&from).may_become(state(&to)), "illegal move {from} -> {to} in the ledger");
        }
    }
}

/// States of a job's deliveries.
pub fn states(job: &Value) -> Vec<&str> {
    job["deliveries"]["data"].as_array().into_iter().flatten().filter_map(|d| d["state"].as_str()).collect()
}
