// Deploys the stacks that need no network to an emulator at AWS_ENDPOINT_URL, and prints where everything is as one line of JSON.
//
//   WAYBILL_RENDERER_ZIP=... AWS_ENDPOINT_URL=http://127.0.0.1:4566 npm run deploy:emulator -- [prefix]
import { readFileSync } from "node:fs";

import { CloudFormationClient } from "@aws-sdk/client-cloudformation";
import { CreateBucketCommand, PutObjectCommand, S3Client } from "@aws-sdk/client-s3";

import { QUEUES } from "../lib/topology.ts";
import { synthesize } from "../lib/synth.ts";
import { deployStack } from "./stacks.ts";
import { zipOf } from "./zip.ts";

const ORDER = ["messaging", "storage", "rendering", "events"];

async function main(): Promise<void> {
  // Without it the SDK would go to AWS itself.
  const endpoint = process.env["AWS_ENDPOINT_URL"];
  if (endpoint === undefined) throw new Error("AWS_ENDPOINT_URL is not set: the address of the emulator");
  const prefix = process.argv[2] ?? "waybill";
  const common = {
    endpoint,
    region: process.env["AWS_REGION"] ?? "eu-central-1",
    credentials: {
      accessKeyId: process.env["AWS_ACCESS_KEY_ID"] ?? "test",
      secretAccessKey: process.env["AWS_SECRET_ACCESS_KEY"] ?? "test",
    },
  };
  // An emulator runs the function on this machine.
  const rendererArchitecture = process.arch === "arm64" ? "arm64" : "x86_64";
  const { templates } = synthesize({ prefix, emulator: "true", emulatorEndpoint: endpoint, rendererArchitecture });

  const code = await uploadCode(new S3Client({ ...common, forcePathStyle: true }), prefix);
  const client = new CloudFormationClient(common);
  const outputs: Record<string, string> = {};
  for (const name of ORDER) {
    const template = templates.get(name);
    if (template === undefined) throw new Error(`no template of ${name}`);
    Object.assign(outputs, await deployStack(client, `${prefix}-${name}`, template, name === "rendering" ? code : {}));
    process.stderr.write(`${prefix}-${name}: complete\n`);
  }
  console.log(JSON.stringify(summary(prefix, outputs)));
}

async function uploadCode(s3: S3Client, prefix: string): Promise<{ CodeBucket: string; CodeKey: string }> {
  const CodeBucket = `${prefix}-code`;
  await s3.send(new CreateBucketCommand({ Bucket: CodeBucket })).catch((error: Error) => {
    if (!error.name.startsWith("BucketAlready")) throw error;
  });
  const zip = process.env["WAYBILL_RENDERER_ZIP"];
  const placeholder = new URL("../assets/renderer-placeholder/bootstrap", import.meta.url);
  const Body = zip === undefined ? zipOf("bootstrap", readFileSync(placeholder)) : readFileSync(zip);
  // A new key makes CloudFormation see new code.
  const CodeKey = `renderer-${Date.now()}.zip`;
  await s3.send(new PutObjectCommand({ Bucket: CodeBucket, Key: CodeKey, Body }));
  return { CodeBucket, CodeKey };
}

function summary(prefix: string, outputs: Record<string, string>): object {
  const needed = (key: string): string =>
    outputs[key] ||
    (() => {
      throw new Error(`the stacks have no output ${key}`);
    })();
  const queues = QUEUES.flatMap((name) => {
    const id = name[0]?.toUpperCase() + name.slice(1);
    return [
      [name, needed(`${id}Url`)],
      [`${name}-dead`, needed(`${id}DeadUrl`)],
    ];
  });
  return {
    prefix,
    queues: Object.fromEntries(queues) as Record<string, string>,
    bucket: needed("BucketName"),
    function: needed("FunctionName"),
    bus: needed("BusName"),
    alerts_topic: needed("AlertsTopicArn"),
    feedback_topic: needed("FeedbackTopicArn"),
    configuration_set: needed("ConfigurationSetName"),
  };
}

await main();
