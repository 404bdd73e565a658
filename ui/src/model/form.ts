// Forms from agents: a flat JSON Schema or a list of questions as fields, the
// checks of what a person enters, and the JSON to send. Pure functions.

import { jsonText } from "../text/json";
import { ExactNumber } from "../wire/parse";

export type FieldKind =
  | "text"
  | "secret"
  | "email"
  | "uri"
  | "date"
  | "datetime"
  | "number"
  | "integer"
  | "boolean"
  | "one"
  | "many"
  | "json"; // for values of any other type

export interface FieldOption {
  json: string; // the value as JSON
  name: string;
  description?: string;
}

export interface Field {
  key: string;
  name: string;
  heading?: string;
  description?: string;
  kind: FieldKind;
  required: boolean;
  options: FieldOption[];
  other: boolean; // the user may enter own words instead
  min?: number; // bounds of a number, of the length of a text, or of the number of choices
  max?: number;
  above?: number; // exclusive bounds of a number
  below?: number;
}

/** What a person entered in a field. */
export interface Entered {
  text: string; // text of a text field, or of "other"
  chosen: readonly string[]; // JSON values of the chosen options
  on: boolean;
  other: boolean; // "other" is chosen
}

export type Form =
  | { kind: "fields"; message: string; fields: Field[] }
  | { kind: "page"; message: string; url: string };

type Obj = Record<string, unknown>;
const isObj = (v: unknown): v is Obj =>
  typeof v === "object" && v !== null && !Array.isArray(v) && !(v instanceof ExactNumber);
const text = (v: unknown): string => (typeof v === "string" ? v : "");
const array = (v: unknown): unknown[] => (Array.isArray(v) ? v : []);
const number = (v: unknown): number | undefined => {
  const n = v instanceof ExactNumber ? Number(v.source) : v;
  return typeof n === "number" && Number.isFinite(n) ? n : undefined;
};

const most = 100; // maximum number of fields, and of options of a field; a longer form is not shown

/** Reads the form in an approval's arguments {message, schema, url}. */
export function formOf(args: unknown): Form {
  const a = isObj(args) ? args : {};
  const message = text(a.message);
  if (text(a.url) !== "") return { kind: "page", message, url: text(a.url) };
  const schema = isObj(a.schema) ? a.schema : {};
  const required = array(schema.required);
  const properties = isObj(schema.properties) ? Object.entries(schema.properties) : [];
  const fields = properties
    .slice(0, most)
    .map(([key, s]) => fieldOf(key, isObj(s) ? s : {}, required.includes(key)));
  return { kind: "fields", message, fields };
}

function fieldOf(key: string, s: Obj, required: boolean): Field {
  const base = {
    key,
    name: text(s.title) || key,
    description: text(s.description) || undefined,
    required,
    options: [] as FieldOption[],
    other: false,
  };
  const options = optionsOf(s);
  if (options.length > 0) return { ...base, kind: "one", options };
  switch (s.type) {
    case "boolean":
      return { ...base, kind: "boolean" };
    case "number":
    case "integer":
      return {
        ...base,
        kind: s.type,
        min: number(s.minimum),
        max: number(s.maximum),
        above: number(s.exclusiveMinimum),
        below: number(s.exclusiveMaximum),
      };
    case "array": {
      const items = isObj(s.items) ? optionsOf(s.items) : [];
      const bounds = { min: number(s.minItems), max: number(s.maxItems) };
      if (items.length > 0) return { ...base, kind: "many", options: items, ...bounds };
      return { ...base, kind: "json" };
    }
    case "string":
    case undefined:
      if (s.type === undefined && (s.properties !== undefined || s.items !== undefined))
        return { ...base, kind: "json" };
      return { ...base, kind: formatOf(s), min: number(s.minLength), max: number(s.maxLength) };
  }
  return { ...base, kind: "json" };
}

function formatOf(s: Obj): FieldKind {
  switch (s.format) {
    case "email":
      return "email";
    case "uri":
    case "url":
      return "uri";
    case "date":
      return "date";
    case "date-time":
      return "datetime";
    case "password":
      return "secret";
  }
  return s.writeOnly === true ? "secret" : "text";
}

