// What each role may do, and nothing else.
import * as iam from "aws-cdk-lib/aws-iam";

import type { Role } from "./environment.ts";
import type { WaybillStack } from "./stack.ts";
import { QUEUES, type QueueName } from "./topology.ts";

const CONSUME = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility"];

/** The statements of one role's task role. */
export function permissionsOf(stack: WaybillStack, role: Role): iam.PolicyStatement[] {
  const { names, topology } = stack;
  const main = names.queueArn(stack, "main");
  const delivery = names.queueArn(stack, "delivery");
  const dead = (name: QueueName) => names.deadQueueArn(stack, name);
  const consume = (...queues: QueueName[]) =>
    allow(
      CONSUME,
      queues.map((name) => names.queueArn(stack, name)),
    );
  const send = (...arns: string[]) => allow(["sqs:SendMessage"], arns);
  const alert = allow(["sns:Publish"], [names.topicArn(stack, names.alertsTopic)]);
  // Each process looks up every queue and its numbers when it starts, so that a missing or a wrong one shows at once.
  const lookUp = allow(["sqs:GetQueueUrl", "sqs:GetQueueAttributes"], everyQueue(stack));
  switch (role) {
    case "api":
      // A customer's retry of a job queues its deliveries.
      return [lookUp, send(main, delivery)];
    case "router":
      // A delivery whose document has failed already is a dead letter from the start.
      return [lookUp, alert, consume("main"), send(dead("main"), delivery, dead("delivery"))];
    case "worker":
      return [
        lookUp,
        alert,
        consume("delivery"),
        // A delivery that waited for its document is queued by the worker that rendered it.
        send(dead("delivery"), delivery),
        ...read(stack, "*"),
        allow(["lambda:InvokeFunction"], [names.rendererArn(stack)]),
        allow(["ses:SendEmail"], [...identities(stack), names.configurationSetArn(stack)]),
      ];
    case "scheduler":
      return [lookUp, alert, send(main, delivery, dead("delivery"))];
    case "intake":
      return [
        lookUp,
        alert,
        consume("intake", "feedback"),
        send(dead("intake"), dead("feedback"), main),
        ...read(stack, `${topology.documents.intake_prefix}*`),
      ];
  }
}

/** The operator's commands look at every queue, take from the dead-letter queues what is none any more, and queue what is redriven. */
export function operatorPermissions(stack: WaybillStack): iam.PolicyStatement[] {
  const dead = QUEUES.map((name) => stack.names.deadQueueArn(stack, name));
  return [
    allow(["sqs:GetQueueUrl", "sqs:GetQueueAttributes"], everyQueue(stack)),
    allow(CONSUME, dead),
    allow(["sqs:SendMessage"], [stack.names.queueArn(stack, "delivery")]),
  ];
}

function allow(actions: string[], resources: string[]): iam.PolicyStatement {
  return new iam.PolicyStatement({ actions, resources });
}

function everyQueue(stack: WaybillStack): string[] {
  return QUEUES.flatMap((name) => [stack.names.queueArn(stack, name), stack.names.deadQueueArn(stack, name)]);
}

/** With ListBucket a missing key is a 404: "not yet", and not "not allowed". It can't be limited to a prefix without losing that. */
function read(stack: WaybillStack, keys: string): iam.PolicyStatement[] {
  const bucket = stack.names.bucketArn(stack);
  return [allow(["s3:GetObject"], [`${bucket}/${keys}`]), allow(["s3:ListBucket"], [bucket])];
}

function identities(stack: WaybillStack): string[] {
  const listed = stack.settings.sesIdentities.length > 0 ? stack.settings.sesIdentities : ["*"];
  return listed.map((resourceName) => stack.formatArn({ service: "ses", resource: "identity", resourceName }));
}
