import { useEffect, useRef, useState } from "react";
import { attempt, failed } from "../model/store";
import { absolute, plural } from "../text/format";
import { Visible } from "../text/Shown";
import { plain } from "../text/visible";
import { api } from "../wire/http";
import type { Rule, RuleFields, SessionStatus } from "../wire/types";

/**
 * The stored rules that may decide approvals of this session, or let its sandbox
 * reach paths. version changes when another part of the page has stored a rule.
 */
export function Rules({
  s,
  version = 0,
  onChange,
}: {
  s: SessionStatus;
  version?: number;
  onChange?: () => void;
}) {
  const [rules, setRules] = useState<Rule[]>();
  const [removed, setRemoved] = useState(0);
  const buttons = useRef<HTMLUListElement>(null);
  useEffect(() => {
    let over = false;
    api.rules().then(
      (list) => !over && setRules(list),
      (e) => !over && failed(e),
    );
    return () => {
      over = true;
    };
  }, [removed, version, s.pendingApprovals.length]);
  const own = rules?.filter((r) => isFor(r, s)) ?? [];
  const left = useRef<number>(undefined); // index of the removed rule, whose button had the focus
  useEffect(() => {
    if (left.current === undefined || rules === undefined) return;
    const all = buttons.current?.querySelectorAll("button") ?? [];
    if (document.activeElement === document.body) all[Math.min(left.current, all.length - 1)]?.focus();
    left.current = undefined;
  }, [rules]);
  if (own.length === 0) return null;
  return (
    <section>
      <h3 className="mb-1 text-sm font-semibold">Rules</h3>
      <ul ref={buttons} className="flex flex-col gap-2">
        {own.map((r, i) => (
          <li key={r.id} className="text-sm">
            <p>
              {r.effect === "deny" ? "Deny" : "Allow"} <RuleText rule={r} dir={s.projectDir} />
            </p>
            <p className="flex items-center gap-2 text-xs text-muted">
              <span className="min-w-0">
                Rule {r.id}
                {r.by && `, created by ${plain(r.by, 60)}`} on {absolute(r.createdAt)}
                {isSandbox(r)
                  ? r.sessionId
                    ? ", for this session"
                    : ""
                  : `, used ${plural(r.uses, "time")}`}
              </span>
              <button
                type="button"
                className="quiet -mr-1.5 ml-auto shrink-0"
                aria-label={`Remove rule ${r.id}`}
                onClick={async () => {
                  if (await attempt(() => api.removeRule(r.id))) left.current = i;
                  setRemoved((n) => n + 1);
                  onChange?.();
                }}
              >
                Remove
              </button>
            </p>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** The exact content of a rule. */
export function RuleText({ rule, dir }: { rule: RuleFields; dir: string }) {
  const what = {
    execute: "",
    edit: "changes to ",
    read: "reads of ",
    fetch: "requests to ",
    connect: "connections to ",
    tool: "calls of ",
    sandbox_read: "the sandbox to read ",
    sandbox_write: "the sandbox to read and write ",
  };
  const pattern = rule.pattern ?? "";
  if ((rule.kind === "edit" || rule.kind === "read") && pattern === dir)
    return <>{what[rule.kind]}everything in this project</>;
  return (
    <span className="isolate-text">
      {what[rule.kind]}
      {rule.tool && rule.kind !== "tool" && `${plain(rule.tool, 80)} `}
      <code className="font-mono break-words">
        <Visible text={rule.kind === "tool" ? (rule.tool ?? "") : pattern} />
      </code>
      {rule.kind === "execute" && pattern.endsWith(" *") && " with any arguments"}
    </span>
  );
}

/** Whether a rule is about paths of sandboxes, and decides no calls. */
function isSandbox(r: RuleFields): boolean {
  return r.kind === "sandbox_read" || r.kind === "sandbox_write";
}

function isFor(r: Rule, s: SessionStatus): boolean {
  if (r.sessionId && r.sessionId !== s.sessionId) return false;
  if (r.cliType && r.cliType !== s.cliType) return false;
  return !r.projectDir || s.projectDir === r.projectDir || s.projectDir.startsWith(`${r.projectDir}/`);
}
