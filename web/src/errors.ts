// What went wrong, in one line: what, where; and, as data, what may help. Codes and hints are those of gyrus/error.h.

export const errorCodes = ["invalid-model", "invalid-graph", "unsupported", "over-limits", "device", "invalid-input", "io",
  "cancelled", "non-finite"] as const;
export type ErrorCode = (typeof errorCodes)[number];

export const hintNames = ["half-precision", "single-precision", "smaller-volume", "smaller-model", "other-model",
  "other-device", "check-finite", "allow-empty", "fetch-model", "fetch-from-folder"] as const;
export type Hint = (typeof hintNames)[number];

/** Failures of a device after which another device or a smaller plan may do: a "device" error or an "over-limits" one. */
export type Failure = "device-lost" | "out-of-memory";

export interface ErrorDetails {
  hints?: readonly Hint[]; // the most promising first
  failure?: Failure;
  stateChanged?: boolean;
}

export class GyrusError extends Error {
  readonly code: ErrorCode;
  readonly hints: readonly Hint[];
  readonly failure: Failure | null;
  /** Whether the run that failed may have changed states; where not, all are as they were before it. */
  readonly stateChanged: boolean;

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(message);
    this.name = "GyrusError";
    this.code = code;
    this.hints = details.hints ?? [];
    this.failure = details.failure ?? null;
    this.stateChanged = details.stateChanged ?? false;
  }
}

/** The device went away. */
export function deviceLost(message: string): GyrusError {
  return new GyrusError("device", message, { failure: "device-lost", hints: ["other-device"] });
}

/** Device or page did not give the memory that was asked for. */
export function outOfMemory(message: string, hints: readonly Hint[] = ["half-precision", "smaller-volume"]): GyrusError {
  return new GyrusError("over-limits", message, { failure: "out-of-memory", hints });
}

/** The error of a run that may have changed states. */
export function withStateChanged(error: unknown): unknown {
  if (!(error instanceof GyrusError)) return error;
  const { code, message, hints, failure } = error;
  const details = { hints, stateChanged: true, ...(failure ? { failure } : {}) };
  return new GyrusError(code, `${message}; states may have changed`, details);
}

export function isCancelled(error: unknown): boolean {
  return error instanceof GyrusError && error.code === "cancelled";
}
