//! What goes wrong and when: a pure function of profile, seed and length.

use std::{fmt, str::FromStr, time::Duration};

use anyhow::bail;
use rand::{Rng as _, RngExt as _, SeedableRng as _, rngs::StdRng};

use crate::fleet::{Member, Role};

/// Which part of the world is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    Workers,
    Redis,
    Postgres,
    Providers,
    Queue,
    Everything,
}

impl Profile {
    pub(crate) const ALL: [(Profile, &'static str); 6] = [
        (Profile::Workers, "workers"),
        (Profile::Redis, "redis"),
        (Profile::Postgres, "postgres"),
        (Profile::Providers, "providers"),
        (Profile::Queue, "queue"),
        (Profile::Everything, "everything"),
    ];

    pub(crate) fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(profile, _)| *profile == self).map_or("", |(_, name)| name)
    }
}

impl FromStr for Profile {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match Self::ALL.iter().find(|(_, known)| *known == name) {
            Some((profile, _)) => Ok(*profile),
            None => bail!("no profile {name:?}: {}", Self::ALL.map(|(_, name)| name).join(", ")),
        }
    }
}

/// Between the processes and one of their servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    Postgres,
    Redis,
}

/// One thing that goes wrong. What has a `for_` ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// SIGKILL, and a start `after`.
    Kill {
        member: Member,
        after: Duration,
    },
    /// SIGTERM, and a start when it has ended: a deploy.
    Restart {
        member: Member,
    },
    /// SIGSTOP, then SIGCONT.
    Freeze {
        member: Member,
        for_: Duration,
    },
    /// Every key is gone.
    RedisFlush,
    /// SIGKILL, and an empty one at the same address.
    RedisKill {
        after: Duration,
    },
    RedisFreeze {
        for_: Duration,
    },
    /// The server is stopped (`immediate`: as by a power cut, so it recovers from its log) and started.
    PostgresRestart {
        immediate: bool,
        after: Duration,
    },
    /// The server and its backends.
    PostgresFreeze {
        for_: Duration,
    },
    /// Each flush of the log takes a tenth of a second longer.
    PostgresSlowDisk {
        for_: Duration,
    },
    /// Somebody holds a lock that every claim and every result needs, until all pools are used up.
    PostgresLocked {
        for_: Duration,
    },
    /// A backend of the service is ended in the middle of whatever it does.
    PostgresBackends,
    /// Connections are reset and refused.
    Cut {
        link: Link,
        for_: Duration,
    },
    /// What was asked arrives, and the answer does not: the connection is reset after the server has had the request.
    CutAnswers {
        link: Link,
        for_: Duration,
    },
    /// Each answer takes this much longer.
    Lag {
        link: Link,
        by: Duration,
        for_: Duration,
    },
    /// One kind of trouble at one provider, or at both.
    Provider {
        trouble: usize,
        percent: u8,
        both: bool,
        for_: Duration,
    },
    /// Messages that are there twice.
    QueueRepeat,
    /// Messages that can't be seen for a while.
    QueueDelay {
        by: Duration,
    },
    /// Messages in another order, and some that are in flight visible again.
    QueueShuffle,
    /// Messages that are gone.
    QueueLose,
}

/// Kinds of trouble at providers, by name in the sink's fault scripts.
pub(crate) const TROUBLES: [waybill_sink::FaultKind; 10] = [
    waybill_sink::FaultKind::NoMessageId,
    waybill_sink::FaultKind::TimeoutAfterAccept,
    waybill_sink::FaultKind::TimeoutBeforeAccept,
    waybill_sink::FaultKind::Http500,
    waybill_sink::FaultKind::Http500AfterAccept,
    waybill_sink::FaultKind::Throttle,
    waybill_sink::FaultKind::Reset,
    waybill_sink::FaultKind::ResetAfterAccept,
    waybill_sink::FaultKind::Slow,
    waybill_sink::FaultKind::Unauthorized,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    /// Since the load began.
    pub(crate) at: Duration,
    pub(crate) fault: Fault,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:7.2} s  {:?}", self.at.as_secs_f64(), self.fault)
    }
}

fn millis(random: &mut StdRng, from: u64, to: u64) -> Duration {
    Duration::from_millis(random.random_range(from..=to))
}

/// Longer than a claim (2.6 s); often longer than its reconcile window (4 s) as well.
fn freeze(random: &mut StdRng) -> Duration {
    millis(random, 2_000, 9_000)
}

fn member(random: &mut StdRng) -> Member {
    // Workers have the most to lose.
    let role = [Role::Worker, Role::Worker, Role::Worker, Role::Router, Role::Scheduler, Role::Api];
    let role = role[random.random_range(0..role.len())];
    Member { role, index: random.random_range(0..role.count()) }
}

type Make = fn(&mut StdRng) -> Fault;

