//! Many entries, one answer each: requests side by side, and a refused request in halves.

use futures::{
    StreamExt,
    future::{BoxFuture, FutureExt},
    stream,
};
use std::ops::Range;

/// Requests of one call that are on their way at a time.
pub(crate) const CONCURRENT: usize = 8;

/// What came of one request.
pub(crate) enum Answer<T, E> {
    /// One result per entry of the request, in its order.
    Entries(Vec<Result<T, E>>),
    /// Nothing was taken, because of what the request held; halves of it may do better. The error is for an entry that is alone.
    Refused(E),
}

/// Sends every range of entries; the results are in the order of the entries.
pub(crate) async fn settle<'a, T, E, F>(requests: Vec<Range<usize>>, send: F) -> Vec<Result<T, E>>
where
    T: Send,
    E: Send,
    F: Fn(Range<usize>) -> BoxFuture<'a, Answer<T, E>> + Sync,
{
    let all: Vec<_> = requests.into_iter().map(|request| whole(request, &send).boxed()).collect();
    stream::iter(all).buffered(CONCURRENT).concat().await
}

async fn whole<'a, T, E, F>(request: Range<usize>, send: &F) -> Vec<Result<T, E>>
where
    F: Fn(Range<usize>) -> BoxFuture<'a, Answer<T, E>>,
{
    let mut results = Vec::with_capacity(request.len());
    let mut open = vec![request];
    while let Some(part) = open.pop() {
        match send(part.clone()).await {
            Answer::Entries(answers) => results.extend(answers),
            Answer::Refused(error) if part.len() <= 1 => results.push(Err(error)),
            Answer::Refused(_) => {
                let middle = part.start + part.len() / 2;
                open.extend([middle..part.end, part.start..middle]);
            }
        }
    }
    results
}

/// Ranges of at most `size` over `count` entries.
pub(crate) fn in_parts(count: usize, size: usize) -> Vec<Range<usize>> {
    (0..count).step_by(size).map(|start| start..(start + size).min(count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    };

    #[tokio::test]
    async fn a_refused_request_is_halved_down_to_the_entry_that_is_to_blame() {
        let asked = Mutex::new(Vec::new());
        let results = settle(in_parts(25, 10), |range| {
            let asked = &asked;
            async move {
                asked.lock().unwrap().push(range.clone());
                if range.contains(&13) { Answer::Refused("bad") } else { Answer::Entries(range.map(Ok).collect()) }
            }
            .boxed()
        })
        .await;
        let expected: Vec<_> = (0..25).map(|n| if n == 13 { Err("bad") } else { Ok(n) }).collect();
        assert_eq!(results, expected);
        let mut around: Vec<_> = asked.into_inner().unwrap().into_iter().filter(|range| range.contains(&13)).collect();
        around.sort_by_key(ExactSizeIterator::len);
        assert_eq!(around, [13..14, 13..15, 12..15, 10..15, 10..20]);
    }

    #[tokio::test]
    async fn requests_go_side_by_side_but_not_all_at_once() {
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let results: Vec<Result<(), ()>> = settle(in_parts(200, 10), |range| {
            let (now, most) = (&now, &most);
            async move {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                now.fetch_sub(1, Ordering::SeqCst);
                Answer::Entries(range.map(|_| Ok(())).collect())
            }
            .boxed()
        })
        .await;
        assert_eq!((results.len(), most.into_inner()), (200, CONCURRENT));
    }
}
