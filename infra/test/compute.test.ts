// Tasks, services, the balancer and what scales them.
import assert from "node:assert/strict";
import { suite, test } from "node:test";

import { ROLES } from "../lib/environment.ts";
import { SAMPLE, synthesize } from "../lib/synth.ts";
import { readTopology } from "../lib/topology.ts";
import { everywhere, only, resources, text, type Resource } from "./templates.ts";

const topology = readTopology();
const tasks = everywhere("AWS::ECS::TaskDefinition").map(({ resource }) => resource.Properties);
const containers = tasks.flatMap((task) => task["ContainerDefinitions"] as Record<string, any>[]);
const container = (name: string) => containers.find((one) => one["Name"] === name) ?? assert.fail(`no container ${name}`);
const environment = (name: string): Record<string, string> =>
  Object.fromEntries(container(name)["Environment"].map((pair: any) => [pair.Name, text(pair.Value)]));
const secrets = (name: string): string[] =>
  container(name)
    ["Secrets"].map((secret: any) => secret.Name)
    .sort();
const service = (name: string): Resource =>
  Object.values(resources("services", "AWS::ECS::Service")).find((one) => one.Properties["ServiceName"] === name) ??
  assert.fail(`no service ${name}`);

suite("containers", () => {
  test("each runs without root, without a writable disk, without capabilities, under an init, and logs", () => {
    assert.equal(containers.length, 8);
    for (const one of containers) {
      assert.equal(one["ReadonlyRootFilesystem"], true, one["Name"]);
      assert.equal(one["Privileged"], false);
      assert.match(one["User"], /^[1-9][0-9]*:[1-9][0-9]*$/);
      assert.equal(one["LinuxParameters"].InitProcessEnabled, true);
      assert.deepEqual(one["LinuxParameters"].Capabilities.Drop, ["ALL"]);
      assert.equal(one["LogConfiguration"].LogDriver, "awslogs");
    }
  });

  test("the platform waits longer for a stop than the service, which waits longer than its last receive", () => {
    for (const one of containers) assert.ok(one["StopTimeout"] > topology.stop_timeout_s && one["StopTimeout"] <= 120);
    for (const role of ROLES) {
      const { WAYBILL_STOP_TIMEOUT_MS, WAYBILL_QUEUE_WAIT_MS } = environment(role);
      assert.equal(WAYBILL_STOP_TIMEOUT_MS, String(topology.stop_timeout_s * 1000));
      assert.ok(Number(WAYBILL_QUEUE_WAIT_MS) < Number(WAYBILL_STOP_TIMEOUT_MS));
    }
  });

  test("tasks run on arm64 unless the context says otherwise", () => {
    for (const task of tasks) assert.equal(task["RuntimePlatform"].CpuArchitecture, "ARM64");
    const { templates } = synthesize({ ...SAMPLE, imageArchitecture: "x86_64", healthCommand: "waybill health" });
    for (const one of Object.values(resources("services", "AWS::ECS::TaskDefinition", templates))) {
      assert.equal(one.Properties["RuntimePlatform"].CpuArchitecture, "X86_64");
      assert.deepEqual(one.Properties["ContainerDefinitions"][0].HealthCheck.Command, ["CMD", "waybill", "health"]);
    }
  });

  test("every role runs its own subcommand of the same image, with the numbers of topology.json", () => {
    const queue = topology.queues.delivery;
    for (const role of ROLES) {
      assert.deepEqual([container(role)["EntryPoint"], container(role)["Command"]], [["waybill"], [role]]);
      assert.deepEqual(text(container(role)["Image"]), text(container("migrate")["Image"]));
      const set = environment(role);
      assert.equal(set["WAYBILL_QUEUE_VISIBILITY_MS"], String(queue.visibility_timeout_s * 1000));
      assert.equal(set["WAYBILL_QUEUE_MAX_RECEIVES"], String(queue.max_receive_count));
      assert.equal(set["WAYBILL_QUEUE_RETENTION_MS"], String(queue.retention_s * 1000));
      assert.equal(set["WAYBILL_QUEUE_DEAD_RETENTION_MS"], String(topology.dead_letter.retention_s * 1000));
      assert.equal(set["WAYBILL_HANDLER_TIMEOUT_MS"], String(topology.handler_timeout_s * 1000));
      assert.deepEqual(
        [set["WAYBILL_QUEUE"], set["WAYBILL_SQS_PREFIX"], set["WAYBILL_OBJECTS"], set["WAYBILL_RENDERER"]],
        ["sqs", "waybill", "s3", "lambda"],
      );
      assert.deepEqual(
        [set["WAYBILL_BUCKET"], set["WAYBILL_RENDERER_FUNCTION"]],
        ["waybill-documents-${AWS::AccountId}-${AWS::Region}", "waybill-renderer"],
      );
    }
    // The service has one number for all queues.
    for (const numbers of Object.values(topology.queues)) assert.deepEqual(numbers, queue);
  });

  test("a role holds the secrets that it uses and no other; no secret is a plain variable", () => {
    const database = ["PGPASSWORD", "PGUSER"];
    assert.deepEqual(secrets("api"), [...database, "WAYBILL_INBOUND_SECRET"]);
    assert.deepEqual(secrets("worker"), [...database, "WAYBILL_REDIS_PASSWORD", "WAYBILL_SENDGRID_API_KEY"]);
    for (const name of ["router", "scheduler", "intake", "operator", "migrate"]) assert.deepEqual(secrets(name), database, name);
    for (const one of containers) {
      const plain = one["Environment"].map((pair: any) => pair.Name as string);
      assert.deepEqual(
        plain.filter((name: string) => one["Secrets"].some((s: any) => s.Name === name)),
        [],
      );
      assert.deepEqual(
        plain.filter((name: string) => /PASSWORD|SECRET/.test(name)),
        [],
      );
    }
  });

  test("without SendGrid nobody has a key of it", () => {
    const { templates } = synthesize({ ...SAMPLE, providers: "ses" });
    const all = JSON.stringify([...templates.values()]);
    assert.ok(!all.includes("WAYBILL_SENDGRID_API_KEY"));
    assert.ok(all.includes('"WAYBILL_PROVIDERS","Value":"ses"'));
  });

  test("the migration makes the role first, and the schema only after that, as that role and without a time limit", () => {
    assert.deepEqual(container("migrate")["DependsOn"], [{ Condition: "SUCCESS", ContainerName: "migrate-role" }]);
    assert.equal(container("migrate-role")["Essential"], false);
    assert.deepEqual(container("migrate")["Command"], ["migrate"]);
    assert.equal(environment("migrate")["PGOPTIONS"], "-c role=waybill -c statement_timeout=0");
    assert.equal(environment("api")["PGOPTIONS"], "-c role=waybill");
    assert.equal(environment("migrate-role")["PGOPTIONS"], undefined);
    assert.ok(environment("migrate-role")["BOOTSTRAP_SQL"]?.includes("CREATE ROLE"));
  });
});