/// How each kind is made, and which profile it belongs to. The order is part of the script: append only.
const KINDS: [(Profile, Make); 19] = [
    (Profile::Workers, |r| Fault::Kill { member: member(r), after: millis(r, 100, 4_000) }),
    (Profile::Workers, |r| Fault::Kill {
        member: Member { role: Role::Worker, ..member(r) }.valid(),
        after: millis(r, 100, 4_000),
    }),
    (Profile::Workers, |r| Fault::Freeze { member: member(r), for_: freeze(r) }),
    (Profile::Workers, |r| Fault::Restart { member: member(r) }),
    (Profile::Redis, |_| Fault::RedisFlush),
    (Profile::Redis, |r| Fault::RedisKill { after: millis(r, 0, 4_000) }),
    (Profile::Redis, |r| Fault::RedisFreeze { for_: millis(r, 500, 5_000) }),
    (Profile::Redis, |r| Fault::Cut { link: Link::Redis, for_: millis(r, 200, 3_000) }),
    (Profile::Redis, |r| Fault::CutAnswers { link: Link::Redis, for_: millis(r, 200, 1_500) }),
    (Profile::Postgres, |r| Fault::PostgresRestart { immediate: r.random_bool(0.5), after: millis(r, 0, 3_000) }),
    (Profile::Postgres, |r| Fault::PostgresFreeze { for_: freeze(r) }),
    (Profile::Postgres, |r| Fault::PostgresSlowDisk { for_: millis(r, 2_000, 6_000) }),
    (Profile::Postgres, |r| Fault::PostgresLocked { for_: millis(r, 1_000, 6_000) }),
    (Profile::Postgres, |_| Fault::PostgresBackends),
    (Profile::Postgres, |r| Fault::Cut { link: Link::Postgres, for_: millis(r, 200, 4_000) }),
    (Profile::Postgres, |r| Fault::CutAnswers { link: Link::Postgres, for_: millis(r, 200, 1_500) }),
    (Profile::Postgres, |r| Fault::Lag { link: Link::Postgres, by: millis(r, 20, 300), for_: millis(r, 1_000, 4_000) }),
    (Profile::Providers, |r| Fault::Provider {
        trouble: r.random_range(0..TROUBLES.len()),
        percent: [5, 50, 100][r.random_range(0..3)],
        both: r.random_bool(0.3),
        for_: millis(r, 1_000, 6_000),
    }),
    (Profile::Queue, |r| match r.random_range(0..4) {
        0 => Fault::QueueRepeat,
        1 => Fault::QueueDelay { by: millis(r, 500, 6_000) },
        2 => Fault::QueueShuffle,
        _ => Fault::QueueLose,
    }),
];

/// The script of a run. Faults begin after the first two seconds and none begins in the last two.
pub(crate) fn script(profile: Profile, seed: u64, length: Duration) -> Vec<Step> {
    let mut random = StdRng::seed_from_u64(seed ^ (profile as u64) << 56);
    let mut areas: Vec<Profile> =
        Profile::ALL.iter().map(|(area, _)| *area).filter(|a| *a != Profile::Everything).collect();
    areas.retain(|area| profile == Profile::Everything || *area == profile);
    let end = length.saturating_sub(Duration::from_secs(2));
    let (mut steps, mut at) = (Vec::new(), Duration::from_secs(2));
    while at < end {
        // Each area as likely as the others, whatever the number of its kinds.
        let area = areas[random.random_range(0..areas.len())];
        let kinds: Vec<Make> = KINDS.iter().filter(|(of, _)| *of == area).map(|(_, make)| *make).collect();
        let make = kinds[random.random_range(0..kinds.len())];
        steps.push(Step { at, fault: make(&mut random) });
        at += millis(&mut random, 300, 3_000);
    }
    // Drawn and not used: a longer script begins like a shorter one.
    random.next_u64();
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn the_same_seed_makes_the_same_script_and_another_one_another() {
        for (profile, _) in Profile::ALL {
            assert_eq!(script(profile, 7, MINUTE), script(profile, 7, MINUTE));
            assert_ne!(script(profile, 7, MINUTE), script(profile, 8, MINUTE));
        }
    }

    #[test]
    fn a_longer_script_begins_like_a_shorter_one_and_none_is_empty() {
        for (profile, _) in Profile::ALL {
            let (short, long) = (script(profile, 3, MINUTE), script(profile, 3, MINUTE * 2));
            assert!(short.len() >= 15, "{}: {}", profile.as_str(), short.len());
            assert_eq!(long[..short.len()], short[..]);
        }
    }

    #[test]
    fn a_profile_breaks_its_own_part_only_and_everything_breaks_all() {
        let redis = script(Profile::Redis, 5, MINUTE * 5);
        assert!(redis.iter().all(|step| matches!(
            step.fault,
            Fault::RedisFlush
                | Fault::RedisKill { .. }
                | Fault::RedisFreeze { .. }
                | Fault::Cut { link: Link::Redis, .. }
                | Fault::CutAnswers { link: Link::Redis, .. }
        )));
        let all = script(Profile::Everything, 5, MINUTE * 10);
        let kinds: std::collections::HashSet<_> = all.iter().map(|step| std::mem::discriminant(&step.fault)).collect();
        assert!(kinds.len() >= 18, "{}", kinds.len());
    }
}
