// Valkey for the lock. Not the serverless kind: that one evicts keys with a lifetime under pressure, and every lock has one.
import * as ec2 from "aws-cdk-lib/aws-ec2";
import * as elasticache from "aws-cdk-lib/aws-elasticache";
import * as secretsmanager from "aws-cdk-lib/aws-secretsmanager";
import { Construct } from "constructs";

import type { Network } from "./network.ts";
import type { WaybillStack } from "./stack.ts";

export const REDIS_NODES = 2;

export class Redis extends Construct {
  readonly clients: ec2.SecurityGroup;
  readonly password: secretsmanager.Secret;
  readonly host: string;

  constructor(stack: WaybillStack, network: Network) {
    super(stack, "Redis");
    const { vpc } = network;
    const { prefix } = stack.names;
    this.clients = new ec2.SecurityGroup(this, "Clients", { vpc, description: "may connect to Valkey", allowAllOutbound: false });
    const server = new ec2.SecurityGroup(this, "Server", { vpc, description: "Valkey", allowAllOutbound: false });
    server.addIngressRule(this.clients, ec2.Port.tcp(6379), "from its clients");
    this.clients.addEgressRule(server, ec2.Port.tcp(6379), "to Valkey");
    this.password = new secretsmanager.Secret(this, "Password", {
      secretName: `${prefix}/redis`,
      description: "Password of Valkey",
      generateSecretString: { passwordLength: 64, excludePunctuation: true },
    });
    const subnets = new elasticache.CfnSubnetGroup(this, "Subnets", {
      description: "Valkey",
      subnetIds: vpc.selectSubnets(network.databases).subnetIds,
    });
    const parameters = new elasticache.CfnParameterGroup(this, "Parameters", {
      cacheParameterGroupFamily: "valkey8",
      description: "A lock is refused rather than dropped",
      properties: { "maxmemory-policy": "noeviction" },
    });
    const group = new elasticache.CfnReplicationGroup(this, "Group", {
      replicationGroupId: prefix,
      replicationGroupDescription: "Waybill: locks",
      engine: "valkey",
      engineVersion: "8.2",
      cacheNodeType: stack.settings.redisNodeType,
      cacheParameterGroupName: parameters.ref,
      cacheSubnetGroupName: subnets.ref,
      securityGroupIds: [server.securityGroupId],
      numCacheClusters: REDIS_NODES,
      automaticFailoverEnabled: true,
      multiAzEnabled: true,
      transitEncryptionEnabled: true,
      atRestEncryptionEnabled: true,
      authToken: this.password.secretValue.unsafeUnwrap(),
      autoMinorVersionUpgrade: true,
      // Locks live for minutes: there is nothing to restore.
      snapshotRetentionLimit: 0,
    });
    this.host = group.attrPrimaryEndPointAddress;
  }
}
