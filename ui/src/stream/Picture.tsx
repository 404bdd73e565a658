import { useEffect, useState } from "react";
import { bytes } from "../text/format";
import { plain } from "../text/visible";
import { api } from "../wire/http";
import type { Attachment } from "../wire/types";

/** An attachment of a prompt: an image as itself, anything else by its name. */
export function Attached({ of, session }: { of: Attachment; session: string }) {
  const [missing, setMissing] = useState(false);
  if (of.picture && !missing)
    return <Picture of={of} id={of.picture} session={session} onMissing={() => setMissing(true)} />;
  return (
    <li className="rounded-md border px-2">
      {plain(of.name ?? of.mediaType)} {of.size !== undefined && bytes(of.size)}
    </li>
  );
}

// The height of an image is fixed before it is loaded, so that the rows below
// do not move. The page fetches it with its key and shows it from memory.
function Picture({
  of,
  id,
  session,
  onMissing,
}: {
  of: Attachment;
  id: string;
  session: string;
  onMissing: () => void;
}) {
  const [url, setURL] = useState<string>();
  const [large, setLarge] = useState(false);
  useEffect(() => {
    let made: string | undefined;
    let gone = false;
    api.picture(session, id).then(
      (image) => {
        if (gone) return;
        made = URL.createObjectURL(image);
        setURL(made);
      },
      () => {
        if (!gone) onMissing();
      },
    );
    return () => {
      gone = true;
      if (made) URL.revokeObjectURL(made);
    };
  }, [session, id]);
  const name = plain(of.name ?? "Picture");
  return (
    <li className="max-w-full">
      <button
        type="button"
        aria-expanded={large}
        aria-label={`${name}: ${large ? "show smaller" : "show larger"}`}
        onClick={() => setLarge(!large)}
        className={`block max-w-full rounded-md border ${large ? "" : "h-40 min-w-20"}`}
      >
        {url && (
          <img
            src={url}
            alt={name}
            title={name}
            onError={onMissing}
            className={`max-w-full rounded-md object-contain ${large ? "max-h-[80vh]" : "h-full"}`}
          />
        )}
      </button>
    </li>
  );
}
