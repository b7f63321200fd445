// The alarms. All of them, and their end, go to the alerts topic.
//
// The age of the oldest message hides poison: SQS leaves out what was received three times and not deleted. So there are three
// sights of a stuck message: the dead-letter queues, the age, and the service's own word on overdue rows, read from its log.
import * as cloudwatch from "aws-cdk-lib/aws-cloudwatch";
import { SnsAction } from "aws-cdk-lib/aws-cloudwatch-actions";
import * as logs from "aws-cdk-lib/aws-logs";
import * as sns from "aws-cdk-lib/aws-sns";
import type { Construct } from "constructs";

import { addDashboard } from "./dashboard.ts";
import { pascal } from "./container.ts";
import { ROLES, type Role } from "./environment.ts";
import * as metrics from "./metrics.ts";
import type { ServicesStack } from "./services.ts";
import { WaybillStack, type Shared } from "./stack.ts";
import { QUEUES, type QueueName } from "./topology.ts";

const { GREATER_THAN_OR_EQUAL_TO_THRESHOLD, LESS_THAN_THRESHOLD } = cloudwatch.ComparisonOperator;
const { BREACHING, NOT_BREACHING } = cloudwatch.TreatMissingData;

/** Causes of the service's own alerts, as it logs them (docs/operating.md, "Alerts"). */
export const CAUSES = ["dead_letter", "provider_failing", "rows_stuck", "outbox_lagging"] as const;

interface Alarm {
  readonly metric: cloudwatch.IMetric;
  readonly threshold: number;
  readonly about: string;
  /** Minutes in a row. */
  readonly periods?: number;
  readonly below?: boolean;
  /** Silence is a fault too. */
  readonly silenceRings?: boolean;
}

export class AlarmsStack extends WaybillStack {
  private readonly action: SnsAction;
  private readonly all: cloudwatch.Alarm[] = [];

  constructor(scope: Construct, shared: Shared, services: ServicesStack) {
    super(scope, "alarms", "alarms and dashboard", shared);
    const topic = sns.Topic.fromTopicArn(this, "Alerts", this.names.topicArn(this, this.names.alertsTopic));
    this.action = new SnsAction(topic);
    for (const name of QUEUES) this.queue(name);
    for (const role of ROLES) this.tasks(role);
    this.ownAlerts();
    this.api(services);
    this.renderer();
    this.reputation();
    this.database();
    this.redis();
    addDashboard(this, services, this.all);
  }

  private alarm(id: string, alarm: Alarm): void {
    const made = new cloudwatch.Alarm(this, id, {
      alarmName: `${this.names.prefix}-${id}`,
      alarmDescription: alarm.about,
      metric: alarm.metric,
      threshold: alarm.threshold,
      comparisonOperator: alarm.below ? LESS_THAN_THRESHOLD : GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
      evaluationPeriods: alarm.periods ?? 1,
      treatMissingData: alarm.silenceRings ? BREACHING : NOT_BREACHING,
    });
    made.addAlarmAction(this.action);
    made.addOkAction(this.action);
    this.all.push(made);
  }

  private queue(name: QueueName): void {
    const queue = this.names.queue(name);
    const dead = this.names.deadQueue(name);
    const id = pascal(name);
    this.alarm(`${id}DeadLetters`, {
      metric: metrics.sqs(dead, "ApproximateNumberOfMessagesVisible"),
      threshold: 1,
      about: `A message is on ${dead}. waybill dlq show, then waybill redrive --dry-run`,
    });
    // The age counts from the move; the retention from the first sending. What may have been spent in the source is taken off.
    const { retention_s } = this.topology.dead_letter;
    this.alarm(`${id}DeadLettersExpire`, {
      metric: metrics.sqs(dead, "ApproximateAgeOfOldestMessage"),
      threshold: retention_s - this.topology.queues[name].retention_s - 2 * 86_400,
      about: `Messages of ${dead} expire in two days or sooner`,
    });
    this.alarm(`${id}Age`, {
      metric: metrics.sqs(queue, "ApproximateAgeOfOldestMessage"),
      threshold: 300,
      periods: 3,
      about: `The oldest message of ${queue} waits for more than 5 min. waybill queues; are its consumers running?`,
    });
    this.alarm(`${id}QuietAge`, {
      metric: metrics.sqs(queue, "ApproximateAgeOfOldestMessageInQuietGroups"),
      threshold: 120,
      periods: 3,
      about: `Tenants who send little wait in ${queue} for those who send much`,
    });
    this.alarm(`${id}NoisyGroups`, {
      metric: metrics.sqs(queue, "ApproximateNumberOfNoisyGroups"),
      threshold: 1,
      periods: 30,
      about: `A tenant has taken most of ${queue} for half an hour`,
    });
    this.alarm(`${id}InFlight`, {
      metric: metrics.sqs(queue, "ApproximateNumberOfMessagesNotVisible"),
      threshold: 100_000,
      about: `${queue} has 100,000 messages in flight: at 120,000 SQS hands out no more`,
    });
  }

