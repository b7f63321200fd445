import assert from "node:assert/strict";
import { suite, test } from "node:test";

import { SAMPLE, synthesize } from "../lib/synth.ts";
import { arn, list, only, resources, text, type Statement } from "./templates.ts";

const rule = (name: string, templates?: ReturnType<typeof synthesize>["templates"]) => {
  const found = Object.values(resources("events", "AWS::Events::Rule", templates)).find((one) => one.Properties["Name"] === name);
  assert.ok(found, `there is a rule ${name}`);
  return found.Properties;
};

suite("event bus", () => {
  test("the intake rule tries for a day, 185 times, and then leaves the event with the dead letters", () => {
    const [target, ...others] = rule("waybill-intake")["Targets"];
    assert.deepEqual(others, []);
    assert.equal(text(target.Arn), arn("sqs", "waybill-intake"));
    assert.equal(text(target.DeadLetterConfig.Arn), arn("sqs", "waybill-intake-dead"));
    assert.deepEqual(target.RetryPolicy, { MaximumEventAgeInSeconds: 86_400, MaximumRetryAttempts: 185 });
    // The envelope as it is: a transformer would lose the id and the time.
    assert.deepEqual([target.InputTransformer, target.InputPath], [undefined, undefined]);
  });

  test("the intake rule takes everything of the account, or what the context lists", () => {
    assert.deepEqual(rule("waybill-intake")["EventPattern"], { account: [{ Ref: "AWS::AccountId" }] });
    const { templates } = synthesize({ ...SAMPLE, eventSources: "billing, shop", eventDetailTypePrefix: "invoice." });
    assert.deepEqual(rule("waybill-intake", templates)["EventPattern"], {
      account: [{ Ref: "AWS::AccountId" }],
      source: ["billing", "shop"],
      "detail-type": [{ prefix: "invoice." }],
    });
  });

  test("everything is recorded for 30 days, and only the record's rule may write there", () => {
    const group = only("events", "AWS::Logs::LogGroup").Properties;
    assert.deepEqual([group["LogGroupName"], group["RetentionInDays"]], ["/aws/events/waybill", 30]);
    assert.deepEqual(rule("waybill-record")["EventPattern"], { account: [{ Ref: "AWS::AccountId" }] });
    assert.equal(text(rule("waybill-record")["Targets"][0].Arn), arn("logs", "log-group:/aws/events/waybill"));
    const policy = text(only("events", "AWS::Logs::ResourcePolicy").Properties["PolicyDocument"]);
    assert.ok(policy.includes('"Action":"logs:PutLogEvents"') && policy.includes("events.amazonaws.com"));
    assert.ok(policy.includes(`"aws:SourceArn":"${arn("events", "rule/waybill-events/waybill-record")}"`), policy);
  });

  test("an archive is there when the context gives its days", () => {
    assert.deepEqual(resources("events", "AWS::Events::Archive"), {});
    const { templates } = synthesize({ ...SAMPLE, eventArchiveDays: "90" });
    assert.equal(only("events", "AWS::Events::Archive", templates).Properties["RetentionDays"], 90);
  });
});

suite("feedback of SES", () => {
  test("the events that settle a delivery go to the topic", () => {
    const destination = only("events", "AWS::SES::ConfigurationSetEventDestination").Properties["EventDestination"];
    assert.equal(destination.Enabled, true);
    assert.deepEqual([...destination.MatchingEventTypes].sort(), [
      "bounce",
      "complaint",
      "delivery",
      "deliveryDelay",
      "reject",
      "renderingFailure",
      "send",
    ]);
    assert.equal(only("events", "AWS::SES::ConfigurationSet").Properties["Name"], "waybill");
  });

  test("the queue gets them without an envelope, and what can't be delivered is a dead letter", () => {
    const subscription = only("events", "AWS::SNS::Subscription").Properties;
    assert.equal(subscription["Protocol"], "sqs");
    assert.equal(subscription["RawMessageDelivery"], true);
    assert.equal(text(subscription["Endpoint"]), arn("sqs", "waybill-feedback"));
    assert.equal(text(subscription["RedrivePolicy"].deadLetterTargetArn), arn("sqs", "waybill-feedback-dead"));
  });

  test("only our configuration set in our account may publish, and only over TLS", () => {
    const statements = only("events", "AWS::SNS::TopicPolicy").Properties["PolicyDocument"].Statement as Statement[];
    const [allow, ...others] = statements.filter((statement) => statement.Effect === "Allow");
    assert.deepEqual(others, []);
    assert.deepEqual([allow?.Principal, list(allow?.Action)], [{ Service: "ses.amazonaws.com" }, ["sns:Publish"]]);
    assert.deepEqual(allow?.Condition.StringEquals, { "AWS:SourceAccount": { Ref: "AWS::AccountId" } });
    assert.equal(text(allow?.Condition.ArnEquals["AWS:SourceArn"]), arn("ses", "configuration-set/waybill"));
    assert.deepEqual(
      statements.filter((s) => s.Effect === "Deny").map((s) => s.Condition),
      [{ Bool: { "aws:SecureTransport": "false" } }],
    );
  });
});
