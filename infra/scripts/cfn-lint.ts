// Lints every template with cfn-lint: the sample deployment, its variants, the emulator's. The first run installs it into .venv.
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { SAMPLE, synthesize } from "../lib/synth.ts";

const HERE = fileURLToPath(new URL("..", import.meta.url));
const PACKAGES = join(HERE, ".venv");
const PYTHON = process.env["PYTHON"] ?? "python3";

const VARIANTS: Record<string, Record<string, string>> = {
  sample: SAMPLE,
  emulator: { emulator: "true" },
  options: {
    ...SAMPLE,
    alertEmail: "ops@example.com",
    rendererArchitecture: "x86_64",
    rendererConcurrency: "20",
    eventSources: "billing,shop",
    eventDetailTypePrefix: "invoice.",
    eventArchiveDays: "90",
    sesIdentities: "example.com",
    availabilityZones: "eu-central-1a,eu-central-1b,eu-central-1c",
    databaseRootCertificate: "/etc/ssl/rds.pem",
    healthCommand: "waybill health",
    publicApi: "false",
    providers: "ses",
  },
  existingVpc: {
    ...SAMPLE,
    vpcId: "vpc-0123456789abcdef0",
    availabilityZones: "eu-central-1a,eu-central-1b",
    publicSubnetIds: "subnet-0123456789abcde01,subnet-0123456789abcde02",
    privateSubnetIds: "subnet-0123456789abcde03,subnet-0123456789abcde04",
  },
};

/** A folder of packages instead of a virtual environment, which needs one Debian package less. */
function install(): void {
  const wanted = readFileSync(join(HERE, "requirements.txt"), "utf8");
  const marker = join(PACKAGES, "installed.txt");
  if (existsSync(marker) && readFileSync(marker, "utf8") === wanted) return;
  rmSync(PACKAGES, { recursive: true, force: true });
  const pip = [
    "-m",
    "pip",
    "install",
    "--quiet",
    "--disable-pip-version-check",
    "--root-user-action=ignore",
    "--no-deps",
    "--target",
    PACKAGES,
  ];
  execFileSync(PYTHON, [...pip, "--requirement", join(HERE, "requirements.txt")], { stdio: ["ignore", "inherit", "inherit"] });
  writeFileSync(marker, wanted);
}

/** One file per stack and variant, without those that an earlier variant has word for word. */
function templatesOf(folder: string): string[] {
  const seen = new Set<string>();
  const paths: string[] = [];
  for (const [variant, context] of Object.entries(VARIANTS)) {
    for (const [stack, template] of synthesize(context).templates) {
      const content = JSON.stringify(template, undefined, 2);
      if (seen.has(content)) continue;
      seen.add(content);
      const path = join(folder, `${variant}-${stack}.json`);
      writeFileSync(path, content);
      paths.push(path);
    }
  }
  return paths;
}

install();
const folder = mkdtempSync(join(tmpdir(), "waybill-lint-"));
try {
  const templates = templatesOf(folder);
  const env = { ...process.env, PYTHONPATH: PACKAGES };
  const { status, error } = spawnSync(PYTHON, [join(PACKAGES, "bin", "cfn-lint"), "--", ...templates], {
    cwd: HERE,
    env,
    stdio: "inherit",
  });
  if (error !== undefined) throw error;
  console.log(`${templates.length} templates, cfn-lint ${status === 0 ? "found nothing" : `ended with ${status}`}`);
  process.exitCode = status ?? 1;
} finally {
  rmSync(folder, { recursive: true });
}
