// The numbers that the service and its infrastructure have to agree on: topology.json, which the Rust tests read as well.
import { readFileSync } from "node:fs";

export type QueueName = "main" | "delivery" | "intake" | "feedback";
export const QUEUES: readonly QueueName[] = ["main", "delivery", "intake", "feedback"];

export interface QueueNumbers {
  readonly visibility_timeout_s: number;
  readonly max_receive_count: number;
  readonly retention_s: number;
}

export interface Topology {
  readonly queues: Readonly<Record<QueueName, QueueNumbers>>;
  readonly dead_letter: { readonly suffix: string; readonly retention_s: number };
  readonly maximum_message_bytes: number;
  readonly receive_wait_s: number;
  readonly handler_timeout_s: number;
  /** From SIGTERM to the process cutting what still runs. */
  readonly stop_timeout_s: number;
  /** What the platform adds to that before it kills. */
  readonly stop_slack_s: number;
  readonly drain_delay_s: number;
  readonly renderer: { readonly function: string; readonly timeout_s: number; readonly memory_mb: number };
  readonly documents: {
    readonly expire_days: number;
    readonly noncurrent_expire_days: number;
    readonly intake_prefix: string;
    readonly intake_expire_days: number;
  };
  readonly events: {
    readonly bus: string;
    readonly retry_attempts: number;
    readonly maximum_age_s: number;
    readonly log_retention_days: number;
  };
}

/** The longest stopTimeout that Fargate takes. */
const FARGATE_STOP_TIMEOUT_S = 120;

/** Every broken rule between the numbers, in words. */
export function problems(topology: Topology): string[] {
  const found: string[] = [];
  const rule = (holds: boolean, text: string) => {
    if (!holds) found.push(text);
  };
  for (const name of QUEUES) {
    const queue = topology.queues[name];
    rule(
      queue.visibility_timeout_s >= 6 * topology.handler_timeout_s,
      `queues.${name}.visibility_timeout_s (${queue.visibility_timeout_s}) must be at least 6 times handler_timeout_s (${topology.handler_timeout_s})`,
    );
    rule(
      topology.dead_letter.retention_s > queue.retention_s,
      `dead_letter.retention_s (${topology.dead_letter.retention_s}) must be above queues.${name}.retention_s (${queue.retention_s})`,
    );
  }
  rule(
    topology.renderer.timeout_s < topology.handler_timeout_s,
    `renderer.timeout_s (${topology.renderer.timeout_s}) must be below handler_timeout_s (${topology.handler_timeout_s})`,
  );
  rule(
    topology.receive_wait_s < topology.stop_timeout_s,
    `receive_wait_s (${topology.receive_wait_s}) must be below stop_timeout_s (${topology.stop_timeout_s}): stopping waits for the last receive`,
  );
  const platform = topology.stop_timeout_s + topology.stop_slack_s;
  rule(
    topology.stop_slack_s > 0 && platform <= FARGATE_STOP_TIMEOUT_S,
    `stop_timeout_s + stop_slack_s (${platform}) must be above stop_timeout_s and at most ${FARGATE_STOP_TIMEOUT_S}`,
  );
  return found;
}

/** Reads topology.json, or refuses it with every reason. */
export function readTopology(): Topology {
  const topology = JSON.parse(readFileSync(new URL("../topology.json", import.meta.url), "utf8")) as Topology;
  const found = problems(topology);
  if (found.length > 0) throw new Error(`topology.json: ${found.join("; ")}`);
  return topology;
}
