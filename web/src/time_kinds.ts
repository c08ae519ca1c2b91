// Kinds of time of client backends: in the order in which they are stacked, each with one hue wherever it is drawn.

import { GREY, type Hue, WAITS } from "./palette";
import type { TimedPoint } from "../generated/record";

export interface TimeKind {
  /** Its column in the curves of a trial, and its field of a point. */
  column: string;
  field: keyof TimedPoint;
  label: string;
  hue: Hue;
}

export const KINDS: readonly TimeKind[] = [
  { column: "time_running", field: "running_seconds", label: "on a processor", hue: WAITS["on a processor"] },
  { column: "time_ready", field: "ready_seconds", label: "ready for one", hue: WAITS["IO DataFileRead"] },
  { column: "time_lwlock", field: "lwlock_seconds", label: "LWLock", hue: WAITS["LWLock WALWrite"] },
  { column: "time_lock", field: "lock_seconds", label: "Lock", hue: WAITS["Lock transactionid"] },
  { column: "time_io", field: "io_seconds", label: "IO", hue: WAITS["IO WALSync"] },
  { column: "time_other", field: "other_seconds", label: "other events", hue: WAITS["other waits"] },
  { column: "time_no_event", field: "no_event_seconds", label: "no event", hue: WAITS["Lock tuple"] },
  { column: "time_unknown", field: "unknown_seconds", label: "unknown", hue: WAITS["LWLock BufferContent"] },
  { column: "time_client", field: "client_seconds", label: "waiting for the client", hue: GREY },
];

/** Seconds of this kind at a point; a source that cannot tell one has none of it. */
export function secondsOf(point: TimedPoint, { field }: TimeKind): number {
  const value = point[field];
  return typeof value === "number" ? value : 0;
}
