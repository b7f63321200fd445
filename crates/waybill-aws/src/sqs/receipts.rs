//! `DeleteMessageBatch` and `ChangeMessageVisibilityBatch`: what is done to a message by its receipt.

use super::{
    SqsQueue, TIMEOUT,
    answers::{Entries, id},
    connect::Address,
    timeout, whole_seconds,
};
use crate::batches::{Answer, in_parts, settle};
use aws_sdk_sqs::{
    error::BuildError,
    types::{ChangeMessageVisibilityBatchRequestEntry, DeleteMessageBatchRequestEntry},
};
use futures::FutureExt;
use std::{ops::Range, time::Duration};
use waybill_core::ports::{EntryError, MAX_BATCH, Receipt, queue_quotas};

type Results = Vec<Result<(), EntryError>>;

pub(super) async fn delete(queue: &SqsQueue, address: &Address, receipts: &[Receipt]) -> Results {
    let mut results: Results = receipts.iter().map(check).collect();
    let good = good(&results);
    let chosen: Vec<&Receipt> = good.iter().map(|i| &receipts[*i]).collect();
    let requests = in_parts(chosen.len(), MAX_BATCH);
    let answers = settle(requests, |range| delete_some(queue, address, range.clone(), &chosen[range]).boxed()).await;
    good.into_iter().zip(answers).for_each(|(place, answer)| results[place] = answer);
    results
}

pub(super) async fn change(queue: &SqsQueue, address: &Address, entries: &[(Receipt, Duration)]) -> Results {
    let mut results: Results =
        entries.iter().map(|(receipt, to)| queue_quotas::check_visibility(*to).and(check(receipt))).collect();
    let good = good(&results);
    let chosen: Vec<&(Receipt, Duration)> = good.iter().map(|i| &entries[*i]).collect();
    let requests = in_parts(chosen.len(), MAX_BATCH);
    let answers = settle(requests, |range| change_some(queue, address, range.clone(), &chosen[range]).boxed()).await;
    good.into_iter().zip(answers).for_each(|(place, answer)| results[place] = answer);
    results
}

/// SQS would refuse the neighbours, too.
fn check(receipt: &Receipt) -> Result<(), EntryError> {
    if receipt.0.is_empty() { Err(EntryError::StaleReceipt) } else { Ok(()) }
}

fn good(results: &[Result<(), EntryError>]) -> Vec<usize> {
    (0..results.len()).filter(|i| results[*i].is_ok()).collect()
}

async fn delete_some(
    queue: &SqsQueue,
    address: &Address,
    range: Range<usize>,
    receipts: &[&Receipt],
) -> Answer<(), EntryError> {
    let entry = |(index, receipt): (usize, &&Receipt)| {
        DeleteMessageBatchRequestEntry::builder().id(id(index)).receipt_handle(&receipt.0).build()
    };
    let entries = match range.clone().zip(receipts).map(entry).collect::<Result<Vec<_>, _>>() {
        Ok(entries) => entries,
        Err(error) => return not_built(&error),
    };
    queue.count("DeleteMessageBatch");
    let request = queue.client.delete_message_batch().queue_url(&address.url).set_entries(Some(entries));
    match request.customize().config_override(timeout(TIMEOUT)).send().await {
        Ok(answer) => {
            Entries::Receipts.answered(range, answer.successful().iter().map(|entry| entry.id()), answer.failed())
        }
        Err(error) => Entries::Receipts.failed(&range, &error),
    }
}

async fn change_some(
    queue: &SqsQueue,
    address: &Address,
    range: Range<usize>,
    changes: &[&(Receipt, Duration)],
) -> Answer<(), EntryError> {
    let entry = |(index, (receipt, to)): (usize, &&(Receipt, Duration))| {
        ChangeMessageVisibilityBatchRequestEntry::builder()
            .id(id(index))
            .receipt_handle(&receipt.0)
            .visibility_timeout(whole_seconds(*to))
            .build()
    };
    let entries = match range.clone().zip(changes).map(entry).collect::<Result<Vec<_>, _>>() {
        Ok(entries) => entries,
        Err(error) => return not_built(&error),
    };
    queue.count("ChangeMessageVisibilityBatch");
    let request = queue.client.change_message_visibility_batch().queue_url(&address.url).set_entries(Some(entries));
    match request.customize().config_override(timeout(TIMEOUT)).send().await {
        Ok(answer) => {
            Entries::Receipts.answered(range, answer.successful().iter().map(|entry| entry.id()), answer.failed())
        }
        Err(error) => Entries::Receipts.failed(&range, &error),
    }
}

fn not_built(error: &BuildError) -> Answer<(), EntryError> {
    Answer::Refused(EntryError::Permanent(error.to_string()))
}
