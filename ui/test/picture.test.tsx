// @vitest-environment jsdom

// An image of a prompt is shown as itself. Without a stored image, the prompt
// shows the name of the file.

import { act } from "react";
import { createRoot } from "react-dom/client";
import { expect, it, vi } from "vitest";
import { Attached } from "../src/stream/Picture";
import { api } from "../src/wire/http";
import type { Attachment } from "../src/wire/types";

(globalThis as { IS_REACT_ACT_ENVIRONMENT?: boolean }).IS_REACT_ACT_ENVIRONMENT = true;

const image: Attachment = { name: "red.png", mediaType: "image/png", size: 75, picture: "57cd" };

async function shown(of: Attachment): Promise<{ host: HTMLElement; unmount: () => void }> {
  const host = document.createElement("ul");
  const root = createRoot(host);
  await act(async () => root.render(<Attached of={of} session="s" />));
  return { host, unmount: () => act(() => root.unmount()) };
}

it("shows the stored image from memory, and frees it", async () => {
  const asked = vi.spyOn(api, "picture").mockResolvedValue(new Blob(["GIF89a"]));
  URL.createObjectURL = () => "blob:x";
  URL.revokeObjectURL = vi.fn();
  const { host, unmount } = await shown(image);
  expect(asked).toHaveBeenCalledWith("s", "57cd");
  expect(host.querySelector("img")?.getAttribute("src")).toBe("blob:x");
  expect(host.querySelector("img")?.getAttribute("alt")).toBe("red.png");
  unmount();
  expect(URL.revokeObjectURL).toHaveBeenCalledWith("blob:x");
});

it("shows the name of a file that is no image, and of an image that is not stored", async () => {
  vi.spyOn(api, "picture").mockRejectedValue(new Error("404"));
  for (const of of [image, { ...image, picture: undefined }]) {
    const { host, unmount } = await shown(of);
    expect(host.querySelector("img")).toBeNull();
    expect(host.textContent).toMatch(/^red\.png 75/);
    unmount();
  }
});
