// All colours of series (web/test/palette.test.mjs): Okabe and Ito's palette with lightness changed until every pair
// differs for all kinds of colour vision, on light and dark paper. No two series share both symbol and dashes.

/** `paper` is the background of boxes, `surround` that of the page. */
const LIGHT = {
  isDark: false, paper: "#ffffff", surround: "#fbfbf9", ink: "#1b2126", soft: "#5b6670", rule: "#dfe3e4", warn: "#9a6700", heat: ["#e8eef3", "#f0a868", "#9c3205"],
};
const DARK: Theme = {
  isDark: true, paper: "#181c20", surround: "#121518", ink: "#e9ecee", soft: "#9ba6af", rule: "#31383e", warn: "#e3b341", heat: ["#25303a", "#a8531c", "#ffc08a"],
};

export type Theme = typeof LIGHT;

export const theme = (isDark: boolean): Theme => (isDark ? DARK : LIGHT);

export type Symbol = Record<"path" | "sign", string>;

export type Hue = Record<"light" | "dark", string> & { symbol: Symbol };

export const SYMBOLS = {
  circle: { path: "M5 1A4 4 0 1 1 5 9A4 4 0 1 1 5 1Z", sign: "●" },
  square: { path: "M1.4 1.4H8.6V8.6H1.4Z", sign: "■" },
  triangle: { path: "M5 0.8L9.5 8.8H0.5Z", sign: "▲" },
  diamond: { path: "M5 0L10 5L5 10L0 5Z", sign: "◆" },
  plus: { path: "M3.6 0.5H6.4V3.6H9.5V6.4H6.4V9.5H3.6V6.4H0.5V3.6H3.6Z", sign: "✚" },
  cross: { path: "M2 0L5 3L8 0L10 2L7 5L10 8L8 10L5 7L2 10L0 8L3 5L0 2Z", sign: "✖" },
  wedge: { path: "M0.5 1.2H9.5L5 9.2Z", sign: "▼" },
  bar: { path: "M3.4 0H6.6V10H3.4Z", sign: "▮" },
} satisfies Record<string, Symbol>;

const BLUE: Hue = { light: "#004465", dark: "#0086dc", symbol: SYMBOLS.circle };
const ORANGE: Hue = { light: "#cb2d00", dark: "#ff843a", symbol: SYMBOLS.square };
const GREEN: Hue = { light: "#0f7952", dark: "#27cf95", symbol: SYMBOLS.triangle };
const PINK: Hue = { light: "#a44998", dark: "#dd80b2", symbol: SYMBOLS.diamond };
export const OCHRE: Hue = { light: "#8d6f00", dark: "#ebcb62", symbol: SYMBOLS.plus };
const VIOLET: Hue = { light: "#5b29b1", dark: "#be99ff", symbol: SYMBOLS.wedge };
const SKY: Hue = { light: "#3699cb", dark: "#a6dcff", symbol: SYMBOLS.cross };
export const GREY: Hue = { light: "#6a737b", dark: "#bbc4cc", symbol: SYMBOLS.bar };

/** Assigned to an axis's values and to quantities in this order. */
export const SERIES: readonly Hue[] = [BLUE, ORANGE, GREEN, PINK, OCHRE, VIOLET, SKY, GREY];

/** No two series may differ in width alone. */
export interface SeriesStyle {
  color: string;
  dash: number[];
  symbol: Symbol;
  width: number;
}

const SOLID: number[] = [];
const DASHED = [7, 4];
const DOTTED = [2, 3];
const CHAIN = [9, 3, 2, 3];
export const DASHES = [SOLID, DASHED, DOTTED, CHAIN];

const styleOf = ({ light, dark, symbol }: Hue, isDark: boolean, dash: number[], width: number): SeriesStyle => ({ color: isDark ? dark : light, dash, symbol, width });

/** `place` is the position on the axis or in the chart; dashes distinguish equal hues. */
export function seriesStyle(place: number, isDark: boolean): SeriesStyle {
  const hue = SERIES[place % SERIES.length] as Hue;
  return styleOf(hue, isDark, DASHES[Math.floor(place / SERIES.length) % DASHES.length] ?? SOLID, 1.8);
}

