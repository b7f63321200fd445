// Every name follows from the prefix, so that a stack can name what another one owns without importing it: no stack is held up by an
// export that another one still uses, and queue policies can name the rule and the topic of the stack that is deployed after them.
import { ArnFormat, type Stack } from "aws-cdk-lib";

import type { QueueName, Topology } from "./topology.ts";

export class Names {
  constructor(
    readonly prefix: string,
    private readonly topology: Topology,
  ) {}

  queue(name: QueueName): string {
    return `${this.prefix}-${name}`;
  }
  deadQueue(name: QueueName): string {
    return `${this.queue(name)}${this.topology.dead_letter.suffix}`;
  }
  get alertsTopic(): string {
    return `${this.prefix}-alerts`;
  }
  get feedbackTopic(): string {
    return `${this.prefix}-feedback`;
  }
  get renderer(): string {
    return `${this.prefix}-${this.topology.renderer.function}`;
  }
  get bus(): string {
    return `${this.prefix}-${this.topology.events.bus}`;
  }
  get intakeRule(): string {
    return `${this.prefix}-intake`;
  }
  get recordRule(): string {
    return `${this.prefix}-record`;
  }
  get deploymentRule(): string {
    return `${this.prefix}-deployments`;
  }
  /** EventBridge writes only below this prefix. */
  get eventsLogGroup(): string {
    return `/aws/events/${this.prefix}`;
  }
  get configurationSet(): string {
    return this.prefix;
  }
  get cluster(): string {
    return this.prefix;
  }
  logGroup(role: string): string {
    return `/${this.prefix}/${role}`;
  }

  queueArn(stack: Stack, name: QueueName): string {
    return stack.formatArn({ service: "sqs", resource: this.queue(name) });
  }
  deadQueueArn(stack: Stack, name: QueueName): string {
    return stack.formatArn({ service: "sqs", resource: this.deadQueue(name) });
  }
  topicArn(stack: Stack, topic: string): string {
    return stack.formatArn({ service: "sns", resource: topic });
  }
  /** On the bus of the application; a rule of the default bus has no bus in its ARN. */
  ruleArn(stack: Stack, rule: string): string {
    return stack.formatArn({ service: "events", resource: "rule", resourceName: `${this.bus}/${rule}` });
  }
  defaultBusRuleArn(stack: Stack, rule: string): string {
    return stack.formatArn({ service: "events", resource: "rule", resourceName: rule });
  }
  rendererArn(stack: Stack): string {
    return stack.formatArn({
      service: "lambda",
      resource: "function",
      resourceName: this.renderer,
      arnFormat: ArnFormat.COLON_RESOURCE_NAME,
    });
  }
  configurationSetArn(stack: Stack): string {
    return stack.formatArn({ service: "ses", resource: "configuration-set", resourceName: this.configurationSet });
  }
  /** Bucket names are shared by all accounts of AWS. */
  bucket(stack: Stack): string {
    return `${this.prefix}-documents-${stack.account}-${stack.region}`;
  }
  bucketArn(stack: Stack): string {
    return stack.formatArn({ service: "s3", region: "", account: "", resource: this.bucket(stack) });
  }
}
