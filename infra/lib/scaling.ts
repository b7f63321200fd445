// How many tasks: the API by its load, the consumers by the messages that wait per running task. A plain count of messages would scale
// the same backlog for ever, however many tasks already work on it.
import { Duration } from "aws-cdk-lib";
import { CfnScalingPolicy } from "aws-cdk-lib/aws-applicationautoscaling";
import type * as ecs from "aws-cdk-lib/aws-ecs";
import type * as elb from "aws-cdk-lib/aws-elasticloadbalancingv2";

import { pascal } from "./container.ts";
import type { Role } from "./environment.ts";
import type { WaybillStack } from "./stack.ts";
import type { QueueName } from "./topology.ts";

const SCALE_OUT = Duration.seconds(60);
/** Slower than out: a backlog that is just gone often comes back. */
const SCALE_IN = Duration.minutes(5);

export function scaleByLoad(count: ecs.ScalableTaskCount, targets: elb.ApplicationTargetGroup): void {
  const cooldown = { scaleInCooldown: SCALE_IN, scaleOutCooldown: SCALE_OUT };
  count.scaleOnCpuUtilization("Cpu", { targetUtilizationPercent: 60, ...cooldown });
  count.scaleOnRequestCount("Requests", { requestsPerTarget: 12_000, targetGroup: targets, ...cooldown });
}

/** Target tracking on visible messages by running tasks; CDK's own construct takes no expression. */
export function scaleByBacklog(stack: WaybillStack, role: Role, count: ecs.ScalableTaskCount, queue: QueueName, perTask: number): void {
  const { names } = stack;
  const metric = (namespace: string, metricName: string, dimensions: Record<string, string>, stat: string) => ({
    metric: { namespace, metricName, dimensions: Object.entries(dimensions).map(([name, value]) => ({ name, value })) },
    stat,
  });
  const visible = metric("AWS/SQS", "ApproximateNumberOfMessagesVisible", { QueueName: names.queue(queue) }, "Maximum");
  const running = metric("ECS/ContainerInsights", "RunningTaskCount", { ClusterName: names.cluster, ServiceName: role }, "Average");
  // The target's construct holds the CloudFormation resource that the policy belongs to.
  const target = count.node.findChild("Target") as unknown as { scalableTargetId: string };
  new CfnScalingPolicy(stack, `${pascal(role)}Backlog`, {
    policyName: `${names.prefix}-${role}-backlog`,
    policyType: "TargetTrackingScaling",
    scalingTargetId: target.scalableTargetId,
    targetTrackingScalingPolicyConfiguration: {
      targetValue: perTask,
      scaleInCooldown: SCALE_IN.toSeconds(),
      scaleOutCooldown: SCALE_OUT.toSeconds(),
      customizedMetricSpecification: {
        metrics: [
          { id: "visible", metricStat: visible, returnData: false },
          { id: "running", metricStat: running, returnData: false },
          {
            id: "backlog",
            expression: "visible / IF(FILL(running, 1) > 0, FILL(running, 1), 1)",
            label: "messages per task",
            returnData: true,
          },
        ],
      },
    },
  });
}
