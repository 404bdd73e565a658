import { afterEach, describe, expect, it, vi } from "vitest";
import { type Prompt, received, sendOnce } from "../src/model/unanswered";
import { ApiError } from "../src/wire/error";

const hello = { session: "s", content: "hello", queue: false, uploads: [] };

// A server that fails with the given statuses, and then succeeds.
function server(...failures: number[]) {
  const got: Prompt[] = [];
  const send = async (p: Prompt) => {
    got.push(p);
    const status = failures.shift();
    if (status !== undefined) throw new ApiError("X", "no", status);
    return { turnId: p.turnId ?? "", warnings: [] };
  };
  return { got, send };
}

afterEach(() => void vi.unstubAllGlobals());

describe("a prompt", () => {
  it("keeps its turn while it has no answer", async () => {
    const { got, send } = server(0, 0);
    await expect(sendOnce(hello, send)).rejects.toThrow("no");
    await expect(sendOnce(hello, send)).rejects.toThrow("no");
    // By now the page shows the turn as running; a different body would make a
    // different request.
    await sendOnce({ ...hello, queue: true }, send);
    expect(got[0]?.turnId).toMatch(/^[0-9a-f-]{36}$/);
    expect(got[1]).toEqual(got[0]);
    expect(got[2]).toEqual(got[0]);
    await sendOnce(hello, send); // the same text as a new prompt
    expect(got[3]?.turnId).not.toBe(got[0]?.turnId);
  });

  it("keeps its turn after an answer that need not be the server’s own", async () => {
    const { got, send } = server(502, 504, 500);
    for (let i = 0; i < 3; i++) await expect(sendOnce(hello, send)).rejects.toThrow("no");
    await sendOnce(hello, send);
    expect(new Set(got.map((p) => p.turnId)).size).toBe(1);
  });

  it("gets another turn after an answer, and with other words", async () => {
    const { got, send } = server(409, 0);
    await expect(sendOnce(hello, send)).rejects.toThrow("no");
    await expect(sendOnce(hello, send)).rejects.toThrow("no");
    await sendOnce({ ...hello, content: "hello again" }, send);
    await sendOnce({ ...hello, session: "t" }, send);
    await sendOnce({ ...hello, uploads: ["u"] }, send);
    expect(new Set(got.map((p) => p.turnId)).size).toBe(5);
    await sendOnce(hello, send);
    expect(got[5]?.turnId).toBe(got[1]?.turnId);
  });

  it("keeps its turn when the tab is reloaded before the answer", async () => {
    const kept = new Map<string, string>();
    vi.stubGlobal("sessionStorage", {
      getItem: (key: string) => kept.get(key) ?? null,
      setItem: (key: string, value: string) => kept.set(key, value),
      removeItem: (key: string) => kept.delete(key),
    });
    const tab = async () => {
      vi.resetModules(); // as a reload does
      return import("../src/model/unanswered");
    };
    const { got, send } = server();
    const never = async (p: Prompt) => {
      got.push(p);
      return new Promise<never>(() => {});
    };
    void (await tab()).sendOnce(hello, never);
    await (await tab()).sendOnce(hello, send);
    expect(got[1]).toEqual(got[0]);
    await (await tab()).sendOnce(hello, send); // the same text as a new prompt
    expect(got[2]?.turnId).not.toBe(got[0]?.turnId);
  });

  it("is forgotten once its turn is known to have arrived", async () => {
    const { got, send } = server(0);
    await expect(sendOnce({ ...hello, session: "u" }, send)).rejects.toThrow("no");
    expect(received("u", () => false)).toBeUndefined();
    expect(received("s", (turn) => turn === got[0]?.turnId)).toBeUndefined(); // of another session
    expect(received("u", (turn) => turn === got[0]?.turnId)?.content).toBe("hello");
    await sendOnce({ ...hello, session: "u" }, send);
    expect(got[1]?.turnId).not.toBe(got[0]?.turnId);
  });
});
