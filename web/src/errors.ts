// What went wrong, in one line: what, where, what to do.

export type ErrorCode =
  | "invalid-model"
  | "invalid-graph"
  | "unsupported"
  | "over-limits"
  | "device"
  | "device-lost"
  | "out-of-memory"
  | "invalid-input"
  | "io"
  | "cancelled";

export class GyrusError extends Error {
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string) {
    super(message);
    this.name = "GyrusError";
    this.code = code;
  }
}
