import assert from "node:assert/strict";
import { suite, test } from "node:test";

import { SAMPLE, synthesize } from "../lib/synth.ts";
import { everywhere, only, resources, text } from "./templates.ts";

suite("PostgreSQL", () => {
  const database = only("data", "AWS::RDS::DBInstance");
  const properties = database.Properties;

  test("it survives a zone, a bad day and a deleted stack", () => {
    assert.match(properties["EngineVersion"], /^17\./);
    assert.equal(properties["MultiAZ"], true);
    assert.equal(properties["BackupRetentionPeriod"], 14);
    assert.equal(properties["DeletionProtection"], true);
    assert.equal(database.DeletionPolicy, "Retain");
    assert.equal(properties["DeleteAutomatedBackups"], false);
  });

  test("it is encrypted, private and watched", () => {
    assert.equal(properties["StorageEncrypted"], true);
    assert.equal(properties["PubliclyAccessible"], false);
    assert.equal(properties["EnablePerformanceInsights"], true);
  });

  test("no statement, transaction or dead connection lasts for ever, TLS is forced, and no parameter is logged", () => {
    assert.deepEqual(only("data", "AWS::RDS::DBParameterGroup").Properties["Parameters"], {
      "rds.force_ssl": "1",
      statement_timeout: "30000",
      idle_in_transaction_session_timeout: "60000",
      tcp_keepalives_idle: "60",
      tcp_keepalives_interval: "10",
      tcp_keepalives_count: "3",
      log_min_duration_statement: "5000",
      log_parameter_max_length: "0",
      log_parameter_max_length_on_error: "0",
    });
  });

  test("passwords are generated, and the application's alternates every 30 days", () => {
    assert.match(text(properties["MasterUserPassword"]), /^\{\{resolve:secretsmanager:/);
    const rotation = only("data", "AWS::SecretsManager::RotationSchedule").Properties;
    assert.equal(rotation["HostedRotationLambda"].RotationType, "PostgreSQLMultiUser");
    assert.equal(rotation["RotationRules"].ScheduleExpression, "rate(30 days)");
    assert.equal(rotation["RotateImmediatelyOnUpdate"], false);
  });
});

suite("Valkey", () => {
  test("locks are encrypted on the way and at rest, survive a zone, and are never evicted", () => {
    const group = only("data", "AWS::ElastiCache::ReplicationGroup").Properties;
    assert.equal(group["Engine"], "valkey");
    for (const name of ["TransitEncryptionEnabled", "AtRestEncryptionEnabled", "MultiAZEnabled", "AutomaticFailoverEnabled"]) {
      assert.equal(group[name], true, name);
    }
    assert.match(text(group["AuthToken"]), /^\{\{resolve:secretsmanager:/);
    assert.deepEqual(only("data", "AWS::ElastiCache::ParameterGroup").Properties["Properties"], { "maxmemory-policy": "noeviction" });
  });
});

suite("network", () => {
  test("only the balancer listens to the world; tasks go out by HTTPS, databases not at all", () => {
    const open = everywhere("AWS::EC2::SecurityGroup").flatMap(({ id, resource }) => [
      ...(resource.Properties["SecurityGroupIngress"] ?? []).map(
        (rule: any) => `${id.replace(/[0-9A-F]{8}$/, "")} in ${rule.FromPort} ${rule.CidrIp}`,
      ),
      ...(resource.Properties["SecurityGroupEgress"] ?? []).map(
        (rule: any) => `${id.replace(/[0-9A-F]{8}$/, "")} out ${rule.FromPort} ${rule.CidrIp}`,
      ),
    ]);
    // CDK's way to say "nothing" is a rule that can't match.
    const real = open.filter((rule) => !rule.endsWith("255.255.255.255/32"));
    const tasks = ["ApiGroup", "IntakeGroup", "OneOff", "Rotator", "RouterGroup", "SchedulerGroup", "WorkerGroup"];
    assert.deepEqual(
      real.sort(),
      [...tasks.map((id) => `${id} out 443 0.0.0.0/0`), "BalancerGroup in 443 0.0.0.0/0", "BalancerGroup in 80 0.0.0.0/0"].sort(),
    );
  });

  test("a database is reached by the members of its clients' group and by nobody else", () => {
    const ingress = Object.values(resources("data", "AWS::EC2::SecurityGroupIngress")).map(({ Properties: p }) =>
      [p["FromPort"], text(p["SourceSecurityGroupId"]).replace(/[0-9A-F]{8}\..*$/, "")].join(" "),
    );
    assert.deepEqual(ingress.sort(), ["5432 ${DatabaseClients", "6379 ${RedisClients"]);
  });

  test("an existing network is taken by its ids, and nothing is looked up", () => {
    const { templates } = synthesize({
      ...SAMPLE,
      vpcId: "vpc-0123456789abcdef0",
      availabilityZones: "eu-central-1a,eu-central-1b",
      publicSubnetIds: "subnet-0123456789abcde01,subnet-0123456789abcde02",
      privateSubnetIds: "subnet-0123456789abcde03,subnet-0123456789abcde04",
    });
    assert.deepEqual(resources("data", "AWS::EC2::VPC", templates), {});
    assert.deepEqual(only("data", "AWS::RDS::DBSubnetGroup", templates).Properties["SubnetIds"], [
      "subnet-0123456789abcde03",
      "subnet-0123456789abcde04",
    ]);
  });
});
