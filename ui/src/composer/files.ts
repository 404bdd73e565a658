import { useCallback, useEffect, useRef, useState } from "react";
import { api } from "../wire/http";

/** A file attached to the next prompt. */
export interface Attached {
  key: number;
  name: string;
  size: number;
  preview?: string; // URL of an image preview
  uploadId?: string; // set once the upload has finished
  problem?: string; // why the upload failed
}

export const accepted = ".png,.jpg,.jpeg,.gif,.webp,.pdf,.txt,.md,.csv"; // types for the file picker; the server decides which are accepted

let keys = 0;

/**
 * The files of a prompt. Each is uploaded at once, so that an error shows
 * before the prompt is sent.
 */
export function useFiles() {
  const [files, setFiles] = useState<Attached[]>([]);
  const now = useRef(files);
  now.current = files;

  const add = useCallback((list: Iterable<File>) => {
    for (const file of list) {
      const key = ++keys;
      const preview = file.type.startsWith("image/") ? URL.createObjectURL(file) : undefined;
      setFiles((fs) => [...fs, { key, name: file.name, size: file.size, preview }]);
      const settle = (change: Partial<Attached>) =>
        setFiles((fs) => fs.map((f) => (f.key === key ? { ...f, ...change } : f)));
      api.upload(file).then(
        (uploadId) => settle({ uploadId }),
        (e: Error) => settle({ problem: e.message }),
      );
    }
  }, []);

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

  return { files, add, remove };
}
