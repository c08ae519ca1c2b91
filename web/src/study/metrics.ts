// The figures of a point that can be drawn.

import { bytes, compact, count, latency, percent } from "../format";
import type { PointSummary, Range } from "./record";

export interface Metric {
  id: string;
  label: string;
  unit: string;
  /** Of its figures in a table, where they have none themselves. */
  tableUnit?: string;
  of: (point: PointSummary) => Range | null;
  render: (value: number) => string;
  renderAxis: (value: number) => string;
  isLowBetter: boolean;
  /** Its values differ by orders of magnitude. */
  isLog: boolean;
}

const number = { render: count, renderAxis: compact, isLog: false };
const rate = { ...number, tableUnit: "tps" };
const time = { render: latency, renderAxis: latency, isLog: true, isLowBetter: true };

export const TPS: Metric = { id: "tps", label: "throughput", unit: "transactions per second", of: (one) => one.tps, isLowBetter: false, ...rate };
export const WORST: Metric = { id: "worst-second", label: "worst second", unit: "transactions in the worst second", of: (one) => one.worst_second_tps, isLowBetter: false, ...rate };
export const P50: Metric = { id: "p50", label: "median latency", unit: "median latency", of: (one) => one.latency_us_p50, ...time };
export const P95: Metric = { id: "p95", label: "95th percentile", unit: "95th percentile of latency", of: (one) => one.latency_us_p95, ...time };
export const P99: Metric = { id: "p99", label: "99th percentile", unit: "99th percentile of latency", of: (one) => one.latency_us_p99, ...time };
export const P999: Metric = { id: "p999", label: "99.9th percentile", unit: "99.9th percentile of latency", of: (one) => one.latency_us_p999, ...time };

export const METRICS: Metric[] = [
  TPS,
  WORST,
  P50,
  P95,
  P99,
  P999,
  { id: "read", label: "device reads (by anybody)", unit: "bytes read from the device in a trial, by anybody", of: (one) => one.device_read_bytes, render: bytes, renderAxis: bytes, isLowBetter: true, isLog: false },
  { id: "writes", label: "device writes (by anybody)", unit: "writes of the device per second, by anybody", of: (one) => one.device_writes_per_second, isLowBetter: true, ...number, tableUnit: "per second" },
  { id: "written", label: "device written (by anybody)", unit: "bytes written to the device in a trial, by anybody", of: (one) => one.device_written_bytes, render: bytes, renderAxis: bytes, isLowBetter: true, isLog: false },
  { id: "checkpoints", label: "checkpoints", unit: "checkpoints that ended in a trial", of: (one) => one.checkpoints, isLowBetter: true, ...number },
];

/** The head of its column. */
export const columnOf = ({ label, tableUnit }: Metric): string => (tableUnit === undefined ? label : `${label} (${tableUnit})`);

export const metricOf = (id: string | null): Metric => METRICS.find((one) => one.id === id) ?? TPS;

/** `394–719`, or nothing where both are the same as shown. */
export function rangeText(range: Range, render: (value: number) => string): string {
  const [low, high] = [render(range.min), render(range.max)];
  return low === high ? "" : `${low}–${high}`;
}

/** The ends of the median's interval, where there are trials enough, and of the trials otherwise. */
export function endsOf({ min, max, interval }: Range): { min: number; max: number } {
  return interval ? { min: interval.low, max: interval.high } : { min, max };
}

/** `median within 380–720 (in 75 % of cases)`, where there are trials enough. */
export function intervalText(range: Range, render: (value: number) => string): string {
  const { interval } = range;
  if (!interval) return "";
  return `${render(interval.low)}–${render(interval.high)} (holds in ${percent(interval.coverage)})`;
}
