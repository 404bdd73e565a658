import { type ReactNode, useEffect, useId, useState } from "react";
import { wish, wishes } from "../model/notices";
import { useStore } from "../model/store";
import type { PushState } from "../wire/push";
import type { NoticeKind } from "../worker/messages";
import { Dialog } from "./Dialog";
import { hasPush, pushService, subscribe, syncPush, unsubscribe } from "./push";

const kinds: Record<NoticeKind, string> = {
  "needs-you": "A session needs you",
  finished: "A session has finished",
};

/** How this browser tells a person that a session needs them, or has finished. */
export function Notifications({ onClose }: { onClose: () => void }) {
  const [permission, setPermission] = useState(permissionNow);
  const [tab, setTab] = useState(wishes().tab);
  const [chosen, setChosen] = useState(wishes().kinds);
  const [push, setPush] = useState<PushState>();
  const [service, setService] = useState<string>();
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<string>();
  const link = useStore((s) => s.link);

  const attempt = async (f: () => Promise<PushState>) => {
    setBusy(true);
    setProblem(undefined);
    try {
      setPush(await f());
      setService(await pushService());
    } catch (e) {
      setProblem(e instanceof Error ? e.message : String(e));
    }
    setBusy(false);
  };
  useEffect(() => {
    if (hasPush() && link === "open") void attempt(syncPush);
  }, [link]);
  useEffect(() => followPermission(setPermission), []);

  // Browsers ask a person only after a click.
  const permitted = async () => {
    if (permissionNow() === "default") await Notification.requestPermission();
    setPermission(permissionNow());
    return permissionNow() === "granted";
  };
  const byTab = async (on: boolean) => {
    if (on && !(await permitted())) return;
    wish({ tab: on });
    setTab(on);
  };
  const byPush = async (on: boolean) => {
    if (on && !(await permitted())) return;
    await attempt(on ? () => subscribe(chosen) : unsubscribe);
  };
  const choose = async (kind: NoticeKind, on: boolean) => {
    const next = (Object.keys(kinds) as NoticeKind[]).filter((k) => (k === kind ? on : chosen.includes(k)));
    wish({ kinds: next });
    setChosen(next);
    if (push && push.kinds.length > 0) await attempt(() => subscribe(next));
  };

  const subscribed = (push?.kinds.length ?? 0) > 0;
  const blocked = permission === "denied";
  return (
    <Dialog title="Notifications" onClose={onClose} sheet>
      {blocked && (
        <p role="status" className="mb-4 rounded-md bg-mark-bg px-3 py-2 text-mark">
          This browser blocks notifications of this page. Allow them in the browser’s settings for this site.
        </p>
      )}
      <Switch
        label="While a tab is open"
        on={tab && permission === "granted"}
        disabled={permission === "unsupported" || blocked}
        onChange={byTab}
      >
        {permission === "unsupported"
          ? "This browser cannot show notifications here. The page needs https, or an address on this machine."
          : "An open tab shows a notification with the session’s title, unless you look at the page."}
      </Switch>
      <Switch
        label="Also when no tab is open"
        on={subscribed && permission === "granted"}
        disabled={blocked || busy || permission === "unsupported" || !hasPush() || !push?.publicKey}
        onChange={byPush}
      >
        {permission === "unsupported" || !hasPush()
          ? "This browser receives no Web Push here. On an iPhone or iPad, add the page to the home screen first."
          : push && !push.publicKey
            ? "The server does not send any: its setting push is off."
            : `The server sends a message through the push service of this browser’s maker${service ? ` (${service})` : ""}. It is encrypted, and says only that a session needs you or has finished.`}
      </Switch>
      {problem && (
        <p role="alert" className="isolate-text mb-4 text-sm text-del">
          {problem}
        </p>
      )}
      <fieldset className="border-t pt-4">
        <legend className="sr-only">What to notify about</legend>
        {(Object.keys(kinds) as NoticeKind[]).map((k) => {
          const last = chosen.length === 1 && chosen[0] === k;
          return (
            <label key={k} className="flex min-h-9 items-center gap-3 [@media(pointer:coarse)]:min-h-11">
              <input
                type="checkbox"
                checked={chosen.includes(k)}
                disabled={last || busy}
                onChange={(e) => void choose(k, e.target.checked)}
              />
              {kinds[k]}
            </label>
          );
        })}
      </fieldset>
    </Dialog>
  );
}

type Permission = NotificationPermission | "unsupported";

function permissionNow(): Permission {
  return "Notification" in window && window.isSecureContext ? Notification.permission : "unsupported";
}

// followPermission calls set whenever the person changes the permission in the
// browser's settings.
function followPermission(set: (p: Permission) => void): () => void {
  let status: PermissionStatus | undefined;
  const changed = () => set(permissionNow());
  void navigator.permissions
    ?.query({ name: "notifications" })
    .then((s) => {
      status = s;
      status.addEventListener("change", changed);
    })
    .catch(() => {});
  return () => status?.removeEventListener("change", changed);
}

function Switch({
  label,
  on,
  disabled,
  onChange,
  children,
}: {
  label: string;
  on: boolean;
  disabled: boolean;
  onChange: (on: boolean) => Promise<void>;
  children: ReactNode;
}) {
  const id = useId();
  return (
    <div className="mb-4">
      <label className="flex min-h-9 items-center justify-between gap-3 font-medium [@media(pointer:coarse)]:min-h-11">
        {label}
        <input
          type="checkbox"
          role="switch"
          aria-checked={on}
          className="switch"
          checked={on}
          disabled={disabled}
          aria-describedby={id}
          onChange={(e) => void onChange(e.target.checked)}
        />
      </label>
      <p id={id} className="text-sm text-muted">
        {children}
      </p>
    </div>
  );
}
