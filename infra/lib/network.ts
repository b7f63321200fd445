// The network: one of our own, or an existing one by its ids. Nothing is looked up, so that synthesis needs no account.
import { Annotations } from "aws-cdk-lib";
import * as ec2 from "aws-cdk-lib/aws-ec2";
import { Construct } from "constructs";

import type { ExistingVpc } from "./settings.ts";
import type { WaybillStack } from "./stack.ts";

export class Network extends Construct {
  readonly vpc: ec2.IVpc;
  /** Where tasks run: no address of their own, a way out through NAT. */
  readonly tasks: ec2.SubnetSelection;
  /** Where databases live; without a way out in a network of our own. */
  readonly databases: ec2.SubnetSelection;

  constructor(stack: WaybillStack) {
    super(stack, "Network");
    const existing = stack.settings.vpc;
    this.tasks = { subnetType: ec2.SubnetType.PRIVATE_WITH_EGRESS };
    this.databases = existing === undefined ? { subnetType: ec2.SubnetType.PRIVATE_ISOLATED } : this.tasks;
    this.vpc = existing === undefined ? this.ownVpc(stack) : this.existingVpc(existing);
  }

  private existingVpc(existing: ExistingVpc): ec2.IVpc {
    Annotations.of(this).acknowledgeWarning("@aws-cdk/aws-ec2:noSubnetRouteTableId", "nothing here changes routes");
    return ec2.Vpc.fromVpcAttributes(this, "Vpc", {
      vpcId: existing.vpcId,
      availabilityZones: [...existing.availabilityZones],
      publicSubnetIds: [...existing.publicSubnetIds],
      privateSubnetIds: [...existing.privateSubnetIds],
    });
  }

  private ownVpc(stack: WaybillStack): ec2.Vpc {
    const zones = stack.settings.availabilityZones;
    const vpc = new ec2.Vpc(this, "Vpc", {
      // Without names CDK takes the first two zones of whichever region it is deployed to.
      ...(zones === undefined ? { maxAzs: 2 } : { availabilityZones: [...zones] }),
      natGateways: stack.settings.natGateways,
      restrictDefaultSecurityGroup: false,
      subnetConfiguration: [
        { name: "public", subnetType: ec2.SubnetType.PUBLIC, cidrMask: 24, mapPublicIpOnLaunch: false },
        { name: "tasks", subnetType: ec2.SubnetType.PRIVATE_WITH_EGRESS, cidrMask: 20 },
        { name: "databases", subnetType: ec2.SubnetType.PRIVATE_ISOLATED, cidrMask: 24 },
      ],
    });
    // Documents don't go through NAT, which is paid by the gigabyte.
    vpc.addGatewayEndpoint("S3", { service: ec2.GatewayVpcEndpointAwsService.S3 });
    return vpc;
  }
}
