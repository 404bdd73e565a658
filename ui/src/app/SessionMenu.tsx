import { Ellipsis } from "lucide-react";
import { useEffect, useState } from "react";
import { go } from "../model/routes";
import { archive, attempt, learn } from "../model/store";
import { bytes } from "../text/format";
import { plain } from "../text/visible";
import { api, type Deletion, type ExportFormat } from "../wire/http";
import type { SessionStatus } from "../wire/types";
import { Dialog } from "./Dialog";

const formats: Record<ExportFormat, string> = { html: "HTML", md: "Markdown", jsonl: "JSON Lines" };

/** Renames, exports, archives or deletes the session. */
export function SessionMenu({ s }: { s: SessionStatus }) {
  const [open, setOpen] = useState<"menu" | "deletion">();
  const close = () => setOpen(undefined);
  return (
    <>
      <button
        type="button"
        className="quiet narrow:hidden"
        onClick={() => setOpen("menu")}
        aria-label="Rename, export, archive or delete"
        title="Rename, export, archive or delete"
      >
        <Ellipsis size={16} aria-hidden />
      </button>
      {open === "menu" && (
        <Dialog title="Session" onClose={close} sheet>
          <Rename s={s} onDone={close} />
          <h3 className="mt-4 mb-2 text-xs font-medium text-muted">Export</h3>
          <div className="flex flex-wrap gap-2">
            {(Object.keys(formats) as ExportFormat[]).map((f) => (
              <button
                key={f}
                type="button"
                className="button"
                onClick={() => void attempt(() => download(s.sessionId, f))}
              >
                {formats[f]}
              </button>
            ))}
          </div>
          <div className="mt-4 flex justify-end gap-2 border-t pt-4">
            <button
              type="button"
              className="button"
              disabled={!s.archived && s.activity !== "idle"}
              onClick={async () => {
                close();
                await archive(s.sessionId, !s.archived);
              }}
            >
              {s.archived ? "Take out of the archive" : "Archive"}
            </button>
            <button type="button" className="button danger" onClick={() => setOpen("deletion")}>
              Delete…
            </button>
          </div>
        </Dialog>
      )}
      {open === "deletion" && <Delete s={s} onClose={close} />}
    </>
  );
}

function Rename({ s, onDone }: { s: SessionStatus; onDone: () => void }) {
  const [title, setTitle] = useState(s.title);
  return (
    <form
      onSubmit={async (e) => {
        e.preventDefault();
        if (await attempt(async () => learn(await api.rename(s.sessionId, title)))) onDone();
      }}
    >
      <label className="text-xs font-medium text-muted" htmlFor="title">
        Title
      </label>
      <div className="mt-1 flex gap-2">
        <input
          id="title"
          // On a phone, the keyboard would cover the other actions.
          data-focus={matchMedia("(pointer: coarse)").matches ? undefined : true}
          onFocus={(e) => e.target.select()}
          className="field min-w-0 flex-1"
          value={title}
          maxLength={200}
          placeholder="Empty for the agent’s title"
          onChange={(e) => setTitle(e.target.value)}
        />
        <button type="submit" className="button primary">
          Rename
        </button>
      </div>
    </form>
  );
}

function Delete({ s, onClose }: { s: SessionStatus; onClose: () => void }) {
  const [freed, setFreed] = useState<Deletion>();
  useEffect(() => {
    void attempt(async () => setFreed(await api.deletion(s.sessionId)));
  }, [s.sessionId]);
  return (
    <Dialog title="Delete this session?" onClose={onClose}>
      <p>
        This deletes everything that is stored about the session
        {freed ? `, about ${bytes(freed.bytes)}` : ""}
        {s.activity !== "idle" ? ", and ends its turn" : ""}. It cannot be undone.
      </p>
      {freed?.transcript && (
        <p className="mt-2 text-sm text-muted">
          The agent’s own transcript stays:{" "}
          <code className="font-mono break-all">{plain(freed.transcript)}</code>
        </p>
      )}
      {freed?.worktree && (
        <p className="mt-2 text-sm text-muted">
          {freed.worktree.stays
            ? `Its worktree stays. ${plain(freed.worktree.why)} `
            : "Its worktree has no work that is not merged, and is removed with its branch: "}
          <code className="font-mono break-all">{plain(freed.worktree.root)}</code>
        </p>
      )}
      <div className="mt-4 flex justify-end gap-2">
        <button type="button" className="button" onClick={onClose}>
          Cancel
        </button>
        <button
          type="button"
          className="button danger"
          onClick={async () => {
            onClose();
            if (await attempt(() => api.remove(s.sessionId))) go({ at: "home" });
          }}
        >
          Delete session
        </button>
      </div>
    </Dialog>
  );
}

async function download(id: string, format: ExportFormat) {
  const url = URL.createObjectURL(await api.export(id, format));
  const a = document.createElement("a");
  a.href = url;
  a.download = `${id}.${format}`;
  a.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000); // the browser may read it a little later
}
