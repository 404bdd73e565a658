// Requests that make something new, such as a session. If no response arrives,
// the server may have done what they ask for.

import { isRefusal } from "../wire/error";

const keys = new Map<string, string>(); // of requests without a response, by what they ask for

/**
 * Sends a request with a key. If it gets no response, the same request gets the
 * same key the next time, so the server does it once. There is no key on an
 * insecure address, where browsers cannot make one.
 */
export async function once<T>(request: string, send: (key: string | undefined) => Promise<T>): Promise<T> {
  const key = keys.get(request) ?? crypto.randomUUID?.();
  if (key) keys.set(request, key);
  try {
    const response = await send(key);
    keys.delete(request);
    return response;
  } catch (e) {
    if (isRefusal(e)) keys.delete(request);
    throw e;
  }
}
