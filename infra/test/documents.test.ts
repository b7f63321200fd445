// The bucket and the renderer.
import assert from "node:assert/strict";
import { suite, test } from "node:test";

import { SAMPLE, synthesize } from "../lib/synth.ts";
import { readTopology } from "../lib/topology.ts";
import { allowed, only, resources, statementsOf, text } from "./templates.ts";

const BUCKET = "waybill-documents-${AWS::AccountId}-${AWS::Region}";
const BUCKET_ARN = `arn:\${AWS::Partition}:s3:::${BUCKET}`;

suite("documents bucket", () => {
  const bucket = only("storage", "AWS::S3::Bucket");
  const properties = bucket.Properties;

  test("nobody from outside gets in, by no way", () => {
    assert.deepEqual(properties["PublicAccessBlockConfiguration"], {
      BlockPublicAcls: true,
      BlockPublicPolicy: true,
      IgnorePublicAcls: true,
      RestrictPublicBuckets: true,
    });
    assert.deepEqual(properties["OwnershipControls"], { Rules: [{ ObjectOwnership: "BucketOwnerEnforced" }] });
    const [refusal, ...others] = only("storage", "AWS::S3::BucketPolicy").Properties["PolicyDocument"].Statement;
    assert.deepEqual(others, []);
    assert.equal(refusal.Effect, "Deny");
    assert.deepEqual(refusal.Condition, { Bool: { "aws:SecureTransport": "false" } });
  });

  test("it is encrypted, versioned, and outlives its stack", () => {
    const [rule] = properties["BucketEncryption"].ServerSideEncryptionConfiguration;
    assert.equal(rule.ServerSideEncryptionByDefault.SSEAlgorithm, "AES256");
    assert.equal(properties["VersioningConfiguration"].Status, "Enabled");
    assert.equal(bucket.DeletionPolicy, "Retain");
    assert.equal(text(properties["BucketName"]), BUCKET);
  });

  test("documents, old versions, half uploads and large events expire", () => {
    const rules = Object.fromEntries(properties["LifecycleConfiguration"].Rules.map((rule: any) => [rule.Id, rule]));
    assert.equal(rules.documents.ExpirationInDays, 400);
    assert.equal(rules.documents.Prefix, undefined);
    assert.equal(rules.documents.NoncurrentVersionExpiration.NoncurrentDays, 30);
    assert.equal(rules.documents.AbortIncompleteMultipartUpload.DaysAfterInitiation, 7);
    assert.deepEqual([rules.intake.Prefix, rules.intake.ExpirationInDays], ["intake/", 14]);
    assert.ok(Object.values(rules).every((rule: any) => rule.Status === "Enabled"));
  });

  test("the days of documents are chosen by context", () => {
    const { templates } = synthesize({ ...SAMPLE, documentDays: "3650" });
    const rules = only("storage", "AWS::S3::Bucket", templates).Properties["LifecycleConfiguration"].Rules;
    assert.equal(rules[0].ExpirationInDays, 3650);
  });
});

suite("renderer", () => {
  const { renderer } = readTopology();
  const fn = only("rendering", "AWS::Lambda::Function").Properties;

  test("the function is what topology.json says", () => {
    assert.equal(fn["FunctionName"], `waybill-${renderer.function}`);
    assert.equal(fn["Timeout"], renderer.timeout_s);
    assert.equal(fn["MemorySize"], renderer.memory_mb);
    assert.equal(fn["Runtime"], "provided.al2023");
    assert.deepEqual(fn["Architectures"], ["arm64"]);
    assert.equal(fn["ReservedConcurrentExecutions"], undefined);
    assert.equal(text(fn["Environment"].Variables.WAYBILL_BUCKET), BUCKET);
  });

  test("its log is kept for a month", () => {
    const group = only("rendering", "AWS::Logs::LogGroup").Properties;
    assert.deepEqual([group["LogGroupName"], group["RetentionInDays"]], ["/aws/lambda/waybill-renderer", 30]);
  });

  test("pdf_03 its role may list the bucket, so that a missing key is a 404, and may do nothing that it doesn't need", () => {
    const [[role] = []] = Object.entries(resources("rendering", "AWS::IAM::Role"));
    const log = Object.keys(resources("rendering", "AWS::Logs::LogGroup"))[0];
    assert.deepEqual(allowed(statementsOf("rendering", role ?? "")), [
      `logs:CreateLogStream \${${log}.Arn}`,
      `logs:PutLogEvents \${${log}.Arn}`,
      `s3:GetObject ${BUCKET_ARN}/*`,
      `s3:ListBucket ${BUCKET_ARN}`,
      `s3:PutObject ${BUCKET_ARN}/*`,
    ]);
    assert.equal(Object.values(resources("rendering", "AWS::IAM::Role"))[0]?.Properties["ManagedPolicyArns"], undefined);
  });

  test("pdf_02 nobody but the worker repeats a render", () => {
    const config = only("rendering", "AWS::Lambda::EventInvokeConfig").Properties;
    assert.equal(config["MaximumRetryAttempts"], 0);
  });

  test("architecture and reserved concurrency are chosen by context", () => {
    const { templates } = synthesize({ ...SAMPLE, rendererArchitecture: "x86_64", rendererConcurrency: "20" });
    const chosen = only("rendering", "AWS::Lambda::Function", templates).Properties;
    assert.deepEqual([chosen["Architectures"], chosen["ReservedConcurrentExecutions"]], [["x86_64"], 20]);
  });
});
