import { SlidersHorizontal } from "lucide-react";
import { type ReactNode, useEffect, useId, useRef, useState } from "react";
import { Choose } from "../app/Choose";
import { Dialog } from "../app/Dialog";
import { asOptions, atHand, current, grouped, nameOf, type Setting } from "../model/settings";
import { failed, learn, useStore } from "../model/store";
import { plain } from "../text/visible";
import { ApiError, api } from "../wire/http";
import type { SessionStatus } from "../wire/types";

const settleTime = 2500; // ms after the response in which the agent may still report the new value

type Change =
  | { is: "asked"; wanted: string }
  | { is: "answered"; wanted: string }
  | { is: "refused"; why: string }
  | { is: "kept"; wanted: string }; // the agent has another value than the one requested

/**
 * Changes settings. While a change is pending, it shows the requested value;
 * afterwards, the value that the agent reports.
 */
function useSettings(s: SessionStatus) {
  const agent = useStore((st) => st.agents?.find((a) => a.cliType === s.cliType));
  const settings = current(agent, s);
  const [changes, setChanges] = useState<Readonly<Record<string, Change>>>({});
  const timers = useRef(new Map<string, ReturnType<typeof setTimeout>>());
  useEffect(() => () => timers.current.forEach(clearTimeout), []);
  const latest = useRef(settings);
  latest.current = settings;

  const put = (key: string, c: Change | undefined) =>
    setChanges((all) => {
      const { [key]: _, ...rest } = all;
      return c ? { ...rest, [key]: c } : rest;
    });

  const settle = (key: string, wanted: string) => {
    const now = latest.current.find((x) => x.key === key);
    // Agents may report models and modes under other names than the requested
    // ones, so only other options are compared.
    put(key, now && key.startsWith("config:") && now.value !== wanted ? { is: "kept", wanted } : undefined);
  };

  const change = async (setting: Setting, wanted: string) => {
    const { key } = setting;
    clearTimeout(timers.current.get(key));
    put(key, { is: "asked", wanted });
    try {
      learn(await api.options(s.sessionId, asOptions({ [key]: wanted })));
      put(key, { is: "answered", wanted });
      timers.current.set(
        key,
        setTimeout(() => settle(key, wanted), settleTime),
      );
    } catch (e) {
      if (e instanceof ApiError && e.status === 0) {
        put(key, undefined);
        failed(e); // a general error that is not about this setting
      } else put(key, { is: "refused", why: e instanceof Error ? e.message : String(e) });
    }
  };

  return { settings, changes: visible(settings, changes), change };
}

// Leaves out changes that the server has accepted and whose value the agent
// reports.
function visible(settings: readonly Setting[], changes: Readonly<Record<string, Change>>) {
  const out: Record<string, Change> = {};
  for (const [key, c] of Object.entries(changes)) {
    const now = settings.find((s) => s.key === key);
    if (now && (c.is === "refused" || c.is === "asked" || now.value !== c.wanted)) out[key] = c;
  }
  return out;
}

const isBusy = (c: Change | undefined) => c?.is === "asked" || c?.is === "answered";
const shownOf = (s: Setting, c: Change | undefined) =>
  c?.is === "asked" || c?.is === "answered" ? c.wanted : s.value;

/** The settings of a session. */
export function Pills({ s }: { s: SessionStatus }) {
  const { settings, changes, change } = useSettings(s);
  return (
    <PillRow settings={settings} changes={changes} onChange={change}>
      {!s.isAlive && <p className="text-sm text-muted">Takes effect with your next prompt.</p>}
    </PillRow>
  );
}

/**
 * The main settings in one line; a sheet shows all of them, and more. `none`
 * returns the label of the empty value, if a setting can have it.
 */
