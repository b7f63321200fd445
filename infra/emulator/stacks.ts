// Creates or updates a CloudFormation stack and waits for its end.
import { setTimeout as sleep } from "node:timers/promises";

import {
  CreateStackCommand,
  DescribeStackEventsCommand,
  DescribeStacksCommand,
  UpdateStackCommand,
  type CloudFormationClient,
  type Stack,
} from "@aws-sdk/client-cloudformation";

const PATIENCE_MS = 120_000;

/** Returns the stack's outputs, or throws with the reasons of what failed. */
export async function deployStack(
  client: CloudFormationClient,
  name: string,
  template: object,
  parameters: Record<string, string>,
): Promise<Record<string, string>> {
  const input = {
    StackName: name,
    TemplateBody: JSON.stringify(template),
    Capabilities: ["CAPABILITY_IAM" as const, "CAPABILITY_NAMED_IAM" as const],
    Parameters: Object.entries(parameters).map(([ParameterKey, ParameterValue]) => ({ ParameterKey, ParameterValue })),
  };
  if ((await find(client, name)) === undefined) {
    await client.send(new CreateStackCommand(input));
  } else {
    await client.send(new UpdateStackCommand(input)).catch((error: unknown) => {
      if (!String(error).includes("No updates are to be performed")) throw error;
    });
  }
  const stack = await settled(client, name);
  if (stack.StackStatus !== "CREATE_COMPLETE" && stack.StackStatus !== "UPDATE_COMPLETE") {
    throw new Error(`stack ${name} is ${stack.StackStatus}:\n${await reasons(client, name)}`);
  }
  return Object.fromEntries((stack.Outputs ?? []).map((output) => [output.OutputKey ?? "", output.OutputValue ?? ""]));
}

async function find(client: CloudFormationClient, name: string): Promise<Stack | undefined> {
  try {
    return (await client.send(new DescribeStacksCommand({ StackName: name }))).Stacks?.[0];
  } catch (error) {
    if (String(error).includes("does not exist")) return undefined;
    throw error;
  }
}

async function settled(client: CloudFormationClient, name: string): Promise<Stack> {
  const end = Date.now() + PATIENCE_MS;
  for (;;) {
    const stack = await find(client, name);
    if (stack !== undefined && !stack.StackStatus?.endsWith("_IN_PROGRESS")) return stack;
    if (Date.now() > end) throw new Error(`stack ${name} is ${stack?.StackStatus ?? "missing"} after ${PATIENCE_MS / 1000} s`);
    await sleep(200);
  }
}

async function reasons(client: CloudFormationClient, name: string): Promise<string> {
  const { StackEvents } = await client.send(new DescribeStackEventsCommand({ StackName: name }));
  const failed = (StackEvents ?? []).filter((event) => event.ResourceStatus?.endsWith("FAILED"));
  return failed.map((event) => `  ${event.LogicalResourceId} (${event.ResourceType}): ${event.ResourceStatusReason}`).join("\n");
}
