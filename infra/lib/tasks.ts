// The cluster and the tasks that run once and end: the migration, which has to run before new services start, and the operator's commands.
import { readFileSync } from "node:fs";

import { CfnOutput } from "aws-cdk-lib";
import * as ecs from "aws-cdk-lib/aws-ecs";
import type * as secretsmanager from "aws-cdk-lib/aws-secretsmanager";
import type { Construct } from "constructs";

import { addContainer, taskDefinition, taskSecurityGroup, waybillImage } from "./container.ts";
import { DATABASE_ROLE, type DataStack } from "./data.ts";
import { commonEnvironment, databaseEnvironment, withoutAccounts } from "./environment.ts";
import { operatorPermissions } from "./permissions.ts";
import { WaybillStack, type Shared } from "./stack.ts";

const PSQL_IMAGE = "public.ecr.aws/docker/library/postgres:17-alpine";

/** User and password as the two secrets of a container. */
export function databaseSecrets(secret: secretsmanager.ISecret): Record<string, ecs.Secret> {
  return {
    PGUSER: ecs.Secret.fromSecretsManager(secret, "username"),
    PGPASSWORD: ecs.Secret.fromSecretsManager(secret, "password"),
  };
}

export class TasksStack extends WaybillStack {
  readonly cluster: ecs.Cluster;

  constructor(scope: Construct, shared: Shared, data: DataStack) {
    super(scope, "tasks", "cluster, migration, operator's commands", shared);
    const { network } = data;
    this.cluster = new ecs.Cluster(this, "Cluster", {
      clusterName: this.names.cluster,
      vpc: network.vpc,
      // The number of running tasks, which autoscaling and alarms go by.
      containerInsightsV2: ecs.ContainerInsights.ENABLED,
    });
    const image = waybillImage(this);
    this.migration(data, image);
    this.operator(data, image);
    new CfnOutput(this, "ClusterName", { value: this.cluster.clusterName });
    const group = taskSecurityGroup(this, "OneOff", network.vpc);
    new CfnOutput(this, "OneOffSubnets", { value: network.vpc.selectSubnets(network.tasks).subnetIds.join(",") });
    new CfnOutput(this, "OneOffSecurityGroups", { value: [group, data.databaseClients].map((g) => g.securityGroupId).join(",") });
  }

  /** First the role of the application, by the administrator, then the schema, by that role. */
  private migration(data: DataStack, image: ecs.ContainerImage): void {
    const task = taskDefinition(this, "migrate", { cpu: 512, memoryMiB: 1024, statements: [] });
    const database = databaseEnvironment(this, data.database.dbInstanceEndpointAddress);
    const { PGOPTIONS, ...asAdministrator } = database;
    const role = addContainer(this, task, "migrate-role", {
      image: ecs.ContainerImage.fromRegistry(PSQL_IMAGE),
      essential: false,
      entryPoint: ["sh", "-c"],
      command: ['printf %s "$BOOTSTRAP_SQL" | psql --no-psqlrc --quiet'],
      environment: {
        // The image of psql has no authorities of RDS in it.
        ...asAdministrator,
        PGSSLMODE: "require",
        APP_ROLE: DATABASE_ROLE,
        BOOTSTRAP_SQL: readFileSync(new URL("./bootstrap.sql", import.meta.url), "utf8"),
      },
      secrets: {
        ...databaseSecrets(data.adminSecret),
        APP_PASSWORD: ecs.Secret.fromSecretsManager(data.databaseSecret, "password"),
      },
    });
    const migrate = addContainer(this, task, "migrate", {
      image,
      command: ["migrate"],
      // A migration may take longer than any statement of the service.
      environment: { ...database, PGOPTIONS: `${PGOPTIONS} -c statement_timeout=0`, WAYBILL_LOG_FORMAT: "json" },
      secrets: databaseSecrets(data.databaseSecret),
    });
    migrate.addContainerDependencies({ container: role, condition: ecs.ContainerDependencyCondition.SUCCESS });
    new CfnOutput(this, "Migration", { value: task.family });
  }

  private operator(data: DataStack, image: ecs.ContainerImage): void {
    const task = taskDefinition(this, "operator", { cpu: 256, memoryMiB: 512, statements: operatorPermissions(this) });
    addContainer(this, task, "operator", {
      image,
      command: ["queues"],
      environment: {
        ...commonEnvironment(this),
        ...withoutAccounts(this),
        ...databaseEnvironment(this, data.database.dbInstanceEndpointAddress),
      },
      secrets: databaseSecrets(data.databaseSecret),
    });
    new CfnOutput(this, "Operators", { value: task.family });
  }
}
