/** An answer that is not 2xx, or none; the message is made to be shown. */
export class ApiError extends Error {
  constructor(
    readonly type: string,
    message: string,
    readonly status: number, // 0: there was no answer of the server
    readonly details: Record<string, unknown> = {},
  ) {
    super(message);
  }
}
