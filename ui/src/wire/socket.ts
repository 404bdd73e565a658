// The only WebSocket of a tab. It reconnects by itself, and every session that
// it watches resumes from its last position.

import { ApiError } from "./error";
import { login } from "./key";
import { parseFrame } from "./parse";
import type { Frame } from "./types";

/**
 * Foreign: the program at the server's address did not prove that it is the
 * server.
 */
export type LinkStatus = "connecting" | "open" | "waiting" | "foreign" | "refused";

export interface Position {
  after?: number;
  logId?: string;
  limit?: number; // about how many of the newest entries to get, if the history starts at its beginning
}

export interface LinkEvents {
  /** Called with the frames that arrived since the last call, in order. */
  frames(frames: Frame[]): void;
  status(status: LinkStatus): void;
  /**
   * The position and the log from which to resume a session, if any of it was
   * received, and how much of it to get otherwise.
   */
  after(sessionId: string): Position;
  /**
   * Fails with an ApiError unless the server proves its identity. Returns
   * undefined if no proof is needed.
   */
  proof(): Promise<void> | undefined;
  /** Resolves to false if the server does not accept this browser's login. */
  admitted(): Promise<boolean>;
}

/** What the link needs from its environment; tests replace it. */
export interface World {
  open(url: string, protocol: string): WebSocket;
  later(f: () => void, ms: number): number;
  forget(id: number): void;
  random(): number;
  /** Calls f before the next rendering, or soon if nothing is rendered. */
  soon(f: () => void): void;
}

export const browser: World = {
  open: (url, protocol) => {
    const key = login()?.key; // a page cannot set headers of a WebSocket
    return new WebSocket(url, key ? [protocol, `runnel.key.${key}`] : [protocol]);
  },
  later: (f, ms) => window.setTimeout(f, ms),
  forget: (id) => window.clearTimeout(id),
  random: Math.random,
  soon: (f) => {
    // A hidden tab renders nothing, so a timer ensures that frames do not pile
    // up.
    let done = false;
    const once = () => {
      if (!done) f();
      done = true;
    };
    requestAnimationFrame(once);
    window.setTimeout(once, 100);
  },
};

const firstWait = 250; // ms
const longestWait = 10_000;

export class Link {
  private socket: WebSocket | undefined;
  private watched = new Set<string>();
  private listening = false;
  private queue: Frame[] = [];
  private drawing = false;
  private proving: Promise<void> | undefined;
  private attempts = 0;
  private timer: number | undefined;
  private closed = false;

  constructor(
    private readonly url: string,
    private readonly on: LinkEvents,
    private readonly world: World = browser,
  ) {}

  start() {
    this.closed = false;
    this.connect();
  }

  stop() {
    this.closed = true;
    this.drop();
  }

  watch(sessionId: string) {
    if (this.watched.has(sessionId)) return;
    this.watched.add(sessionId);
    if (this.ready()) this.subscribe(sessionId);
  }

  unwatch(sessionId: string) {
    if (this.watched.delete(sessionId) && this.ready()) this.say({ type: "session:unsubscribe", sessionId });
  }

  /** Asks for a frame after each change of the list of stored conversations. */
  listen() {
    if (this.listening) return;
    this.listening = true;
    if (this.ready()) this.say({ type: "conversations:subscribe" });
  }

  /** Connects at once, after the machine woke up or the network returned. */
  wake(fresh: boolean) {
    if (this.closed) return;
    if (fresh || !this.socket) {
      this.attempts = 0;
      this.drop();
      this.connect();
    }
  }

  private ready() {
    return this.socket?.readyState === 1; // OPEN
  }

  private connect() {
    if (this.closed || this.socket || this.proving) return;
    const proof = this.on.proof();
    if (!proof) return this.open();
    this.proving = proof;
    const mine = () => {
      if (this.proving !== proof) return false;
      this.proving = undefined;
      return true;
    };
    proof.then(
      () => mine() && this.open(),
      (e: unknown) => mine() && this.unproven(e),
    );
  }

  private unproven(e: unknown) {
    if (e instanceof ApiError && e.status === 401) return this.refuse();
    this.on.status(e instanceof ApiError && e.type === "SERVER_NOT_PROVEN" ? "foreign" : "waiting");
    this.retry();
  }

  private open() {
    this.on.status("connecting");
    let opened = false;
    const socket = this.world.open(this.url, "runnel.v1");
    this.socket = socket;
    const mine = () => this.socket === socket;
    socket.onopen = () => {
      if (!mine()) return;
      opened = true;
      this.say({ type: "session:hello", streamProtocol: "upsert-v1", append: true });
      this.say({ type: "sessions:subscribe" });
      if (this.listening) this.say({ type: "conversations:subscribe" });
      for (const id of this.watched) this.subscribe(id);
    };
    socket.onmessage = (m) => {
      if (!mine() || typeof m.data !== "string") return;
      const frame = parseFrame(m.data);
      if (!frame) return;
      if (frame.type === "session:hello:ack") {
        this.attempts = 0;
        this.on.status("open");
      } else this.push(frame);
    };
    socket.onclose = (e) => {
      if (!mine()) return;
      this.socket = undefined;
      this.flush(); // so that we resume after everything that was received
      void this.again(opened, e.code);
    };
  }

  private async again(opened: boolean, code: number) {
    this.on.status("waiting");
    // A browser does not report why an upgrade was rejected; a request over
    // HTTP does.
    if ((!opened || code === 4401) && !(await this.on.admitted())) return this.refuse();
    this.retry();
  }

  private refuse() {
    this.closed = true;
    this.on.status("refused");
  }

  private retry() {
    if (this.closed || this.socket || this.proving || this.timer !== undefined) return;
    const wait = Math.min(longestWait, firstWait * 2 ** this.attempts++);
    this.timer = this.world.later(
      () => {
        this.timer = undefined;
        this.connect();
      },
      wait * (0.5 + this.world.random() / 2),
    );
  }

  private drop() {
    if (this.timer !== undefined) this.world.forget(this.timer);
    this.timer = undefined;
    this.proving = undefined;
    const socket = this.socket;
    this.socket = undefined;
    this.flush();
    if (!socket) return;
    socket.close();
    this.on.status("waiting");
  }

  private subscribe(sessionId: string) {
    // The request id is the session's id, so that an error can be assigned to
    // its session.
    this.say({ type: "session:subscribe", requestId: sessionId, sessionId, ...this.on.after(sessionId) });
  }

  private say(message: object) {
    this.socket?.send(JSON.stringify(message));
  }

  private push(frame: Frame) {
    this.queue.push(frame);
    if (this.drawing) return;
    this.drawing = true;
    this.world.soon(() => this.flush());
  }

  private flush() {
    this.drawing = false;
    if (this.queue.length === 0) return;
    const frames = this.queue;
    this.queue = [];
    this.on.frames(frames);
  }
}
