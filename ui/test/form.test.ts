import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  answered,
  content,
  defaults,
  type Entered,
  type Field,
  fault,
  formOf,
  nothing,
  questionsOf,
} from "../src/model/form";
import { ExactNumber } from "../src/wire/parse";

const fieldsOf = (properties: object, required: string[] = []): Field[] => {
  const f = formOf({ message: "m", schema: { type: "object", properties, required } });
  return f.kind === "fields" ? f.fields : [];
};
const field = (schema: object, required = false) =>
  fieldsOf({ k: schema }, required ? ["k"] : [])[0] as Field;
const typed = (text: string): Entered => ({ ...nothing, text });
const chose = (...chosen: string[]): Entered => ({ ...nothing, chosen });
const sent = (f: Field, e: Entered) => JSON.parse(content([f], new Map([[f.key, e]])));

describe("a schema", () => {
  it("gives a field for each property, in its order", () => {
    const fields = fieldsOf(
      {
        name: { type: "string", title: "Name", description: "yours" },
        mail: { type: "string", format: "email" },
        page: { type: "string", format: "uri" },
        day: { type: "string", format: "date" },
        at: { type: "string", format: "date-time" },
        n: { type: "integer" },
        x: { type: "number" },
        on: { type: "boolean" },
        one: { type: "string", enum: ["a", "b"], enumNames: ["A"] },
        titled: { type: "string", oneOf: [{ const: "s", title: "Small" }] },
        many: { type: "array", items: { enum: ["a"] } },
        manyTitled: { type: "array", items: { anyOf: [{ const: "a", title: "A" }] } },
        deep: { type: "object", properties: {} },
        list: { type: "array", items: { type: "string" } },
        any: {},
      },
      ["name"],
    );
    expect(fields.map((f) => `${f.key} ${f.kind}`)).toEqual([
      "name text",
      "mail email",
      "page uri",
      "day date",
      "at datetime",
      "n integer",
      "x number",
      "on boolean",
      "one one",
      "titled one",
      "many many",
      "manyTitled many",
      "deep json",
      "list json",
      "any text",
    ]);
    expect(fields[0]).toMatchObject({ name: "Name", description: "yours", required: true });
    expect(fields[8]?.options).toEqual([
      { json: '"a"', name: "A" },
      { json: '"b"', name: "b" },
    ]);
    expect(fields[9]?.options).toMatchObject([{ json: '"s"', name: "Small" }]);
  });

  it("is a page where there is an address", () => {
    expect(formOf({ message: "m", url: "https://a.example/" })).toEqual({
      kind: "page",
      message: "m",
      url: "https://a.example/",
    });
  });

  it("is empty where there is nothing to fill in", () => {
    for (const args of [undefined, null, 3, "x", [], {}, { schema: 3 }, { schema: { properties: [] } }])
      expect(formOf(args)).toMatchObject({ kind: "fields", fields: [] });
  });

  it.each<[object, unknown, unknown]>([
    [{ type: "string", default: "x" }, "x", undefined],
    [{ type: "integer", default: 3 }, 3, undefined],
    [{ type: "number", default: 1.5 }, 1.5, undefined],
    [{ type: "boolean", default: true }, true, undefined],
    [{ enum: ["a", "b"], default: "b" }, "b", undefined],
    [{ enum: ["a"], default: "zzz" }, undefined, undefined],
    [{ type: "array", items: { enum: ["a", "b"] }, default: ["b", "zzz"] }, ["b"], undefined],
    [{ type: "object", default: { a: 1 } }, { a: 1 }, undefined],
    [
      { type: "string", format: "date-time", default: "2026-01-02T03:04:00Z" },
      "2026-01-02T03:04:00.000Z",
      undefined,
    ],
    [{ type: "string", format: "date-time", default: "soon" }, undefined, undefined],
  ])("begins with the default of %j", (schema, want) => {
    const args = { schema: { properties: { k: schema } } };
    const f = field(schema);
    expect(JSON.parse(content([f], defaults(args, [f])))).toEqual(want === undefined ? {} : { k: want });
  });
});

