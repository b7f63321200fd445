//! How much load, for how long.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::soak::Soak;

/// The sizes of one run.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Events of the counted phase.
    pub(crate) events: usize,
    /// Events of the phase through the second provider's adapter.
    pub(crate) sendgrid_events: usize,
    /// Events with a document each.
    pub(crate) document_events: usize,
    /// Events that come first and are not counted: connections, prepared statements, caches.
    pub(crate) warm_up: usize,
    /// Recipients of an event.
    pub(crate) recipients: usize,
    /// Recipients of further counted phases, reported only.
    pub(crate) other_recipients: Vec<usize>,
    /// Events posted per second in the latency phase.
    pub(crate) rate: u32,
    /// Length of the latency phase.
    pub(crate) latency: Duration,
    /// How long the process is left alone before its memory is read: a whole long poll (10 s), so that its requests are seen.
    pub(crate) idle: Duration,
    /// Pairs of rounds beside the peer; `None`: without that part.
    pub(crate) pairs: Option<usize>,
    /// Nothing but that part.
    pub(crate) only_pairs: bool,
    /// Nothing but a soak.
    pub(crate) soak: Option<Soak>,
    pub(crate) quick: bool,
    /// The whole run, servers and build apart.
    pub(crate) limit: Duration,
}

/// Posts in flight at once in a closed loop.
pub(crate) const POSTERS: usize = 16;
/// Deliveries accepted and not yet sent that a closed loop keeps: more than the binary's worker has in flight, so that it never waits
/// for the load, and few enough that the queue's depth is not what is measured.
pub(crate) const BACKLOG: usize = 1_000;

/// More than a pair of rounds takes on a busy machine, with each number of recipients.
const PAIR_LIMIT: Duration = Duration::from_secs(240);

impl Plan {
    fn quick() -> Self {
        Self {
            events: 600,
            sendgrid_events: 300,
            document_events: 100,
            warm_up: 100,
            recipients: 10,
            other_recipients: Vec::new(),
            rate: 20,
            latency: Duration::from_secs(12),
            idle: Duration::from_secs(10),
            pairs: None,
            only_pairs: false,
            soak: None,
            quick: true,
            limit: Duration::from_secs(175),
        }
    }

    fn full() -> Self {
        Self {
            events: 3_000,
            sendgrid_events: 1_000,
            document_events: 300,
            other_recipients: vec![1, 100],
            latency: Duration::from_secs(60),
            idle: Duration::from_secs(20),
            quick: false,
            limit: Duration::from_secs(900),
            ..Self::quick()
        }
    }

    /// Reads `--quick`, `--rate=N`, `--peer`, `--compare`, `--pairs=N`, `--soak=MINUTES` and `--percent=N`.
    pub(crate) fn from_words(words: impl Iterator<Item = String>) -> Result<Self> {
        let mut plan = Self::full();
        let (mut rate, mut pairs, mut peer, mut only_pairs) = (None, None, false, false);
        let (mut minutes, mut percent) = (None, None);
        for word in words {
            match word.split_once('=') {
                None if word == "--quick" => plan = Self::quick(),
                None if word == "--peer" => peer = true,
                None if word == "--compare" => (peer, only_pairs) = (true, true),
                Some(("--pairs", number)) => pairs = Some(number.parse::<usize>()?.clamp(1, 50)),
                Some(("--soak", number)) => minutes = Some(number.parse::<usize>()?.clamp(1, 1_440)),
                Some(("--percent", number)) => percent = Some(number.parse::<u32>()?.clamp(1, 100)),
                Some(("--rate", number)) => rate = Some(number.parse::<u32>()?.clamp(1, 1_000)),
                None | Some(_) => {
                    bail!(
                        "unknown argument {word:?}: --quick, --rate=EVENTS_PER_SECOND, --peer, --compare, --pairs=N, --soak=MINUTES, --percent=N"
                    )
                }
            }
        }
        plan.rate = rate.unwrap_or(plan.rate);
        plan.only_pairs = only_pairs;
        if let Some(minutes) = minutes {
            let share = f64::from(percent.unwrap_or(70)) / 100.0;
            plan.soak = Some(Soak { minutes, share });
            // A pause after each minute, and before it warming up and measuring the capacity.
            plan.limit = Duration::from_secs(70) * u32::try_from(minutes).context("too many minutes")?
                + Duration::from_secs(300);
        }
        if peer {
            let pairs = pairs.unwrap_or(if plan.quick { 2 } else { 5 });
            plan.pairs = Some(pairs);
            plan.limit += PAIR_LIMIT * pairs as u32 + Duration::from_secs(180);
        }
        Ok(plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(words: &str) -> Result<Plan> {
        Plan::from_words(words.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn a_quick_run_still_counts_six_thousand_deliveries() {
        let quick = plan("--rate=5 --quick").unwrap();
        assert!(quick.events * quick.recipients >= 6_000);
        assert_eq!((quick.recipients, quick.rate), (10, 5));
        assert!(quick.limit < Duration::from_secs(180));
        assert_eq!((quick.pairs, plan("--compare").unwrap().only_pairs), (None, true));
        assert_eq!(
            (plan("--peer").unwrap().pairs, plan("--quick --peer --pairs=3").unwrap().pairs),
            (Some(5), Some(3))
        );
    }

    #[test]
    fn a_soak_is_as_long_as_it_is_asked_to_be_at_seventy_percent() {
        let plan = |words| plan(words).unwrap();
        assert_eq!(plan("--soak=30").soak, Some(Soak { minutes: 30, share: 0.7 }));
        assert_eq!(plan("--soak=5 --percent=50").soak, Some(Soak { minutes: 5, share: 0.5 }));
        assert!(plan("--soak=30").limit > Duration::from_secs(31 * 60));
        assert_eq!(plan("--quick").soak, None);
    }

    #[test]
    fn unknown_words_are_refused() {
        assert!(plan("--fast").is_err());
        assert!(plan("--rate=fast").is_err());
        assert!(plan("--soak").is_err());
        assert!(plan("--quick=yes").is_err());
    }
}
