// What the charts draw, computed from the trials' seconds. Pure.

import type { Fit, RelationResidency, TrialSeries } from "../generated/record";
import type { Warmed } from "./warmers_state";

/** One quantity over time: the median of the repeats, and the smallest and the largest of them. */
export interface Curve {
  strategy: string;
  points: Point[];
}

export interface Point {
  /** Seconds since the workload began. */
  at: number;
  median: number;
  min: number;
  max: number;
}

export function median(values: number[]): number | null {
  if (values.length === 0) return null;
  const sorted = [...values].sort((a, b) => a - b);
  const low = sorted[Math.floor((sorted.length - 1) / 2)] ?? 0;
  const high = sorted[Math.floor(sorted.length / 2)] ?? 0;
  return (low + high) / 2;
}

export function mean(values: number[]): number {
  return values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length;
}

export const trialsOf = <T extends { strategy: string }>(trials: T[], strategy: string): T[] => trials.filter((trial) => trial.strategy === strategy);

/** What a curve over time is made of. */
export type Drawn = Pick<Warmed, "strategy" | "series">;

/** Joins the repeats of a strategy; each gives its own list of instants and values. */
function join(strategy: string, repeats: [number, number][][]): Curve {
  const byInstant = new Map<number, number[]>();
  for (const [at, value] of repeats.flat()) {
    const values = byInstant.get(at);
    if (values) values.push(value);
    else byInstant.set(at, [value]);
  }
  const points = [...byInstant.entries()]
    .sort(([a], [b]) => a - b)
    .map(([at, values]) => ({ at, median: median(values) ?? 0, min: Math.min(...values), max: Math.max(...values) }));
  return { strategy, points };
}

type Values = (number | null)[];

/** The middle of each span; its value is that of every second in it. */
export const middles = ({ second }: TrialSeries): number[] => second.map((end, index) => (end + (second[index - 1] ?? 0)) / 2);

/** A value of each span, drawn at its middle. */
export function rateCurve(trials: Drawn[], strategy: string, values: (series: TrialSeries) => Values): Curve {
  const repeats = trialsOf(trials, strategy).map(({ series }) => {
    if (series === null) return [];
    const read = values(series);
    return middles(series).flatMap((at, span): [number, number][] => {
      const value = read[span] ?? null;
      return value === null ? [] : [[at, value]];
    });
  });
  return join(strategy, repeats);
}

/** A span's transactions ÷ those of another strategy in the same span of the same round. */
export function shareCurve(trials: Warmed[], strategy: string, other: string): Curve {
  const others = new Map(trialsOf(trials, other).map((trial) => [trial.repeat, trial.series?.tps.mean]));
  const repeats = trialsOf(trials, strategy).map(({ repeat, series }) => {
    if (series === null) return [];
    return middles(series).flatMap((at, span): [number, number][] => {
      const served = others.get(repeat)?.[span] ?? 0;
      return served > 0 ? [[at, (series.tps.mean[span] ?? 0) / served]] : [];
    });
  });
  return join(strategy, repeats);
}

/** A state at the end of each span, and at the start. */
export function stateCurve(trials: Warmed[], strategy: string, atStart: (trial: Warmed) => number, values: (series: TrialSeries) => number[]): Curve {
  const repeats = trialsOf(trials, strategy).map((trial): [number, number][] => {
    const read = trial.series === null ? [] : values(trial.series);
    return [[0, atStart(trial)], ...read.map((value, span): [number, number] => [trial.series?.second[span] ?? 0, value])];
  });
  return join(strategy, repeats);
}

/** Transactions served since the start. */
export const servedCurve = (trials: Warmed[], strategy: string): Curve => stateCurve(trials, strategy, () => 0, ({ second, tps }) => {
  let served = 0;
  return second.map((end, span) => (served += (tps.mean[span] ?? 0) * (end - (second[span - 1] ?? 0))));
});