// Reads enum with enumNames, or oneOf or anyOf of constants with titles.
function optionsOf(s: Obj): FieldOption[] {
  const plain = (v: unknown) => typeof v !== "object" || v === null || v instanceof ExactNumber;
  const name = (v: unknown) => (typeof v === "string" ? v : jsonText(v));
  if (Array.isArray(s.enum)) {
    const names = array(s.enumNames);
    return s.enum
      .filter(plain)
      .slice(0, most)
      .map((v, i) => ({ json: jsonText(v), name: text(names[i]) || name(v) }));
  }
  const of = Array.isArray(s.oneOf) ? s.oneOf : array(s.anyOf);
  return of
    .filter(isObj)
    .filter((o) => o.const !== undefined && plain(o.const))
    .slice(0, most)
    .map((o) => ({
      json: jsonText(o.const),
      name: text(o.title) || name(o.const),
      description: text(o.description) || undefined,
    }));
}

/**
 * Reads the questions in arguments {questions: [{id?, header?, question,
 * options?, multiSelect?, isOther?, isSecret?}]}. Their key is the id or,
 * without one, the question. Each must be answered.
 */
export function questionsOf(args: unknown): Field[] {
  const list = isObj(args) ? array(args.questions) : [];
  return list
    .filter(isObj)
    .filter((q) => text(q.question) !== "")
    .slice(0, most)
    .map((q) => {
      const options = array(q.options)
        .filter(isObj)
        .filter((o) => text(o.label) !== "")
        .slice(0, most)
        .map((o) => ({
          json: JSON.stringify(o.label),
          name: text(o.label),
          description: text(o.description) || undefined,
        }));
      const kind = options.length === 0 ? "text" : q.multiSelect === true ? "many" : "one";
      return {
        key: text(q.id) || text(q.question),
        name: text(q.question),
        heading: text(q.header) || undefined,
        kind: kind === "text" && q.isSecret === true ? "secret" : kind,
        required: true,
        options,
        other: options.length > 0 && q.isOther !== false,
      };
    });
}

export const nothing: Entered = { text: "", chosen: [], on: false, other: false };

/** The initial values that the schema defines. */
export function defaults(args: unknown, fields: readonly Field[]): Map<string, Entered> {
  const schema = isObj(args) && isObj(args.schema) ? args.schema : {};
  const properties = isObj(schema.properties) ? schema.properties : {};
  const out = new Map<string, Entered>();
  for (const f of fields) {
    const s = Object.hasOwn(properties, f.key) ? properties[f.key] : undefined;
    const d = isObj(s) ? s.default : undefined;
    if (d !== undefined && d !== null) out.set(f.key, entered(f, d));
  }
  return out;
}

function entered(f: Field, d: unknown): Entered {
  const offered = (v: unknown) => f.options.some((o) => o.json === jsonText(v));
  switch (f.kind) {
    case "boolean":
      return { ...nothing, on: d === true };
    case "one":
      return { ...nothing, chosen: offered(d) ? [jsonText(d)] : [] };
    case "many":
      return {
        ...nothing,
        chosen: array(d)
          .filter(offered)
          .map((v) => jsonText(v)),
      };
    case "json":
      return { ...nothing, text: jsonText(d) };
    case "datetime":
      return { ...nothing, text: localTime(text(d)) };
    default:
      return { ...nothing, text: typeof d === "string" ? d : jsonText(d) };
  }
}

