// What the reader of a tournament chose: which strategies are drawn, and which one stands out.

import { type Appearance, Stage } from "./appearance";
import type { CurveStage } from "./curve_stage";
import { type SeriesStyle, strategyStyle } from "./palette";
import type { Tournament } from "../generated/record";

export class TournamentState extends Stage implements CurveStage {
  /** In the order of the table: the soonest warm first. */
  readonly strategies: string[];
  readonly #hidden = new Set<string>();
  #focus: string | null = null;

  constructor(
    readonly data: Tournament,
    appearance: Appearance,
  ) {
    super(appearance);
    this.strategies = data.summary.strategies.map((one) => one.strategy);
  }

  get longest(): number {
    return this.data.summary.trial_seconds;
  }

  get bound(): number | null {
    return this.data.summary.bound_seconds;
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

  style(strategy: string): SeriesStyle {
    return strategyStyle(strategy, this.data.run.study.strategies, this.isDark);
  }

  /** How strongly a strategy is drawn: the others step back while one stands out. */
  opacity(strategy: string): number {
    return this.#focus === null || this.#focus === strategy ? 1 : 0.15;
  }

  toggleStrategy(strategy: string): void {
    if (!this.#hidden.delete(strategy)) this.#hidden.add(strategy);
    this.tell();
  }

  show(strategies: string[]): void {
    this.#hidden.clear();
    for (const strategy of this.strategies) if (!strategies.includes(strategy)) this.#hidden.add(strategy);
    this.tell();
  }

  setFocus(strategy: string | null): void {
    if (this.#focus === strategy) return;
    this.#focus = strategy;
    this.tell();
  }
}
