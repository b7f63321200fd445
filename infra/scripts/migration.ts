// Runs the migration's task once and waits for its end.
import { setTimeout as sleep } from "node:timers/promises";

import { DescribeTasksCommand, RunTaskCommand, type Task } from "@aws-sdk/client-ecs";

/** The part of the ECS client that is needed here. */
export interface Ecs {
  send(command: RunTaskCommand): Promise<{ tasks?: Task[]; failures?: { reason?: string }[] }>;
  send(command: DescribeTasksCommand): Promise<{ tasks?: Task[]; failures?: { reason?: string }[] }>;
}

export interface Where {
  readonly cluster: string;
  readonly family: string;
  readonly subnets: readonly string[];
  readonly securityGroups: readonly string[];
}

export interface Patience {
  readonly everyMs: number;
  readonly tries: number;
}

/** Throws unless every container of the task has ended with 0. */
export async function runMigration(ecs: Ecs, where: Where, patience: Patience = { everyMs: 5_000, tries: 360 }): Promise<void> {
  const started = await ecs.send(
    new RunTaskCommand({
      cluster: where.cluster,
      taskDefinition: where.family,
      launchType: "FARGATE",
      networkConfiguration: {
        awsvpcConfiguration: { subnets: [...where.subnets], securityGroups: [...where.securityGroups], assignPublicIp: "DISABLED" },
      },
    }),
  );
  const task = started.tasks?.[0]?.taskArn;
  if (task === undefined) throw new Error(`the migration did not start: ${started.failures?.map((one) => one.reason).join(", ") ?? ""}`);
  for (let tried = 0; tried < patience.tries; tried += 1) {
    const { tasks } = await ecs.send(new DescribeTasksCommand({ cluster: where.cluster, tasks: [task] }));
    const now = tasks?.[0];
    if (now?.lastStatus === "STOPPED") return check(now);
    await sleep(patience.everyMs);
  }
  throw new Error(`the migration still runs after ${(patience.tries * patience.everyMs) / 60_000} min: ${task}`);
}

function check(task: Task): void {
  const containers = task.containers ?? [];
  const failed = containers.filter((one) => one.exitCode !== 0);
  if (containers.length > 0 && failed.length === 0) return;
  const ends = failed.map((one) => `${one.name} ended with ${one.exitCode ?? one.reason ?? "nothing"}`);
  throw new Error(`the migration failed: ${[...ends, task.stoppedReason].join("; ")}. Its log is in the group that ends in /migrate`);
}
