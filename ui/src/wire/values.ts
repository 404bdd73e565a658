// Reads values of unknown shape. A value of another type becomes the empty one.

import { sentence } from "./error";

export type Obj = Record<string, unknown>;

export const isObj = (v: unknown): v is Obj => typeof v === "object" && v !== null && !Array.isArray(v);
export const str = (v: unknown): string => (typeof v === "string" ? v : "");
export const optStr = (v: unknown): string | undefined => (typeof v === "string" && v !== "" ? v : undefined);
export const optSentence = (v: unknown): string | undefined =>
  typeof v === "string" && v !== "" ? sentence(v) : undefined;
export const num = (v: unknown): number => (typeof v === "number" && Number.isFinite(v) ? v : 0);
export const optNum = (v: unknown): number | undefined =>
  typeof v === "number" && Number.isFinite(v) ? v : undefined;
export const list = <T>(v: unknown, of: (x: unknown) => T | undefined): T[] =>
  Array.isArray(v) ? v.map(of).filter((x) => x !== undefined) : [];
export const oneOf = <const T extends string>(v: unknown, known: readonly T[], otherwise: NoInfer<T>): T =>
  known.includes(v as T) ? (v as T) : otherwise;
