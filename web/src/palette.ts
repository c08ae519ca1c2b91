// Colours. Okabe and Ito's palette, which people with any colour vision can tell apart, adjusted for contrast on
// light and on dark paper; the pg_prewarm modes share a hue and differ by their dashes. A strategy keeps its colour.

export interface Theme {
  isDark: boolean;
  /** Of the boxes in the page, and of the page itself. */
  paper: string;
  surround: string;
  ink: string;
  soft: string;
  rule: string;
  warn: string;
  /** From nothing resident to all of it. */
  heat: [string, string, string];
}

export interface StrategyStyle {
  color: string;
  dash: number[];
  width: number;
}

const LIGHT: Theme = {
  isDark: false,
  paper: "#ffffff",
  surround: "#fbfbf9",
  ink: "#1b2126",
  soft: "#5b6670",
  rule: "#dfe3e4",
  warn: "#9a6700",
  heat: ["#e8eef3", "#f0a868", "#9c3205"],
};

const DARK: Theme = {
  isDark: true,
  paper: "#181c20",
  surround: "#121518",
  ink: "#e9ecee",
  soft: "#9ba6af",
  rule: "#31383e",
  warn: "#e3b341",
  heat: ["#25303a", "#a8531c", "#ffc08a"],
};

export const theme = (isDark: boolean): Theme => (isDark ? DARK : LIGHT);

interface Hue {
  light: string;
  dark: string;
  dash?: number[];
}

const SOLID: number[] = [];
const DASHED = [7, 4];
const DOTTED = [2, 3];

const HUES: Record<string, Hue> = {
  pgthaw: { light: "#d04a02", dark: "#ff8b45" },
  "pgthaw-gentle": { light: "#d04a02", dark: "#ff8b45", dash: DASHED },
  "pgthaw-full-speed": { light: "#d04a02", dark: "#ff8b45", dash: DOTTED },
  nothing: { light: "#6a737b", dark: "#a6afb7", dash: DASHED },
  seqscan: { light: "#8a6d1a", dark: "#d6b656" },
  cat: { light: "#0067a5", dark: "#4fb0f0" },
  vmtouch: { light: "#3d9fd6", dark: "#9fdcff", dash: DASHED },
  "pg_prewarm-read": { light: "#00805e", dark: "#2fcc9f" },
  "pg_prewarm-buffer": { light: "#00805e", dark: "#2fcc9f", dash: DASHED },
  "pg_prewarm-prefetch": { light: "#00805e", dark: "#2fcc9f", dash: DOTTED },
  autoprewarm: { light: "#a3418f", dark: "#e596d4" },
  pgfincore: { light: "#5d3a9b", dark: "#b79bee", dash: DOTTED },
};

/** For strategies that have no colour of their own yet. */
const OTHERS: Hue[] = [
  { light: "#b0356a", dark: "#ff8fbb" },
  { light: "#3f7d20", dark: "#9ad974", dash: DASHED },
  { light: "#205d86", dark: "#7cc0ec", dash: DOTTED },
  { light: "#7a4a2b", dark: "#d3a585", dash: DASHED },
];

/** The colour, dashes and width of a strategy, the same in every chart. */
export function strategyStyle(strategy: string, others: string[], isDark: boolean): StrategyStyle {
  const unknown = others.filter((name) => !(name in HUES));
  const hue = HUES[strategy] ?? OTHERS[Math.max(0, unknown.indexOf(strategy)) % OTHERS.length];
  return {
    color: (isDark ? hue?.dark : hue?.light) ?? "#888888",
    dash: hue?.dash ?? SOLID,
    width: strategy === "pgthaw" ? 3 : 1.6,
  };
}
