import type { Attachment } from "./types";
import { isObj, optNum, optStr, str } from "./values";

/** Returns the attachment of a prompt, or undefined if v is none. */
export function parseAttachment(v: unknown): Attachment | undefined {
  if (!isObj(v)) return undefined;
  return {
    name: optStr(v.name),
    mediaType: str(v.mediaType),
    size: optNum(v.size),
    picture: optStr(v.picture),
  };
}