describe("what is entered", () => {
  it.each<[string, object, boolean, Entered, string | undefined]>([
    ["nothing needed", { type: "string" }, false, nothing, undefined],
    ["needed", { type: "string" }, true, nothing, "Required."],
    ["too short", { type: "string", minLength: 3 }, false, typed("ab"), "At least 3 characters."],
    ["counted as people do", { type: "string", maxLength: 2 }, false, typed("😀😀"), undefined],
    ["too long", { type: "string", maxLength: 2 }, false, typed("abc"), "At most 2 characters."],
    ["e-mail", { format: "email" }, false, typed("a@b.example"), undefined],
    ["no e-mail", { format: "email" }, false, typed("a b@c"), "This must be an e-mail address."],
    ["address", { format: "uri" }, false, typed("ftp://a/b"), undefined],
    [
      "no address",
      { format: "uri" },
      false,
      typed("a/b"),
      "This must be a full URL, such as https://example.org.",
    ],
    ["date", { format: "date" }, false, typed("2024-02-29"), undefined],
    ["no date", { format: "date" }, false, typed("2026-02-29"), "This must be a date: YYYY-MM-DD."],
    ["moment", { format: "date-time" }, false, typed("2026-01-02T03:04"), undefined],
    ["no moment", { format: "date-time" }, false, typed("noon"), "This must be a date and a time."],
    ["number", { type: "number" }, false, typed("-1.5e3"), undefined],
    ["no number", { type: "number" }, false, typed("1,5"), "This must be a number."],
    ["hexadecimal", { type: "integer" }, false, typed("0x10"), "This must be a whole number."],
    ["fraction", { type: "integer" }, false, typed("1.5"), "This must be a whole number."],
    ["small", { type: "integer", minimum: 1 }, false, typed("0"), "At least 1."],
    ["large", { type: "integer", maximum: 9 }, false, typed("10"), "At most 9."],
    ["not above", { type: "number", exclusiveMinimum: 0 }, false, typed("0"), "More than 0."],
    ["not below", { type: "number", exclusiveMaximum: 1 }, false, typed("1"), "Less than 1."],
    ["no choice", { enum: ["a"] }, true, nothing, "Choose one."],
    ["no choice needed", { enum: ["a"] }, false, nothing, undefined],
    [
      "too few",
      { type: "array", minItems: 2, items: { enum: ["a", "b"] } },
      true,
      chose('"a"'),
      "Choose at least 2.",
    ],
    ["none at all", { type: "array", minItems: 2, items: { enum: ["a", "b"] } }, false, nothing, undefined],
    [
      "too many",
      { type: "array", maxItems: 1, items: { enum: ["a", "b"] } },
      false,
      chose('"a"', '"b"'),
      "Choose at most 1.",
    ],
    ["JSON", { type: "object" }, false, typed('{"a":1}'), undefined],
    ["no JSON", { type: "object" }, false, typed("{a:1}"), "This must be JSON."],
    ["box", { type: "boolean" }, true, nothing, undefined],
  ])("is checked: %s", (_name, schema, required, e, want) => {
    expect(fault(field(schema, required), e)).toBe(want);
  });

  it("is sent with its type, and left out where it is empty", () => {
    expect(sent(field({ type: "integer" }), typed(" 3 "))).toEqual({ k: 3 });
    expect(sent(field({ type: "string" }), typed(" 3 "))).toEqual({ k: " 3 " });
    expect(sent(field({ type: "string" }), nothing)).toEqual({});
    expect(sent(field({ type: "boolean" }), nothing)).toEqual({ k: false });
    expect(sent(field({ enum: ["a", 3, null] }), chose("3"))).toEqual({ k: 3 });
    expect(sent(field({ type: "array", items: { enum: ["a", "b"] } }), chose('"b"', '"a"'))).toEqual({
      k: ["a", "b"],
    });
  });

  it("keeps the digits of numbers, of the schema as of what is typed", () => {
    const f = field({ enum: [new ExactNumber("12345678901234567890")] });
    expect(content([f], new Map([["k", chose(f.options[0]?.json ?? "")]]))).toBe(
      '{"k":12345678901234567890}',
    );
    expect(content([field({ type: "number" })], new Map([["k", typed("1.10")]]))).toBe('{"k":1.10}');
  });

  it("is JSON with the keys of the schema, whatever they are called", () => {
    fc.assert(
      fc.property(
        fc.array(fc.oneof(fc.string(), fc.constantFrom("__proto__", "constructor", "toString"))),
        (keys) => {
          const fields = [...new Set(keys)].map((key) => ({ ...field({ type: "string" }), key }));
          const values = new Map(fields.map((f) => [f.key, typed(`v${f.key}`)]));
          const got = JSON.parse(content(fields, values));
          expect(Object.keys(got).sort()).toEqual(fields.map((f) => f.key).sort());
        },
      ),
    );
  });
});

