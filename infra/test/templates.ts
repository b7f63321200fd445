// The sample deployment's templates, synthesized once, and ways to look into them.
import assert from "node:assert/strict";

import { SAMPLE, synthesize, type Template } from "../lib/synth.ts";

export interface Resource {
  readonly Type: string;
  readonly Properties: Record<string, any>;
  readonly DeletionPolicy?: string;
  readonly DependsOn?: string[];
}

export const sample = synthesize(SAMPLE);

export function resources(stack: string, type?: string, templates: Map<string, Template> = sample.templates): Record<string, Resource> {
  const template = templates.get(stack);
  assert.ok(template, `there is a stack ${stack}`);
  const all = template["Resources"] as Record<string, Resource>;
  return Object.fromEntries(Object.entries(all).filter(([, resource]) => type === undefined || resource.Type === type));
}

/** The only resource of its type. */
export function only(stack: string, type: string, templates?: Map<string, Template>): Resource {
  const found = Object.values(resources(stack, type, templates));
  assert.equal(found.length, 1, `${found.length} of ${type} in ${stack}`);
  return found[0] as Resource;
}

/** Every resource of a type in all stacks, with its stack. */
export function everywhere(type: string): { stack: string; id: string; resource: Resource }[] {
  return [...sample.templates.keys()].flatMap((stack) =>
    Object.entries(resources(stack, type)).map(([id, resource]) => ({ stack, id, resource })),
  );
}

/** A value with CloudFormation's functions written as text: `arn:${AWS::Partition}:sqs:…`. */
export function text(value: unknown): string {
  if (typeof value === "string") return value;
  if (typeof value !== "object" || value === null) return String(value);
  const [name, argument] = Object.entries(value as Record<string, any>)[0] ?? [];
  switch (name) {
    case "Ref":
      return `\${${argument}}`;
    case "Fn::Join":
      return (argument[1] as unknown[]).map(text).join(argument[0]);
    case "Fn::GetAtt":
      return `\${${argument.join(".")}}`;
    case "Fn::GetStackOutput":
      return `\${${argument.StackName}/${argument.OutputName}}`;
    default:
      return JSON.stringify(value);
  }
}

export const list = (value: unknown): unknown[] => (value === undefined ? [] : Array.isArray(value) ? value : [value]);

export const arn = (service: string, rest: string): string =>
  `arn:\${AWS::Partition}:${service}:\${AWS::Region}:\${AWS::AccountId}:${rest}`;

export interface Statement {
  readonly Sid?: string;
  readonly Effect: string;
  readonly Action: string | string[];
  readonly Resource: unknown;
  readonly Principal?: any;
  readonly Condition?: any;
}

/** The statements of the policies that hang on one role, by the role's logical id. */
export function statementsOf(stack: string, role: string): Statement[] {
  const policies = Object.values(resources(stack, "AWS::IAM::Policy"));
  const own = policies.filter((policy) => policy.Properties["Roles"].some((ref: any) => ref.Ref === role));
  return own.flatMap((policy) => policy.Properties["PolicyDocument"].Statement as Statement[]);
}

/** "action resource" for each pair that is allowed, sorted. */
export function allowed(statements: Statement[]): string[] {
  const pairs = statements
    .filter((statement) => statement.Effect === "Allow")
    .flatMap((statement) =>
      list(statement.Action).flatMap((action) => list(statement.Resource).map((r) => `${String(action)} ${text(r)}`)),
    );
  return pairs.sort();
}