  private tasks(role: Role): void {
    this.alarm(`${pascal(role)}NotRunning`, {
      metric: metrics.runningTasks(this.names.cluster, role),
      threshold: 1,
      below: true,
      periods: 3,
      silenceRings: true,
      about: `No ${role} runs${role === "scheduler" ? ": nothing sweeps, and nothing tells that rows are stuck" : ""}`,
    });
  }

  /** `ALERT` lines of every role: {"level":"ERROR","fields":{"cause":...}}. */
  private ownAlerts(): void {
    for (const role of ROLES) {
      const logGroup = logs.LogGroup.fromLogGroupName(this, `${pascal(role)}Log`, this.names.logGroup(role));
      for (const cause of CAUSES) {
        new logs.MetricFilter(this, `${pascal(role)}${pascal(cause.replaceAll("_", "-"))}`, {
          logGroup,
          filterPattern: logs.FilterPattern.literal(`{ $.level = "ERROR" && $.fields.cause = "${cause}" }`),
          metricNamespace: metrics.ownNamespace(this.names.prefix),
          metricName: cause,
          metricValue: "1",
        });
      }
    }
    for (const cause of CAUSES) {
      this.alarm(`Own${pascal(cause.replaceAll("_", "-"))}`, {
        metric: metrics.own(this.names.prefix, cause),
        threshold: 1,
        about: `The service itself rings ${cause}: see docs/operating.md, "Alerts", and the ALERT line in its log`,
      });
    }
  }

  private api(services: ServicesStack): void {
    const { alb, targets } = services.balancer;
    this.alarm("ApiErrors", {
      metric: metrics.apiErrorPercent(alb),
      threshold: 1,
      periods: 5,
      about: "One in a hundred requests or more is answered with 5xx",
    });
    this.alarm("ApiUnhealthy", {
      metric: metrics.healthyTargets(alb, targets),
      threshold: 1,
      below: true,
      periods: 3,
      silenceRings: true,
      about: "No API task is ready",
    });
  }

  private renderer(): void {
    for (const [name, threshold] of [
      ["Errors", 3],
      ["Throttles", 1],
    ] as const) {
      this.alarm(`Renderer${name}`, {
        metric: metrics.lambda(this.names.renderer, name),
        threshold,
        periods: 3,
        about: `The renderer: ${name.toLowerCase()} for three minutes. Documents wait, and are given up at their deadline`,
      });
    }
  }

  /** SES pauses an account at 10 % bounces or 0.5 % complaints, and looks closer from half of that. */
  private reputation(): void {
    for (const [name, threshold] of [
      ["Bounce", 0.05],
      ["Complaint", 0.001],
    ] as const) {
      this.alarm(`Ses${name}Rate`, {
        metric: metrics.sesReputation(`Reputation.${name}Rate`),
        threshold,
        about: `${name} rate of the SES account: at the rate of its warning`,
      });
    }
  }

  private database(): void {
    const metric = (name: string, statistic = "Average") => metrics.rds(this.names.prefix, name, statistic);
    const gigabyte = 1024 ** 3;
    const low = { below: true, periods: 5 };
    const storage = this.settings.databaseStorageGb * gigabyte;
    this.alarm("DatabaseStorage", {
      ...low,
      metric: metric("FreeStorageSpace", "Minimum"),
      threshold: storage / 10,
      silenceRings: true,
      about: "Less than a tenth of the storage is free",
    });
    this.alarm("DatabaseMemory", {
      ...low,
      metric: metric("FreeableMemory", "Minimum"),
      threshold: gigabyte / 2,
      about: "PostgreSQL's machine runs out of memory",
    });
    this.alarm("DatabaseCpu", {
      metric: metric("CPUUtilization"),
      threshold: 80,
      periods: 10,
      about: "PostgreSQL's CPU is above 80 % for ten minutes",
    });
    this.alarm("DatabaseConnections", {
      metric: metric("DatabaseConnections", "Maximum"),
      threshold: 700,
      periods: 3,
      about: "Many connections: tasks times WAYBILL_DATABASE_CONNECTIONS nears max_connections",
    });
  }

  private redis(): void {
    for (const node of metrics.redisNodes(this.names.prefix)) {
      const id = `Redis${node.slice(-3)}`;
      this.alarm(`${id}Memory`, {
        metric: metrics.redis(node, "DatabaseMemoryUsagePercentage", "Maximum"),
        threshold: 80,
        periods: 3,
        silenceRings: true,
        about: "Locks fill the memory of Valkey: a full one refuses them",
      });
      this.alarm(`${id}Evictions`, {
        metric: metrics.redis(node, "Evictions", "Sum"),
        threshold: 1,
        about: "Valkey evicted locks, which its policy forbids",
      });
    }
  }
}