/** Throughput by the closed form in the middle of each second: t(i) = Tc i + P (Td − Tc) (1 − e^(−i/P)), turned around. */
export function fittedCurve(fit: Fit, seconds: number): [number, number][] {
  const hit = fit.hit_seconds.value / fit.clients;
  const extra = (fit.cold_seconds.value - fit.hit_seconds.value) / fit.clients;
  const pages = fit.pages.value;
  const each = (done: number): number => hit + extra * Math.exp(-done / pages);
  const after = (done: number): number => hit * done - pages * extra * Math.expm1(-done / pages);
  let done = 0;
  return Array.from({ length: seconds }, (_, second): [number, number] => {
    // Newton's method from below: the curve is concave, so that it never goes beyond.
    for (let step = 0; step < 50; step += 1) done += (second + 0.5 - after(done)) / each(done);
    return [second + 0.5, 1 / each(done)];
  });
}

/** The same curve, less the median of another at each instant. */
export function aheadOf(curve: Curve, baseline: Curve): Curve {
  const medians = new Map(baseline.points.map((point) => [point.at, point.median]));
  const points = curve.points.flatMap((point) => {
    const base = medians.get(point.at);
    if (base === undefined) return [];
    return [{ at: point.at, median: point.median - base, min: point.min - base, max: point.max - base }];
  });
  return { strategy: curve.strategy, points };
}

/** The median at an instant, between points on the line that joins them. */
export function valueAt(curve: Curve, at: number): number | null {
  const after = curve.points.findIndex((point) => point.at >= at);
  const right = after < 0 ? curve.points.at(-1) : curve.points[after];
  const left = after > 0 ? curve.points[after - 1] : right;
  if (!left || !right) return null;
  const width = right.at - left.at;
  const share = width > 0 ? (at - left.at) / width : 0;
  return left.median + (right.median - left.median) * Math.min(1, Math.max(0, share));
}

/** The instant at which a curve that never falls reaches a value. */
function instantOf(curve: Curve, value: number): number | null {
  const after = curve.points.findIndex((point) => point.median >= value);
  const [left, right] = [curve.points[after - 1], curve.points[after]];
  if (!right) return null;
  if (!left || right.median === left.median) return right.at;
  return left.at + ((value - left.median) / (right.median - left.median)) * (right.at - left.at);
}

/** A curve over the transactions that were served by then, instead of over time. */
export const overTransactions = (curve: Curve, served: Curve): Curve => ({
  ...curve,
  points: curve.points.map((point) => ({ ...point, at: Math.round(valueAt(served, point.at) ?? 0) })),
});

/** A round number of transactions of which the curves have some ten. */
export function transactionStep(served: Curve[]): number {
  const most = Math.max(1, ...served.map(({ points }) => points.at(-1)?.median ?? 0));
  const size = 10 ** Math.floor(Math.log10(most / 10));
  return Math.max(1, ([1, 2, 5].find((step) => most / (step * size) <= 12) ?? 10) * size);
}

/** The instants at which so many transactions more had been served. */
export function tickInstants(served: Curve, step: number): number[] {
  const count = Math.floor((served.points.at(-1)?.median ?? 0) / step);
  return Array.from({ length: count }, (_, tick) => instantOf(served, (tick + 1) * step)).filter((at) => at !== null);
}

export type Tier = "os" | "buffers";
export type Instant = "before" | "after";

/** Resident shares of a relation's pieces, each the mean over the repeats of a strategy. */
export function stripOf(
  trials: Warmed[],
  strategy: string,
  relation: string,
  instant: Instant,
  tier: Tier,
): number[] {
  const strips = trialsOf(trials, strategy)
    .flatMap((trial) => trial.residency.filter((one) => one.relation === relation))
    .map((one) => one[instant][tier]);
  const pieces = Math.max(0, ...strips.map((strip) => strip.length));
  return Array.from({ length: pieces }, (_, piece) => mean(strips.flatMap((strip) => strip[piece] ?? [])));
}

/** Every relation that any trial looked at, the largest first. */
export function relationsOf(trials: Warmed[]): RelationResidency[] {
  const byName = new Map<string, RelationResidency>();
  for (const relation of trials.flatMap((trial) => trial.residency)) {
    if (!byName.has(relation.relation)) byName.set(relation.relation, relation);
  }
  return [...byName.values()].sort((a, b) => b.total_bytes - a.total_bytes);
}
