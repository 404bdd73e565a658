// @vitest-environment jsdom

import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { ApiError, api } from "../src/wire/http";
import { keepLogin, login } from "../src/wire/key";
import { proof, proofHolds } from "../src/wire/proof";
import { browser } from "../src/wire/socket";

const proofKey = "0123456789abcdef".repeat(4);
const given = (key: string) => ({ id: "b1", key, proofKey });

/** The response of a server that knows the login. */
async function proves(body: string, origin = location.origin): Promise<string> {
  const hmac = { name: "HMAC", hash: "SHA-256" };
  const bytes = Uint8Array.from(proofKey.match(/../g) ?? [], (b) => Number.parseInt(b, 16));
  const secret = await crypto.subtle.importKey("raw", bytes, hmac, false, ["sign"]);
  const text = `runnel proof\n${origin}\n${JSON.parse(body).nonce}`;
  const code = await crypto.subtle.sign("HMAC", secret, new TextEncoder().encode(text));
  return Array.from(new Uint8Array(code), (b) => b.toString(16).padStart(2, "0")).join("");
}

describe("the page's half of the login", () => {
  let asked: { path: string; headers: Record<string, string>; credentials: string; body?: string }[];
  let answer: object;
  let prove: (body: string) => Promise<unknown>;

  beforeEach(() => {
    localStorage.clear();
    asked = [];
    answer = {};
    prove = async (body) => ({ proof: await proves(body) });
    proofHolds(false);
    vi.stubGlobal("fetch", async (path: string, init: Omit<(typeof asked)[0], "path">) => {
      asked.push({ path, headers: init.headers, credentials: init.credentials, body: init.body });
      const of = path === "/api/login/proof" ? await prove(init.body ?? "") : answer;
      return of instanceof Response ? of : new Response(JSON.stringify(of));
    });
  });
  afterEach(() => {
    vi.unstubAllGlobals();
    vi.restoreAllMocks();
  });

  it("sends no cookie without a login", async () => {
    await api.me();
    expect(asked).toMatchObject([{ path: "/api/me", credentials: "omit" }]);
  });

  it("is kept from the login on, and goes with every request", async () => {
    answer = { key: "rnl_k1", login: "b1", proofKey };
    await api.login("c");
    expect(localStorage.getItem("runnel.key")).toBe("rnl_k1");
    proofHolds(true);
    await api.me();
    await api.cancel("s");
    expect(asked.slice(1).map((a) => a.headers["Runnel-Key"])).toEqual(["rnl_k1", "rnl_k1"]);
  });

  it("is used again if it arrives after the cookie of another tab's login", async () => {
    keepLogin(given("rnl_k1"));
    proofHolds(true);
    answer = new Response('{"error":{"type":"UNAUTHORIZED","message":"no"}}', { status: 401 });
    const asking = api.cancel("s");
    await vi.waitFor(() => expect(asked).toHaveLength(1));
    answer = {};
    localStorage.setItem("runnel.key", "rnl_k2");
    window.dispatchEvent(new StorageEvent("storage", { key: "runnel.key" }));
    await asking;
    expect(asked.map((a) => a.headers["Runnel-Key"])).toEqual(["rnl_k1", "rnl_k2"]);
  });

  it("is refused if no other one arrives", async () => {
    keepLogin(given("rnl_k1"));
    proofHolds(true);
    answer = new Response('{"error":{"type":"UNAUTHORIZED","message":"no"}}', { status: 401 });
    await expect(api.cancel("s")).rejects.toMatchObject({ status: 401 });
    expect(asked).toHaveLength(1);
  });

  it("is the newest that any tab was given", () => {
    keepLogin(given("rnl_k1"));
    localStorage.setItem("runnel.key", "rnl_k2");
    expect(login()?.key).toBe("rnl_k2");
  });

  it("is remembered by the tab where nothing can be stored", () => {
    vi.spyOn(Storage.prototype, "setItem").mockImplementation(() => {
      throw new Error("no");
    });
    vi.spyOn(Storage.prototype, "getItem").mockImplementation(() => {
      throw new Error("no");
    });
    keepLogin(given("rnl_k3"));
    expect(login()).toEqual(given("rnl_k3"));
  });

  it("is offered as a subprotocol beside our own", () => {
    const opened: unknown[] = [];
    vi.stubGlobal(
      "WebSocket",
      class {
        constructor(url: string, protocols: string[]) {
          opened.push([url, protocols]);
        }
      },
    );
    keepLogin(given("rnl_k4"));
    browser.open("ws://x/api/ws", "runnel.v1");
    expect(opened).toEqual([["ws://x/api/ws", ["runnel.v1", "runnel.key.rnl_k4"]]]);
  });

  it("goes to a server that has proved itself, and only there", async () => {
    keepLogin(given("rnl_k5"));
    await api.send("s", "a prompt", false);
    expect(asked.map((a) => [a.path, a.credentials, a.headers["Runnel-Key"]])).toEqual([
      ["/api/login/proof", "omit", undefined],
      ["/api/session/s/send", "same-origin", "rnl_k5"],
    ]);
    const lies: (typeof prove)[] = [
      async () => ({}),
      async () => ({ proof: "" }),
      async () => ({ proof: "00".repeat(32) }),
      async () => new Response("a preview"),
      async (body) => new Response(JSON.stringify({ proof: await proves(body) }), { status: 500 }),
      async (body) => ({ proof: await proves(body, "http://elsewhere.localhost") }),
      async (body) => ({ proof: await proves(JSON.stringify({ nonce: `${JSON.parse(body).nonce}0` })) }),
    ];
    for (const lie of lies) {
      asked = [];
      prove = lie;
      await expect(api.send("s", "a prompt", false)).rejects.toThrow("did not prove");
      expect(asked.map((a) => a.path)).toEqual(["/api/login/proof"]);
      expect(JSON.stringify(asked)).not.toMatch(/a prompt|rnl_k5/);
    }
  });

  it("is not sent where the server says that the login has ended", async () => {
    keepLogin(given("rnl_k6"));
    for (const status of [401, 403]) {
      asked = [];
      prove = async () => new Response("{}", { status });
      await expect(api.me()).rejects.toMatchObject({ status: 401 });
      expect(asked.length).toBe(1);
    }
  });

  it("asks once for all that wait, with a nonce that was never used", async () => {
    keepLogin(given("rnl_k7"));
    await Promise.all([api.me(), api.me(), proof()]);
    await api.me();
    const nonces = asked.flatMap((a) => (a.body ? [JSON.parse(a.body).nonce as string] : []));
    expect(nonces.length).toBe(2);
    expect(new Set(nonces).size).toBe(2);
  });

  it("must come with a login", async () => {
    answer = {};
    await expect(api.login("c")).rejects.toThrow(ApiError);
    expect(localStorage.getItem("runnel.key")).toBeNull();
  });
});
