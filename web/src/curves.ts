import type { Drawn } from "./curve_stage";
import type { Fit, RelationResidency, TrialSeries } from "../generated/record";

/** `V` includes `null` if values can be missing. */
export interface Point<V = number> {
  /** Seconds since the start of the workload. */
  at: number;
  median: V;
  /** Range over the repeats; for a single trial, over the span's samples. */
  min: V;
  max: V;
}

export interface Curve<V = number> {
  name: string;
  points: Point<V>[];
}

export type Values = (number | null)[];

export function median(values: number[]): number | null {
  if (values.length === 0) return null;
  const sorted = [...values].sort((a, b) => a - b);
  const [low, high] = [Math.floor((sorted.length - 1) / 2), Math.floor(sorted.length / 2)].map((place) => sorted[place] ?? 0) as [number, number];
  return (low + high) / 2;
}

export const mean = (values: number[]): number => (values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length);

type Read = [at: number, value: number | null][];

function curveOf(trials: Drawn[], name: string, read: (trial: Drawn, series: TrialSeries | null) => Read): Curve {
  const byInstant = new Map<number, number[]>();
  for (const [at, value] of trials.filter((trial) => trial.name === name).flatMap((trial) => read(trial, trial.series))) {
    if (value !== null) byInstant.set(at, [...(byInstant.get(at) ?? []), value]);
  }
  const points = [...byInstant].sort(([a], [b]) => a - b).map(([at, values]) => ({ at, median: median(values) ?? 0, min: Math.min(...values), max: Math.max(...values) }));
  return { name, points };
}

/** The value of a span is drawn at its middle. */
export const middles = ({ second }: TrialSeries): number[] => second.map((end, span) => (end + (second[span - 1] ?? 0)) / 2);

const atMiddles = (series: TrialSeries | null, values: (series: TrialSeries) => Values): Read => {
  if (series === null) return [];
  const read = values(series);
  return middles(series).map((at, span) => [at, read[span] ?? null]);
};

export const rateCurve = (trials: Drawn[], name: string, values: (series: TrialSeries) => Values): Curve =>
  curveOf(trials, name, (_, series) => atMiddles(series, values));

export function shareCurve(trials: Drawn[], name: string, other: string): Curve {
  const others = new Map(trials.filter((trial) => trial.name === other).map(({ repeat, series }) => [repeat, series?.tps.mean]));
  return curveOf(trials, name, ({ repeat }, series) => atMiddles(series, ({ tps }) => tps.mean.map((value, span) => {
    const served = others.get(repeat)?.[span] ?? 0;
    return served > 0 ? value / served : null;
  })));
}

/** Curve of a state such as a cached size, at the start and at each span's end. */
export const stateCurve = (trials: Drawn[], name: string, atStart: (trial: Drawn) => number, values: (series: TrialSeries) => number[]): Curve =>
  curveOf(trials, name, (trial, series) => [[0, atStart(trial)], ...(series === null ? [] : values(series).map((value, span): [number, number] => [series.second[span] ?? 0, value]))]);

export const servedCurve = (trials: Drawn[], name: string): Curve => stateCurve(trials, name, () => 0, ({ second, tps }) => {
  let served = 0;
  return second.map((end, span) => (served += (tps.mean[span] ?? 0) * (end - (second[span - 1] ?? 0))));
});

/**
 * Throughput by the closed form at the middle of each second. Inverts `after`, the seconds for i transactions:
 * t(i) = hit i + pages extra (1 − e^(−i/pages)).
 */
export function fittedCurve(fit: Fit, seconds: number): [number, number][] {
  const hit = fit.hit_seconds.value / fit.clients;
  const extra = (fit.cold_seconds.value - fit.hit_seconds.value) / fit.clients;
  const pages = fit.pages.value;
  const each = (done: number): number => hit + extra * Math.exp(-done / pages);
  const after = (done: number): number => hit * done - pages * extra * Math.expm1(-done / pages);
  let done = 0;
  return Array.from({ length: seconds }, (_, second): [number, number] => {
    // Newton's method from below; t is concave, so it never overshoots.
    for (let step = 0; step < 50; step += 1) done += (second + 0.5 - after(done)) / each(done);
    return [second + 0.5, 1 / each(done)];
  });
}

export function aheadOf(curve: Curve, baseline: Curve): Curve {
  const medians = new Map(baseline.points.map((point) => [point.at, point.median]));
  const points = curve.points.flatMap(({ at, median, min, max }) => {
    const base = medians.get(at);
    return base === undefined ? [] : [{ at, median: median - base, min: min - base, max: max - base }];
  });
  return { ...curve, points };
}

/** Interpolates the field `of` at the place where the rising field `by` reaches `value`. */
function along({ points }: Curve, by: "at" | "median", value: number, of: "at" | "median"): number | null {
  const after = points.findIndex((point) => point[by] >= value);
  const right = after < 0 ? points.at(-1) : points[after];
  const left = after > 0 ? points[after - 1] : right;
  if (!left || !right) return null;
  const width = right[by] - left[by];
  const share = width > 0 ? Math.min(1, Math.max(0, (value - left[by]) / width)) : 0;
  return left[of] + (right[of] - left[of]) * share;
}

export const valueAt = (curve: Curve, at: number): number | null => along(curve, "at", at, "median");

export const overTransactions = (curve: Curve, served: Curve): Curve => ({
  ...curve,
  points: curve.points.map((point) => ({ ...point, at: Math.round(valueAt(served, point.at) ?? 0) })),
});

/** A round step that gives about ten ticks. */
export function transactionStep(served: Curve[]): number {
  const most = Math.max(1, ...served.map(({ points }) => points.at(-1)?.median ?? 0));
  const size = 10 ** Math.floor(Math.log10(most / 10));
  return Math.max(1, ([1, 2, 5].find((step) => most / (step * size) <= 12) ?? 10) * size);
}

export function tickInstants(served: Curve, step: number): number[] {
  const count = Math.floor((served.points.at(-1)?.median ?? 0) / step);
  return Array.from({ length: count }, (_, tick) => along(served, "median", (tick + 1) * step, "at")).filter((at) => at !== null);
}

export type Tier = "os" | "buffers";
export type Instant = "before" | "after";

/** Mean cached share of each piece of the relation, over the repeats. */
export function stripOf(trials: Drawn[], name: string, relation: string, instant: Instant, tier: Tier): number[] {
  const strips = trials.filter((trial) => trial.name === name).flatMap(({ residency }) => residency.filter((one) => one.relation === relation)).map((one) => one[instant][tier]);
  const pieces = Math.max(0, ...strips.map((strip) => strip.length));
  return Array.from({ length: pieces }, (_, piece) => mean(strips.flatMap((strip) => strip[piece] ?? [])));
}

export function relationsOf(trials: Drawn[]): RelationResidency[] {
  const byName = new Map<string, RelationResidency>();
  for (const one of trials.flatMap(({ residency }) => residency)) if (!byName.has(one.relation)) byName.set(one.relation, one);
  return [...byName.values()].sort((a, b) => b.total_bytes - a.total_bytes);
}
