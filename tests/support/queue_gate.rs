//! One gate for both kinds of queue: holds what is sent to, or deleted from, a queue.

use super::{World, gate::Gate, sqs_gate::SqsGate};
use waybill_core::ports::QueueName;

pub enum QueueGate {
    Local(Gate),
    Sqs(SqsGate),
}

const TABLE: &str = "queue_messages";

impl QueueGate {
    /// Holds what is sent to a queue, once `free` messages (none, or a request's ten) have passed.
    pub async fn on_sends(world: &World, queue: QueueName, free: usize) -> Self {
        if let Some(aws) = &world.aws {
            aws.gate.close("SendMessageBatch", queue.as_str(), free);
            return Self::Sqs(aws.gate.clone());
        }
        let passed = match free {
            0 => "",
            10 => " AND gate_after_ten()",
            other => panic!("the gate in the database counts to ten, not to {other}"),
        };
        let when = format!("NEW.queue = '{}'{passed}", queue.as_str());
        Self::Local(Gate::close(world, "INSERT", TABLE, &when).await)
    }

    /// Holds what is deleted from a queue.
    pub async fn on_deletes(world: &World, queue: QueueName) -> Self {
        if let Some(aws) = &world.aws {
            aws.gate.close("DeleteMessageBatch", queue.as_str(), 0);
            return Self::Sqs(aws.gate.clone());
        }
        let when = format!("OLD.queue = '{}'", queue.as_str());
        Self::Local(Gate::close(world, "DELETE", TABLE, &when).await)
    }

    pub async fn somebody_waits(&mut self) {
        match self {
            Self::Local(gate) => gate.somebody_waits().await,
            Self::Sqs(gate) => gate.somebody_waits().await,
        }
    }

    /// Ends what stands at the gate as the death of its process does, then opens it.
    pub async fn open_after_death(self) {
        match self {
            Self::Local(gate) => gate.open_after_death(TABLE).await,
            Self::Sqs(gate) => gate.open_after_death().await,
        }
    }
}
