// Least privilege: what each role may do, word by word, and that nothing anywhere is allowed by a star.
import assert from "node:assert/strict";
import { suite, test } from "node:test";

import { allowed, arn, everywhere, list, resources, statementsOf, text, type Statement } from "./templates.ts";

const QUEUES = ["main", "delivery", "intake", "feedback"].flatMap((name) => [name, `${name}-dead`]);
const BUCKET = "arn:${AWS::Partition}:s3:::waybill-documents-${AWS::AccountId}-${AWS::Region}";

const queue = (name: string) => arn("sqs", `waybill-${name}`);
const lookUp = QUEUES.flatMap((name) => ["GetQueueUrl", "GetQueueAttributes"].map((action) => `sqs:${action} ${queue(name)}`));
const consume = (name: string) => ["ChangeMessageVisibility", "DeleteMessage", "ReceiveMessage"].map((a) => `sqs:${a} ${queue(name)}`);
const send = (...names: string[]) => names.map((name) => `sqs:SendMessage ${queue(name)}`);
const alert = `sns:Publish ${arn("sns", "waybill-alerts")}`;
const read = (keys: string) => [`s3:GetObject ${BUCKET}/${keys}`, `s3:ListBucket ${BUCKET}`];

/** The role that a task's containers run with. */
function taskRole(stack: string, family: string): string {
  const task = Object.values(resources(stack, "AWS::ECS::TaskDefinition")).find((one) => one.Properties["Family"] === family);
  return task?.Properties["TaskRoleArn"]["Fn::GetAtt"][0] ?? assert.fail(`no task ${family}`);
}

suite("task roles", () => {
  const matrix: Record<string, string[]> = {
    api: [...lookUp, ...send("main", "delivery")],
    router: [...lookUp, alert, ...consume("main"), ...send("main-dead", "delivery", "delivery-dead")],
    worker: [
      ...lookUp,
      alert,
      ...consume("delivery"),
      ...send("delivery", "delivery-dead"),
      ...read("*"),
      `lambda:InvokeFunction ${arn("lambda", "function:waybill-renderer")}`,
      `ses:SendEmail ${arn("ses", "configuration-set/waybill")}`,
      `ses:SendEmail ${arn("ses", "identity/*")}`,
    ],
    scheduler: [...lookUp, alert, ...send("main", "delivery", "delivery-dead")],
    intake: [
      ...lookUp,
      alert,
      ...consume("intake"),
      ...consume("feedback"),
      ...send("intake-dead", "feedback-dead", "main"),
      ...read("intake/*"),
    ],
  };
  for (const [role, expected] of Object.entries(matrix)) {
    test(`${role} may do exactly this`, () => {
      assert.deepEqual(allowed(statementsOf("services", taskRole("services", `waybill-${role}`))), expected.sort());
    });
  }

  test("the operator may look at every queue, take from the dead-letter queues and queue deliveries", () => {
    const dead = QUEUES.filter((name) => name.endsWith("-dead")).flatMap(consume);
    const expected = [...lookUp, ...dead, ...send("delivery")];
    assert.deepEqual(allowed(statementsOf("tasks", taskRole("tasks", "waybill-operator"))), expected.sort());
  });

  test("the migration may do nothing in AWS", () => {
    assert.deepEqual(statementsOf("tasks", taskRole("tasks", "waybill-migrate")), []);
  });
});

suite("execution roles", () => {
  test("each reads the secrets of its own containers only", () => {
    for (const { stack, resource } of everywhere("AWS::ECS::TaskDefinition")) {
      const role = resource.Properties["ExecutionRoleArn"]["Fn::GetAtt"][0] as string;
      const may = allowed(statementsOf(stack, role)).filter((pair) => pair.startsWith("secretsmanager:GetSecretValue"));
      const used = (resource.Properties["ContainerDefinitions"] as any[]).flatMap((c) => c.Secrets.map((s: any) => text(s.ValueFrom)));
      const arns = [...new Set(used.map((from) => from.replace(/:(username|password)::$/, "")))];
      assert.deepEqual(may.map((pair) => pair.split(" ")[1]).sort(), arns.sort(), resource.Properties["Family"]);
    }
  });
});

suite("no stars", () => {
  const identity = everywhere("AWS::IAM::Policy").flatMap(({ resource }) => resource.Properties["PolicyDocument"].Statement as Statement[]);
  const onResources = ["AWS::SQS::QueuePolicy", "AWS::SNS::TopicPolicy", "AWS::S3::BucketPolicy"].flatMap((type) =>
    everywhere(type).flatMap(({ resource }) => resource.Properties["PolicyDocument"].Statement as Statement[]),
  );
  const grants = [...identity, ...onResources].filter((statement) => statement.Effect === "Allow");

  test("no action is allowed by a star", () => {
    assert.ok(grants.length > 40);
    assert.deepEqual(
      grants.flatMap((s) => list(s.Action).filter((action) => String(action).includes("*"))),
      [],
    );
  });

  test("no resource is a star, but where AWS knows no resource", () => {
    const starred = grants.filter((s) => list(s.Resource).some((one) => text(one) === "*")).flatMap((s) => list(s.Action));
    assert.deepEqual([...new Set(starred)], ["ecr:GetAuthorizationToken"]);
  });

  test("nobody is trusted by a star, and no role carries a managed policy", () => {
    assert.deepEqual(
      onResources.filter((s) => s.Effect === "Allow" && JSON.stringify(s.Principal).includes('"*"')),
      [],
    );
    assert.deepEqual(
      everywhere("AWS::IAM::Role")
        .filter(({ resource }) => resource.Properties["ManagedPolicyArns"] !== undefined)
        .map(({ id }) => id),
      [],
    );
  });
});
