// Every service is replaced once a week, task by task. The database's password changes every 30 days and the one before stays valid for 30
// more, so no task ever holds one that has stopped working.
import type * as ecs from "aws-cdk-lib/aws-ecs";
import * as iam from "aws-cdk-lib/aws-iam";
import { CfnSchedule } from "aws-cdk-lib/aws-scheduler";

import { pascal } from "./container.ts";
import type { Role } from "./environment.ts";
import type { WaybillStack } from "./stack.ts";

export function addRestarts(stack: WaybillStack, services: Readonly<Record<Role, ecs.FargateService>>): void {
  const all = Object.entries(services);
  const role = new iam.Role(stack, "RestartRole", {
    assumedBy: new iam.ServicePrincipal("scheduler.amazonaws.com", {
      conditions: { StringEquals: { "aws:SourceAccount": stack.account } },
    }),
  });
  role.addToPolicy(new iam.PolicyStatement({ actions: ["ecs:UpdateService"], resources: all.map(([, service]) => service.serviceArn) }));
  for (const [name] of all) {
    new CfnSchedule(stack, `${pascal(name)}Restart`, {
      name: `${stack.names.prefix}-restart-${name}`,
      description: "New tasks, with the current password",
      // In working hours of most of the world, on a day after which people still work.
      scheduleExpression: "cron(0 9 ? * TUE *)",
      flexibleTimeWindow: { mode: "FLEXIBLE", maximumWindowInMinutes: 60 },
      target: {
        arn: `arn:${stack.partition}:scheduler:::aws-sdk:ecs:updateService`,
        roleArn: role.roleArn,
        input: JSON.stringify({ Cluster: stack.names.cluster, Service: name, ForceNewDeployment: true }),
      },
    });
  }
}
