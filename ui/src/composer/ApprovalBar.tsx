import { type ReactNode, useEffect, useRef, useState } from "react";
import { typing } from "../app/hooks";
import { callOf, reached } from "../model/rows";
import { attempt } from "../model/store";
import type { Transcript } from "../model/transcript";
import { Arguments } from "../stream/Arguments";
import { jsonText } from "../text/json";
import { Visible } from "../text/Shown";
import { plain } from "../text/visible";
import { api } from "../wire/http";
import type { Approval, ApprovalEvent, Choice, RuleFields, ToolCall } from "../wire/types";
import { Asked } from "./Asked";
import { asker, choicesFor, inOwnWords, optionsAsChoices, useAnswer } from "./answer";
import { Remember } from "./Remember";

const calm = 500; // ms in which a key or click does not answer, because it may be meant for the previous content

/** The approvals that wait. It shows one at a time, oldest first. */
export function ApprovalBar({
  session,
  waiting,
  transcript,
  dir,
}: {
  session: string;
  waiting: ApprovalEvent[];
  transcript: Transcript;
  dir: string;
}) {
  const first = waiting[0];
  if (!first) return null;
  const turn = transcript.turns.find((t) => t.id === first.turnId);
  return (
    <One
      key={first.approval.id}
      session={session}
      approval={first.approval}
      call={callOf(first, turn)}
      of={waiting.length}
      dir={dir}
    />
  );
}

type Extra = "" | "reason" | "edit" | "why" | "own" | "exact" | "always";

