// The network, PostgreSQL, which is the authority, Valkey, and the secrets of the application. Who holds a "clients" security group may connect, nobody else.
import { CfnOutput, Duration } from "aws-cdk-lib";
import * as ec2 from "aws-cdk-lib/aws-ec2";
import * as rds from "aws-cdk-lib/aws-rds";
import * as secretsmanager from "aws-cdk-lib/aws-secretsmanager";
import type { Construct } from "constructs";

import { Network } from "./network.ts";
import { Redis } from "./redis.ts";
import { WaybillStack, type Shared } from "./stack.ts";

export const DATABASE = "waybill";
/** Owns every table. Its rotation adds a second login, `waybill_clone`, which acts as this role (see `databaseEnvironment`). */
export const DATABASE_ROLE = "waybill";
const ADMIN = "waybill_admin";
/** Rotation alternates between two logins: the old password works until the next rotation, so a task may live that long. */
const ROTATION = Duration.days(30);

/** In milliseconds or seconds, as PostgreSQL wants each. */
const PARAMETERS = {
  "rds.force_ssl": "1",
  statement_timeout: "30000",
  idle_in_transaction_session_timeout: "60000",
  // A client that vanished without a word is found out after 90 s.
  tcp_keepalives_idle: "60",
  tcp_keepalives_interval: "10",
  tcp_keepalives_count: "3",
  log_min_duration_statement: "5000",
  // Parameters are people's addresses.
  log_parameter_max_length: "0",
  log_parameter_max_length_on_error: "0",
};

export class DataStack extends WaybillStack {
  readonly network: Network;
  readonly database: rds.DatabaseInstance;
  readonly databaseClients: ec2.SecurityGroup;
  readonly adminSecret: secretsmanager.ISecret;
  readonly databaseSecret: secretsmanager.ISecret;
  readonly redis: Redis;
  readonly inboundSecret: secretsmanager.Secret;
  readonly sendgridSecret: secretsmanager.Secret | undefined;

  constructor(scope: Construct, shared: Shared) {
    super(scope, "data", "network, PostgreSQL, Valkey, secrets", shared);
    const network = new Network(this);
    this.network = network;
    const { vpc } = network;
    const group = (id: string, description: string) => new ec2.SecurityGroup(this, id, { vpc, description, allowAllOutbound: false });
    this.databaseClients = group("DatabaseClients", "may connect to PostgreSQL");
    const server = group("Database", "PostgreSQL");
    server.addIngressRule(this.databaseClients, ec2.Port.tcp(5432), "from its clients");
    this.databaseClients.addEgressRule(server, ec2.Port.tcp(5432), "to PostgreSQL");

    const admin = new rds.DatabaseSecret(this, "AdminSecret", { username: ADMIN, secretName: `${this.names.prefix}/database-admin` });
    admin.applyRemovalPolicy(this.keep);
    this.database = this.instance(network, server, admin);
    this.adminSecret = this.database.secret ?? admin;
    this.databaseSecret = this.rotatedSecret(network, this.adminSecret);
    this.redis = new Redis(this, network);
    this.inboundSecret = this.secret("InboundSecret", "inbound", "Password of the providers' event webhooks");
    this.sendgridSecret = this.settings.providers.includes("sendgrid")
      ? this.secret("SendgridKey", "sendgrid", "API key of SendGrid: put it here, what is generated is no key")
      : undefined;
    new CfnOutput(this, "DatabaseHost", { value: this.database.dbInstanceEndpointAddress });
  }

  private secret(id: string, name: string, description: string): secretsmanager.Secret {
    return new secretsmanager.Secret(this, id, {
      secretName: `${this.names.prefix}/${name}`,
      description,
      generateSecretString: { passwordLength: 40, excludePunctuation: true },
    });
  }

  private instance(network: Network, server: ec2.SecurityGroup, admin: secretsmanager.ISecret): rds.DatabaseInstance {
    const engine = rds.DatabaseInstanceEngine.postgres({ version: rds.PostgresEngineVersion.VER_17_9 });
    return new rds.DatabaseInstance(this, "Postgres", {
      instanceIdentifier: this.names.prefix,
      engine,
      instanceType: new ec2.InstanceType(this.settings.databaseClass),
      vpc: network.vpc,
      vpcSubnets: network.databases,
      securityGroups: [server],
      multiAz: true,
      databaseName: DATABASE,
      credentials: rds.Credentials.fromSecret(admin),
      parameterGroup: new rds.ParameterGroup(this, "Parameters", { engine, description: "Waybill", parameters: PARAMETERS }),
      storageType: rds.StorageType.GP3,
      allocatedStorage: this.settings.databaseStorageGb,
      maxAllocatedStorage: this.settings.databaseStorageGb * 10,
      storageEncrypted: true,
      // Any point of these days can be restored.
      backupRetention: Duration.days(14),
      preferredBackupWindow: "02:00-03:00",
      preferredMaintenanceWindow: "Sun:03:30-Sun:04:30",
      copyTagsToSnapshot: true,
      deleteAutomatedBackups: false,
      deletionProtection: true,
      removalPolicy: this.keep,
      enablePerformanceInsights: true,
      cloudwatchLogsExports: ["postgresql", "upgrade"],
      autoMinorVersionUpgrade: true,
      caCertificate: rds.CaCertificate.RDS_CA_RSA2048_G1,
    });
  }

  private rotatedSecret(network: Network, admin: secretsmanager.ISecret): secretsmanager.ISecret {
    const created = new rds.DatabaseSecret(this, "DatabaseSecret", {
      username: DATABASE_ROLE,
      dbname: DATABASE,
      masterSecret: admin,
      secretName: `${this.names.prefix}/database`,
    });
    created.applyRemovalPolicy(this.keep);
    const secret = created.attach(this.database);
    const rotator = new ec2.SecurityGroup(this, "Rotator", {
      vpc: network.vpc,
      description: "rotates the password of PostgreSQL",
      allowAllOutbound: false,
    });
    rotator.addEgressRule(ec2.Peer.anyIpv4(), ec2.Port.tcp(443), "to Secrets Manager");
    secret.addRotationSchedule("Rotation", {
      automaticallyAfter: ROTATION,
      // The role is there only once the first migration has run.
      rotateImmediatelyOnUpdate: false,
      hostedRotation: secretsmanager.HostedRotation.postgreSqlMultiUser({
        functionName: `${this.names.prefix}-rotation`,
        masterSecret: admin,
        vpc: network.vpc,
        vpcSubnets: network.tasks,
        securityGroups: [rotator, this.databaseClients],
      }),
    });
    return secret;
  }
}
