// Colours of the values on an axis, and of quantities.

import type { Theme } from "../palette";

/** Okabe and Ito's order, adjusted for contrast on light and on dark paper. */
const SERIES: [light: string, dark: string][] = [
  ["#0067a5", "#4fb0f0"],
  ["#d04a02", "#ff8b45"],
  ["#00805e", "#2fcc9f"],
  ["#a3418f", "#e596d4"],
  ["#8a6d1a", "#d6b656"],
  ["#5d3a9b", "#b79bee"],
  ["#3d9fd6", "#9fdcff"],
  ["#6a737b", "#a6afb7"],
];

export interface LineStyle {
  color: string;
  dash: number[];
}

/** Of the value with this place on its axis; dashes tell those apart that share a colour. */
export function lineStyleOf(place: number, isDark: boolean): LineStyle {
  const [light, dark] = SERIES[place % SERIES.length] ?? ["#888", "#888"];
  const round = Math.floor(place / SERIES.length) % 3;
  return { color: isDark ? dark : light, dash: [[], [7, 4], [2, 3]][round] ?? [] };
}

/** A colour between those of nothing and of all, 0 to 1. */
export function heatColor(share: number, { heat }: Theme): string {
  const [low, middle, high] = heat.map(channelsOf) as [number[], number[], number[]];
  const [from, to, part] = share < 0.5 ? [low, middle, share * 2] : [middle, high, share * 2 - 1];
  return `rgb(${from.map((channel, index) => Math.round(channel + ((to[index] ?? 0) - channel) * part)).join(" ")})`;
}

const channelsOf = (color: string): number[] => [1, 3, 5].map((at) => Number.parseInt(color.slice(at, at + 2), 16));

/** Black or white, whichever is read better on a colour that `heatColor` made. */
export function inkOn(color: string): string {
  const linear = (color.match(/\d+/g) ?? []).map((channel) => (Number(channel) / 255) ** 2.2);
  const luminance = 0.2126 * (linear[0] ?? 0) + 0.7152 * (linear[1] ?? 0) + 0.0722 * (linear[2] ?? 0);
  // Where the contrast to black and to white is the same.
  return luminance > 0.179 ? "#111" : "#fff";
}
