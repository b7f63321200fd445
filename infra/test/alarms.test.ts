import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { suite, test } from "node:test";

import { CAUSES } from "../lib/alarms.ts";
import { ROLES } from "../lib/environment.ts";
import { QUEUES, readTopology } from "../lib/topology.ts";
import { resources, text } from "./templates.ts";

const alarms = Object.fromEntries(
  Object.values(resources("alarms", "AWS::CloudWatch::Alarm")).map((one) => [one.Properties["AlarmName"] as string, one.Properties]),
);
const alarm = (name: string): Record<string, any> => alarms[`waybill-${name}`] ?? assert.fail(`no alarm ${name}`);
const pascal = (name: string) => name.charAt(0).toUpperCase() + name.slice(1);
const { dead_letter, queues } = readTopology();

suite("alarms", () => {
  test("each rings, and ends, at the alerts topic", () => {
    assert.ok(Object.keys(alarms).length > 40);
    for (const [name, properties] of Object.entries(alarms)) {
      for (const kind of ["AlarmActions", "OKActions"]) {
        assert.match(properties[kind].map(text).join(), /:sns:.*:waybill-alerts$/, `${name} ${kind}`);
      }
    }
  });

  for (const name of QUEUES) {
    test(`one dead letter of ${name} rings`, () => {
      const one = alarm(`${pascal(name)}DeadLetters`);
      assert.deepEqual(one["Dimensions"], [{ Name: "QueueName", Value: `waybill-${name}-dead` }]);
      assert.deepEqual([one["MetricName"], one["Threshold"], one["EvaluationPeriods"]], ["ApproximateNumberOfMessagesVisible", 1, 1]);
      assert.equal(one["ComparisonOperator"], "GreaterThanOrEqualToThreshold");
    });
  }

  test("sqs_06 dead letters ring before they expire, counted from their first sending", () => {
    for (const name of QUEUES) {
      const one = alarm(`${pascal(name)}DeadLettersExpire`);
      assert.equal(one["MetricName"], "ApproximateAgeOfOldestMessage");
      const left = dead_letter.retention_s - queues[name].retention_s - one["Threshold"];
      assert.ok(left >= 86_400, `a day is left to act, of ${left} s`);
    }
  });

  test("age, fairness and messages in flight of every queue ring", () => {
    for (const name of QUEUES) {
      const seen = ["Age", "QuietAge", "NoisyGroups", "InFlight"].map((kind) => alarm(`${pascal(name)}${kind}`)["MetricName"]);
      assert.deepEqual(seen, [
        "ApproximateAgeOfOldestMessage",
        "ApproximateAgeOfOldestMessageInQuietGroups",
        "ApproximateNumberOfNoisyGroups",
        "ApproximateNumberOfMessagesNotVisible",
      ]);
      assert.ok(alarm(`${pascal(name)}InFlight`)["Threshold"] < 120_000);
    }
  });

  test("poison that hides from the age is seen by the service's own word, from the log of every role", () => {
    const filters = Object.values(resources("alarms", "AWS::Logs::MetricFilter")).map(({ Properties: p }) =>
      [p["LogGroupName"], p["FilterPattern"], p["MetricTransformations"][0].MetricName].join(" | "),
    );
    const expected = ROLES.flatMap((role) =>
      CAUSES.map((cause) => `/waybill/${role} | { $.level = "ERROR" && $.fields.cause = "${cause}" } | ${cause}`),
    );
    assert.deepEqual(filters.sort(), expected.sort());
    for (const cause of CAUSES) {
      const one = Object.values(alarms).find((each) => each["Namespace"] === "Waybill/waybill" && each["MetricName"] === cause);
      assert.deepEqual([one?.["Threshold"], one?.["Statistic"]], [1, "Sum"], cause);
    }
  });

  test("the causes are those that the service knows", () => {
    const source = readFileSync(new URL("../../crates/waybill-core/src/ports/alerts.rs", import.meta.url), "utf8");
    const known = [...source.matchAll(/=> "([a-z_]+)",/g)].map((found) => found[1]);
    assert.deepEqual([...CAUSES].sort(), known.sort());
  });

  test("a role that doesn't run rings, also when nothing is heard of it at all", () => {
    for (const role of ROLES) {
      const one = alarm(`${pascal(role)}NotRunning`);
      assert.deepEqual([one["MetricName"], one["ComparisonOperator"], one["Threshold"]], ["RunningTaskCount", "LessThanThreshold", 1]);
      assert.equal(one["TreatMissingData"], "breaching");
      assert.deepEqual(
        one["Dimensions"].map((d: any) => d.Value),
        ["waybill", role],
      );
    }
  });

  test("API, renderer, SES, PostgreSQL and Valkey are watched", () => {
    for (const name of [
      "ApiErrors",
      "ApiUnhealthy",
      "RendererErrors",
      "RendererThrottles",
      "SesBounceRate",
      "SesComplaintRate",
      "DatabaseStorage",
      "DatabaseMemory",
      "DatabaseCpu",
      "DatabaseConnections",
      "Redis001Memory",
      "Redis001Evictions",
      "Redis002Memory",
      "Redis002Evictions",
    ]) {
      assert.equal(alarm(name)["ActionsEnabled"] ?? true, true, name);
    }
    assert.deepEqual([alarm("SesBounceRate")["Threshold"], alarm("SesComplaintRate")["Threshold"]], [0.05, 0.001]);
  });
});
