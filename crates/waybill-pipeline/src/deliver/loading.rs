//! Reading what a batch needs, for all batches that run side by side in one statement.
//!
//! A row that this build can't read (a newer one wrote it) hurts only itself: when the database is there and a statement fails, each of
//! its rows is asked for alone.

use super::{ContentKey, Unavailable, statements::refused};
use crate::context::Context;
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tracing::error;
use waybill_core::ids::DeliveryId;
use waybill_store::{Content, LoadedDelivery};

pub(super) async fn deliveries(
    context: Arc<Context>,
    away: Arc<AtomicBool>,
    ids: Vec<DeliveryId>,
) -> Vec<Result<Option<LoadedDelivery>, Unavailable>> {
    let loaded = context.store.load_deliveries(&ids).await;
    away.store(loaded.as_ref().is_err_and(|error| error.is_unavailable()), Ordering::Relaxed);
    match loaded {
        Ok(rows) => {
            let mut rows: HashMap<_, _> = rows.into_iter().map(|row| (row.id, row)).collect();
            // A delivery may be asked for twice in one batch (a repeated message): the first gets a copy.
            let one = |(i, id)| Ok(if ids[i + 1..].contains(id) { rows.get(id).cloned() } else { rows.remove(id) });
            ids.iter().enumerate().map(one).collect()
        }
        Err(error) if error.is_unavailable() => refused(&ids, "deliver.load_failed", &error),
        Err(_) => {
            let mut answers = Vec::with_capacity(ids.len());
            for id in &ids {
                answers.push(match context.store.load_deliveries(std::slice::from_ref(id)).await {
                    Ok(mut rows) => Ok(rows.pop()),
                    Err(error) => {
                        error!(delivery = %id, error = &error as &dyn std::error::Error, "deliver.row_unreadable");
                        Err(Unavailable)
                    }
                });
            }
            answers
        }
    }
}

pub(super) async fn contents(
    context: Arc<Context>,
    keys: Vec<ContentKey>,
) -> Vec<Result<Option<Arc<Content>>, Unavailable>> {
    let mut wanted = keys.clone();
    wanted.sort_unstable();
    wanted.dedup();
    let found: HashMap<ContentKey, Arc<Content>> = match context.store.load_contents(&wanted).await {
        Ok(rows) => rows.into_iter().map(|c| ((c.job, c.route, c.version), Arc::new(c))).collect(),
        Err(error) if error.is_unavailable() => return refused(&keys, "deliver.contents_failed", &error),
        Err(_) => {
            let mut found = HashMap::new();
            for key in wanted {
                match context.store.load_contents(&[key]).await {
                    Ok(rows) => found.extend(rows.into_iter().map(|c| (key, Arc::new(c)))),
                    Err(error) => {
                        error!(job = %key.0, route = %key.1, version = key.2, error = &error as &dyn std::error::Error, "deliver.content_unreadable")
                    }
                }
            }
            found
        }
    };
    keys.iter().map(|key| Ok(found.get(key).cloned())).collect()
}
