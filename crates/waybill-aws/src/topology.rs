//! The queues, as `infra/topology.json` describes them to the stacks, to emulators and to tests.

use crate::AwsError;
use serde::Deserialize;
use std::collections::BTreeMap;

/// `infra/topology.json`, as far as this crate needs it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Topology {
    /// By name without prefix; each has a dead-letter queue beside it.
    pub queues: BTreeMap<String, SourceQueue>,
    pub dead_letter: DeadLetterQueues,
    pub maximum_message_bytes: usize,
    pub receive_wait_s: u64,
    pub handler_timeout_s: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct SourceQueue {
    pub visibility_timeout_s: u64,
    pub max_receive_count: u32,
    pub retention_s: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct DeadLetterQueues {
    pub suffix: String,
    pub retention_s: u64,
}

impl Topology {
    /// The one that this build was made with.
    ///
    /// # Errors
    /// The file is not what [`Topology`] says.
    pub fn load() -> Result<Self, AwsError> {
        serde_json::from_str(include_str!("../../../infra/topology.json"))
            .map_err(|error| AwsError::Config(format!("infra/topology.json: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use waybill_core::{
        policy::Timings,
        ports::{MAX_BATCH_BYTES, QueueName},
    };

    #[test]
    fn the_application_and_the_infrastructure_have_the_same_numbers() {
        let (topology, timings) = (Topology::load().unwrap(), Timings::default());
        for (name, queue) in &topology.queues {
            assert_eq!(queue.visibility_timeout_s, timings.visibility_timeout.as_secs(), "{name}");
            assert_eq!(queue.max_receive_count, timings.max_receive_count, "{name}");
            assert_eq!(queue.retention_s, timings.queue_retention.as_secs(), "{name}");
            assert!(queue.visibility_timeout_s >= 6 * topology.handler_timeout_s, "{name}");
        }
        assert_eq!(topology.dead_letter.retention_s, timings.dead_letter_retention.as_secs());
        assert_eq!(topology.handler_timeout_s, timings.handler_timeout.as_secs());
        assert_eq!(topology.maximum_message_bytes, MAX_BATCH_BYTES);
        assert!(topology.receive_wait_s <= 20, "SQS polls for at most 20 s");
        assert_eq!(timings.check(), Ok(()));
    }

    #[test]
    fn the_queues_are_those_that_the_application_looks_for() {
        let topology = Topology::load().unwrap();
        let dead = |name: &String| format!("{name}{}", topology.dead_letter.suffix);
        let made: BTreeSet<String> = topology.queues.keys().flat_map(|name| [name.clone(), dead(name)]).collect();
        let wanted: BTreeSet<String> = QueueName::ALL.map(|name| name.as_str().to_owned()).into();
        assert_eq!(made, wanted);
        for name in QueueName::ALL {
            if let Some(buried) = name.dead_letter() {
                assert_eq!(buried.as_str(), dead(&name.as_str().to_owned()));
            }
        }
    }

    #[test]
    fn sqs_06_dead_letters_are_kept_longer_and_as_long_as_sqs_can() {
        let topology = Topology::load().unwrap();
        assert_eq!(topology.dead_letter.retention_s, 14 * 86_400);
        assert!(topology.queues.values().all(|queue| queue.retention_s < topology.dead_letter.retention_s));
    }
}