suite("services", () => {
  test("a deployment keeps the old tasks until the new ones are ready, and goes back if they never are", () => {
    for (const role of ROLES) {
      const { Properties: p } = service(role);
      const d = p["DeploymentConfiguration"];
      assert.deepEqual([d.MinimumHealthyPercent, d.MaximumPercent], [100, 200]);
      assert.deepEqual(d.DeploymentCircuitBreaker, { Enable: true, Rollback: true });
      assert.equal(p["NetworkConfiguration"].AwsvpcConfiguration.AssignPublicIp, "DISABLED");
    }
  });

  test("two tasks of everything run at least, and a deployment doesn't reset what autoscaling has chosen", () => {
    const counts = ROLES.map((role) => [role, service(role).Properties["DesiredCount"]]);
    assert.deepEqual(
      counts.filter(([, count]) => count !== undefined),
      [["scheduler", 2]],
    );
    const targets = Object.values(resources("services", "AWS::ApplicationAutoScaling::ScalableTarget")).map((one) => one.Properties);
    assert.deepEqual(
      targets.map((one) => one["MinCapacity"]),
      [2, 2, 2, 2],
    );
  });

  test("every role reaches the database, only workers reach Valkey", () => {
    for (const role of ROLES) {
      const groups = service(role).Properties["NetworkConfiguration"].AwsvpcConfiguration.SecurityGroups.map(text).join(" ");
      assert.ok(groups.includes("DatabaseClients"), role);
      assert.equal(groups.includes("RedisClients"), role === "worker", role);
    }
  });

  test("consumers scale by the messages that wait per running task", () => {
    const policies = Object.values(resources("services", "AWS::ApplicationAutoScaling::ScalingPolicy"));
    const queues = policies.flatMap(({ Properties: p }) => {
      const spec = p["TargetTrackingScalingPolicyConfiguration"].CustomizedMetricSpecification;
      if (spec === undefined) return [];
      const [visible, running, backlog] = spec.Metrics;
      assert.equal(running.MetricStat.Metric.MetricName, "RunningTaskCount");
      assert.deepEqual([visible.ReturnData, running.ReturnData, backlog.ReturnData], [false, false, true]);
      return [`${running.MetricStat.Metric.Dimensions[1].Value} ${visible.MetricStat.Metric.Dimensions[0].Value}`];
    });
    assert.deepEqual(queues.sort(), ["intake waybill-intake", "router waybill-main", "worker waybill-delivery"]);
    const predefined = policies.map(
      (one) => one.Properties["TargetTrackingScalingPolicyConfiguration"].PredefinedMetricSpecification?.PredefinedMetricType,
    );
    assert.deepEqual(predefined.filter(Boolean).sort(), ["ALBRequestCountPerTarget", "ECSServiceAverageCPUUtilization"]);
  });

  test("every service is replaced more often than passwords stop working", () => {
    const schedules = Object.values(resources("services", "AWS::Scheduler::Schedule")).map(({ Properties: p }) => {
      assert.equal(p["ScheduleExpression"], "cron(0 9 ? * TUE *)");
      const input = JSON.parse(p["Target"].Input);
      assert.equal(input.ForceNewDeployment, true);
      return input.Service;
    });
    assert.deepEqual(schedules.sort(), [...ROLES].sort());
  });

  test("a deployment that failed tells", () => {
    const rule = only("services", "AWS::Events::Rule").Properties;
    assert.deepEqual(rule["EventPattern"].detail, { eventName: ["SERVICE_DEPLOYMENT_FAILED"] });
    assert.equal(rule["EventPattern"].resources.length, ROLES.length);
    assert.match(text(rule["Targets"][0].Arn), /:waybill-alerts$/);
  });
});

