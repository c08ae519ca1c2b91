// A short piece of a series' line with its symbol: what a legend shows.

import { svg } from "./element";
import type { SeriesStyle, Symbol } from "./palette";

export function swatch({ color, dash, symbol, width }: SeriesStyle): SVGElement {
  return svg(
    "svg",
    { class: "swatch", viewBox: "0 0 30 10", width: 30, height: 10, "aria-hidden": "true" },
    svg("line", { x1: 0, y1: 5, x2: 30, y2: 5, stroke: color, "stroke-width": Math.min(width, 2.4), "stroke-dasharray": dash.length > 0 ? dash.join(" ") : null }),
    svg("path", { d: symbol.path, fill: color, transform: "translate(10 0)" }),
  );
}

/** Symbols on a line of many points. */
const SYMBOLS = 6;

/** Where a line of so many points has its symbol; lines that lie on each other have theirs beside each other. */
export function sparse(symbol: Symbol, points: number, place: number, of: number): (value: unknown, at: { dataIndex: number }) => string {
  const step = Math.max(1, Math.round(points / SYMBOLS));
  const first = Math.floor(((place + 0.5) / Math.max(1, of)) * step);
  return (_, { dataIndex }) => (dataIndex % step === first ? `path://${symbol.path}` : "none");
}
