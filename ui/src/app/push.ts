// This browser's subscription to Web Push.

import { wishes } from "../model/notices";
import { api } from "../wire/http";
import type { PushState } from "../wire/push";
import type { NoticeKind } from "../worker/messages";
import { hasWorkers, worker } from "./worker";

/** Whether this browser can receive messages of a push service on this address. */
export const hasPush = () => hasWorkers() && "PushManager" in window;

async function subscription(): Promise<PushSubscription | null> {
  return (await (await worker())?.pushManager?.getSubscription()) ?? null;
}

/**
 * Compares this browser's subscription with the server's, and repeats it at the
 * server if the server does not have it, as after a new login. Returns what the
 * server has.
 */
export async function syncPush(): Promise<PushState> {
  const [mine, theirs] = await Promise.all([subscription(), api.push()]);
  if (!mine || !theirs.publicKey) return theirs;
  const sameKey = base64url(mine.options.applicationServerKey) === theirs.publicKey;
  if (theirs.kinds.length > 0 && sameKey) return theirs;
  return subscribe(wishes().kinds);
}

/** Repairs the subscription at the server, if this browser has one. */
export async function renewPush() {
  if (hasPush() && (await subscription())) await syncPush();
}

/** Subscribes, or changes the kinds of notes. The person has permitted notices. */
export async function subscribe(kinds: NoticeKind[]): Promise<PushState> {
  const manager = (await worker())?.pushManager;
  const { publicKey } = await api.push();
  if (!manager || !publicKey) throw new Error("This browser or this server has no Web Push.");
  let mine = await manager.getSubscription();
  if (mine && base64url(mine.options.applicationServerKey) !== publicKey) {
    await mine.unsubscribe(); // the server has another key since
    mine = null;
  }
  mine ??= await manager.subscribe({ userVisibleOnly: true, applicationServerKey: publicKey });
  return api.subscribePush(
    mine.endpoint,
    { p256dh: base64url(mine.getKey("p256dh")), auth: base64url(mine.getKey("auth")) },
    kinds,
  );
}

export async function unsubscribe(): Promise<PushState> {
  const theirs = await api.unsubscribePush();
  await (await subscription())?.unsubscribe();
  return theirs;
}

function base64url(data: ArrayBuffer | null): string {
  const text = String.fromCharCode(...new Uint8Array(data ?? new ArrayBuffer(0)));
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** The host of the push service that this browser uses, if it has a subscription. */
export async function pushService(): Promise<string | undefined> {
  const mine = await subscription();
  return mine ? new URL(mine.endpoint).hostname : undefined;
}
