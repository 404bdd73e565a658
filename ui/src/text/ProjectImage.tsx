import { useEffect, useRef, useState } from "react";
import { openFile } from "../model/viewer";
import { withoutField } from "../wire/error";
import { ApiError, api } from "../wire/http";
import { Visible } from "./Shown";
import { plain } from "./visible";

const near = "600px"; // distance from the visible part at which an image is loaded

/**
 * An image of the session's folder. The page requests it with its login once it
 * is near the visible part, and shows it from memory.
 */
export function ProjectImage({
  session,
  path,
  alt,
  large,
}: {
  session: string;
  path: string;
  alt: string;
  large?: boolean; // in the viewer
}) {
  const place = useRef<HTMLSpanElement>(null);
  const [wanted, setWanted] = useState(false);
  const [url, setUrl] = useState<string>();
  const [problem, setProblem] = useState<string>();
  useEffect(() => {
    if (!place.current) return;
    const seen = new IntersectionObserver((all) => all.some((e) => e.isIntersecting) && setWanted(true), {
      rootMargin: near,
    });
    seen.observe(place.current);
    return () => seen.disconnect();
  }, []);
  useEffect(() => {
    if (!wanted) return;
    let url: string | undefined;
    let over = false;
    api.image(session, path).then(
      (blob) => {
        if (over) return;
        url = URL.createObjectURL(blob);
        setUrl(url);
      },
      (e) => !over && setProblem(reason(e)),
    );
    return () => {
      over = true;
      if (url) URL.revokeObjectURL(url);
      setUrl(undefined);
      setProblem(undefined);
    };
  }, [wanted, session, path]);
  const name = plain(alt) || plain(path);
  if (problem)
    return (
      <span>
        image: {name}{" "}
        <span className="text-muted">
          (<Visible text={path} />: {problem})
        </span>
      </span>
    );
  const image = url && <img src={url} alt={name} onError={() => setProblem("The file is damaged.")} />;
  return (
    <span ref={place} className={large ? "project-image large" : "project-image"}>
      {image ? (
        large ? (
          image
        ) : (
          <button type="button" title={`Open ${plain(path)}`} onClick={() => openFile({ session, path })}>
            {image}
          </button>
        )
      ) : (
        <span className="shape project-image-shape" role="img" aria-label={`${name}, loading`} />
      )}
    </span>
  );
}

/** The message of an error of the file service, without the name of the parameter. */
export function reason(e: unknown): string {
  if (!(e instanceof ApiError)) return "The file could not be loaded.";
  const text = plain(withoutField(e.message, "path"), 500);
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;
}
