import { App } from "aws-cdk-lib";

import { build } from "../lib/app.ts";

build(new App({ analyticsReporting: false }));
