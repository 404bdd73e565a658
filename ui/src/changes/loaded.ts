import { useCallback, useEffect, useRef, useState } from "react";
import { ApiError } from "../wire/error";

/** Something from the server that is loaded again when it may have changed. */
export interface Loaded<T> {
  value?: T; // the last one that was loaded
  error?: string; // why the last load failed
  loading: boolean;
  reload: () => Promise<void>;
  put: (value: T) => void; // stores a newer value from another response
}

/**
 * Loads a value, and loads it again whenever `version` changes or `load` is
 * another function. While a load runs, at most one more waits.
 */
export function useLoaded<T>(load: () => Promise<T>, version: unknown = 0): Loaded<T> {
  const [state, setState] = useState<{ value?: T; error?: string; loading: boolean }>({ loading: true });
  const latest = useRef(load);
  const running = useRef<Promise<void>>(undefined);
  const next = useRef<Promise<void>>(undefined);
  const newer = useRef(0); // counts the values that were put, each newer than a load that runs
  const reload = useCallback((): Promise<void> => {
    const run = async () => {
      const mine = latest.current;
      const before = newer.current;
      const stale = () => mine !== latest.current || before !== newer.current;
      setState((s) => ({ ...s, loading: true }));
      try {
        const value = await mine();
        if (!stale()) setState({ value, loading: false });
      } catch (e) {
        const error = e instanceof ApiError ? e.message : String(e);
        if (!stale()) setState((s) => ({ ...s, error, loading: false }));
      }
      running.current = undefined;
    };
    if (!running.current) {
      running.current = run();
      return running.current;
    }
    next.current ??= running.current.then(() => {
      next.current = undefined;
      running.current = run();
      return running.current;
    });
    return next.current;
  }, []);
  useEffect(() => {
    latest.current = load;
    void reload();
  }, [load, version, reload]);
  const put = useCallback((value: T) => {
    newer.current++;
    setState({ value, loading: false });
  }, []);
  return { ...state, reload, put };
}
