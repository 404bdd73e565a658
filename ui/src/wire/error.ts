/**
 * A response other than 2xx, or no response. The message is meant for users.
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
