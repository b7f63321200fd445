// All tests in one process: the templates are synthesized once.
import "./messaging.test.ts";
import "./documents.test.ts";
import "./events.test.ts";
import "./data.test.ts";
import "./compute.test.ts";
import "./permissions.test.ts";
import "./alarms.test.ts";
import "./project.test.ts";
import "./migration.test.ts";
