// What a deployment chooses, from CDK's context (`-c name=value`, or "context" in cdk.json). README.md has the table.
import type { Node } from "constructs";

export interface ExistingVpc {
  readonly vpcId: string;
  readonly availabilityZones: readonly string[];
  readonly publicSubnetIds: readonly string[];
  readonly privateSubnetIds: readonly string[];
}

export interface Settings {
  readonly prefix: string;
  /** Only the stacks that an emulator can run, without the bootstrap stack, and deleted with what is in them. */
  readonly emulator: boolean;
  /** Where the emulator listens, for the function that runs in it. */
  readonly emulatorEndpoint?: string;
  readonly alertEmail?: string;
  readonly documentDays?: number;
  readonly rendererZip?: string;
  readonly rendererArchitecture: "arm64" | "x86_64";
  readonly rendererConcurrency?: number;
  readonly eventSources: readonly string[];
  readonly eventDetailTypePrefix?: string;
  readonly eventArchiveDays?: number;
  /** Domains or addresses that may be senders; none: every identity of the account. */
  readonly sesIdentities: readonly string[];
  readonly vpc?: ExistingVpc;
  readonly availabilityZones?: readonly string[];
  readonly natGateways: number;
  readonly databaseClass: string;
  readonly databaseStorageGb: number;
  /** File inside the image with the authorities of RDS; not set: TLS without a check of the server's name. */
  readonly databaseRootCertificate?: string;
  readonly redisNodeType: string;
  readonly imageRepository: string;
  readonly imageTag: string;
  readonly imageArchitecture: "arm64" | "x86_64";
  readonly healthCommand: readonly string[];
  readonly certificateArn: string;
  readonly publicApi: boolean;
  readonly webAclArn?: string;
  readonly providers: readonly string[];
  readonly sendgridEventsWired: boolean;
}

/** Reads the context and names everything that is wrong with it at once. */
export function readSettings(node: Node): Settings {
  const problems: string[] = [];
  const problem = (name: string, text: string): undefined => void problems.push(`${name}: ${text}`);
  const text = (name: string): string | undefined => {
    const value: unknown = node.tryGetContext(name);
    if (value === undefined || value === null || value === "") return undefined;
    return typeof value === "object" ? problem(name, "expected a text") : String(value);
  };
  const list = (name: string): string[] | undefined =>
    text(name)
      ?.split(",")
      .map((word) => word.trim())
      .filter((word) => word !== "");
  const flag = (name: string, otherwise: boolean): boolean => {
    const value = text(name);
    if (value === undefined) return otherwise;
    if (value !== "true" && value !== "false") problem(name, `expected true or false, not ${value}`);
    return value === "true";
  };
  const whole = (name: string, least: number, most: number): number | undefined => {
    const value = text(name);
    if (value === undefined) return undefined;
    const number = Number(value);
    if (Number.isInteger(number) && number >= least && number <= most) return number;
    return problem(name, `expected a whole number from ${least} to ${most}, not ${value}`);
  };
  const architecture = (name: string): "arm64" | "x86_64" => {
    const value = text(name) ?? "arm64";
    if (value !== "arm64" && value !== "x86_64") problem(name, `expected arm64 or x86_64, not ${value}`);
    return value === "x86_64" ? "x86_64" : "arm64";
  };
  const vpc = (): ExistingVpc | undefined => {
    const vpcId = text("vpcId");
    if (vpcId === undefined) return undefined;
    const part = (name: string) => list(name) ?? (problem(name, "is needed beside vpcId: a list with commas"), []);
    const found = {
      vpcId,
      availabilityZones: part("availabilityZones"),
      publicSubnetIds: part("publicSubnetIds"),
      privateSubnetIds: part("privateSubnetIds"),
    };
    const zones = found.availabilityZones.length;
    for (const name of ["publicSubnetIds", "privateSubnetIds"] as const) {
      const count = found[name].length;
      if (zones > 0 && count % zones !== 0) problem(name, `${count} subnets can't be shared by ${zones} availabilityZones`);
    }
    return found;
  };

  const emulator = flag("emulator", false);
  const needed = (name: string, what: string): string => {
    const value = text(name);
    if (value === undefined && !emulator) problem(name, `is not set: ${what}`);
    return value ?? "";
  };
  const prefix = text("prefix") ?? "waybill";
  // Bucket names are lower case, 63 at most, and ours end in account and region.
  if (!/^[a-z][a-z0-9-]{0,19}$/.test(prefix)) {
    problem("prefix", `expected 1 to 20 of a-z, 0-9 and -, a letter first, not ${prefix}`);
  }
  const settings: Settings = {
    prefix,
    emulator,
    emulatorEndpoint: emulator ? text("emulatorEndpoint") : undefined,
    alertEmail: text("alertEmail"),
    documentDays: whole("documentDays", 1, 36_500),
    rendererZip: text("rendererZip") ?? process.env["WAYBILL_RENDERER_ZIP"],
    rendererArchitecture: architecture("rendererArchitecture"),
    rendererConcurrency: whole("rendererConcurrency", 1, 1000),
    eventSources: list("eventSources") ?? [],
    eventDetailTypePrefix: text("eventDetailTypePrefix"),
    eventArchiveDays: whole("eventArchiveDays", 1, 3650),
    sesIdentities: list("sesIdentities") ?? [],
    vpc: vpc(),
    availabilityZones: list("availabilityZones"),
    natGateways: whole("natGateways", 1, 3) ?? 2,
    databaseClass: text("databaseClass") ?? "m8g.large",
    databaseStorageGb: whole("databaseStorageGb", 20, 65_536) ?? 100,
    databaseRootCertificate: text("databaseRootCertificate"),
    redisNodeType: text("redisNodeType") ?? "cache.t4g.small",
    imageRepository: text("imageRepository") ?? prefix,
    imageTag: needed("imageTag", "the tag of the image in imageRepository"),
    imageArchitecture: architecture("imageArchitecture"),
    healthCommand: (text("healthCommand") ?? "/usr/local/bin/waybill health").split(" "),
    certificateArn: needed("certificateArn", "the ARN of the API's certificate in ACM"),
    publicApi: flag("publicApi", true),
    webAclArn: text("webAclArn"),
    providers: list("providers") ?? ["ses", "sendgrid"],
    sendgridEventsWired: flag("sendgridEventsWired", false),
  };
  if (problems.length > 0) throw new Error(`context:\n  ${problems.join("\n  ")}`);
  return settings;
}
