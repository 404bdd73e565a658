import { describe, expect, it } from "vitest";
import { type Prompt, sendOnce } from "../src/model/unanswered";
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
});
