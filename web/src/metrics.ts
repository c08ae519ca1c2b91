import { BANDWIDTHS, COUNTS, LATENCIES, percent, ratio, type Scale, seconds, SIZES } from "./format";
import type { MetricFacts, PointSummary, Spread, StudyData } from "../generated/record";

/** Spread of a figure over a point's trials; infinite if its trial did not reach the state, such as warm. */
export type Range = Record<"median" | "min" | "max", number> & Pick<Spread, "interval">;

export interface Metric extends MetricFacts, Scale {
  of: (point: PointSummary | null) => Range | null;
}

const finite = (render: (value: number) => string) => (value: number): string => (Number.isFinite(value) ? render(value) : "not reached");

const KINDS: Record<MetricFacts["kind"], Scale> = {
  rate: { ...COUNTS, tableUnit: "tps" }, per_second: { ...COUNTS, tableUnit: "per second" }, latency: LATENCIES, bytes: SIZES, byte_rate: BANDWIDTHS, count: COUNTS,
  time: { render: finite(seconds), renderAxis: finite(seconds) },
  cost: { render: (value) => `${value.toFixed(2)} s`, renderAxis: (value) => `${Number(value.toPrecision(2))} s` },
  ratio: { render: finite(ratio), renderAxis: finite(ratio) },
};

export let METRICS: Metric[] = [];
export let TPS: Metric;
export let WORST: Metric;
export let P50: Metric;
export let P99: Metric;

/** Must run before drawing. */
export function declareMetrics(all: MetricFacts[]): void {
  METRICS = all.map((facts) => ({ ...facts, of: figureOf(facts.key), ...KINDS[facts.kind] }));
  const named = (name: string): Metric => {
    const found = METRICS.find((one) => one.name === name);
    if (!found) throw new Error(`the page does not declare the metric ${name}`);
    return found;
  };
  [TPS, WORST, P50, P99] = ["tps", "worst-second", "p50", "p99"].map(named) as [Metric, Metric, Metric, Metric];
}

const figureOf = (key: string) => (point: PointSummary | null): Range | null => {
  const spread = point === null ? null : spreadOf(point, key);
  const reached = (end: number | null): number => end ?? Number.POSITIVE_INFINITY;
  return spread ? { median: reached(spread.median), min: reached(spread.min), max: reached(spread.max), interval: spread.interval } : null;
};

export const spreadOf = (point: PointSummary, key: string): Spread | null => (point[key] as Spread | null | undefined) ?? null;

export const metricsOf = ({ points }: Pick<StudyData, "points">): Metric[] => METRICS.filter((metric) => points.some((point) => metric.of(point) !== null));

/** The requested figure if available, else the study's main one: throughput unless nothing was served. */
export function chosenOf(study: StudyData, name: string | null): Metric {
  const all = metricsOf(study);
  const job = all.some((one) => one.name === "warm-after") ? undefined : all.find((one) => one.name === "whole");
  return all.find((one) => one.name === name) ?? job ?? all.find((one) => one === TPS || one.name === "resident-after") ?? all[0] ?? TPS;
}

export function besideOf(metric: Metric, point: PointSummary): string {
  if (metric.name !== "warm-after") return "";
  const ratio = metricOf("bound-ratio");
  const range = ratio.of(point);
  return range !== null && Number.isFinite(range.median) ? `${ratio.render(range.median)} ${ratio.label}` : "";
}

export function renderMedian(metric: Metric, point: PointSummary, render = metric.render): string {
  const range = metric.of(point);
  return range === null ? "–" : render(range.median);
}

export const columnOf = ({ label, tableUnit }: Pick<Metric, "label" | "tableUnit">): string => (tableUnit === undefined ? label : `${label} (${tableUnit})`);

export const metricOf = (name: string | null): Metric => METRICS.find((one) => one.name === name) ?? TPS;

/** `394–719`, or "" if both ends look the same. */
export function rangeText(range: Pick<Range, "min" | "max"> | null, render: (value: number) => string): string {
  if (range === null) return "";
  const [low, high] = [render(range.min), render(range.max)];
  return low === high ? "" : `${low}–${high}`;
}

export const endsOf = ({ min, max, interval }: Range): Pick<Range, "min" | "max"> => (interval ? { min: interval.low, max: interval.high } : { min, max });

/** The median's interval and coverage, if known: `380–720 (holds in 75 %)`. */
export function intervalText(range: Range | null, render: (value: number) => string): string {
  const interval = range?.interval;
  if (!interval) return "";
  return `${render(interval.low)}–${render(interval.high)} (holds in ${percent(interval.coverage)})`;
}