// Formats a time for the browser's datetime field: local, without a zone.
function localTime(iso: string): string {
  const t = new Date(iso);
  if (Number.isNaN(t.getTime())) return "";
  return new Date(t.getTime() - t.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

const email = /^[\w.!#$%&'*+/=?^`{|}~-]+@[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?(?:\.[a-zA-Z0-9-]+)*$/;
const numeral = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
const whole = /^-?(?:0|[1-9]\d*)$/;

/** A sentence about what is wrong with an entry; undefined if it is valid. */
export function fault(f: Field, e: Entered): string | undefined {
  const t = valueText(f, e);
  switch (f.kind) {
    case "boolean":
      return undefined;
    case "one":
      if (e.other && t === "") return "Type an answer or choose one.";
      return f.required && !e.other && e.chosen.length === 0 ? "Choose one." : undefined;
    case "many": {
      if (e.other && t === "") return "Type an answer or clear this choice.";
      const n = e.chosen.length + (e.other ? 1 : 0);
      if (n === 0 && !f.required) return undefined;
      if (n < Math.max(f.min ?? 0, f.required ? 1 : 0)) return `Choose at least ${Math.max(f.min ?? 1, 1)}.`;
      return f.max !== undefined && n > f.max ? `Choose at most ${f.max}.` : undefined;
    }
  }
  if (t === "") return f.required ? "Required." : undefined;
  return faultOfText(f, t);
}

function faultOfText(f: Field, t: string): string | undefined {
  switch (f.kind) {
    case "number":
    case "integer": {
      if (!(f.kind === "integer" ? whole : numeral).test(t))
        return f.kind === "integer" ? "This must be a whole number." : "This must be a number.";
      const n = Number(t);
      if (f.min !== undefined && n < f.min) return `At least ${f.min}.`;
      if (f.max !== undefined && n > f.max) return `At most ${f.max}.`;
      if (f.above !== undefined && n <= f.above) return `More than ${f.above}.`;
      return f.below !== undefined && n >= f.below ? `Less than ${f.below}.` : undefined;
    }
    case "json":
      return isJSON(t) ? undefined : "This must be JSON.";
    case "email":
      if (t.length > 320 || !email.test(t)) return "This must be an e-mail address.";
      break;
    case "uri":
      if (!URL.canParse(t)) return "This must be a full URL, such as https://example.org.";
      break;
    case "date":
      if (!isDate(t)) return "This must be a date: YYYY-MM-DD.";
      break;
    case "datetime":
      if (Number.isNaN(Date.parse(t))) return "This must be a date and a time.";
      return undefined;
  }
  const n = [...t].length;
  if (f.min !== undefined && n < f.min) return `At least ${f.min} characters.`;
  return f.max !== undefined && n > f.max ? `At most ${f.max} characters.` : undefined;
}

function isDate(t: string): boolean {
  if (!/^\d{4}-\d\d-\d\d$/.test(t)) return false;
  const d = new Date(`${t}T00:00:00Z`);
  return !Number.isNaN(d.getTime()) && d.toISOString().startsWith(t);
}

function isJSON(t: string): boolean {
  try {
    JSON.parse(t);
    return true;
  } catch {
    return false;
  }
}

// Surrounding white space is part of the value only in text and secret fields.
const valueText = (f: Field, e: Entered): string =>
  f.kind === "text" || f.kind === "secret" ? e.text : e.text.trim();

/**
 * The value of a field without errors as JSON; undefined if the field is left
 * out.
 */
function jsonOf(f: Field, e: Entered): string | undefined {
  const t = valueText(f, e);
  switch (f.kind) {
    case "boolean":
      return String(e.on);
    case "one":
      return e.other ? JSON.stringify(t) : e.chosen[0];
    case "many": {
      const all = f.options.map((o) => o.json).filter((j) => e.chosen.includes(j));
      if (e.other) all.push(JSON.stringify(t));
      return all.length > 0 || f.required ? `[${all.join(",")}]` : undefined;
    }
    case "number":
    case "integer":
    case "json":
      return t === "" ? undefined : t; // keep the digits as typed
    case "datetime":
      return t === "" ? undefined : JSON.stringify(new Date(t).toISOString());
    default:
      return t === "" ? undefined : JSON.stringify(t);
  }
}

/** The object of a completed form as JSON. */
export function content(fields: readonly Field[], values: ReadonlyMap<string, Entered>): string {
  const members = fields.flatMap((f) => {
    const v = jsonOf(f, values.get(f.key) ?? nothing);
    return v === undefined ? [] : [`${JSON.stringify(f.key)}:${v}`];
  });
  return `{${members.join(",")}}`;
}

/** The arguments of questions with the answers added, as JSON. */
export function answered(
  args: unknown,
  fields: readonly Field[],
  values: ReadonlyMap<string, Entered>,
): string {
  const rest = isObj(args) ? Object.entries(args).filter(([k]) => k !== "answers") : [];
  const members = rest.map(([k, v]) => `${JSON.stringify(k)}:${jsonText(v)}`);
  return `{${[...members, `"answers":${content(fields, values)}`].join(",")}}`;
}
