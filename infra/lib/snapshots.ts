// The committed templates: a review shows what a change does to the real thing.
import { readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";

import { SAMPLE, synthesize } from "./synth.ts";

const FOLDER = new URL("../snapshots/", import.meta.url);

/** File name to content, with the hashes of assets taken out: those change with every build of the code. */
export function snapshots(templates = synthesize(SAMPLE).templates): Map<string, string> {
  return new Map([...templates].map(([name, template]) => [`${name}.json`, normalised(template)]));
}

function normalised(template: object): string {
  return `${JSON.stringify(template, undefined, 2).replaceAll(/[0-9a-f]{64}/g, "ASSET")}\n`;
}

export function committed(): Map<string, string> {
  return new Map(readdirSync(FOLDER).map((file) => [file, readFileSync(new URL(file, FOLDER), "utf8")]));
}

export function write(wanted: Map<string, string>): void {
  for (const file of committed().keys()) if (!wanted.has(file)) rmSync(new URL(file, FOLDER));
  for (const [file, content] of wanted) writeFileSync(new URL(file, FOLDER), content);
}