function One({
  session,
  approval: a,
  call,
  of,
  dir,
}: {
  session: string;
  approval: Approval;
  call: ToolCall | undefined;
  of: number;
  dir: string;
}) {
  const [busy, setBusy] = useState(false);
  const [extra, setExtra] = useState<Extra>("");
  const [reason, setReason] = useState("");
  const [edited, setEdited] = useState<string>();
  const ready = useCalm();
  const changed = edited !== undefined && edited !== jsonText(a.arguments);
  const bad = changed && !isJSON(edited);
  const form = useAnswer(a);
  const choices = ordered(a, choicesFor(a, form));
  const quick = a.kind === "question" && !form ? optionsAsChoices(a) : undefined;
  const bar = useRef<HTMLElement>(null);
  const denial = choices.find(denies);
  const once = a.kind === "tool" && !changed ? a.choices.find((c) => c.kind === "allow_once") : undefined;

  const decide = async (c: Choice, updatedArguments: string | undefined, remember?: RuleFields) => {
    if (busy || !ready) return;
    setBusy(true);
    await attempt(() =>
      api.decide(session, a.id, {
        choice: c.id,
        argumentsDigest: a.argumentsDigest,
        reason: denies(c) && reason.trim() ? reason.trim() : undefined,
        updatedArguments,
        remember,
      }),
    );
    setBusy(false);
  };
  const answer = (c: Choice) => {
    if (denies(c)) return decide(c, undefined);
    if (bad || (form && !form.ready)) return;
    if (!form) return decide(c, changed ? edited : undefined);
    const values = form.values();
    if (values !== undefined) return decide(c, values || undefined);
    // Focus the first invalid field after its error is shown.
    requestAnimationFrame(() =>
      bar.current?.querySelector<HTMLElement>("[data-wrong] :is(input, select, textarea, button)")?.focus(),
    );
  };

  useEffect(() => {
    const key = (e: KeyboardEvent) => {
      if (e.ctrlKey || e.metaKey || e.altKey || e.repeat || document.querySelector("dialog[open]")) return;
      if (typing(e)) return; // in a field, a digit is text
      const c = choices[Number(e.key) - 1];
      if (!c) return;
      e.preventDefault();
      void answer(c);
    };
    window.addEventListener("keydown", key);
    return () => window.removeEventListener("keydown", key);
  });

  return (
    <section
      ref={bar}
      aria-label="Approval"
      data-approval-bar={a.id}
      className="flex max-h-[70dvh] min-h-0 narrow:min-h-[50dvh] shrink-0 flex-col border-t-2 border-t-accent bg-raised wide:max-h-[50dvh]"
    >
      <div className="mx-auto w-full max-w-[52rem] px-4 pt-3">
        <h2 className="flex items-baseline gap-2 font-semibold">
          <span className="min-w-0 truncate">{heading(a)}</span>
          {of > 1 && <span className="ml-auto shrink-0 text-sm font-normal text-muted">1 of {of}</span>}
        </h2>
      </div>
      <section className="min-h-0 flex-1 overflow-y-auto" tabIndex={0} aria-label="Request">
        <div className="mx-auto w-full max-w-[52rem] px-4 py-2">
          {extra === "edit" ? (
            <EditArguments value={edited ?? jsonText(a.arguments)} onChange={setEdited} bad={bad} />
          ) : form && extra !== "exact" ? (
            form.body
          ) : form ? (
            <Arguments value={a.arguments} />
          ) : (
            <Asked approval={a} call={call} dir={dir} session={session} />
          )}
          {extra === "why" && (
            <p className="isolate-text mt-2 text-sm text-muted">
              The agent’s reason: <Visible text={a.why ?? ""} />
            </p>
          )}
        </div>
      </section>
      <div className="mx-auto w-full max-w-[52rem] px-4 pt-1 pb-3 narrow:pb-[max(12px,env(safe-area-inset-bottom))]">
        {changed && extra !== "edit" && (
          <p className="mb-2 text-sm text-accent">You edited the {runs(a) ? "command" : "arguments"}.</p>
        )}
        {extra === "reason" && denial && (
          <Reason
            text={reason}
            onText={setReason}
            disabled={busy || !ready}
            onSend={() => decide(denial, undefined)}
          />
        )}
        {extra === "own" && quick?.own && (
          <OwnWords
            disabled={busy || !ready}
            onSend={(text) => decide(quick.own as Choice, inOwnWords(a, quick.field, text))}
          />
        )}
        {extra === "always" && once && (
          <Remember
            session={session}
            approval={a.id}
            dir={dir}
            disabled={busy || !ready}
            onRemember={(rule) => void decide(once, undefined, rule)}
          />
        )}
        <div className="flex flex-wrap gap-2 narrow:grid narrow:grid-cols-2">
          {choices.map((c, i) => (
            <button
              key={c.id}
              type="button"
              className={`button text-left whitespace-normal narrow:text-center ${i === 0 && c.kind === "allow_once" && (form || a.kind !== "question") ? "primary" : ""}`}
              data-choice={c.kind}
              aria-keyshortcuts={i < 9 ? String(i + 1) : undefined}
              disabled={busy || !ready || (!denies(c) && (bad || form?.ready === false))}
              title={plain(c.label)}
              onClick={() => void answer(c)}
            >
              {i < 9 && (
                <kbd aria-hidden className="narrow:hidden">
                  {i + 1}
                </kbd>
              )}
              <span className="isolate-text">{plain(c.label, 1000)}</span>
            </button>
          ))}
          <span className="ml-auto flex flex-wrap narrow:col-span-2 narrow:-mx-1.5 narrow:gap-x-2">
            {a.argumentsEditable && !form && !quick && (
              <Toggle on={extra === "edit"} set={(on) => setExtra(on ? "edit" : "")}>
                {runs(a) ? "Edit the command" : "Edit the arguments"}
              </Toggle>
            )}
            {quick?.own && (
              <Toggle on={extra === "own"} set={(on) => setExtra(on ? "own" : "")}>
                Another answer
              </Toggle>
            )}
            {form && (
              <Toggle on={extra === "exact"} set={(on) => setExtra(on ? "exact" : "")}>
                Show raw
              </Toggle>
            )}
            {once && (
              <Toggle on={extra === "always"} set={(on) => setExtra(on ? "always" : "")}>
                Always allow in this project…
              </Toggle>
            )}
            {denial && (
              <Toggle on={extra === "reason"} set={(on) => setExtra(on ? "reason" : "")}>
                Deny with a reason
              </Toggle>
            )}
            {a.why && (
              <Toggle on={extra === "why"} set={(on) => setExtra(on ? "why" : "")}>
                Why am I asked?
              </Toggle>
            )}
          </span>
        </div>
      </div>
    </section>
  );
}

// useCalm reports whether the question has been visible, with no key pressed,
// for long enough that a key or click can be meant for it.
function useCalm(): boolean {
  const [ready, setReady] = useState(false);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const wait = () => {
      clearTimeout(timer);
      if (document.visibilityState === "visible") timer = setTimeout(end, calm);
    };
    const stop = () => {
      clearTimeout(timer);
      window.removeEventListener("keydown", wait, true);
      document.removeEventListener("visibilitychange", wait);
    };
    const end = () => {
      stop();
      setReady(true);
    };
    window.addEventListener("keydown", wait, true);
    document.addEventListener("visibilitychange", wait);
    wait();
    return stop;
  }, []);
  return ready;
}

