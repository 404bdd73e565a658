import { useEffect, useState } from "react";
import { RuleText } from "../app/Rules";
import { failed } from "../model/store";
import { api } from "../wire/http";
import type { RuleFields } from "../wire/types";

/**
 * Offers to allow a call and similar calls from now on. It shows exactly what a
 * rule would allow before the rule is stored.
 */
export function Remember({
  session,
  approval,
  dir,
  disabled,
  onRemember,
}: {
  session: string;
  approval: string;
  dir: string;
  disabled: boolean;
  onRemember: (rule: RuleFields) => void;
}) {
  const [rules, setRules] = useState<RuleFields[]>();
  useEffect(() => {
    let over = false;
    api.suggestedRules(session, approval).then(
      (list) => !over && setRules(list),
      (e) => !over && failed(e),
    );
    return () => {
      over = true;
    };
  }, [session, approval]);
  if (!rules) return null;
  if (rules.length === 0)
    return (
      <p className="mb-2 text-sm text-muted">
        No rule can match exactly this call, so the agent asks you each time. A rule for a command allows one
        simple command, without operators, substitutions or redirections.
      </p>
    );
  return (
    <section className="mb-3 rounded border p-3" aria-label="Always allow">
      <p className="mb-2 text-sm text-muted">Allow in this project from now on, without asking:</p>
      <ul className="flex flex-col gap-2">
        {rules.map((rule) => (
          <li key={`${rule.kind} ${rule.tool} ${rule.pattern}`}>
            <button
              type="button"
              className="button w-full justify-start text-left whitespace-normal"
              data-rule={rule.pattern ?? rule.tool}
              disabled={disabled}
              onClick={() => onRemember(rule)}
            >
              <span>
                Always allow <RuleText rule={rule} dir={dir} />
              </span>
            </button>
          </li>
        ))}
      </ul>
      <p className="mt-2 text-xs text-muted">You can remove rules in the session’s details.</p>
    </section>
  );
}
