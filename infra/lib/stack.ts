// What every stack of the application has in common.
import { DefaultStackSynthesizer, RemovalPolicy, Stack, type StackProps } from "aws-cdk-lib";
import * as logs from "aws-cdk-lib/aws-logs";
import type { Construct } from "constructs";

import type { Names } from "./names.ts";
import type { Settings } from "./settings.ts";
import type { Topology } from "./topology.ts";

export interface Shared {
  readonly settings: Settings;
  readonly topology: Topology;
  readonly names: Names;
}

export class WaybillStack extends Stack {
  readonly settings: Settings;
  readonly topology: Topology;
  readonly names: Names;

  constructor(scope: Construct, name: string, description: string, shared: Shared, props: StackProps = {}) {
    const { settings } = shared;
    super(scope, name, {
      stackName: `${settings.prefix}-${name}`,
      description: `Waybill: ${description}`,
      terminationProtection: !settings.emulator,
      // An emulator has no bootstrap stack whose version could be asked for.
      synthesizer: new DefaultStackSynthesizer({ generateBootstrapVersionRule: !settings.emulator }),
      tags: { application: settings.prefix },
      ...props,
    });
    this.settings = settings;
    this.topology = shared.topology;
    this.names = shared.names;
  }

  /** What holds data outlives its stack, except on an emulator. */
  get keep(): RemovalPolicy {
    return this.settings.emulator ? RemovalPolicy.DESTROY : RemovalPolicy.RETAIN;
  }

  logGroup(id: string, logGroupName: string, retention = logs.RetentionDays.ONE_MONTH): logs.LogGroup {
    return new logs.LogGroup(this, id, { logGroupName, retention, removalPolicy: RemovalPolicy.DESTROY });
  }
}