function heading(a: Approval) {
  const reach = reached(a);
  if (reach)
    return (
      <>
        Reach <code className="isolate-text font-mono break-all">{plain(reach, 300)}</code>
      </>
    );
  if (a.kind === "plan") return "The agent asks you to accept its plan";
  if (a.kind === "question") return "The agent asks you";
  if (a.kind === "form")
    return <>{a.toolName ? <code className="font-mono">{asker(a.toolName)}</code> : "The agent"} asks you</>;
  const tool = a.toolName && (
    <code className="font-mono font-normal text-muted">{plain(a.toolName, 80)}</code>
  );
  return (
    <>
      {asks(a)} {tool}
    </>
  );
}

// The question depends on the call that would run, and never on the agent's
// description of the call.
function asks(a: Approval): string {
  if (a.changes && a.changes.length > 0)
    return a.changes.length > 1 ? "Make these changes?" : "Make this change?";
  return runs(a) ? "Run this command?" : "Allow this tool call?";
}

function runs({ arguments: args, changes }: Approval): boolean {
  return !changes?.length && typeof args === "object" && args !== null && "command" in args;
}

// The narrowest permission comes first and denials come last, so the first
// button is never the widest. Answers to a question keep their order.
const rank = { allow_once: 0, allow_session: 1, allow_always: 2, deny: 3, deny_stop: 4 };

const ordered = (a: Approval, choices: Choice[]): Choice[] =>
  a.kind === "question" ? choices : [...choices].sort((x, y) => rank[x.kind] - rank[y.kind]);

const denies = (c: Choice) => c.kind === "deny" || c.kind === "deny_stop";

/** The reason of a denial. It also goes with any other button that denies. */
function Reason({
  text,
  onText,
  disabled,
  onSend,
}: {
  text: string;
  onText: (text: string) => void;
  disabled: boolean;
  onSend: () => void;
}) {
  const ready = !disabled && text.trim() !== "";
  return (
    <form
      className="mb-2 flex gap-2 narrow:flex-col"
      onSubmit={(e) => {
        e.preventDefault();
        if (ready) onSend();
      }}
    >
      <input
        className="field min-w-0 flex-1 narrow:flex-none"
        placeholder="Reason, sent to the agent"
        aria-label="Reason for the denial"
        value={text}
        // biome-ignore lint/a11y/noAutofocus: the user asked for this field
        autoFocus
        onChange={(e) => onText(e.target.value)}
      />
      <button type="submit" className="button shrink-0" disabled={!ready}>
        Deny with this reason
      </button>
    </form>
  );
}

function OwnWords({ disabled, onSend }: { disabled: boolean; onSend: (text: string) => void }) {
  const [text, setText] = useState("");
  const ready = !disabled && text.trim() !== "";
  return (
    <form
      className="mb-2 flex gap-2"
      onSubmit={(e) => {
        e.preventDefault();
        if (ready) onSend(text.trim());
      }}
    >
      <input
        className="field"
        placeholder="Your own answer"
        aria-label="Your own answer"
        value={text}
        // biome-ignore lint/a11y/noAutofocus: the user asked for this field
        autoFocus
        onChange={(e) => setText(e.target.value)}
      />
      <button type="submit" className="button primary" disabled={!ready}>
        Answer
      </button>
    </form>
  );
}

function Toggle({ on, set, children }: { on: boolean; set: (on: boolean) => void; children: ReactNode }) {
  return (
    <button
      type="button"
      className={`quiet ${on ? "text-accent" : ""}`}
      aria-pressed={on}
      onClick={() => set(!on)}
    >
      {children}
    </button>
  );
}

function EditArguments({
  value,
  onChange,
  bad,
}: {
  value: string;
  onChange: (v: string) => void;
  bad: boolean;
}) {
  return (
    <>
      <textarea
        className="field mono-block min-h-40"
        aria-label="Arguments as JSON"
        aria-invalid={bad}
        spellCheck={false}
        value={value}
        onChange={(e) => onChange(e.target.value)}
      />
      {bad && <p className="text-sm text-del">This is not JSON yet.</p>}
    </>
  );
}

function isJSON(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
