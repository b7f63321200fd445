// The stacks and their order.
import type { App } from "aws-cdk-lib";

import { AlarmsStack } from "./alarms.ts";
import { DataStack } from "./data.ts";
import { EventsStack } from "./events.ts";
import { MessagingStack } from "./messaging.ts";
import { Names } from "./names.ts";
import { RenderingStack } from "./rendering.ts";
import { ServicesStack } from "./services.ts";
import { readSettings } from "./settings.ts";
import { StorageStack } from "./storage.ts";
import { TasksStack } from "./tasks.ts";
import { readTopology } from "./topology.ts";

/** Adds every stack that the context asks for. */
export function build(app: App): void {
  const settings = readSettings(app.node);
  const topology = readTopology();
  const shared = { settings, topology, names: new Names(settings.prefix, topology) };
  const messaging = new MessagingStack(app, shared);
  const storage = new StorageStack(app, shared);
  const rendering = new RenderingStack(app, shared);
  const events = new EventsStack(app, shared);
  rendering.addStackDependency(storage);
  events.addStackDependency(messaging);
  if (settings.emulator) return;

  const data = new DataStack(app, shared);
  const tasks = new TasksStack(app, shared, data);
  const services = new ServicesStack(app, shared, data, tasks);
  new AlarmsStack(app, shared, services);
  for (const before of [messaging, rendering, events]) services.addStackDependency(before);
}
