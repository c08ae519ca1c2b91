// Numbers as people read them. Units as pgthaw's terminal prints them (src/units/bytes.rs): sizes as PostgreSQL prints them,
// bandwidths in powers of ten as vendors do, seconds with one digit.

import type { Limits, Ratio, Spread } from "./record";

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

export const seconds = (value: number): string => `${value.toFixed(1)} s`;
/** What is so from its first second on is so at once, as the terminal says it. */
export const instant = (value: number): string => (value < 0.05 ? "at once" : seconds(value));
export const after = (value: number): string => (value < 0.05 ? "at once" : `after ${seconds(value)}`);
export const ratio = (value: number): string => value.toFixed(2);
/** As the terminal writes it: `0.43`, `< 0.30`, `> 1.25`, `0.40–0.47`; `?` is anything. */
export function limits({ at_least: low, at_most: high }: Limits): string {
  if (high === null) return low > 0 ? `> ${ratio(low)}` : "?";
  if (ratio(low) === ratio(high)) return ratio(high);
  return low > 0 ? `${ratio(low)}–${ratio(high)}` : `< ${ratio(high)}`;
}

/** The median, and where there is one its interval: `0.43 (0.40–0.47)`. */
export function ratioText(value: Ratio | null): string {
  if (value === null) return "–";
  const [median, interval] = [limits(value.median), value.interval === null ? null : limits(value.interval)];
  return interval === null || interval === median ? median : `${median} (${interval})`;
}

export const count = (value: number): string => whole.format(value);
export const percent = (share: number): string => `${(share * 100).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`;

/** At least three figures, without the zeros at their end. */
function scaled(value: number, step: number, units: string[]): string {
  let unit = 0;
  let rest = value;
  while (rest >= step - 0.5 && unit < units.length - 1) {
    rest /= step;
    unit += 1;
  }
  const digits = unit === 0 || rest >= 99.95 ? 0 : rest < 9.995 ? 2 : 1;
  return `${Number(rest.toFixed(digits))} ${units[unit]}`;
}

/** A size: 256 MB are 2²⁸ bytes. */
export const bytes = (value: number): string => scaled(value, 1024, ["bytes", "kB", "MB", "GB", "TB", "PB"]);

/** Bytes in a second: 131 MB/s are 131,000,000. */
export const bandwidth = (value: number): string => scaled(value, 1000, ["B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s"]);

/** Steps of an axis of sizes, at most so many: powers of two, so that its labels are round. */
export const sizeSteps = (highest: number, steps: number): number => 2 ** Math.ceil(Math.log2(Math.max(highest, steps) / steps));

export function latency(microseconds: number): string {
  if (microseconds < 1000) return `${microseconds.toFixed(0)} µs`;
  const milliseconds = microseconds / 1000;
  if (milliseconds < 1000) return `${milliseconds.toFixed(milliseconds < 10 ? 1 : 0)} ms`;
  return `${(milliseconds / 1000).toFixed(1)} s`;
}

/** 950, 46 k, 1.25 M: for axes. */
export function compact(value: number): string {
  const size = Math.abs(value);
  if (size < 10_000) return whole.format(value);
  const [scaled, unit] = size < 999_500 ? [value / 1e3, "k"] : [value / 1e6, "M"];
  return `${Number(scaled.toPrecision(3))} ${unit}`;
}

/** Keeps a number on one line with its unit. */
export const unbroken = (text: string): string =>
  text.replaceAll(" × ", "\u00a0×\u00a0").replace(/(\d) s\b/g, "$1\u00a0s");

/** 2026-11-21 23:30:05 UTC */
export function time(iso: string): string {
  return `${new Date(iso).toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

/** The middle of a spread, and its ends where they differ as shown. What was not reached is longer than `limit`. */
export function spread(
  value: Spread | null,
  render: (value: number) => string,
  limit: string,
): { median: string; range: string | null } {
  if (value === null || value.repeats === 0) return { median: "–", range: null };
  const orBeyond = (one: number | null): string => (one === null ? `> ${limit}` : render(one));
  const [low, high] = [orBeyond(value.min), orBeyond(value.max)];
  return { median: orBeyond(value.median), range: low === high ? null : range(low, high) };
}

/** `5.9–6.4 s`: a unit that both ends have is said once. */
export function range(low: string, high: string): string {
  const unit = / \S+$/.exec(high)?.[0] ?? "";
  return `${unit !== "" && low.endsWith(unit) && !low.startsWith(">") ? low.slice(0, -unit.length) : low}–${high}`;
}
