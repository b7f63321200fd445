// Deploys everything in the order of an upgrade: what has no code of the service in it and the renderer, then the migration, then the
// services. Arguments go to `cdk deploy`: npm run deploy -- -c imageTag=1.2.3 -c certificateArn=...
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { ECSClient } from "@aws-sdk/client-ecs";

import { runMigration } from "./migration.ts";

const BEFORE = ["messaging", "storage", "rendering", "events", "data", "tasks"];
const AFTER = ["services", "alarms"];

type Outputs = Record<string, Record<string, string>>;

function cdkDeploy(stacks: string[], outputs: string): void {
  const args = ["cdk", "deploy", ...stacks, "--exclusively", "--outputs-file", outputs, ...process.argv.slice(2)];
  const { status, error } = spawnSync("npx", args, { stdio: "inherit" });
  if (error !== undefined) throw error;
  if (status !== 0) throw new Error(`cdk deploy ${stacks.join(" ")} ended with ${status}`);
}

/** Of the one stack that has this output: stacks are called after the prefix. */
function output(all: Outputs, name: string): string {
  const found = Object.values(all).find((one) => one[name] !== undefined)?.[name];
  if (found === undefined) throw new Error(`no stack has an output ${name}`);
  return found;
}

const file = join(mkdtempSync(join(tmpdir(), "waybill-deploy-")), "outputs.json");
cdkDeploy(BEFORE, file);
const outputs = JSON.parse(readFileSync(file, "utf8")) as Outputs;
console.log("migration ...");
await runMigration(new ECSClient(), {
  cluster: output(outputs, "ClusterName"),
  family: output(outputs, "Migration"),
  subnets: output(outputs, "OneOffSubnets").split(","),
  securityGroups: output(outputs, "OneOffSecurityGroups").split(","),
});
cdkDeploy(AFTER, file);
