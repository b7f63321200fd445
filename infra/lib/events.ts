// Events in (EventBridge to the intake queue, and a record of everything) and feedback in (SES by way of SNS to the feedback queue).
// EventBridge calls this kind of bus "Custom Event Bus - Classic".
import { ArnFormat, CfnOutput, Duration } from "aws-cdk-lib";
import * as events from "aws-cdk-lib/aws-events";
import * as iam from "aws-cdk-lib/aws-iam";
import * as logs from "aws-cdk-lib/aws-logs";
import * as ses from "aws-cdk-lib/aws-ses";
import * as sns from "aws-cdk-lib/aws-sns";
import type { Construct } from "constructs";

import { WaybillStack, type Shared } from "./stack.ts";

export class EventsStack extends WaybillStack {
  constructor(scope: Construct, shared: Shared) {
    super(scope, "events", "event bus, intake rule, record of events, SES events", shared);
    const bus = new events.EventBus(this, "Bus", { eventBusName: this.names.bus });
    this.intake(bus);
    this.record(bus);
    if (this.settings.eventArchiveDays !== undefined) {
      bus.archive("Archive", {
        archiveName: `${this.names.prefix}-archive`,
        eventPattern: { account: [this.account] },
        retention: Duration.days(this.settings.eventArchiveDays),
      });
    }
    this.feedback();
    new CfnOutput(this, "BusName", { value: bus.eventBusName });
  }

  /** Rules are written out: the library's SQS target would own the queue's policy, which belongs to the stack of the queues. */
  private intake(bus: events.EventBus): void {
    const { retry_attempts, maximum_age_s } = this.topology.events;
    const { eventSources, eventDetailTypePrefix } = this.settings;
    new events.CfnRule(this, "Intake", {
      name: this.names.intakeRule,
      description: "What Waybill acts on",
      eventBusName: bus.eventBusName,
      eventPattern: {
        account: [this.account],
        ...(eventSources.length > 0 && { source: [...eventSources] }),
        ...(eventDetailTypePrefix !== undefined && { "detail-type": [{ prefix: eventDetailTypePrefix }] }),
      },
      targets: [
        {
          id: "intake",
          arn: this.names.queueArn(this, "intake"),
          deadLetterConfig: { arn: this.names.deadQueueArn(this, "intake") },
          retryPolicy: { maximumRetryAttempts: retry_attempts, maximumEventAgeInSeconds: maximum_age_s },
        },
      ],
    });
  }

  private record(bus: events.EventBus): void {
    const group = this.logGroup("Record", this.names.eventsLogGroup, this.topology.events.log_retention_days);
    const rule = new events.CfnRule(this, "RecordRule", {
      name: this.names.recordRule,
      description: "Everything, for the record",
      eventBusName: bus.eventBusName,
      eventPattern: { account: [this.account] },
      targets: [
        {
          id: "record",
          arn: this.formatArn({
            service: "logs",
            resource: "log-group",
            resourceName: this.names.eventsLogGroup,
            arnFormat: ArnFormat.COLON_RESOURCE_NAME,
          }),
        },
      ],
    });
    const policy = new logs.ResourcePolicy(this, "RecordPolicy", { resourcePolicyName: this.names.recordRule });
    const writers = ["events.amazonaws.com", "delivery.logs.amazonaws.com"].map((name) => new iam.ServicePrincipal(name));
    const streams = [group.logGroupArn];
    policy.document.addStatements(
      new iam.PolicyStatement({ principals: writers, actions: ["logs:CreateLogStream"], resources: streams }),
      new iam.PolicyStatement({
        principals: writers,
        actions: ["logs:PutLogEvents"],
        resources: streams,
        conditions: { ArnEquals: { "aws:SourceArn": this.names.ruleArn(this, this.names.recordRule) } },
      }),
    );
    rule.node.addDependency(group, policy);
  }

  private feedback(): void {
    const topic = new sns.Topic(this, "Feedback", { topicName: this.names.feedbackTopic, enforceSSL: true });
    topic.addToResourcePolicy(
      new iam.PolicyStatement({
        sid: "Ses",
        principals: [new iam.ServicePrincipal("ses.amazonaws.com")],
        actions: ["sns:Publish"],
        resources: [topic.topicArn],
        conditions: {
          StringEquals: { "AWS:SourceAccount": this.account },
          ArnEquals: { "AWS:SourceArn": this.names.configurationSetArn(this) },
        },
      }),
    );
    new sns.CfnSubscription(this, "FeedbackQueue", {
      topicArn: topic.topicArn,
      protocol: "sqs",
      endpoint: this.names.queueArn(this, "feedback"),
      rawMessageDelivery: true,
      redrivePolicy: { deadLetterTargetArn: this.names.deadQueueArn(this, "feedback") },
    });
    const set = new ses.CfnConfigurationSet(this, "ConfigurationSet", {
      name: this.names.configurationSet,
      reputationOptions: { reputationMetricsEnabled: true },
      sendingOptions: { sendingEnabled: true },
    });
    const destination = new ses.CfnConfigurationSetEventDestination(this, "FeedbackEvents", {
      configurationSetName: this.names.configurationSet,
      eventDestination: {
        name: "feedback",
        enabled: true,
        matchingEventTypes: ["send", "reject", "bounce", "complaint", "delivery", "deliveryDelay", "renderingFailure"],
        snsDestination: { topicArn: topic.topicArn },
      },
    });
    // SES tries the topic when the destination is made.
    const policy = topic.node.findChild("Policy");
    destination.node.addDependency(set, policy);
    new CfnOutput(this, "FeedbackTopicArn", { value: topic.topicArn });
    new CfnOutput(this, "ConfigurationSetName", { value: this.names.configurationSet });
  }
}
