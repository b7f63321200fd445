// The queues, each with its dead-letter queue, and the topic of the alerts. Order is kept by the database, so every queue is a standard
// one: the tenant goes along as the message's group, for fairness only.
import { CfnOutput, Duration } from "aws-cdk-lib";
import * as iam from "aws-cdk-lib/aws-iam";
import * as topics from "aws-cdk-lib/aws-sns";
import { EmailSubscription } from "aws-cdk-lib/aws-sns-subscriptions";
import * as sqs from "aws-cdk-lib/aws-sqs";
import type { Construct } from "constructs";

import { WaybillStack, type Shared } from "./stack.ts";
import { QUEUES, type QueueName } from "./topology.ts";

export class MessagingStack extends WaybillStack {
  constructor(scope: Construct, shared: Shared) {
    super(scope, "messaging", "queues, dead-letter queues, topic of the alerts", shared);
    const queues = new Map(QUEUES.map((name) => [name, this.queueWithDeadLetters(name)]));

    const rule = this.names.ruleArn(this, this.names.intakeRule);
    const events = new iam.ServicePrincipal("events.amazonaws.com");
    const intake = queues.get("intake");
    // What the rule or the topic can't put onto its queue waits beside that queue's own dead letters.
    for (const queue of [intake?.queue, intake?.dead]) queue?.addToResourcePolicy(send(queue, events, rule));

    const topic = this.names.topicArn(this, this.names.feedbackTopic);
    const sns = new iam.ServicePrincipal("sns.amazonaws.com");
    const feedback = queues.get("feedback");
    for (const queue of [feedback?.queue, feedback?.dead]) queue?.addToResourcePolicy(send(queue, sns, topic));

    this.alertsTopic();
  }

  private queueWithDeadLetters(name: QueueName): { queue: sqs.Queue; dead: sqs.Queue } {
    const numbers = this.topology.queues[name];
    const common = {
      encryption: sqs.QueueEncryption.SQS_MANAGED,
      enforceSSL: true,
      maxMessageSizeBytes: this.topology.maximum_message_bytes,
      receiveMessageWaitTime: Duration.seconds(this.topology.receive_wait_s),
      visibilityTimeout: Duration.seconds(numbers.visibility_timeout_s),
    };
    const id = name[0]?.toUpperCase() + name.slice(1);
    const dead = new sqs.Queue(this, `${id}Dead`, {
      ...common,
      queueName: this.names.deadQueue(name),
      // A message keeps the time of its first sending, so what it spent in the source counts against this.
      retentionPeriod: Duration.seconds(this.topology.dead_letter.retention_s),
      redriveAllowPolicy: {
        redrivePermission: sqs.RedrivePermission.BY_QUEUE,
        // By name: a reference would make a circle of the two queues.
        sourceQueues: [sqs.Queue.fromQueueArn(this, `${id}Source`, this.names.queueArn(this, name))],
      },
    });
    const queue = new sqs.Queue(this, id, {
      ...common,
      queueName: this.names.queue(name),
      retentionPeriod: Duration.seconds(numbers.retention_s),
      deadLetterQueue: { queue: dead, maxReceiveCount: numbers.max_receive_count },
    });
    new CfnOutput(this, `${id}Url`, { value: queue.queueUrl });
    new CfnOutput(this, `${id}DeadUrl`, { value: dead.queueUrl });
    return { queue, dead };
  }

  private alertsTopic(): void {
    const topic = new topics.Topic(this, "Alerts", { topicName: this.names.alertsTopic, enforceSSL: true });
    const publish = (sid: string, service: string, sourceArn: string) =>
      topic.addToResourcePolicy(
        new iam.PolicyStatement({
          sid,
          principals: [new iam.ServicePrincipal(service)],
          actions: ["sns:Publish"],
          resources: [topic.topicArn],
          conditions: { StringEquals: { "aws:SourceAccount": this.account }, ArnLike: { "aws:SourceArn": sourceArn } },
        }),
      );
    const alarms = this.formatArn({ service: "cloudwatch", resource: `alarm:${this.names.prefix}-*` });
    publish("Alarms", "cloudwatch.amazonaws.com", alarms);
    publish("FailedDeployments", "events.amazonaws.com", this.names.defaultBusRuleArn(this, this.names.deploymentRule));
    if (this.settings.alertEmail !== undefined) topic.addSubscription(new EmailSubscription(this.settings.alertEmail));
    new CfnOutput(this, "AlertsTopicArn", { value: topic.topicArn });
  }
}

function send(queue: sqs.IQueue, principal: iam.IPrincipal, sourceArn: string): iam.PolicyStatement {
  return new iam.PolicyStatement({
    principals: [principal],
    actions: ["sqs:SendMessage"],
    resources: [queue.queueArn],
    conditions: { ArnEquals: { "aws:SourceArn": sourceArn } },
  });
}
