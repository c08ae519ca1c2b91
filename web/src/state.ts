// What the reader chose: which strategies are drawn, which one stands out, light or dark.

import { type StrategyStyle, strategyStyle, type Theme, theme } from "./palette";
import type { ReportData } from "./record";

const THEME_KEY = "pgthaw-report-theme";

export class State {
  readonly data: ReportData;
  /** In the order of the table: the soonest warm first. */
  readonly strategies: string[];
  readonly #hidden = new Set<string>();
  readonly #listeners: (() => void)[] = [];
  readonly #prefersDark = matchMedia("(prefers-color-scheme: dark)");
  #chosenTheme: "light" | "dark" | null = readTheme();
  #isPrinting = false;
  #focus: string | null = null;

  constructor(data: ReportData) {
    this.data = data;
    this.strategies = data.summary.strategies.map((one) => one.strategy);
    this.#prefersDark.addEventListener("change", () => this.#changed());
    addEventListener("beforeprint", () => this.#setPrinting(true));
    addEventListener("afterprint", () => this.#setPrinting(false));
    this.#markTheme();
  }

  subscribe(listener: () => void): void {
    this.#listeners.push(listener);
  }

  get isDark(): boolean {
    if (this.#isPrinting) return false;
    return this.#chosenTheme === null ? this.#prefersDark.matches : this.#chosenTheme === "dark";
  }

  /** Paper is white, and needs every chart at once. */
  get isPrinting(): boolean {
    return this.#isPrinting;
  }

  get theme(): Theme {
    return theme(this.isDark);
  }

  get visible(): string[] {
    return this.strategies.filter((strategy) => !this.#hidden.has(strategy));
  }

  get focus(): string | null {
    return this.#focus;
  }

  isVisible(strategy: string): boolean {
    return !this.#hidden.has(strategy);
  }

  style(strategy: string): StrategyStyle {
    return strategyStyle(strategy, this.data.run.study.strategies, this.isDark);
  }

  /** How strongly a strategy is drawn: the others step back while one stands out. */
  opacity(strategy: string): number {
    return this.#focus === null || this.#focus === strategy ? 1 : 0.15;
  }

  toggleStrategy(strategy: string): void {
    if (!this.#hidden.delete(strategy)) this.#hidden.add(strategy);
    this.#changed();
  }

  show(strategies: string[]): void {
    this.#hidden.clear();
    for (const strategy of this.strategies) if (!strategies.includes(strategy)) this.#hidden.add(strategy);
    this.#changed();
  }

  setFocus(strategy: string | null): void {
    if (this.#focus === strategy) return;
    this.#focus = strategy;
    this.#changed();
  }

  toggleTheme(): void {
    this.#chosenTheme = this.isDark ? "light" : "dark";
    try {
      localStorage.setItem(THEME_KEY, this.#chosenTheme);
    } catch {
      // A page opened from a file may be denied storage: the choice then lasts as long as the page.
    }
    this.#changed();
  }

  #setPrinting(isPrinting: boolean): void {
    this.#isPrinting = isPrinting;
    this.#changed();
  }

  #markTheme(): void {
    document.documentElement.dataset["theme"] = this.isDark ? "dark" : "light";
  }

  #changed(): void {
    this.#markTheme();
    for (const listener of this.#listeners) listener();
  }
}

function readTheme(): "light" | "dark" | null {
  try {
    const stored = localStorage.getItem(THEME_KEY);
    return stored === "light" || stored === "dark" ? stored : null;
  } catch {
    return null;
  }
}
