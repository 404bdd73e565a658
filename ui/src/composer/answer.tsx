// Answers to approvals that need more than a choice: forms and questions.

import { type ReactNode, useState } from "react";
import {
  answered,
  content,
  defaults,
  type Entered,
  type Field,
  fault,
  formOf,
  nothing,
  questionsOf,
} from "../model/form";
import { Visible } from "../text/Shown";
import { plain } from "../text/visible";
import type { Approval, Choice } from "../wire/types";
import { Fields } from "./Fields";
import { Page } from "./Page";

/** The input that an approval needs before it can be allowed. */
export interface Answer {
  body: ReactNode;
  ready: boolean; // false if the form cannot be answered at all
  /**
   * Returns the values as JSON, or "" if none are needed. Returns undefined if
   * a value is invalid; the error is then shown.
   */
  values(): string | undefined;
}

/** Returns undefined if an approval needs only a choice. */
export function useAnswer(a: Approval): Answer | undefined {
  const [plan] = useState(() => planOf(a));
  const [values, setValues] = useState<ReadonlyMap<string, Entered>>(() =>
    plan?.kind === "fields" ? defaults(a.arguments, plan.fields) : new Map(),
  );
  const [tried, setTried] = useState(false);
  if (!plan) return undefined;
  if (plan.kind === "page")
    return { body: <Page message={plan.message} url={plan.url} link />, ready: true, values: () => "" };
  const { fields, message } = plan;
  const ready = fields.length === 0 || a.argumentsEditable === true;
  return {
    ready,
    body: (
      <div className="flex flex-col gap-4">
        {message && (
          <p className="isolate-text whitespace-pre-wrap">
            <Visible text={message} />
          </p>
        )}
        {ready ? (
          <Fields
            fields={fields}
            values={values}
            tried={tried}
            onChange={(key, e) => setValues((all) => new Map(all).set(key, e))}
          />
        ) : (
          <p className="text-del">This form cannot be answered here, because part of it is not shown.</p>
        )}
        {ready && fields.length > 0 && (
          <p className="text-xs text-muted">
            What you enter is sent to {a.toolName ? asker(a.toolName) : "the agent"} and stored in the history
            of this session.
          </p>
        )}
      </div>
    ),
    values: () => {
      if (fields.some((f) => fault(f, values.get(f.key) ?? nothing))) {
        setTried(true);
        return undefined;
      }
      if (a.kind === "question") return answered(a.arguments, fields, values);
      return a.argumentsEditable ? content(fields, values) : "";
    },
  };
}

/** The name of the asking tool or MCP server, without the "mcp__" prefix. */
export const asker = (toolName: string): string => plain(toolName.replace(/^mcp__(?=.)/, ""), 60);

function planOf(a: Approval) {
  if (a.kind === "form") return formOf(a.arguments);
  if (a.kind !== "question" || !a.argumentsEditable || optionsAsChoices(a)) return undefined;
  const fields = questionsOf(a.arguments);
  return fields.length > 0 ? { kind: "fields" as const, message: "", fields } : undefined;
}

const says = (c: Choice) => c.kind === "allow_once";

const line = (s: string) =>
  s
    .replace(/\p{Cf}/gu, "")
    .replace(/[\s\p{Cc}]+/gu, " ")
    .trim();

/**
 * Whether label is the label of a choice for an option. The server writes the
 * name of the option in one line, and may shorten it.
 */
function isLabelOf(label: string, name: string): boolean {
  const [l, n] = [line(label), line(name)];
  return l === n || (l.endsWith("…") && n.startsWith(l.slice(0, -1)));
}

/**
 * If the options of a single question are also choices of the approval, the
 * user answers with these choices. There may be one more choice, for the user's
 * own words.
 */
export function optionsAsChoices(a: Approval): { field: Field; own?: Choice } | undefined {
  const fields = a.kind === "question" ? questionsOf(a.arguments) : [];
  const field = fields[0];
  const yes = a.choices.filter(says);
  if (fields.length !== 1 || field?.kind !== "one") return undefined;
  if (!field.options.every((o, i) => isLabelOf(yes[i]?.label ?? "", o.name))) return undefined;
  if (yes.length === field.options.length) return { field };
  if (yes.length !== field.options.length + 1) return undefined;
  return { field, own: a.argumentsEditable && field.other ? yes.at(-1) : undefined };
}

/** The answer to a single question in the user's own words. */
export const inOwnWords = (a: Approval, field: Field, text: string): string =>
  answered(a.arguments, [field], new Map([[field.key, { ...nothing, other: true, text }]]));

/**
 * The choices to show. Of several choices that allow a form with values, one is
 * enough.
 */
export function choicesFor(a: Approval, answer: Answer | undefined): Choice[] {
  if (a.kind === "question" && !answer) {
    const own = optionsAsChoices(a)?.own;
    return a.choices.filter((c) => c !== own);
  }
  if (!answer) return a.choices;
  const yes = a.choices.filter(says).at(-1);
  const rest = a.choices.filter((c) => !says(c));
  if (!yes) return rest;
  return [a.kind === "question" ? { ...yes, label: "Answer" } : yes, ...rest];
}
