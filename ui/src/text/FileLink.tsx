import { createContext, type ReactNode, useContext } from "react";
import { openFile } from "../model/viewer";
import { type FilePlace, placeOf, placesIn } from "./places";
import { Visible } from "./Shown";

/** The session whose files texts can name; without it, texts have no links to files. */
export const InProject = createContext<{ session: string; dir: string } | undefined>(undefined);

/** Opens a file of the session's folder in the viewer. */
export function FileLink({
  session,
  place,
  children,
}: {
  session: string;
  place: FilePlace;
  children: ReactNode;
}) {
  const at = place.line ? `${place.path}, line ${place.line}` : place.path;
  return (
    <button
      type="button"
      className="file-link"
      title={`Open ${at}`}
      onClick={() => openFile({ session, ...place })}
    >
      {children}
    </button>
  );
}

/** Foreign text whose places in files are links. */
export function LinkedText({ text }: { text: string }) {
  const project = useContext(InProject);
  if (!project) return <Visible text={text} />;
  return placesIn(text, project.dir).map((p, i) =>
    p.place ? (
      <FileLink key={i} session={project.session} place={p.place}>
        <Visible text={p.text} />
      </FileLink>
    ) : (
      <Visible key={i} text={p.text} />
    ),
  );
}

/** A code span, which is a link if it names a file. */
export function CodeSpan({ text }: { text: string }) {
  const project = useContext(InProject);
  const place = project && placeOf(text, project.dir);
  const code = (
    <code>
      <Visible text={text} />
    </code>
  );
  if (!place) return code;
  return (
    <FileLink session={project.session} place={place}>
      {code}
    </FileLink>
  );
}
