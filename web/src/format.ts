// Numbers in the terminal's units: sizes as in PostgreSQL (256 MB are 2^28 bytes), bandwidths decimal (1 MB/s is 10^6
// bytes per second).

import type { Limits, Ratio, Spread } from "../generated/record";

// Control characters, invisible ones, and those that change the writing direction.
const treacherous = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/;
/** Makes the texts of JSON safe to show. Most JSON needs no change and is parsed once. */
export function parseShown(json: string): unknown {
  if (!treacherous.test(json) && !/\\u00[01]|\\[bfrt]/.test(json)) return JSON.parse(json);
  // Writes each control or invisible character as its code, as pgthaw does in the terminal: `\u{1b}`. Keeps newlines.
  const shown = (text: string): string => text.replace(new RegExp(treacherous, "g"), (one) => `\\u{${one.charCodeAt(0).toString(16)}}`);
  return JSON.parse(json, (_, value: unknown) => (typeof value === "string" ? shown(value) : value));
}

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

export const seconds = (value: number): string => `${value.toFixed(1)} s`;
export const instant = (value: number): string => (value < 0.05 ? "at once" : seconds(value));
export const after = (value: number): string => (value < 0.05 ? "at once" : `after ${seconds(value)}`);
/** 53:45:32 */
export function clock(value: number): string {
  const whole = Math.round(value);
  const two = (part: number): string => String(Math.floor(part) % 60).padStart(2, "0");
  return `${Math.floor(whole / 3600)}:${two(whole / 60)}:${two(whole)}`;
}
export const ratio = (value: number): string => value.toFixed(2);
/** Formats limits as in the terminal: `0.43`, `< 0.30`, `> 1.25`, `0.40–0.47`; `?` is unknown. */
export function limits({ at_least: low, at_most: high }: Limits): string {
  if (high === null) return low > 0 ? `> ${ratio(low)}` : "?";
  if (ratio(low) === ratio(high)) return ratio(high);
  return low > 0 ? `${ratio(low)}–${ratio(high)}` : `< ${ratio(high)}`;
}

/** `0.43 (0.40–0.47)` */
export function ratioText(value: Ratio | null): string {
  if (value === null) return "–";
  const [median, interval] = [limits(value.median), value.interval === null ? null : limits(value.interval)];
  return interval === null || interval === median ? median : `${median} (${interval})`;
}

export const count = (value: number): string => whole.format(value);
export const percent = (share: number): string => `${(share * 100).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`;

export const bytes = (value: number): string => scaled(value, 1024, ["bytes", "kB", "MB", "GB", "TB", "PB"]);

export const bandwidth = (value: number): string => scaled(value, 1000, ["B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s"]);

/** Three digits (from 1000 four), without trailing decimal zeros, as crates/host/src/units.rs: `8 kB`, `1.47 GB`, `1023 MB`. */
function scaled(value: number, step: number, units: string[]): string {
  let unit = 0;
  let left = value;
  // Uses the next unit if the value would be rounded up to 1 of it.
  while (left >= step - 0.5 && unit < units.length - 1) {
    left /= step;
    unit += 1;
  }
  const digits = unit === 0 ? 0 : left < 9.995 ? 2 : left < 99.95 ? 1 : 0;
  const text = left.toFixed(digits);
  return `${text.includes(".") ? text.replace(/\.?0+$/, "") : text} ${units[unit]}`;
}

/** At most five power-of-two steps, and the end of the axis. */
export function sizeSteps(most: number): { interval: number; max: number } {
  const interval = 2 ** Math.max(0, Math.ceil(Math.log2(Math.max(1, most) / 5)));
  return { interval, max: Math.max(1, Math.ceil(most / interval)) * interval };
}

export function latency(microseconds: number): string {
  if (microseconds < 1000) return `${microseconds.toFixed(0)} µs`;
  const milliseconds = microseconds / 1000;
  if (milliseconds < 1000) return `${milliseconds.toFixed(milliseconds < 10 ? 1 : 0)} ms`;
  return `${(milliseconds / 1000).toFixed(1)} s`;
}

/** For axes: 950, 46 k, 1.25 M. */
export function compact(value: number): string {
  const size = Math.abs(value);
  if (size < 10_000) return whole.format(value);
  const [scaled, unit] = size < 999_500 ? [value / 1e3, "k"] : [value / 1e6, "M"];
  return `${Number(scaled.toPrecision(3))} ${unit}`;
}

export interface Scale {
  render: (value: number) => string;
  renderAxis: (value: number) => string;
  /** Unit in table titles, for numbers without a unit. */
  tableUnit?: string;
  isLog?: boolean;
  isSize?: boolean;
}

export const COUNTS: Scale = { render: count, renderAxis: compact };
export const SIZES: Scale = { render: bytes, renderAxis: bytes, isSize: true };
export const BANDWIDTHS: Scale = { render: bandwidth, renderAxis: bandwidth };
export const LATENCIES: Scale = { render: latency, renderAxis: latency, isLog: true };

export const unbroken = (text: string): string =>
  text.replaceAll(" × ", "\u00a0×\u00a0").replace(/(\d) s\b/g, "$1\u00a0s");

/** 2026-11-21 23:30:05 UTC */
export const time = (iso: string): string => `${new Date(iso).toISOString().slice(0, 19).replace("T", " ")} UTC`;

/** Median, and range if its ends look different. A missing value is shown as more than `limit`. */
export function spread(value: Spread | null, render: (value: number) => string, limit: string): { median: string; range: string | null } {
  if (value === null || value.repeats === 0) return { median: "–", range: null };
  const orBeyond = (one: number | null): string => (one === null ? `> ${limit}` : render(one));
  const [low, high] = [orBeyond(value.min), orBeyond(value.max)];
  return { median: orBeyond(value.median), range: low === high ? null : range(low, high) };
}

/** `5.9–6.4 s`: omits a repeated unit. */
export function range(low: string, high: string): string {
  const unit = / \S+$/.exec(high)?.[0] ?? "";
  return `${unit !== "" && low.endsWith(unit) && !low.startsWith(">") ? low.slice(0, -unit.length) : low}–${high}`;
}
