// While the server is down, another program may use its port. So the tab sends
// no credential, draft or prompt before the program at its address has proved
// that it knows this browser's login. A proof is valid while the tab's socket
// is open, and otherwise only for the requests that wait for it.

import { base } from "./base";
import { ApiError } from "./error";
import { login } from "./key";

const proofTimeout = 10_000; // ms

let holds = false;
let asking: Promise<void> | undefined;

/**
 * Records whether the socket to the server that proved its identity is open.
 */
export function proofHolds(open: boolean) {
  holds = open;
}

/**
 * Returns undefined if no proof is needed. Otherwise the promise fails with an
 * ApiError unless the server proves its identity.
 */
export function proof(): Promise<void> | undefined {
  if (holds || !login()) return undefined;
  asking ??= ask().finally(() => {
    asking = undefined;
  });
  return asking;
}

const hex = (bytes: Uint8Array) => Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
const unhex = (text: string) => Uint8Array.from(text.match(/../g) ?? [], (b) => Number.parseInt(b, 16));

async function ask() {
  const mine = login();
  if (!mine) return;
  const nonce = hex(crypto.getRandomValues(new Uint8Array(32)));
  let res: Response;
  let answer: { proof?: unknown } | undefined;
  try {
    res = await fetch(`${base}/api/login/proof`, {
      method: "POST",
      credentials: "omit",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ login: mine.id, nonce }),
      signal: AbortSignal.timeout(proofTimeout),
    });
  } catch {
    throw new ApiError("UNREACHABLE", "The server is not responding. Is it running?", 0);
  }
  if (res.status === 401 || res.status === 403)
    // 403: the origin of the page has changed
    throw new ApiError(
      "UNAUTHORIZED",
      "This browser’s login has expired. Run `runnel login` for a new link.",
      401,
    );
  try {
    answer = await res.json();
  } catch {
    answer = undefined;
  }
  const given = typeof answer?.proof === "string" ? answer.proof : "";
  if (res.ok && (await verify(mine.proofKey, `runnel proof\n${location.origin}\n${nonce}`, given))) return;
  throw new ApiError(
    "SERVER_NOT_PROVEN",
    "The program at this address did not prove that it is your server. This page sent nothing to it.",
    0,
  );
}

async function verify(key: string, text: string, code: string): Promise<boolean> {
  const hmac = { name: "HMAC", hash: "SHA-256" };
  const secret = await crypto.subtle.importKey("raw", unhex(key), hmac, false, ["verify"]);
  return crypto.subtle.verify("HMAC", secret, unhex(code), new TextEncoder().encode(text));
}
