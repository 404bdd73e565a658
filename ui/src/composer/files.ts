import { useCallback, useEffect, useRef, useState } from "react";
import { load, save } from "../model/keep";
import { api } from "../wire/http";

/** A file attached to the next prompt. */
export interface Attached {
  key: number;
  name: string;
  size: number;
  preview?: string; // URL of an image preview
  pasted?: string; // the text, if the file was made of a pasted text
  uploadId?: string; // set once the upload has finished
  problem?: string; // why the file is not attached
}

export interface Attachments {
  files: Attached[];
  add: (list: Iterable<File>, pasted?: string) => void;
  /** Shows why a file is not attached. */
  refuse: (name: string, problem: string) => void;
  remove: (key: number) => void;
}

const most = 20; // files of one prompt

let keys = 0;

interface Kept {
  name: string;
  size: number;
  uploadId: string;
}

/**
 * The files of a draft. Each is uploaded at once, so that an error shows before
 * the prompt is sent. Uploaded files survive a reload, as the draft does; the
 * server keeps uploads for a day.
 */
export function useFiles(draft: string): Attachments {
  const [files, setFiles] = useState<Attached[]>(() =>
    load<Kept[]>(`files.${draft}`, []).map((f) => ({ ...f, key: ++keys })),
  );
  const now = useRef(files);
  now.current = files;

  useEffect(() => {
    const kept = files.flatMap(({ name, size, uploadId }) => (uploadId ? [{ name, size, uploadId }] : []));
    save(`files.${draft}`, kept.length > 0 ? kept : undefined);
  }, [draft, files]);

  const refuse = useCallback((name: string, problem: string) => {
    setFiles((fs) => [...fs, { key: ++keys, name, size: 0, problem }]);
  }, []);

  const add = useCallback(
    (list: Iterable<File>, pasted?: string) => {
      let room = most - now.current.filter((f) => !f.problem).length;
      for (const file of list) {
        if (room-- <= 0) {
          refuse(file.name, `A prompt can have at most ${most} files.`);
          break;
        }
        const key = ++keys;
        const preview = file.type.startsWith("image/") ? URL.createObjectURL(file) : undefined;
        setFiles((fs) => [...fs, { key, name: file.name, size: file.size, preview, pasted }]);
        const settle = (change: Partial<Attached>) =>
          setFiles((fs) => fs.map((f) => (f.key === key ? { ...f, ...change } : f)));
        api.upload(file).then(
          (uploadId) => settle({ uploadId }),
          (e: Error) => settle({ problem: e.message }),
        );
      }
    },
    [refuse],
  );

  const remove = useCallback((key: number) => {
    const gone = now.current.find((f) => f.key === key);
    if (gone?.preview) URL.revokeObjectURL(gone.preview);
    setFiles((fs) => fs.filter((f) => f.key !== key));
  }, []);

  useEffect(
    () => () => {
      for (const f of now.current) if (f.preview) URL.revokeObjectURL(f.preview);
    },
    [],
  );

  return { files, add, refuse, remove };
}

const longText = 4000; // characters
const manyLines = 80;

/** Whether a pasted text is so long that it becomes a file. */
export function isLong(text: string): boolean {
  return text.length > longText || text.split("\n", manyLines + 1).length > manyLines;
}

/** A file with a pasted text. */
export const textFile = (text: string) => new File([text], "pasted.txt", { type: "text/plain" });

/**
 * The files to attach of what was pasted or dropped. Office programs and
 * spreadsheets offer a picture of the text beside the text; then the text
 * counts.
 */
export function filesIn(data: DataTransfer): File[] {
  const files = [...data.files];
  const rich = data.types.includes("text/html") || data.types.includes("text/rtf");
  const text = data.getData("text/plain").trim();
  return rich && text !== "" && files.every((f) => f.type.startsWith("image/")) ? [] : files;
}

/** The names of dropped folders, which have no content of their own. */
export function foldersIn(data: DataTransfer): string[] {
  return [...data.items].flatMap((i) => {
    const entry = i.kind === "file" ? i.webkitGetAsEntry?.() : undefined;
    return entry?.isDirectory ? [entry.name] : [];
  });
}

/** Attaches dropped files, and says why folders are not attached. */
export function addDropped(data: DataTransfer, to: Attachments) {
  const folders = foldersIn(data);
  for (const name of folders)
    to.refuse(name, "A folder cannot be attached. Attach its files, or name it after an @.");
  to.add([...data.files].filter((f) => !folders.includes(f.name)));
}

/**
 * Attaches files that are dropped anywhere on the page. Returns whether files
 * are being dragged over it.
 */
export function useDrop(to: Attachments): boolean {
  const [over, setOver] = useState(false);
  const target = useRef(to);
  target.current = to;
  useEffect(() => {
    const hasFiles = (e: DragEvent) => e.dataTransfer?.types.includes("Files") === true;
    const drag = (e: DragEvent) => {
      if (!hasFiles(e) || document.querySelector("dialog[open]")) return;
      e.preventDefault(); // else the browser would open the file
      setOver(true);
    };
    const leave = (e: DragEvent) => {
      if (e.relatedTarget === null) setOver(false); // left the window
    };
    const drop = (e: DragEvent) => {
      setOver(false);
      if (!e.dataTransfer || !hasFiles(e)) return;
      e.preventDefault();
      if (!document.querySelector("dialog[open]")) addDropped(e.dataTransfer, target.current);
    };
    window.addEventListener("dragenter", drag);
    window.addEventListener("dragover", drag);
    window.addEventListener("dragleave", leave);
    window.addEventListener("drop", drop);
    return () => {
      window.removeEventListener("dragenter", drag);
      window.removeEventListener("dragover", drag);
      window.removeEventListener("dragleave", leave);
      window.removeEventListener("drop", drop);
    };
  }, []);
  return over;
}
