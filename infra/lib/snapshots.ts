// The committed templates: a review shows what a change does to the real thing. Those of the emulator are deployed as they are, by
// localstack/ready.d.
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";

import { SAMPLE, synthesize } from "./synth.ts";

export const SNAPSHOTS = new URL("../snapshots/", import.meta.url);
export const EMULATOR = new URL("../emulator/templates/", import.meta.url);
/** What a LocalStack without Docker's socket can run, in this order. */
const IN_LOCALSTACK = ["messaging", "storage", "events"];

/** File name to content, with the hashes of assets taken out: those change with every build of the code. */
export function snapshots(templates = synthesize(SAMPLE).templates): Map<string, string> {
  return new Map([...templates].map(([name, template]) => [`${name}.json`, normalised(template)]));
}

/** File name to content of what docker-compose.yml's LocalStack deploys. */
export function emulatorTemplates(templates = synthesize({ prefix: "waybill", emulator: "true" }).templates): Map<string, string> {
  return new Map(IN_LOCALSTACK.map((name) => [`${name}.template.json`, normalised(templates.get(name) ?? {})]));
}

function normalised(template: object): string {
  return `${JSON.stringify(template, undefined, 2).replaceAll(/[0-9a-f]{64}/g, "ASSET")}\n`;
}

export function committed(folder: URL): Map<string, string> {
  return new Map(readdirSync(folder).map((file) => [file, readFileSync(new URL(file, folder), "utf8")]));
}

export function write(folder: URL, wanted: Map<string, string>): void {
  mkdirSync(folder, { recursive: true });
  for (const file of committed(folder).keys()) if (!wanted.has(file)) rmSync(new URL(file, folder));
  for (const [file, content] of wanted) writeFileSync(new URL(file, folder), content);
}
