import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { jsonText } from "../src/text/json";
import { ExactNumber, parseFrame, parseSessions } from "../src/wire/parse";

const frame = (v: unknown) => parseFrame(JSON.stringify(v));

describe("parseFrame", () => {
  it.each([
    "",
    "{",
    "null",
    "[]",
    "3",
    '"x"',
    "{}",
    '{"type":"session:later","payload":{}}',
    '{"type":"session:upsert"}',
    '{"type":"session:upsert","payload":{"type":"hologram","itemId":"a","turnId":"t"}}',
  ])("ignores %j", (text) => expect(parseFrame(text)).toBeUndefined());

  it("drops what it does not know from a history and keeps the rest", () => {
    const f = frame({
      type: "session:history",
      sessionId: "s",
      seq: 4,
      done: true,
      extra: 1,
      entries: [
        { type: "session:hologram", payload: {} },
        null,
        {
          type: "session:upsert",
          payload: {
            type: "message",
            itemId: "t:1:0",
            turnId: "t",
            seq: 3,
            status: "complete",
            message: { content: "hi", origin: "martian" },
          },
        },
        { type: "session:turn", payload: { type: "turn_paused", turnId: "t" } },
      ],
    });
    expect(f).toMatchObject({
      type: "session:history",
      seq: 4,
      done: true,
      entries: [{ payload: { message: { content: "hi", origin: "agent" } } }],
    });
  });

  it("never lets an object through where text is drawn", () => {
    const f = frame({
      type: "session:turn",
      sessionId: "s",
      payload: {
        type: "turn_error",
        turnId: "t",
        seq: 1,
        timestamp: 5,
        errorCode: {},
        errorMessage: ["x"],
        usage: "much",
      },
    });
    expect(f).toMatchObject({
      payload: { errorCode: undefined, errorMessage: undefined, usage: undefined, timestamp: "" },
    });
  });

  it("takes a choice of an unknown kind for the most far-reaching one", () => {
    const f = frame({
      type: "session:approval",
      sessionId: "s",
      payload: {
        turnId: "t",
        seq: 1,
        status: "pending",
        approval: {
          id: "a",
          kind: "tool",
          title: "",
          choices: [{ id: "x", kind: "allow_galaxy", label: "" }, { kind: "deny" }],
        },
      },
    });
    expect(f).toMatchObject({
      payload: { approval: { choices: [{ id: "x", kind: "allow_always", label: "x" }] } },
    });
  });

  it("keeps the digits of numbers in an approval", () => {
    const f = parseFrame(
      '{"type":"session:approval","sessionId":"s","payload":{"turnId":"t","seq":1,"status":"pending","approval":{"id":"a","title":"","kind":"tool","choices":[],"arguments":{"id":12345678901234567890,"n":1.10,"k":2}}}}',
    );
    const args =
      f?.type === "session:approval" ? (f.payload.approval.arguments as Record<string, unknown>) : {};
    // A browser without source texts of numbers cannot keep them exactly.
    if (args.id instanceof ExactNumber)
      expect(jsonText(args)).toBe('{\n  "id": 12345678901234567890,\n  "n": 1.10,\n  "k": 2\n}');
    else expect(typeof args.id).toBe("number");
  });

  it("survives anything", () => {
    fc.assert(
      fc.property(
        fc.json(),
        fc.constantFrom(
          "session:upsert",
          "session:turn",
          "session:approval",
          "session:notice",
          "session:usage",
          "session:status",
          "session:history",
          "error",
        ),
        (json, type) => {
          parseFrame(
            `{"type":${JSON.stringify(type)},"sessionId":"s","payload":${json},"entries":[{"type":${JSON.stringify(type)},"payload":${json}}],"error":${json}}`,
          );
          parseFrame(json);
          parseSessions(JSON.parse(json));
        },
      ),
    );
  });
});

describe("jsonText", () => {
  it("says the same as JSON and writes what cannot be seen as escapes", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (v) => {
        expect(JSON.parse(jsonText(v))).toEqual(JSON.parse(JSON.stringify(v)));
      }),
    );
    expect(jsonText("a\u202eb\x1b\u{e0041}")).toBe('"a\\u202eb\\u001b\\udb40\\udc41"');
  });
});
