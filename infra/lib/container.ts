// How every container of ours is held: one image, no root, no writable disk, no capabilities, a log group of its own.
import { Duration } from "aws-cdk-lib";
import * as ec2 from "aws-cdk-lib/aws-ec2";
import * as ecr from "aws-cdk-lib/aws-ecr";
import * as ecs from "aws-cdk-lib/aws-ecs";
import type * as iam from "aws-cdk-lib/aws-iam";

import type { WaybillStack } from "./stack.ts";

export interface TaskProps {
  readonly cpu: number;
  readonly memoryMiB: number;
  readonly statements: iam.PolicyStatement[];
}

export function taskDefinition(stack: WaybillStack, name: string, props: TaskProps): ecs.FargateTaskDefinition {
  const task = new ecs.FargateTaskDefinition(stack, `${pascal(name)}Task`, {
    family: `${stack.names.prefix}-${name}`,
    cpu: props.cpu,
    memoryLimitMiB: props.memoryMiB,
    runtimePlatform: {
      operatingSystemFamily: ecs.OperatingSystemFamily.LINUX,
      cpuArchitecture: stack.settings.imageArchitecture === "arm64" ? ecs.CpuArchitecture.ARM64 : ecs.CpuArchitecture.X86_64,
    },
  });
  for (const statement of props.statements) task.addToTaskRolePolicy(statement);
  return task;
}

/** The image of the service. */
export function waybillImage(stack: WaybillStack): ecs.ContainerImage {
  const repository = ecr.Repository.fromRepositoryName(stack, "Repository", stack.settings.imageRepository);
  return ecs.ContainerImage.fromEcrRepository(repository, stack.settings.imageTag);
}

export interface ContainerProps {
  readonly image: ecs.ContainerImage;
  readonly command: string[];
  readonly entryPoint?: string[];
  readonly environment: Record<string, string>;
  readonly secrets: Record<string, ecs.Secret>;
  readonly essential?: boolean;
  readonly healthCommand?: readonly string[];
}

export function addContainer(stack: WaybillStack, task: ecs.TaskDefinition, name: string, props: ContainerProps): ecs.ContainerDefinition {
  const { topology } = stack;
  const linuxParameters = new ecs.LinuxParameters(stack, `${pascal(name)}Linux`, { initProcessEnabled: true });
  linuxParameters.dropCapabilities(ecs.Capability.ALL);
  const container = task.addContainer(name, {
    containerName: name,
    image: props.image,
    command: props.command,
    // By name, so that it doesn't matter what the image starts by itself.
    entryPoint: props.entryPoint ?? ["waybill"],
    environment: props.environment,
    secrets: props.secrets,
    essential: props.essential ?? true,
    readonlyRootFilesystem: true,
    privileged: false,
    // Nobody, by number: the image needs no user of that name.
    user: "65532:65532",
    linuxParameters,
    stopTimeout: Duration.seconds(topology.stop_timeout_s + topology.stop_slack_s),
    logging: ecs.LogDrivers.awsLogs({
      logGroup: stack.logGroup(`${pascal(name)}Log`, stack.names.logGroup(name)),
      streamPrefix: name,
      // A log that can't be written must not stop a delivery.
      mode: ecs.AwsLogDriverMode.NON_BLOCKING,
    }),
    healthCheck: props.healthCommand && {
      command: ["CMD", ...props.healthCommand],
      interval: Duration.seconds(15),
      timeout: Duration.seconds(5),
      retries: 4,
      startPeriod: Duration.seconds(60),
    },
  });
  container.addUlimits({ name: ecs.UlimitName.NOFILE, softLimit: 65_536, hardLimit: 65_536 });
  return container;
}

/** Out to AWS and to providers by HTTPS, and nowhere else; databases are opened by their own groups. */
export function taskSecurityGroup(stack: WaybillStack, id: string, vpc: ec2.IVpc): ec2.SecurityGroup {
  const group = new ec2.SecurityGroup(stack, id, { vpc, description: `tasks: ${id}`, allowAllOutbound: false });
  group.addEgressRule(ec2.Peer.anyIpv4(), ec2.Port.tcp(443), "AWS and providers by HTTPS");
  return group;
}

export function pascal(name: string): string {
  return name
    .split("-")
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    .join("");
}
