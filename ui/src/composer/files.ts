import { useCallback, useEffect, useRef, useState } from "react";
import { api } from "../wire/http";

/** A file that goes with the next prompt. */
export interface Attached {
  key: number;
  name: string;
  size: number;
  preview?: string; // address of a picture
  uploadId?: string; // once the server has it
  problem?: string; // why the server does not take it
}

export const accepted = ".png,.jpg,.jpeg,.gif,.webp,.pdf,.txt,.md,.csv"; // the server decides; this is for the picker

let keys = 0;

/** The files of a prompt. Each goes to the server at once, so that a refusal is known before sending. */
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
