import assert from "node:assert/strict";
import { suite, test } from "node:test";

import { QUEUES, problems, readTopology } from "../lib/topology.ts";
import { arn, list, only, resources, text, type Resource, type Statement } from "./templates.ts";

const topology = readTopology();
const queues = Object.values(resources("messaging", "AWS::SQS::Queue"));
const queue = (name: string): Resource => {
  const found = queues.find((one) => one.Properties["QueueName"] === name);
  assert.ok(found, `there is a queue ${name}`);
  return found;
};
const idOf = (name: string): string => {
  const found = Object.entries(resources("messaging", "AWS::SQS::Queue")).find(([, one]) => one.Properties["QueueName"] === name);
  return found?.[0] ?? assert.fail(`no queue ${name}`);
};
const policyOf = (name: string): Statement[] => {
  const id = idOf(name);
  const policies = Object.values(resources("messaging", "AWS::SQS::QueuePolicy"));
  const own = policies.filter((one) => one.Properties["Queues"].some((ref: any) => ref.Ref === id));
  assert.equal(own.length, 1, "a second policy would replace the first");
  return own[0]?.Properties["PolicyDocument"].Statement as Statement[];
};

suite("queues", () => {
  test("topology.json is what is synthesized: names and numbers", () => {
    const expected = QUEUES.flatMap((name) => {
      const numbers = topology.queues[name];
      const common = [topology.maximum_message_bytes, topology.receive_wait_s, numbers.visibility_timeout_s];
      return [
        [`waybill-${name}`, numbers.retention_s, numbers.max_receive_count, ...common],
        [`waybill-${name}${topology.dead_letter.suffix}`, topology.dead_letter.retention_s, undefined, ...common],
      ];
    });
    const found = queues.map(({ Properties: p }) => [
      p["QueueName"],
      p["MessageRetentionPeriod"],
      p["RedrivePolicy"]?.maxReceiveCount,
      p["MaximumMessageSize"],
      p["ReceiveMessageWaitTimeSeconds"],
      p["VisibilityTimeout"],
    ]);
    assert.deepEqual(found.sort(), expected.sort());
  });

  test("sqs_06 a dead-letter queue keeps for 14 days, longer than its source", () => {
    for (const name of QUEUES) {
      const dead = queue(`waybill-${name}-dead`).Properties["MessageRetentionPeriod"];
      assert.equal(dead, 14 * 86_400);
      assert.ok(dead > queue(`waybill-${name}`).Properties["MessageRetentionPeriod"]);
      assert.equal(
        text(queue(`waybill-${name}`).Properties["RedrivePolicy"].deadLetterTargetArn),
        `\${${idOf(`waybill-${name}-dead`)}.Arn}`,
      );
    }
  });

  test("a received message stays invisible for six times what handling it may take", () => {
    for (const name of QUEUES) {
      assert.ok(queue(`waybill-${name}`).Properties["VisibilityTimeout"] >= 6 * topology.handler_timeout_s);
    }
  });

  test("every queue is a standard one, encrypted, and refuses what doesn't come over TLS", () => {
    for (const { Properties: p } of queues) {
      assert.equal(p["FifoQueue"], undefined);
      assert.equal(p["SqsManagedSseEnabled"], true);
      const refusal = policyOf(p["QueueName"]).find((statement) => statement.Effect === "Deny");
      assert.deepEqual(refusal?.Condition, { Bool: { "aws:SecureTransport": "false" } });
      assert.equal(refusal?.Action, "sqs:*");
      assert.deepEqual(refusal?.Principal, { AWS: "*" });
    }
  });

  test("a dead-letter queue takes dead letters of its own source only", () => {
    for (const name of QUEUES) {
      const allow = queue(`waybill-${name}-dead`).Properties["RedriveAllowPolicy"];
      assert.equal(allow.redrivePermission, "byQueue");
      assert.deepEqual(allow.sourceQueueArns.map(text), [arn("sqs", `waybill-${name}`)]);
    }
  });

  test("only the intake rule and the feedback topic may send from outside, each to its pair of queues", () => {
    const senders = (name: string) =>
      policyOf(name)
        .filter((statement) => statement.Effect === "Allow")
        .map((s) => [s.Principal.Service, s.Action, text(s.Condition.ArnEquals["aws:SourceArn"])]);
    const rule = [["events.amazonaws.com", "sqs:SendMessage", arn("events", "rule/waybill-events/waybill-intake")]];
    const topic = [["sns.amazonaws.com", "sqs:SendMessage", arn("sns", "waybill-feedback")]];
    for (const suffix of ["", "-dead"]) {
      assert.deepEqual(senders(`waybill-intake${suffix}`), rule);
      assert.deepEqual(senders(`waybill-feedback${suffix}`), topic);
      assert.deepEqual(senders(`waybill-main${suffix}`), []);
      assert.deepEqual(senders(`waybill-delivery${suffix}`), []);
    }
  });

  test("a topology that breaks a rule is refused with both numbers", () => {
    const broken = structuredClone(topology) as any;
    broken.handler_timeout_s = 31;
    broken.dead_letter.retention_s = broken.queues.main.retention_s;
    broken.renderer.timeout_s = 31;
    broken.receive_wait_s = 30;
    broken.stop_slack_s = 0;
    const found = problems(broken).join("\n");
    for (const word of [
      "visibility_timeout_s (180)",
      "handler_timeout_s (31)",
      "retention_s (345600)",
      "renderer.timeout_s (31)",
      "receive_wait_s (30)",
      "stop_slack_s (30)",
    ]) {
      assert.ok(found.includes(word), `${word} in ${found}`);
    }
    assert.deepEqual(problems(topology), []);
  });
});

suite("alerts topic", () => {
  const statements = only("messaging", "AWS::SNS::TopicPolicy").Properties["PolicyDocument"].Statement as Statement[];

  test("only alarms and failed deployments of this account may publish, and only over TLS", () => {
    const publishers = statements
      .filter((statement) => statement.Effect === "Allow")
      .map((s) => [s.Principal.Service, text(s.Condition.StringEquals["aws:SourceAccount"]), text(s.Condition.ArnLike["aws:SourceArn"])]);
    assert.deepEqual(publishers, [
      ["cloudwatch.amazonaws.com", "${AWS::AccountId}", arn("cloudwatch", "alarm:waybill-*")],
      ["events.amazonaws.com", "${AWS::AccountId}", arn("events", "rule/waybill-deployments")],
    ]);
    const refusals = statements.filter((statement) => statement.Effect === "Deny");
    assert.deepEqual(
      refusals.map((s) => s.Condition),
      [{ Bool: { "aws:SecureTransport": "false" } }],
    );
    assert.deepEqual(list(refusals[0]?.Action), ["sns:Publish"]);
  });
});
