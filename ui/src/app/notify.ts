// Shows notices while a tab is open, if the person wants that.

import { Changes, noticeOf, waits, wishes, works } from "../model/notices";
import { useStore } from "../model/store";
import { needsYou } from "../sessions/groups";
import type { NoticeKind } from "../worker/messages";
import { closeNotices, showNotice, watched } from "./worker";

const settle = 1500; // ms that a session must stay in its new state; rules answer many approvals at once

/** Follows the sessions until the returned function is called. */
export function followNotices(): () => void {
  const changes = new Changes();
  const finished = new Set<string>(); // since somebody looked at the page

  const announce = (kind: NoticeKind, ids: string[]) => {
    const { sessions } = useStore.getState();
    const state = kind === "finished" ? (id: string) => !works(get(id)) : (id: string) => waits(get(id));
    const get = (id: string) => sessions.get(id) as NonNullable<ReturnType<typeof sessions.get>>;
    const still = ids.filter((id) => sessions.has(id) && state(id));
    if (still.length === 0 || watched()) return;
    if (kind === "finished") for (const id of still) finished.add(id);
    const about =
      kind === "finished"
        ? [...finished].filter((id) => sessions.has(id)).map(get)
        : needsYou(sessions.values());
    void showNotice(noticeOf(kind, about));
  };

  const begun = useStore.getState();
  if (begun.listed) changes.take(begun.sessions.values());
  const unfollow = useStore.subscribe((now, before) => {
    if (!now.listed || now.sessions === before.sessions) return;
    const found = changes.take(now.sessions.values());
    for (const kind of ["needs-you", "finished"] as const) {
      const ids = found[kind].map((s) => s.sessionId);
      if (ids.length > 0 && wanted(kind)) setTimeout(announce, settle, kind, ids);
    }
    if (needsYou(before.sessions.values()).length > 0 && needsYou(now.sessions.values()).length === 0)
      void closeNotices("needs-you");
  });
  const looked = () => {
    finished.clear();
    void closeNotices("finished");
  };
  window.addEventListener("focus", looked);
  return () => {
    unfollow();
    window.removeEventListener("focus", looked);
  };
}

function wanted(kind: NoticeKind): boolean {
  if (!("Notification" in window) || Notification.permission !== "granted") return false;
  const w = wishes();
  return w.tab && w.kinds.includes(kind);
}
