// @vitest-environment jsdom

import { act } from "react";
import { createRoot, type Root } from "react-dom/client";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Devices } from "../src/app/Devices";
import { useStore } from "../src/model/store";
import { type Device, parseDevices } from "../src/wire/devices";
import { api } from "../src/wire/http";

(globalThis as { IS_REACT_ACT_ENVIRONMENT?: boolean }).IS_REACT_ACT_ENVIRONMENT = true;
HTMLDialogElement.prototype.showModal ??= function (this: HTMLDialogElement) {
  this.open = true;
};
HTMLDialogElement.prototype.close ??= function (this: HTMLDialogElement) {
  this.open = false;
};

const device = (id: string, name: string): Device => ({
  id,
  name,
  createdAt: "2026-11-01T10:00:00Z",
  lastUsedAt: "2026-11-02T10:00:00Z",
  expiresAt: "2026-12-02T10:00:00Z",
});

describe("devices", () => {
  let box: HTMLElement;
  let root: Root;
  let all: Device[];

  beforeEach(async () => {
    all = [device("1", "Safari on iPhone"), device("2", "Firefox on Linux")];
    vi.spyOn(api, "devices").mockImplementation(async () => [...all]);
    vi.spyOn(api, "ownDevice").mockResolvedValue("2");
    vi.spyOn(api, "revokeDevice").mockImplementation(async (id) => {
      all = all.filter((d) => d.id !== id);
    });
    vi.spyOn(api, "renameDevice").mockImplementation(async (id, name) => {
      all = all.map((d) => (d.id === id ? { ...d, name } : d));
    });
    useStore.setState({ link: "open" });
    box = document.body.appendChild(document.createElement("div"));
    root = createRoot(box);
    await act(async () => root.render(<Devices onClose={() => {}} />));
  });
  afterEach(async () => {
    await act(async () => root.unmount());
    box.remove();
    vi.restoreAllMocks();
  });

  const button = (label: string) => box.querySelector<HTMLElement>(`button[aria-label="${label}"]`);
  const rows = () => [...box.querySelectorAll("li")].map((li) => li.textContent ?? "");

  it("are listed, and this browser's own is marked", () => {
    expect(rows()).toHaveLength(2);
    expect(rows()[0]).toContain("Safari on iPhone");
    expect(rows()[0]).not.toContain("this device");
    expect(rows()[1]).toContain("this device");
    expect(rows()[0]).not.toMatch(/last used \d+[a-z]\b(?! ago)/);
  });

  it("can be logged out", async () => {
    await act(async () => button("Log out Safari on iPhone")?.click());
    expect(api.revokeDevice).toHaveBeenCalledWith("1");
    expect(rows()).toHaveLength(1);
  });

  it("can be renamed", async () => {
    await act(async () => button("Rename Safari on iPhone")?.click());
    const input = box.querySelector("input") as HTMLInputElement;
    const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value")?.set;
    await act(async () => {
      set?.call(input, "Anna’s phone");
      input.dispatchEvent(new Event("input", { bubbles: true }));
    });
    await act(async () => input.form?.requestSubmit());
    expect(api.renameDevice).toHaveBeenCalledWith("1", "Anna’s phone");
    expect(rows()[0]).toContain("Anna’s phone");
  });

  it("ask before they log out this browser, which cannot come back by itself", async () => {
    const confirm = () => [...box.querySelectorAll("button")].find((b) => b.textContent?.includes("browser"));
    await act(async () => button("Log out Firefox on Linux")?.click());
    expect(api.revokeDevice).not.toHaveBeenCalled();
    expect(rows()[1]).toContain("needs a new link");
    await act(async () => button("Log out Firefox on Linux")?.click()); // no, after all
    expect(confirm()).toBeUndefined();
    await act(async () => button("Log out Firefox on Linux")?.click());
    await act(async () => confirm()?.click());
    expect(api.revokeDevice).toHaveBeenCalledWith("2");
  });

  it("show why something failed", async () => {
    vi.mocked(api.revokeDevice).mockRejectedValue(new Error("this credential lacks the scope admin"));
    await act(async () => button("Log out Safari on iPhone")?.click());
    expect(box.querySelector("[role=alert]")?.textContent).toContain("lacks the scope admin");
    expect(rows()).toHaveLength(2);
  });

  it("are only the credentials of browsers", () => {
    expect(
      parseDevices({
        tokens: [{ id: "1", kind: "api" }, { id: "2", kind: "browser", name: "x" }, 3, { kind: "browser" }],
      }),
    ).toEqual([{ id: "2", name: "x", createdAt: "", lastUsedAt: "", expiresAt: undefined }]);
  });
});
