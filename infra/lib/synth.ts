// Templates without the CDK's command line: for tests, snapshots and the emulator.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { App, type Stack } from "aws-cdk-lib";

import { build } from "./app.ts";

export type Template = Record<string, unknown>;

/** What a sample deployment sets; everything else is the default. */
export const SAMPLE = {
  imageTag: "1.2.3",
  certificateArn: "arn:aws:acm:eu-central-1:111122223333:certificate/00000000-0000-0000-0000-000000000000",
};

/** Synthesizes with the flags of cdk.json and this context. */
export function synthesize(context: Record<string, unknown>): { stacks: Map<string, Stack>; templates: Map<string, Template> } {
  const flags = (JSON.parse(readFileSync(new URL("../cdk.json", import.meta.url), "utf8")) as { context: object }).context;
  const outdir = mkdtempSync(join(tmpdir(), "waybill-cdk-"));
  try {
    const app = new App({ outdir, analyticsReporting: false, context: { ...flags, "aws:cdk:enable-asset-metadata": false, ...context } });
    build(app);
    const assembly = app.synth();
    const stacks = new Map(app.node.children.map((child) => [child.node.id, child as Stack]));
    const templates = new Map(assembly.stacks.map((artifact) => [artifact.id, artifact.template as Template]));
    return { stacks, templates };
  } finally {
    rmSync(outdir, { recursive: true });
  }
}
