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
  // Each process looks up every queue when it starts, so that a missing one shows at once.
  const lookUp = allow(["sqs:GetQueueUrl"], everyQueue(stack));
  switch (role) {
    case "api":
      return [lookUp, send(main)];
    case "router":
      return [lookUp, alert, consume("main"), send(dead("main"), delivery)];
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
      return [lookUp, alert, send(main, delivery)];
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

/** The operator's commands look at every queue, and take from the dead-letter queues what they put back. */
export function operatorPermissions(stack: WaybillStack): iam.PolicyStatement[] {
  const dead = QUEUES.map((name) => stack.names.deadQueueArn(stack, name));
  return [allow(["sqs:GetQueueUrl", "sqs:GetQueueAttributes"], everyQueue(stack)), allow(CONSUME, dead)];
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
