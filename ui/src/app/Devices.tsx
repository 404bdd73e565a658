import { useEffect, useId, useState } from "react";
import { openOver } from "../model/over";
import { useStore } from "../model/store";
import { absolute, ago } from "../text/format";
import { plain } from "../text/visible";
import type { Device } from "../wire/devices";
import { api } from "../wire/http";
import { useAdmin } from "./admin";
import { Dialog } from "./Dialog";
import { useNow } from "./hooks";

/** The browsers that are logged in to the page. */
export function Devices({ onClose }: { onClose: () => void }) {
  const [devices, setDevices] = useState<Device[]>();
  const [own, setOwn] = useState<string>();
  const [renaming, setRenaming] = useState<string>();
  const [leaving, setLeaving] = useState(false); // the user wants to log out this browser
  const [problem, setProblem] = useState<string>();
  const link = useStore((s) => s.link);
  const now = useNow(30_000);
  const admin = useAdmin();

  const attempt = async (f: () => Promise<unknown>) => {
    setProblem(undefined);
    try {
      await f();
      setDevices(await api.devices());
    } catch (e) {
      setProblem(e instanceof Error ? e.message : String(e));
    }
  };
  useEffect(() => {
    if (link === "open") void attempt(async () => setOwn(await api.ownDevice()));
  }, [link]);

  return (
    <Dialog title="Devices" onClose={onClose} sheet>
      <p className="mb-3 text-sm text-muted">
        These browsers are logged in. A login ends after 30 days without use. To add a device, run{" "}
        <code className="font-mono">runnel login</code> on the server’s machine.
      </p>
      {admin && (
        <p className="mb-3 -ml-1.5 flex flex-wrap gap-x-2">
          {(
            [
              ["audit", "Open the audit log"],
              ["mcp", "MCP servers of agents"],
              ["retention", "Old sessions"],
            ] as const
          ).map(([over, name]) => (
            <button
              key={over}
              type="button"
              className="quiet text-accent"
              onClick={() => {
                onClose();
                openOver(over);
              }}
            >
              {name}
            </button>
          ))}
        </p>
      )}
      {problem && (
        <p role="alert" className="isolate-text mb-3 text-sm text-del">
          {problem}
        </p>
      )}
      {!devices && !problem && (
        <p role="status" className="text-sm text-muted">
          Loading the devices…
        </p>
      )}
      <ul className="flex flex-col gap-3">
        {devices?.map((d) => (
          <li key={d.id} className="border-t pt-3">
            {renaming === d.id ? (
              <Rename
                device={d}
                onDone={(name) => {
                  setRenaming(undefined);
                  if (name && name !== d.name) void attempt(() => api.renameDevice(d.id, name));
                }}
              />
            ) : (
              <div className="flex items-center gap-2">
                <span className="isolate-text min-w-0 truncate font-medium">{plain(d.name, 100)}</span>
                {d.id === own && <span className="shrink-0 text-sm text-muted">this device</span>}
                <button
                  type="button"
                  className="quiet ml-auto shrink-0"
                  aria-label={`Rename ${plain(d.name, 100)}`}
                  onClick={() => setRenaming(d.id)}
                >
                  Rename
                </button>
                <button
                  type="button"
                  className="quiet shrink-0"
                  aria-label={`Log out ${plain(d.name, 100)}`}
                  aria-expanded={d.id === own ? leaving : undefined}
                  onClick={() =>
                    d.id === own ? setLeaving(!leaving) : void attempt(() => api.revokeDevice(d.id))
                  }
                >
                  Log out
                </button>
              </div>
            )}
            {d.id === own && leaving && (
              <div className="my-1 flex flex-wrap items-center gap-2 text-sm">
                <p className="min-w-48 flex-1">
                  To come back, this browser needs a new link from{" "}
                  <code className="font-mono">runnel login</code>.
                </p>
                <button
                  type="button"
                  className="button danger"
                  onClick={() => void attempt(() => api.revokeDevice(d.id))}
                >
                  Log out this browser
                </button>
              </div>
            )}
            <p className="text-xs text-muted">
              Logged in {absolute(d.createdAt)}, last used{" "}
              <time dateTime={d.lastUsedAt} title={absolute(d.lastUsedAt)}>
                {since(d.lastUsedAt, now)}
              </time>
              {d.expiresAt && `, ends ${absolute(d.expiresAt)}`}
            </p>
          </li>
        ))}
      </ul>
    </Dialog>
  );
}

// "5m ago", "now", or a day.
const since = (iso: string, now: number) => ago(iso, now).replace(/^\d+[a-z]$/, "$& ago");

function Rename({ device, onDone }: { device: Device; onDone: (name: string) => void }) {
  const [name, setName] = useState(device.name);
  const id = useId();
  return (
    <form
      className="flex items-center gap-2"
      onSubmit={(e) => {
        e.preventDefault();
        onDone(name.trim());
      }}
    >
      <label htmlFor={id} className="sr-only">
        Name of the device
      </label>
      <input
        id={id}
        className="field min-w-0 flex-1"
        value={name}
        maxLength={100}
        // biome-ignore lint/a11y/noAutofocus: a person has just pressed Rename
        autoFocus
        onChange={(e) => setName(e.target.value)}
        onKeyDown={(e) => {
          if (e.key !== "Escape") return;
          e.preventDefault(); // the dialog stays open
          onDone("");
        }}
      />
      <button type="submit" className="button shrink-0">
        Save
      </button>
    </form>
  );
}
