// Holds a conversation with a server: creates a session, follows its events,
// sends a prompt, answers the approval, reads the history, and streams a turn.
// It fails if anything differs from what it expects.
//
//     node dist/conversation.js URL TOKEN DIRECTORY

import assert from "node:assert/strict";
import createClient from "openapi-fetch";
import type { components, paths } from "../../../ui/src/wire/api.gen.js";
import { frames } from "./sse.js";

type Schemas = components["schemas"];

const [url, token, directory] = process.argv.slice(2);
assert(url && token && directory, "usage: node dist/conversation.js URL TOKEN DIRECTORY");
const api = createClient<paths>({ baseUrl: url.replace(/\/$/, ""), headers: { Authorization: `Bearer ${token}` } });
const signal = AbortSignal.timeout(60_000);

/** Returns the response to a request that must succeed. */
async function answer<T>(request: Promise<{ data?: T; error?: Schemas["Error"] }>): Promise<T> {
  const { data, error } = await request;
  assert(data !== undefined, JSON.stringify(error));
  return data;
}

const { sessionId: id } = await answer(
  api.POST("/api/session/create", {
    body: { cliType: "script", projectDir: directory, options: { config: { pace: "fast" } } },
    signal,
  }),
);
const session = { params: { path: { id } }, signal };

await promptWithApproval();
await history();
await turn();
await list();
await refused();
console.log("the conversation went well");

/**
 * Sends a prompt, follows the session's events, and answers the approval in
 * them.
 */
async function promptWithApproval() {
  const stream = await answer(api.GET("/api/session/{id}/events", { ...session, parseAs: "stream" }));
  const sent = await answer(api.POST("/api/session/{id}/send", { ...session, body: { content: "approve" } }));
  let asked = 0;
  let opened = false;
  for await (const frame of frames<Schemas["SessionFrame"]>(stream as ReadableStream<BufferSource>)) {
    if (frame.event === "stream:open") {
      assert.equal(frame.data.sessionId, id);
      opened = true;
      continue;
    }
    assert(frame.event !== "stream:end");
    const event = frame.data;
    assert.equal(event.seq, Number(frame.id));
    if (event.type === "approval_requested") {
      asked++;
      await decide(event.payload.approval);
    }
    assert(event.type !== "response_error", JSON.stringify(event));
    if (event.type === "response_done" && event.turnId === sent.turnId) {
      assert.equal(event.payload.status, "completed");
      break;
    }
  }
  assert(opened && asked === 1);
}

async function decide(asked: Schemas["Approval"]) {
  const choice = asked.choices.find((c) => c.kind === "allow_once");
  assert(choice);
  await answer(
    api.POST("/api/session/{id}/approvals/{approvalId}", {
      params: { path: { id, approvalId: asked.id } },
      body: { choice: choice.id, ...(asked.argumentsDigest ? { argumentsDigest: asked.argumentsDigest } : {}) },
      signal,
    }),
  );
}

/**
 * Checks that the history has the prompt, a tool call with its output, and an
 * answer.
 */
async function history() {
  const { items } = await answer(api.GET("/api/session/{id}/items", session));
  const seen = new Set<string>();
  for (const entry of items) {
    if (entry.type !== "session:upsert") continue;
    const item = entry.payload;
    if (item.type === "message") seen.add(item.message.origin);
    if (item.type === "tool_call" && item.tool_call.toolOutput !== undefined) seen.add("tool");
  }
  assert.deepEqual([...seen].sort(), ["agent", "tool", "user"]);
}

/** Sends a prompt by a request whose response is the stream of the turn. */
async function turn() {
  const stream = await answer(
    api.POST("/api/harness/turn", { body: { sessionId: id, message: "text" }, signal, parseAs: "stream" }),
  );
  const names: string[] = [];
  let deltas = "";
  let whole = "";
  for await (const frame of frames<Schemas["TurnFrame"]>(stream as ReadableStream<BufferSource>)) {
    names.push(frame.event);
    if (frame.event === "chat:delta") deltas += frame.data.text;
    if (frame.event === "chat:complete") whole += frame.data.text;
    if (frame.event === "turn:error") assert.fail(frame.data.message);
  }
  assert.equal(names[0], "session:init");
  assert.equal(names.at(-1), "process:exit");
  assert(whole !== "");
  assert.equal(deltas, whole);
}

async function list() {
  const query = { projectDir: directory!, all: true };
  const { sessions } = await answer(api.GET("/api/session/list", { params: { query }, signal }));
  assert(sessions.some((s) => s.sessionId === id && s.state === "open"));
}

async function refused() {
  const { error } = await api.GET("/api/session/{id}/status", { params: { path: { id: "nobody" } }, signal });
  assert.equal(error?.error.type, "SESSION_NOT_FOUND");
}
