import { useState } from "react";
import { begin } from "../model/store";
import { plain } from "../text/visible";
import { Command } from "./Copy";

/** The page for a browser that is not logged in. */
export function Login({ why }: { why?: string }) {
  const [busy, setBusy] = useState(false);
  return (
    <main id="main" className="flex h-full items-center justify-center overflow-y-auto p-6">
      <div className="w-full max-w-sm">
        <img src="icon.svg" alt="" width={32} height={32} />
        <h1 className="mt-4 text-xl font-semibold tracking-tight">This browser is not logged in</h1>
        {why && (
          <p role="alert" className="mt-2 rounded-md bg-panel px-3 py-2">
            {plain(why, 500)}
          </p>
        )}
        <p className="mt-3 text-muted">
          Run this command on the server’s machine and open the link it prints. The link works once and
          expires after one minute.
        </p>
        <p className="mt-3">
          <Command text="runnel login" />
        </p>
        <button
          type="button"
          className="button mt-6"
          disabled={busy}
          onClick={async () => {
            setBusy(true);
            await begin(undefined);
            setBusy(false);
          }}
        >
          Try again
        </button>
      </div>
    </main>
  );
}
