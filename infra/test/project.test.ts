// The project itself: settings, snapshots, the lock file, the emulator's stacks.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite, test } from "node:test";

import { zipOf } from "../emulator/zip.ts";
import { EMULATOR, SNAPSHOTS, committed, emulatorTemplates, snapshots } from "../lib/snapshots.ts";
import { SAMPLE, synthesize } from "../lib/synth.ts";
import { only, resources, sample } from "./templates.ts";

suite("settings", () => {
  test("everything that is wrong with the context is named at once", () => {
    const wrong = {
      prefix: "Way_bill",
      documentDays: "0",
      rendererArchitecture: "mips",
      publicApi: "perhaps",
      vpcId: "vpc-1",
      natGateways: "many",
    };
    const message = (() => {
      try {
        synthesize(wrong);
      } catch (error) {
        return String(error);
      }
      return assert.fail("it was accepted");
    })();
    for (const name of [
      ...Object.keys(wrong).filter((n) => n !== "vpcId"),
      "imageTag",
      "certificateArn",
      "availabilityZones",
      "publicSubnetIds",
      "privateSubnetIds",
    ]) {
      assert.ok(message.includes(`\n  ${name}: `), `${name} in ${message}`);
    }
  });

  test("another prefix names everything else too", () => {
    const { templates } = synthesize({ ...SAMPLE, prefix: "blue" });
    const all = JSON.stringify([...templates.values()]);
    assert.ok(all.includes("blue-delivery-dead") && all.includes("blue-events"));
    assert.ok(!/"waybill-(main|delivery|intake|feedback|events|renderer|alerts)/.test(all));
  });
});

suite("snapshots", () => {
  test("the committed templates are what is synthesized; npm run snapshot writes them", () => {
    for (const [folder, wanted] of [[SNAPSHOTS, snapshots(sample.templates)], [EMULATOR, emulatorTemplates()]] as const) {
      const found = committed(folder);
      assert.deepEqual([...found.keys()].sort(), [...wanted.keys()].sort());
      for (const [file, content] of wanted)
        assert.ok(found.get(file) === content, `${file} differs: npm run snapshot, and read the difference`);
    }
  });
});

suite("emulator", () => {
  const { templates } = synthesize({ prefix: "waybill", emulator: "true" });

  test("its stacks need no network, no bootstrap stack and no assets, and leave nothing behind", () => {
    assert.deepEqual([...templates.keys()].sort(), ["events", "messaging", "rendering", "storage"]);
    for (const template of templates.values()) assert.equal(template["Rules"], undefined);
    assert.deepEqual(only("rendering", "AWS::Lambda::Function", templates).Properties["Code"], {
      S3Bucket: { Ref: "CodeBucket" },
      S3Key: { Ref: "CodeKey" },
    });
    assert.equal(only("storage", "AWS::S3::Bucket", templates).DeletionPolicy, "Delete");
  });

  test("its queues are those of production", () => {
    const queues = (from?: typeof templates) => Object.values(resources("messaging", "AWS::SQS::Queue", from)).map((one) => one.Properties);
    assert.deepEqual(queues(templates), queues());
  });

  test("the zip that it uploads is one that others can read, with an executable in it", () => {
    const folder = mkdtempSync(join(tmpdir(), "waybill-zip-"));
    const content = "#!/bin/sh\necho caf\u00e9\n";
    writeFileSync(join(folder, "code.zip"), zipOf("bootstrap", Buffer.from(content)));
    const script =
      "import zipfile,sys; z=zipfile.ZipFile(sys.argv[1]); i=z.getinfo('bootstrap'); print(z.testzip(), oct(i.external_attr >> 16)); print(z.read('bootstrap').decode(), end='')";
    const said = execFileSync("python3", ["-c", script, join(folder, "code.zip")], {
      encoding: "utf8",
      env: { ...process.env, PYTHONUTF8: "1" },
    });
    rmSync(folder, { recursive: true });
    assert.equal(said, `None 0o100755\n${content}`);
  });
});

suite("dependencies", () => {
  const file = (name: string) => readFileSync(new URL(`../${name}`, import.meta.url), "utf8");

  test("the lock file names no registry, and every version is exact", () => {
    const lock = JSON.parse(file("package-lock.json")) as { packages: Record<string, { resolved?: string }> };
    assert.ok(Object.keys(lock.packages).length > 20);
    assert.deepEqual(
      Object.values(lock.packages).flatMap((one) => (one.resolved === undefined ? [] : [one.resolved])),
      [],
    );
    const { devDependencies } = JSON.parse(file("package.json")) as { devDependencies: Record<string, string> };
    for (const [name, version] of Object.entries(devDependencies)) assert.match(version, /^\d+\.\d+\.\d+$/, name);
  });

  test("the placeholder of the renderer can be executed", () => {
    assert.equal(statSync(new URL("../assets/renderer-placeholder/bootstrap", import.meta.url)).mode & 0o111, 0o111);
  });
});
