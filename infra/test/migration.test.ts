import assert from "node:assert/strict";
import { suite, test } from "node:test";

import { DescribeTasksCommand, RunTaskCommand, type Task } from "@aws-sdk/client-ecs";

import { runMigration, type Ecs } from "../scripts/migration.ts";

const where = { cluster: "waybill", family: "waybill-migrate", subnets: ["subnet-1"], securityGroups: ["sg-1", "sg-2"] };
const patience = { everyMs: 1, tries: 3 };

/** Starts a task and then answers with these states, one after the other, the last one for ever. */
function ecs(states: Task[], failures: { reason?: string }[] = []): Ecs & { asked: number; run?: RunTaskCommand } {
  const fake = {
    asked: 0,
    run: undefined as RunTaskCommand | undefined,
    async send(command: RunTaskCommand | DescribeTasksCommand) {
      if (command instanceof DescribeTasksCommand) return { tasks: [states[Math.min(fake.asked++, states.length - 1)] as Task] };
      fake.run = command;
      return { tasks: failures.length > 0 ? [] : [{ taskArn: "task-1" }], failures };
    },
  };
  return fake;
}

const stopped = (role: number | undefined, migrate: number | undefined): Task => ({
  lastStatus: "STOPPED",
  stoppedReason: "Essential container in task exited",
  containers: [
    { name: "migrate-role", exitCode: role },
    { name: "migrate", exitCode: migrate, reason: "CannotPullContainerError" },
  ],
});

suite("migration", () => {
  test("it is waited for, in the private subnets", async () => {
    const fake = ecs([{ lastStatus: "PENDING" }, { lastStatus: "RUNNING" }, stopped(0, 0)]);
    await runMigration(fake, where, patience);
    assert.equal(fake.asked, 3);
    assert.deepEqual(fake.run?.input.networkConfiguration?.awsvpcConfiguration, {
      subnets: ["subnet-1"],
      securityGroups: ["sg-1", "sg-2"],
      assignPublicIp: "DISABLED",
    });
  });

  test("a container that failed, or never started, stops the deployment and says why", async () => {
    await assert.rejects(runMigration(ecs([stopped(0, 1)]), where, patience), /migrate ended with 1; Essential/);
    await assert.rejects(runMigration(ecs([stopped(0, undefined)]), where, patience), /migrate ended with CannotPullContainerError/);
    await assert.rejects(runMigration(ecs([stopped(3, 0)]), where, patience), /migrate-role ended with 3/);
    await assert.rejects(runMigration(ecs([{ lastStatus: "STOPPED", stoppedReason: "no capacity" }]), where, patience), /no capacity/);
  });

  test("a task that can't be placed, or never ends, stops the deployment", async () => {
    await assert.rejects(runMigration(ecs([], [{ reason: "RESOURCE:ENI" }]), where, patience), /did not start: RESOURCE:ENI/);
    await assert.rejects(runMigration(ecs([{ lastStatus: "RUNNING" }]), where, patience), /still runs/);
  });
});
