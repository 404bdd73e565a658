/**
 * An error of the server as a sentence. In the API, errors begin in lower case,
 * because programs put text before them. A first word that is a name, such as
 * `projectDir` or `config.yaml`, stays as it is.
 */
export function sentence(text: string): string {
  const word = /^[a-z]+(?=[\s:;,’']|$)/.exec(text)?.[0];
  return word ? word.charAt(0).toUpperCase() + text.slice(1) : text;
}

/** What is wrong with the one field that a form has, without its name in the API. */
export const withoutField = (message: string, field: string) =>
  message.toLowerCase().startsWith(`${field}: `) ? sentence(message.slice(field.length + 2)) : message;

/**
 * A response other than 2xx, or no response. The message is a sentence for
 * users.
 */
export class ApiError extends Error {
  constructor(
    readonly type: string,
    message: string,
    readonly status: number, // 0: the server did not respond
    readonly details: Record<string, unknown> = {},
  ) {
    super(message);
  }
}

/**
 * Whether an error says that the server did not do what a request asked for.
 * Other errors leave that open: a reverse proxy answers with a status of 500 or
 * more if it lost the server's own response.
 */
export const isRefusal = (e: unknown): boolean => e instanceof ApiError && e.status >= 400 && e.status < 500;