/** Each strategy keeps its hue; its modes differ by dashes. */
const STRATEGIES: Record<string, [hue: Hue, dash: number[]]> = {
  pgthaw: [ORANGE, SOLID],
  "pgthaw-gentle": [ORANGE, DASHED],
  "pgthaw-full-speed": [ORANGE, DOTTED],
  "pgthaw-os": [ORANGE, CHAIN],
  nothing: [GREY, DASHED],
  seqscan: [OCHRE, SOLID],
  cat: [BLUE, SOLID],
  vmtouch: [SKY, DASHED],
  "pg_prewarm-read": [GREEN, SOLID],
  "pg_prewarm-buffer": [GREEN, DASHED],
  "pg_prewarm-prefetch": [GREEN, DOTTED],
  autoprewarm: [PINK, SOLID],
  pgfincore: [VIOLET, DOTTED],
  "one-read-per-range": [OCHRE, DASHED],
  "fio-buffered": [VIOLET, SOLID],
  "fio-direct": [VIOLET, DASHED],
};

/** Orange is reserved for pgthaw. */
const FREE = SERIES.filter((hue) => hue !== ORANGE);

/** Strategies outside `STRATEGIES` get a hue of `FREE` with the dashes `CHAIN`: no other strategy has both. */
export function strategyStyle(strategy: string, others: string[], isDark: boolean): SeriesStyle {
  const unknown = others.filter((name) => !(name in STRATEGIES));
  const [hue, dash] = STRATEGIES[strategy] ?? [FREE[Math.max(0, unknown.indexOf(strategy)) % FREE.length] as Hue, CHAIN];
  return styleOf(hue, isDark, dash, strategy === "pgthaw" ? 3 : 1.6);
}

/** Hues of stacked waits, the same in every trial and used for nothing else. */
export const WAITS = {
  "on a processor": { light: "#007f5e", dark: "#00cfa1", symbol: SYMBOLS.circle },
  "waiting for pgbench": { light: "#787e84", dark: "#6c7278", symbol: SYMBOLS.square },
  "other waits": { light: "#7e5f40", dark: "#ffbd82", symbol: SYMBOLS.triangle },
  "Lock transactionid": { light: "#b22d87", dark: "#d694cd", symbol: SYMBOLS.diamond },
  "Lock tuple": { light: "#63189f", dark: "#c29eff", symbol: SYMBOLS.plus },
  "LWLock WALWrite": { light: "#cd6537", dark: "#ff813d", symbol: SYMBOLS.cross },
  "LWLock BufferContent": { light: "#bd004b", dark: "#e67b93", symbol: SYMBOLS.wedge },
  "IO WALSync": { light: "#0064ba", dark: "#009fe6", symbol: SYMBOLS.bar },
  "IO WALWrite": { light: "#0095a9", dark: "#a4efff", symbol: SYMBOLS.circle },
  "IO DataFileRead": { light: "#a88600", dark: "#e5c800", symbol: SYMBOLS.square },
  "first other": { light: "#5d7a00", dark: "#d0e861", symbol: SYMBOLS.diamond },
  "second other": { light: "#1936d8", dark: "#b2c8ff", symbol: SYMBOLS.triangle },
  "third other": { light: "#8a3a00", dark: "#e2a171", symbol: SYMBOLS.plus },
  "fourth other": { light: "#c864a6", dark: "#ffbbde", symbol: SYMBOLS.wedge },
} satisfies Record<string, Hue>;

export const hueStyle = (hue: Hue, isDark: boolean): SeriesStyle => styleOf(hue, isDark, SOLID, 1.6);

/** `share` is 0 to 1. */
export function heatColor(share: number, { heat }: Theme): string {
  const [low, middle, high] = heat.map(channelsOf) as [number[], number[], number[]];
  const [from, to, part] = share < 0.5 ? [low, middle, share * 2] : [middle, high, share * 2 - 1];
  return `rgb(${from.map((channel, index) => Math.round(channel + ((to[index] ?? 0) - channel) * part)).join(" ")})`;
}

const channelsOf = (color: string): number[] => [1, 3, 5].map((at) => Number.parseInt(color.slice(at, at + 2), 16));

export function inkOn(color: string): string {
  const linear = (color.match(/\d+/g) ?? []).map((channel) => (Number(channel) / 255) ** 2.2);
  const luminance = 0.2126 * (linear[0] ?? 0) + 0.7152 * (linear[1] ?? 0) + 0.0722 * (linear[2] ?? 0);
  // At 0.179, black and white have equal contrast.
  return luminance > 0.179 ? "#111" : "#fff";
}
