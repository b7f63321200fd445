// Metrics by name, one minute each: what alarms and dashboard look at.
import { Duration } from "aws-cdk-lib";
import { MathExpression, Metric, type IMetric } from "aws-cdk-lib/aws-cloudwatch";
import type * as elb from "aws-cdk-lib/aws-elasticloadbalancingv2";

import { REDIS_NODES } from "./redis.ts";

const period = Duration.minutes(1);

function metric(namespace: string, metricName: string, statistic: string, dimensionsMap: Record<string, string>): Metric {
  return new Metric({ namespace, metricName, statistic, dimensionsMap, period });
}

export const sqs = (queue: string, name: string): Metric => metric("AWS/SQS", name, "Maximum", { QueueName: queue });

/** From Container Insights, which counts a service without tasks as well. */
export const runningTasks = (cluster: string, service: string): Metric =>
  metric("ECS/ContainerInsights", "RunningTaskCount", "Minimum", { ClusterName: cluster, ServiceName: service });

export const lambda = (name: string, metricName: string): Metric => metric("AWS/Lambda", metricName, "Sum", { FunctionName: name });

export const rds = (id: string, name: string, statistic: string): Metric =>
  metric("AWS/RDS", name, statistic, { DBInstanceIdentifier: id });

export const redis = (node: string, name: string, statistic: string): Metric =>
  metric("AWS/ElastiCache", name, statistic, { CacheClusterId: node });

/** ElastiCache names the nodes of a replication group itself. */
export const redisNodes = (group: string): string[] => Array.from({ length: REDIS_NODES }, (_, index) => `${group}-00${index + 1}`);

/** Of the whole account in this region; SES updates it a few times an hour. */
export const sesReputation = (name: string): Metric =>
  new Metric({ namespace: "AWS/SES", metricName: name, statistic: "Average", period: Duration.hours(1) });

/** Made of the service's log by metric filters. */
export const ownNamespace = (prefix: string): string => `Waybill/${prefix}`;
export const own = (prefix: string, cause: string): Metric =>
  new Metric({ namespace: ownNamespace(prefix), metricName: cause, statistic: "Sum", period: Duration.minutes(5) });

/** What the balancer counts; the library's own metrics take the balancer's name apart, which is no use across stacks. */
export const balancer = (alb: elb.ApplicationLoadBalancer, name: string): Metric =>
  metric("AWS/ApplicationELB", name, "Sum", { LoadBalancer: alb.loadBalancerFullName });

export const healthyTargets = (alb: elb.ApplicationLoadBalancer, targets: elb.ApplicationTargetGroup): Metric =>
  metric("AWS/ApplicationELB", "HealthyHostCount", "Minimum", {
    LoadBalancer: alb.loadBalancerFullName,
    TargetGroup: targets.targetGroupFullName,
  });

/** Answers with 5xx by requests, those of the balancer itself included; nothing below 20 requests, where one error would be many percent. */
export function apiErrorPercent(alb: elb.ApplicationLoadBalancer): IMetric {
  return new MathExpression({
    label: "5xx in percent",
    expression: "IF(requests >= 20, 100 * (FILL(target, 0) + FILL(balancer, 0)) / requests, 0)",
    period,
    usingMetrics: {
      requests: balancer(alb, "RequestCount"),
      target: balancer(alb, "HTTPCode_Target_5XX_Count"),
      balancer: balancer(alb, "HTTPCode_ELB_5XX_Count"),
    },
  });
}
