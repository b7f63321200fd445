// One page for whoever was woken up: what rings, what waits, what is dead, who answers with errors.
import { AlarmStatusWidget, Dashboard, GraphWidget, type IMetric, type Alarm } from "aws-cdk-lib/aws-cloudwatch";

import { ROLES } from "./environment.ts";
import * as metrics from "./metrics.ts";
import type { ServicesStack } from "./services.ts";
import type { WaybillStack } from "./stack.ts";
import { QUEUES } from "./topology.ts";

export function addDashboard(stack: WaybillStack, services: ServicesStack, alarms: Alarm[]): void {
  const { names } = stack;
  const graph = (title: string, left: IMetric[]) => new GraphWidget({ title, left, width: 12, height: 6 });
  const { alb } = services.balancer;
  new Dashboard(stack, "Dashboard", {
    dashboardName: names.prefix,
    widgets: [
      [new AlarmStatusWidget({ title: "Alarms", alarms, width: 24, height: 6 })],
      [
        graph(
          "Waiting messages",
          QUEUES.map((name) => metrics.sqs(names.queue(name), "ApproximateNumberOfMessagesVisible")),
        ),
        graph(
          "Age of the oldest message (without poison)",
          QUEUES.map((name) => metrics.sqs(names.queue(name), "ApproximateAgeOfOldestMessage")),
        ),
      ],
      [
        graph(
          "Dead letters",
          QUEUES.map((name) => metrics.sqs(names.deadQueue(name), "ApproximateNumberOfMessagesVisible")),
        ),
        graph(
          "Running tasks",
          ROLES.map((role) => metrics.runningTasks(names.cluster, role)),
        ),
      ],
      [
        graph("API: requests, 5xx in percent", [metrics.balancer(alb, "RequestCount"), metrics.apiErrorPercent(alb)]),
        graph(
          "Renderer",
          ["Invocations", "Errors", "Throttles"].map((name) => metrics.lambda(names.renderer, name)),
        ),
      ],
    ],
  });
}
