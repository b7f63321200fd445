//! Which adapter stands behind each port.

use super::Reader;
use std::{path::PathBuf, time::Duration};

/// The function's own timeout (`renderer.timeout_s` in infra/topology.json) and time for its answer to arrive.
pub(super) const RENDERER_TIMEOUT_MS: u64 = 25_000 + 3_000;

#[derive(Debug, Clone)]
pub(crate) struct Adapters {
    pub(crate) queue: QueueChoice,
    pub(crate) objects: ObjectsChoice,
    pub(crate) renderer: RendererChoice,
    /// Region of the adapters on AWS.
    pub(crate) region: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum QueueChoice {
    Local,
    Sqs { prefix: String },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ObjectsChoice {
    Disk { folder: PathBuf },
    S3 { bucket: String },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RendererChoice {
    Local,
    Lambda { function: String, timeout: Duration },
}

impl Adapters {
    pub(super) fn read(r: &mut Reader) -> Self {
        let mut adapters = Self::read_queue_only(r);
        let folder =
            r.text("WAYBILL_DATA_DIR", ".waybill/data", "Folder of rendered documents, with `WAYBILL_OBJECTS=disk`");
        adapters.objects = ObjectsChoice::Disk { folder: PathBuf::from(folder) };
        let on_s3 =
            r.choice("WAYBILL_OBJECTS", ["disk", "s3"], "Where rendered documents are kept: `disk` or `s3`") == "s3";
        let bucket = r.optional("WAYBILL_BUCKET", "Bucket of rendered documents; required with `WAYBILL_OBJECTS=s3`");
        if on_s3 {
            let bucket = r.needed_by("WAYBILL_OBJECTS=s3", "WAYBILL_BUCKET", bucket, "the bucket's name");
            adapters.objects = ObjectsChoice::S3 { bucket };
            adapters.needs_region("WAYBILL_OBJECTS=s3", r);
        }
        let on_lambda = r.choice(
            "WAYBILL_RENDERER",
            ["local", "lambda"],
            "Who renders documents: `local` (the worker itself) or `lambda`, which needs `WAYBILL_OBJECTS=s3`",
        ) == "lambda";
        let function = r.optional(
            "WAYBILL_RENDERER_FUNCTION",
            "Name or ARN of the renderer's function; required with `WAYBILL_RENDERER=lambda`",
        );
        let timeout = r.millis(
            "WAYBILL_RENDERER_TIMEOUT_MS",
            RENDERER_TIMEOUT_MS,
            "Wait for the function's answer: above the function's own timeout, below `WAYBILL_DOCUMENT_RENDER_TIMEOUT_MS`",
        );
        if on_lambda {
            let function = r.needed_by(
                "WAYBILL_RENDERER=lambda",
                "WAYBILL_RENDERER_FUNCTION",
                function,
                "the function's name or ARN",
            );
            adapters.renderer = RendererChoice::Lambda { function, timeout };
            adapters.needs_region("WAYBILL_RENDERER=lambda", r);
        }
        // Read by the AWS SDK itself, or by one command; listed here for the table.
        r.document(
            "AWS_ENDPOINT_URL",
            "not set",
            "Another address for every AWS service (an emulator); `AWS_ENDPOINT_URL_SQS`, `_S3`, `_LAMBDA`, `_SNS`, `_EVENTBRIDGE` for one of them",
        );
        r.document("WAYBILL_EVENT_BUS", "not set", "EventBridge bus of `waybill events send`; its `--bus` wins");
        adapters
    }

    /// The queue as the service has it; the rest as if nothing was set.
    pub(super) fn read_queue_only(r: &mut Reader) -> Self {
        let on_sqs =
            r.choice("WAYBILL_QUEUE", ["local", "sqs"], "The queues: `local` (in PostgreSQL) or `sqs`") == "sqs";
        let prefix = r.text(
            "WAYBILL_SQS_PREFIX",
            "waybill",
            "The SQS queues are called `{prefix}-main`, `{prefix}-main-dead`, …",
        );
        if !is_prefix(&prefix) {
            r.problem("WAYBILL_SQS_PREFIX", format!("`{prefix}`: expected 1 to 60 letters, digits, `-` and `_`"));
        }
        let set = |name: &str| r.look(name);
        let adapters = Self {
            region: set("AWS_REGION").or_else(|| set("AWS_DEFAULT_REGION")),
            queue: if on_sqs { QueueChoice::Sqs { prefix } } else { QueueChoice::Local },
            objects: ObjectsChoice::Disk { folder: PathBuf::new() },
            renderer: RendererChoice::Local,
        };
        if on_sqs {
            adapters.needs_region("WAYBILL_QUEUE=sqs", r);
        }
        adapters
    }

    fn needs_region(&self, why: &str, r: &mut Reader) {
        if self.region.is_none() {
            r.problem("AWS_REGION", format!("is not set; {why} needs it: a region such as eu-central-1"));
        }
    }
}

/// SQS takes 80 characters in all; the longest of our names has 13 and a hyphen.
fn is_prefix(text: &str) -> bool {
    (1..=60).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
}
