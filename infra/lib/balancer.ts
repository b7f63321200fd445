// The balancer before the API: HTTPS only; plain HTTP is told where to go.
import { Duration } from "aws-cdk-lib";
import * as ec2 from "aws-cdk-lib/aws-ec2";
import type * as ecs from "aws-cdk-lib/aws-ecs";
import * as elb from "aws-cdk-lib/aws-elasticloadbalancingv2";
import * as wafv2 from "aws-cdk-lib/aws-wafv2";
import { Construct } from "constructs";

import { API_PORT } from "./environment.ts";
import type { Network } from "./network.ts";
import type { WaybillStack } from "./stack.ts";

export class Balancer extends Construct {
  readonly alb: elb.ApplicationLoadBalancer;
  readonly targets: elb.ApplicationTargetGroup;

  constructor(stack: WaybillStack, network: Network, api: ecs.FargateService) {
    super(stack, "Balancer");
    const { settings, topology } = stack;
    const group = new ec2.SecurityGroup(this, "Group", { vpc: network.vpc, description: "balancer of the API", allowAllOutbound: false });
    this.alb = new elb.ApplicationLoadBalancer(this, "Alb", {
      loadBalancerName: `${settings.prefix}-api`,
      vpc: network.vpc,
      vpcSubnets: settings.publicApi ? { subnetType: ec2.SubnetType.PUBLIC } : network.tasks,
      internetFacing: settings.publicApi,
      securityGroup: group,
      deletionProtection: true,
      dropInvalidHeaderFields: true,
      desyncMitigationMode: elb.DesyncMitigationMode.STRICTEST,
      idleTimeout: Duration.seconds(60),
    });
    this.targets = new elb.ApplicationTargetGroup(this, "Api", {
      vpc: network.vpc,
      port: API_PORT,
      protocol: elb.ApplicationProtocol.HTTP,
      targetType: elb.TargetType.IP,
      targets: [api],
      healthCheck: {
        path: "/readyz",
        healthyHttpCodes: "200",
        interval: Duration.seconds(10),
        timeout: Duration.seconds(5),
        healthyThresholdCount: 2,
        unhealthyThresholdCount: 3,
      },
      // The task itself keeps its listener open for the same time after SIGTERM, which comes when this is over.
      deregistrationDelay: Duration.seconds(Math.max(topology.drain_delay_s, 10)),
      loadBalancingAlgorithmType: elb.TargetGroupLoadBalancingAlgorithmType.LEAST_OUTSTANDING_REQUESTS,
    });
    this.alb.addListener("Https", {
      port: 443,
      protocol: elb.ApplicationProtocol.HTTPS,
      certificates: [elb.ListenerCertificate.fromArn(settings.certificateArn)],
      sslPolicy: elb.SslPolicy.RECOMMENDED_TLS,
      defaultTargetGroups: [this.targets],
      open: true,
    });
    this.alb.addListener("Http", {
      port: 80,
      open: true,
      defaultAction: elb.ListenerAction.redirect({ protocol: "HTTPS", port: "443", permanent: true }),
    });
    if (settings.webAclArn !== undefined) {
      new wafv2.CfnWebACLAssociation(this, "Waf", { resourceArn: this.alb.loadBalancerArn, webAclArn: settings.webAclArn });
    }
  }
}
