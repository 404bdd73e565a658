import { useEffect, useState } from "react";
import { attempt, failed } from "../model/store";
import { plural } from "../text/format";
import { Visible } from "../text/Shown";
import { plain } from "../text/visible";
import type { Denial, SandboxChange } from "../wire/denials";
import { ApiError, api } from "../wire/http";
import type { SessionStatus } from "../wire/types";

/**
 * The paths outside of the sandbox of a session that programs in it seem to
 * need. Each is a suggestion: a person allows it, or nothing changes.
 */
export function Denials({
  s,
  version,
  onChange,
}: {
  s: SessionStatus;
  version: number;
  onChange: () => void;
}) {
  const [denials, setDenials] = useState<Denial[]>([]);
  const [said, setSaid] = useState("");
  const enclosed = isEnclosed(s);
  useEffect(() => {
    if (!enclosed) return;
    let over = false;
    api.denials(s.sessionId).then(
      (list) => !over && setDenials(list),
      (e) => !over && !(e instanceof ApiError && e.status === 403) && failed(e), // 403: this login may not allow paths
    );
    return () => {
      over = true;
    };
  }, [enclosed, s.sessionId, s.lastActiveAt, version]);
  if (!enclosed || (denials.length === 0 && !said)) return null;
  const allow = async (d: Denial, place: { sessionId: string } | { projectDir: string }) => {
    let change: SandboxChange | undefined;
    const kind = d.access === "write" ? "sandbox_write" : "sandbox_read";
    const done = await attempt(async () => {
      change = await api.allowInSandbox(kind, d.path, place);
    });
    if (!done) return;
    setSaid(effect(change, s.sessionId));
    onChange();
  };
  return (
    <section aria-label="Outside the sandbox">
      <h3 className="mb-1 text-sm font-semibold">Outside the sandbox</h3>
      {denials.length > 0 && (
        <p className="mb-2 text-xs text-muted">
          {plural(denials.length, "path")} that tools could not reach, as their output says. A program can
          print anything: allow only what you expect.
        </p>
      )}
      <ul className="flex flex-col gap-2">
        {denials.map((d) => (
          <li key={`${d.access} ${d.path}`} className="text-sm">
            <p className="isolate-text">
              {d.access === "write" ? "Write" : "Read"}{" "}
              <code className="font-mono break-words">
                <Visible text={d.path} />
              </code>
              {d.tool && <span className="text-xs text-muted"> by {plain(d.tool, 60)}</span>}
            </p>
            <p className="flex gap-2">
              <button
                type="button"
                className="quiet -ml-1.5"
                onClick={() => allow(d, { sessionId: s.sessionId })}
              >
                Allow in this session
              </button>
              <button type="button" className="quiet" onClick={() => allow(d, { projectDir: s.projectDir })}>
                In this project
              </button>
            </p>
          </li>
        ))}
      </ul>
      <p role="status" className="text-xs text-muted">
        {said}
      </p>
    </section>
  );
}

/** Whether the agent of a session runs in a sandbox. */
export function isEnclosed(s: SessionStatus): boolean {
  const sandbox = s.resolved?.find((o) => o.name === "sandbox")?.value;
  return sandbox === "project" || sandbox === "files";
}

/** When a change of a rule about sandboxes takes effect in a session. */
export function effect(change: SandboxChange | undefined, session: string): string {
  if (change?.nextTurn.includes(session)) return "This takes effect with the next turn.";
  if (change?.stopped.includes(session))
    return "The agent was stopped. The next prompt starts it with this change, and it continues its conversation.";
  return "This takes effect when the agent starts.";
}