it("survives any arguments", () => {
  const odd = fc.oneof(
    fc.jsonValue(),
    fc.record(
      { message: fc.jsonValue(), url: fc.jsonValue(), schema: fc.jsonValue(), questions: fc.jsonValue() },
      { requiredKeys: [] },
    ),
    fc.record({
      schema: fc.record({
        properties: fc.dictionary(
          fc.string(),
          fc.record(
            {
              type: fc.oneof(
                fc.constantFrom("string", "number", "integer", "boolean", "array", "object", "null"),
                fc.jsonValue(),
              ),
              enum: fc.jsonValue(),
              oneOf: fc.jsonValue(),
              items: fc.jsonValue(),
              default: fc.jsonValue(),
              format: fc.constantFrom("email", "uri", "date", "date-time", "password", "x"),
              minimum: fc.jsonValue(),
            },
            { requiredKeys: [] },
          ),
        ),
        required: fc.jsonValue(),
      }),
    }),
  );
  fc.assert(
    fc.property(odd, fc.string(), (args, words) => {
      const form = formOf(args);
      const fields = form.kind === "fields" ? form.fields : [];
      for (const fs of [fields, questionsOf(args)]) {
        const start = defaults(args, fs);
        for (const f of fs) {
          const e = { ...(start.get(f.key) ?? nothing), text: words };
          if (fault(f, e) === undefined) JSON.parse(content([f], new Map([[f.key, e]])));
          if (fault(f, start.get(f.key) ?? nothing) === undefined) JSON.parse(answered(args, [f], start));
        }
      }
    }),
    { numRuns: 500 },
  );
});

describe("questions", () => {
  const args = {
    note: new ExactNumber("1.10"),
    questions: [
      {
        question: "Which?",
        header: "Choice",
        options: [{ label: "A", description: "the first" }, { label: "B" }],
      },
      { id: "q2", question: "Which of them?", multiSelect: true, options: [{ label: "x" }, { label: "y" }] },
      { id: "q3", question: "Yes?", isOther: false, options: [{ label: "Yes" }] },
      { id: "q4", question: "Key?", isSecret: true, options: null },
      { question: "" },
      null,
    ],
  };

  it("are fields of their own kind", () => {
    expect(questionsOf(args).map((f) => [f.key, f.heading, f.kind, f.other, f.options.length])).toEqual([
      ["Which?", "Choice", "one", true, 2],
      ["q2", undefined, "many", true, 2],
      ["q3", undefined, "one", false, 1],
      ["q4", undefined, "secret", false, 0],
    ]);
  });

  it("are all to be answered, in their own words too", () => {
    const [which, of] = questionsOf(args) as [Field, Field];
    expect(fault(which, nothing)).toBe("Choose one.");
    expect(fault(which, { ...nothing, other: true })).toBe("Type an answer or choose one.");
    expect(fault(which, { ...nothing, other: true, text: "C" })).toBeUndefined();
    expect(fault(of, nothing)).toBe("Choose at least 1.");
    expect(fault(of, chose('"x"'))).toBeUndefined();
  });

  it("are given back with their answers", () => {
    const fields = questionsOf(args);
    const values = new Map<string, Entered>([
      ["Which?", { ...nothing, other: true, text: "neither" }],
      ["q2", { ...nothing, chosen: ['"y"'], other: true, text: "z" }],
      ["q3", chose('"Yes"')],
      ["q4", typed("s3cret")],
    ]);
    const got = answered({ ...args, answers: { old: 1 } }, fields, values);
    expect(got).toContain('"note":1.10');
    expect(JSON.parse(got)).toMatchObject({
      questions: args.questions,
      answers: { "Which?": "neither", q2: ["y", "z"], q3: "Yes", q4: "s3cret" },
    });
  });
});
