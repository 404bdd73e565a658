import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { ApiError, api } from "../src/wire/http";
import { keepKey, key } from "../src/wire/key";
import { browser } from "../src/wire/socket";

describe("the page's half of the login", () => {
  let asked: { path: string; headers: Record<string, string> }[];
  let answer: object;

  beforeEach(() => {
    localStorage.clear();
    asked = [];
    answer = {};
    vi.stubGlobal("fetch", async (path: string, init: { headers: Record<string, string> }) => {
      asked.push({ path, headers: init.headers });
      return new Response(JSON.stringify(answer));
    });
  });
  afterEach(() => {
    vi.unstubAllGlobals();
    vi.restoreAllMocks();
  });

  it("is kept from the login on, and goes with every request", async () => {
    answer = { key: "rnl_k1" };
    await api.login("c");
    expect(localStorage.getItem("runnel.key")).toBe("rnl_k1");
    await api.me();
    await api.cancel("s");
    expect(asked.slice(1).map((a) => a.headers["Runnel-Key"])).toEqual(["rnl_k1", "rnl_k1"]);
  });

  it("is the newest that any tab was given", () => {
    keepKey("rnl_k1");
    localStorage.setItem("runnel.key", "rnl_k2");
    expect(key()).toBe("rnl_k2");
  });

  it("is remembered by the tab where nothing can be stored", () => {
    vi.spyOn(Storage.prototype, "setItem").mockImplementation(() => {
      throw new Error("no");
    });
    vi.spyOn(Storage.prototype, "getItem").mockImplementation(() => {
      throw new Error("no");
    });
    keepKey("rnl_k3");
    expect(key()).toBe("rnl_k3");
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
    keepKey("rnl_k4");
    browser.open("ws://x/api/ws", "runnel.v1");
    expect(opened).toEqual([["ws://x/api/ws", ["runnel.v1", "runnel.key.rnl_k4"]]]);
  });

  it("must come with a login", async () => {
    answer = {};
    await expect(api.login("c")).rejects.toThrow(ApiError);
    expect(localStorage.getItem("runnel.key")).toBeNull();
  });
});
