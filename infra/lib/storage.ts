// The bucket of the rendered documents, and of events that are too large for a message.
import { CfnOutput, Duration } from "aws-cdk-lib";
import * as s3 from "aws-cdk-lib/aws-s3";
import type { Construct } from "constructs";

import { WaybillStack, type Shared } from "./stack.ts";

export class StorageStack extends WaybillStack {
  constructor(scope: Construct, shared: Shared) {
    super(scope, "storage", "bucket of the documents", shared);
    const numbers = this.topology.documents;
    const noncurrentVersionExpiration = Duration.days(numbers.noncurrent_expire_days);
    const bucket = new s3.Bucket(this, "Documents", {
      bucketName: this.names.bucket(this),
      blockPublicAccess: s3.BlockPublicAccess.BLOCK_ALL,
      objectOwnership: s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
      encryption: s3.BucketEncryption.S3_MANAGED,
      enforceSSL: true,
      versioned: true,
      removalPolicy: this.keep,
      lifecycleRules: [
        {
          id: "documents",
          expiration: Duration.days(this.settings.documentDays ?? numbers.expire_days),
          noncurrentVersionExpiration,
          abortIncompleteMultipartUploadAfter: Duration.days(7),
        },
        // The shorter of two rules that fit an object wins.
        { id: "intake", prefix: numbers.intake_prefix, expiration: Duration.days(numbers.intake_expire_days) },
        // What expired leaves a marker behind once its last version is gone.
        { id: "markers", expiredObjectDeleteMarker: true },
      ],
    });
    new CfnOutput(this, "BucketName", { value: bucket.bucketName });
  }
}