suite("balancer", () => {
  const listeners = Object.values(resources("services", "AWS::ElasticLoadBalancingV2::Listener")).map((one) => one.Properties);

  test("HTTPS with a current policy is answered, HTTP is redirected", () => {
    const https = listeners.find((one) => one["Port"] === 443);
    assert.deepEqual(https?.["Certificates"], [{ CertificateArn: SAMPLE.certificateArn }]);
    assert.match(https?.["SslPolicy"], /TLS13/);
    const http = listeners.find((one) => one["Port"] === 80);
    assert.deepEqual(http?.["DefaultActions"], [
      { Type: "redirect", RedirectConfig: { Port: "443", Protocol: "HTTPS", StatusCode: "HTTP_301" } },
    ]);
    assert.equal(listeners.length, 2);
  });

  test("it asks for readiness, refuses malformed requests and can't be deleted by mistake", () => {
    const group = only("services", "AWS::ElasticLoadBalancingV2::TargetGroup").Properties;
    assert.deepEqual([group["HealthCheckPath"], group["Matcher"].HttpCode], ["/readyz", "200"]);
    const attributes = Object.fromEntries(
      only("services", "AWS::ElasticLoadBalancingV2::LoadBalancer").Properties["LoadBalancerAttributes"].map((pair: any) => [
        pair.Key,
        pair.Value,
      ]),
    );
    assert.equal(attributes["deletion_protection.enabled"], "true");
    assert.equal(attributes["routing.http.drop_invalid_header_fields.enabled"], "true");
    assert.equal(attributes["routing.http.desync_mitigation_mode"], "strictest");
  });

  test("a web ACL is attached when the context names one, and the API may be private", () => {
    const { templates } = synthesize({
      ...SAMPLE,
      publicApi: "false",
      webAclArn: "arn:aws:wafv2:eu-central-1:111122223333:regional/webacl/x/00000000-0000-0000-0000-000000000000",
    });
    only("services", "AWS::WAFv2::WebACLAssociation", templates);
    assert.equal(only("services", "AWS::ElasticLoadBalancingV2::LoadBalancer", templates).Properties["Scheme"], "internal");
    assert.deepEqual(resources("services", "AWS::WAFv2::WebACLAssociation"), {});
  });
});
