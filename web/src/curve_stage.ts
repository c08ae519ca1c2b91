// What a chart over time needs to know of whose curves it draws.

import type { Backdrop } from "./appearance";
import type { SeriesStyle } from "./palette";

export interface CurveStage extends Backdrop {
  style(name: string): SeriesStyle;
  /** How strongly a curve is drawn: the others step back while one stands out. */
  opacity(name: string): number;
  readonly focus: string | null;
  /** Seconds of the longest trial. */
  readonly longest: number;
  /** Seconds below which nobody can be warm; `null` where that is not known. */
  readonly bound: number | null;
}
