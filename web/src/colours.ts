// Colours of shares, from nothing to all.

import type { Theme } from "./palette";

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
