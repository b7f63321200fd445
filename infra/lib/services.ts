// The long-running roles: one image, one Fargate service per role, the balancer before the API.
import { CfnOutput, Duration } from "aws-cdk-lib";
import * as ec2 from "aws-cdk-lib/aws-ec2";
import * as ecs from "aws-cdk-lib/aws-ecs";
import * as events from "aws-cdk-lib/aws-events";
import type { Construct } from "constructs";

import { Balancer } from "./balancer.ts";
import { addContainer, pascal, taskDefinition, taskSecurityGroup, waybillImage } from "./container.ts";
import type { DataStack } from "./data.ts";
import { API_PORT, OPS_PORT, ROLES, commonEnvironment, databaseEnvironment, roleEnvironment, type Role } from "./environment.ts";
import { permissionsOf } from "./permissions.ts";
import { addRestarts } from "./restarts.ts";
import { scaleByBacklog, scaleByLoad } from "./scaling.ts";
import { WaybillStack, type Shared } from "./stack.ts";
import { databaseSecrets, type TasksStack } from "./tasks.ts";

/** Tasks at rest; more than one of each, so that a zone may fail. Schedulers may run side by side. */
const SIZES: Readonly<Record<Role, { cpu: number; memoryMiB: number; least: number; most: number }>> = {
  api: { cpu: 512, memoryMiB: 1024, least: 2, most: 10 },
  router: { cpu: 512, memoryMiB: 1024, least: 2, most: 6 },
  worker: { cpu: 1024, memoryMiB: 2048, least: 2, most: 20 },
  scheduler: { cpu: 256, memoryMiB: 512, least: 2, most: 2 },
  intake: { cpu: 256, memoryMiB: 512, least: 2, most: 6 },
};

export class ServicesStack extends WaybillStack {
  readonly services: Readonly<Record<Role, ecs.FargateService>>;
  readonly balancer: Balancer;

  constructor(scope: Construct, shared: Shared, data: DataStack, tasks: TasksStack) {
    super(scope, "services", "API, routers, workers, schedulers, intake", shared);
    const image = waybillImage(this);
    const made = ROLES.map((role) => [role, this.service(role, image, data, tasks)] as const);
    this.services = Object.fromEntries(made) as Record<Role, ecs.FargateService>;
    this.balancer = new Balancer(this, data.network, this.services.api);
    this.scale();
    addRestarts(this, this.services);
    this.tellFailedDeployments();
    new CfnOutput(this, "ApiHost", { value: this.balancer.alb.loadBalancerDnsName });
  }

  private service(role: Role, image: ecs.ContainerImage, data: DataStack, tasks: TasksStack): ecs.FargateService {
    const { least, ...size } = SIZES[role];
    const { network } = data;
    const task = taskDefinition(this, role, { ...size, statements: permissionsOf(this, role) });
    const container = addContainer(this, task, role, {
      image,
      command: [role],
      environment: {
        ...commonEnvironment(this),
        ...databaseEnvironment(this, data.database.dbInstanceEndpointAddress),
        ...roleEnvironment(this, role, data.redis.host),
      },
      secrets: { ...databaseSecrets(data.databaseSecret), ...secretsOf(role, data) },
      healthCommand: this.settings.healthCommand,
    });
    if (role === "api") container.addPortMappings({ containerPort: API_PORT });
    container.addPortMappings({ containerPort: OPS_PORT });
    const own = taskSecurityGroup(this, `${pascal(role)}Group`, network.vpc);
    return new ecs.FargateService(this, pascal(role), {
      serviceName: role,
      cluster: tasks.cluster,
      taskDefinition: task,
      // Where autoscaling counts, a number here would undo it at each deployment.
      desiredCount: role === "scheduler" ? least : undefined,
      vpcSubnets: network.tasks,
      securityGroups: [
        own,
        this.membership(role, "Database", data.databaseClients),
        ...(role === "worker" ? [this.membership(role, "Redis", data.redis.clients)] : []),
      ],
      assignPublicIp: false,
      minHealthyPercent: 100,
      maxHealthyPercent: 200,
      circuitBreaker: { rollback: true },
      availabilityZoneRebalancing: ecs.AvailabilityZoneRebalancing.ENABLED,
      propagateTags: ecs.PropagatedTagSource.SERVICE,
      ...(role === "api" && { healthCheckGracePeriod: Duration.seconds(60) }),
    });
  }

  /** A group of another stack, to be a member of: the balancer's rule belongs into the task's own group and not in here. */
  private membership(role: Role, what: string, group: ec2.ISecurityGroup): ec2.ISecurityGroup {
    return ec2.SecurityGroup.fromSecurityGroupId(this, `${pascal(role)}${what}`, group.securityGroupId, { mutable: false });
  }

  private scale(): void {
    const limits = (role: Role) => ({ minCapacity: SIZES[role].least, maxCapacity: SIZES[role].most });
    scaleByLoad(this.services.api.autoScaleTaskCount(limits("api")), this.balancer.targets);
    const backlog = (role: Role, queue: "main" | "delivery" | "intake", perTask: number) =>
      scaleByBacklog(this, role, this.services[role].autoScaleTaskCount(limits(role)), queue, perTask);
    // About what one task gets through in ten seconds.
    backlog("router", "main", 2000);
    backlog("worker", "delivery", 1500);
    backlog("intake", "intake", 1000);
  }

  /** A deployment that was rolled back leaves the old tasks running, so nothing else would tell. */
  private tellFailedDeployments(): void {
    new events.CfnRule(this, "FailedDeployments", {
      name: this.names.deploymentRule,
      description: "Deployments that failed",
      eventPattern: {
        source: ["aws.ecs"],
        "detail-type": ["ECS Deployment State Change"],
        detail: { eventName: ["SERVICE_DEPLOYMENT_FAILED"] },
        resources: Object.values(this.services).map((service) => service.serviceArn),
      },
      targets: [{ id: "alerts", arn: this.names.topicArn(this, this.names.alertsTopic) }],
    });
  }
}

function secretsOf(role: Role, data: DataStack): Record<string, ecs.Secret> {
  const only = ecs.Secret.fromSecretsManager;
  return {
    ...(role === "api" && { WAYBILL_INBOUND_SECRET: only(data.inboundSecret) }),
    ...(role === "worker" && { WAYBILL_REDIS_PASSWORD: only(data.redis.password) }),
    ...(role === "worker" && data.sendgridSecret && { WAYBILL_SENDGRID_API_KEY: only(data.sendgridSecret) }),
  };
}
