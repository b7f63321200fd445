// The service's variables (docs/configuration.md), by role, and the secrets among them: each role has only those that it uses.
import type { WaybillStack } from "./stack.ts";
import { DATABASE, DATABASE_ROLE } from "./data.ts";

export const API_PORT = 8080;
export const OPS_PORT = 8081;

export type Role = "api" | "router" | "worker" | "scheduler" | "intake";
export const ROLES: readonly Role[] = ["api", "router", "worker", "scheduler", "intake"];

const ms = (seconds: number) => String(seconds * 1000);

/**
 * How the database is reached; user and password come as secrets. `PGOPTIONS` makes every session act as the owning role, whichever of the
 * two logins the rotation has put into the secret.
 */
export function databaseEnvironment(stack: WaybillStack, host: string): Record<string, string> {
  const certificate = stack.settings.databaseRootCertificate;
  return {
    PGHOST: host,
    PGPORT: "5432",
    PGDATABASE: DATABASE,
    PGSSLMODE: certificate === undefined ? "require" : "verify-full",
    ...(certificate !== undefined && { PGSSLROOTCERT: certificate }),
    PGOPTIONS: `-c role=${DATABASE_ROLE}`,
  };
}

/** What every process of the service reads, the operator's commands too. */
export function commonEnvironment(stack: WaybillStack): Record<string, string> {
  const { names, settings, topology } = stack;
  // The queues are alike where the service has one number for all of them; topology.test.ts holds that.
  const queue = topology.queues.delivery;
  return {
    AWS_REGION: stack.region,
    RUST_LOG: "info,sqlx=error",
    WAYBILL_LOG_FORMAT: "json",
    WAYBILL_QUEUE: "sqs",
    WAYBILL_SQS_PREFIX: names.prefix,
    WAYBILL_OBJECTS: "s3",
    WAYBILL_BUCKET: names.bucket(stack),
    WAYBILL_RENDERER: "lambda",
    WAYBILL_RENDERER_FUNCTION: names.renderer,
    WAYBILL_ALERT_TOPIC_ARN: names.topicArn(stack, names.alertsTopic),
    WAYBILL_PROVIDERS: settings.providers.join(","),
    WAYBILL_SES_CONFIGURATION_SET: names.configurationSet,
    WAYBILL_SES_EVENTS_WIRED: "true",
    WAYBILL_SENDGRID_EVENTS_WIRED: String(settings.sendgridEventsWired),
    WAYBILL_HANDLER_TIMEOUT_MS: ms(topology.handler_timeout_s),
    WAYBILL_QUEUE_VISIBILITY_MS: ms(queue.visibility_timeout_s),
    WAYBILL_QUEUE_MAX_RECEIVES: String(queue.max_receive_count),
    WAYBILL_QUEUE_RETENTION_MS: ms(queue.retention_s),
    WAYBILL_QUEUE_DEAD_RETENTION_MS: ms(topology.dead_letter.retention_s),
    WAYBILL_QUEUE_WAIT_MS: ms(topology.receive_wait_s),
    WAYBILL_STOP_TIMEOUT_MS: ms(topology.stop_timeout_s),
    WAYBILL_API_DRAIN_DELAY_MS: ms(topology.drain_delay_s),
  };
}

/** On top of the common part, for one role. */
export function roleEnvironment(stack: WaybillStack, role: Role, redisHost: string): Record<string, string> {
  return {
    WAYBILL_OPS_LISTEN: `0.0.0.0:${OPS_PORT}`,
    ...(role === "api" && { WAYBILL_API_LISTEN: `0.0.0.0:${API_PORT}` }),
    // Only workers send: nobody else locks or has an account, but every role checks that the providers' settings are there.
    ...(role === "worker" && { REDIS_URL: `rediss://${redisHost}:6379` }),
    ...(role !== "worker" && withoutAccounts(stack)),
  };
}

export function withoutAccounts(stack: WaybillStack): Record<string, string> {
  return stack.settings.providers.includes("sendgrid") ? { WAYBILL_SENDGRID_API_KEY: "only-workers-have-it" } : {};
}
