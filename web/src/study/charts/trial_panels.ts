// What is drawn of a trial, one panel above the other.

import { bytes, compact, count, latency } from "../../format";
import type { TrialData, TrialSeries } from "../record";

/** A line, and where there is one the band around it, as points of time and value. */
export interface Curve {
  name: string;
  values: (number | null)[];
  low?: (number | null)[];
  high?: (number | null)[];
  isStep?: boolean;
}

export interface Panel {
  id: string;
  title: string;
  render: (value: number) => string;
  renderAxis: (value: number) => string;
  isLog?: boolean;
  /** How high it is beside the others. */
  weight: number;
  curves: (data: TrialData) => Curve[];
  /** A line across. */
  level?: (data: TrialData) => { value: number; label: string } | null;
}

/** Spans of one second have no ends but themselves. */
const ends = (series: TrialSeries, low: (number | null)[], high: (number | null)[]): Pick<Curve, "low" | "high"> => (series.width > 1 ? { low, high } : {});

export const PANELS: Panel[] = [
  {
    id: "tps", title: "Transactions per second", render: count, renderAxis: compact, weight: 1.5,
    curves: ({ series }) => [{ name: "transactions", values: series.tps.mean, ...ends(series, series.tps.min, series.tps.max) }],
  },
  {
    id: "latency", title: "Latency: shortest, mean and longest", render: latency, renderAxis: latency, isLog: true, weight: 1.5,
    curves: ({ series }) => [{ name: "mean latency", values: series.latency_us_mean, low: series.latency_us_min, high: series.latency_us_max }],
  },
  {
    id: "resident", title: "The database in the page cache", render: bytes, renderAxis: bytes, weight: 1,
    curves: ({ series }) => [{ name: "resident", values: series.os_resident_bytes }],
    level: ({ trial }) => (trial.start_state === null ? null : { value: trial.start_state.total_bytes, label: `at the start, ${bytes(trial.start_state.total_bytes)}` }),
  },
  {
    id: "device", title: "Reads from the device, per second", render: bytes, renderAxis: bytes, weight: 1,
    curves: ({ series }) => [
      { name: "by anybody", values: series.device_read_bytes.mean, ...ends(series, series.device_read_bytes.min, series.device_read_bytes.max) },
      { name: "by the workload", values: series.foreground_read_bytes },
    ],
  },
];