export function PillRow({
  settings,
  changes = {},
  onChange,
  none,
  more = false,
  children,
}: {
  settings: readonly Setting[];
  changes?: Readonly<Record<string, Change>>;
  onChange: (s: Setting, wanted: string) => void;
  none?: (s: Setting) => string | undefined;
  more?: boolean; // the children are settings, too
  children?: ReactNode; // of the sheet
}) {
  const [open, setOpen] = useState(false);
  if (settings.length === 0 && !more) return null;
  const near = atHand(settings);
  const named = near.find((x) => nameOf(x) !== ""); // shown on a phone
  const refused = near.map((x) => changes[x.key]).find((c) => c?.is === "refused");
  return (
    <>
      <span className="contents narrow:hidden">
        {near.map((x) => (
          <Choose
            key={x.key}
            label={plain(x.name, 60)}
            value={shownOf(x, changes[x.key])}
            choices={x.choices}
            none={none?.(x)}
            busy={isBusy(changes[x.key])}
            className={`quiet field-sizing-content max-w-56 appearance-none truncate pr-5 ${isBusy(changes[x.key]) ? "progress" : ""}`}
            onChange={(v) => onChange(x, v)}
          />
        ))}
      </span>
      <button
        type="button"
        className={`quiet min-w-0 ${near.length === settings.length && !refused && !more ? "wide:hidden" : ""}`}
        onClick={() => setOpen(true)}
        aria-haspopup="dialog"
        aria-label={named ? `Settings: ${plain(nameOf(named), 40)}` : "Settings"}
        title="Agent settings"
      >
        <SlidersHorizontal size={15} aria-hidden className="shrink-0" />
        <span className="min-w-0 max-w-36 truncate wide:hidden">{named && plain(nameOf(named), 40)}</span>
      </button>
      {refused?.is === "refused" && !open && (
        <span role="alert" className="min-w-0 truncate text-sm text-del" title={plain(refused.why, 500)}>
          {plain(refused.why, 200)}
        </span>
      )}
      {open && (
        <Dialog title="Settings" onClose={() => setOpen(false)} sheet>
          <Sheet settings={settings} changes={changes} onChange={onChange} none={none}>
            {children}
          </Sheet>
        </Dialog>
      )}
    </>
  );
}

function Sheet({
  settings,
  changes,
  onChange,
  none,
  children,
}: {
  settings: readonly Setting[];
  changes: Readonly<Record<string, Change>>;
  onChange: (s: Setting, wanted: string) => void;
  none?: (s: Setting) => string | undefined;
  children?: ReactNode;
}) {
  return (
    <div className="flex flex-col gap-5">
      {grouped(settings).map((g) => (
        <div key={g.title}>
          {(g.settings.length > 1 || g.title === "More") && (
            <h3 className="mb-2 text-xs font-medium text-muted">{plain(g.title, 60)}</h3>
          )}
          <div className="flex flex-col gap-3">
            {g.settings.map((x) => (
              <Field
                key={x.key}
                setting={x}
                change={changes[x.key]}
                none={none?.(x)}
                onChange={(v) => onChange(x, v)}
              />
            ))}
          </div>
        </div>
      ))}
      {children}
    </div>
  );
}

function Field({
  setting: s,
  change: c,
  none,
  onChange,
}: {
  setting: Setting;
  change: Change | undefined;
  none?: string;
  onChange: (value: string) => void;
}) {
  const busy = isBusy(c);
  const id = useId();
  return (
    <div data-setting={s.key} aria-busy={busy}>
      <SettingField setting={s} value={shownOf(s, c)} onChange={onChange} none={none} busy={busy} id={id} />
      <p role="status" className="text-sm text-muted">
        {busy && "Applying…"}
        {c?.is === "kept" && `The agent kept ${plain(nameOf(s), 80) || "its own value"}.`}
      </p>
      {c?.is === "refused" && (
        <p role="alert" className="isolate-text text-sm text-del">
          {plain(c.why, 1000)}
        </p>
      )}
    </div>
  );
}

/** A setting with its label and description, for a session or a new one. */
export function SettingField({
  setting: s,
  value,
  onChange,
  none,
  busy,
  id,
}: {
  setting: Setting;
  value: string;
  onChange: (value: string) => void;
  none?: string;
  busy?: boolean;
  id: string;
}) {
  const said = s.choices.find((c) => c.value === value)?.description ?? s.description;
  const about = said ? `${id}about` : undefined;
  const text = said && (
    <p id={about} className="isolate-text mt-0.5 text-sm text-muted">
      {plain(said, 300)}
    </p>
  );
  if (s.type === "boolean")
    return (
      <div className="text-sm">
        <label className="flex min-h-9 cursor-pointer items-center gap-3 [@media(pointer:coarse)]:min-h-11">
          <span className="isolate-text min-w-0">{plain(s.name, 80)}</span>
          <input
            type="checkbox"
            role="switch"
            aria-checked={value === "true"}
            className="switch ml-auto"
            aria-describedby={about}
            checked={value === "true"}
            onChange={(e) => onChange(String(e.target.checked))}
          />
        </label>
        {text}
      </div>
    );
  return (
    <div className="text-sm">
      <label htmlFor={id} className="mb-1 block text-muted">
        {plain(s.name, 80)}
      </label>
      <Choose
        id={id}
        label={plain(s.name, 80)}
        value={value}
        choices={s.choices}
        onChange={onChange}
        none={none}
        busy={busy}
        describedBy={about}
      />
      {text}
    </div>
  );
}
