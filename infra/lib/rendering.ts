// The renderer: one function that typesets a document and writes it to the bucket.
import { fileURLToPath } from "node:url";

import { CfnOutput, CfnParameter, Duration } from "aws-cdk-lib";
import * as iam from "aws-cdk-lib/aws-iam";
import * as lambda from "aws-cdk-lib/aws-lambda";
import type { Construct } from "constructs";

import { WaybillStack, type Shared } from "./stack.ts";

export class RenderingStack extends WaybillStack {
  constructor(scope: Construct, shared: Shared) {
    super(scope, "rendering", "the function that renders documents", shared);
    const { renderer } = this.topology;
    const logGroup = this.logGroup("Log", `/aws/lambda/${this.names.renderer}`);
    const role = new iam.Role(this, "Role", { assumedBy: new iam.ServicePrincipal("lambda.amazonaws.com") });
    logGroup.grantWrite(role);
    const bucketArn = this.names.bucketArn(this);
    role.addToPolicy(
      new iam.PolicyStatement({
        actions: ["s3:GetObject", "s3:PutObject"],
        resources: [this.formatArn({ service: "s3", region: "", account: "", resource: this.names.bucket(this), resourceName: "*" })],
      }),
    );
    // Without it S3 answers 403 where a key is missing, and "not yet" can't be told from "not allowed".
    role.addToPolicy(new iam.PolicyStatement({ actions: ["s3:ListBucket"], resources: [bucketArn] }));

    const architecture = this.settings.rendererArchitecture;
    const fn = new lambda.Function(this, "Renderer", {
      functionName: this.names.renderer,
      description: "Waybill: renders one document",
      runtime: lambda.Runtime.PROVIDED_AL2023,
      handler: "bootstrap",
      architecture: architecture === "arm64" ? lambda.Architecture.ARM_64 : lambda.Architecture.X86_64,
      code: this.code(),
      timeout: Duration.seconds(renderer.timeout_s),
      memorySize: renderer.memory_mb,
      reservedConcurrentExecutions: this.settings.rendererConcurrency,
      role,
      logGroup,
      loggingFormat: lambda.LoggingFormat.JSON,
      environment: {
        WAYBILL_BUCKET: this.names.bucket(this),
        // On an emulator S3 is where the emulator is, which the function can't know.
        ...(this.settings.emulatorEndpoint !== undefined && { AWS_ENDPOINT_URL: this.settings.emulatorEndpoint }),
      },
    });
    // The worker asks again by its own rules; a second, hidden count of attempts would come on top.
    fn.configureAsyncInvoke({ retryAttempts: 0, maxEventAge: Duration.minutes(15) });
    new CfnOutput(this, "FunctionName", { value: fn.functionName });
  }

  /** On an emulator the zip is put into a bucket before; else it is an asset, and without one a placeholder that refuses to render. */
  private code(): lambda.Code {
    if (this.settings.emulator) {
      return lambda.Code.fromCfnParameters({
        bucketNameParam: new CfnParameter(this, "CodeBucket"),
        objectKeyParam: new CfnParameter(this, "CodeKey"),
      });
    }
    const placeholder = fileURLToPath(new URL("../assets/renderer-placeholder", import.meta.url));
    return lambda.Code.fromAsset(this.settings.rendererZip ?? placeholder);
  }
}
