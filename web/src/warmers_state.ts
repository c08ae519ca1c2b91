// What the reader of a study of warmers chose: which of them are drawn, and which one stands out; and their trials second by second.

import { type Appearance, Stage } from "./appearance";
import type { CurveStage } from "./curve_stage";
import { type SeriesStyle, strategyStyle } from "./palette";
import { spreadOf } from "./metrics";
import type { Judgement, PointSummary, RelationResidency, StudyData, TrialSeries } from "../generated/record";
import type { Source } from "./source";

/** A trial with what is drawn of it. */
export interface Warmed {
  strategy: string;
  repeat: number;
  series: TrialSeries | null;
  residency: RelationResidency[];
  judgement: Judgement | null;
  no_verdict: string | null;
  /** Of the database, in the page cache when it began. */
  startBytes: number;
}

/** Is the warmer all that varies, beside a load that begins cold? */
export const isWarmUp = ({ sweep, points }: Pick<StudyData, "sweep" | "points">): boolean => sweep.varied.length === 1 && sweep.varied[0] === "strategy" && points.some((point) => spreadOf(point, "warm_after_seconds") !== null);

/** The trials that have figures, with their seconds where the page has them. */
export async function readWarmed(source: Source, { sweep, points, trials }: StudyData): Promise<Warmed[]> {
  const labels = new Map(points.map(({ number, label }) => [number, label]));
  return Promise.all(trials.filter(({ failure }) => failure === null).map(async ({ number, repeat, judgement, no_verdict }): Promise<Warmed> => {
    const detail = await source.trial(sweep.id, number, repeat);
    return {
      strategy: labels.get(number) ?? "", repeat, judgement, no_verdict, series: detail?.series ?? null, residency: detail?.trial.warming?.residency ?? [],
      startBytes: detail?.trial.start_state?.os_resident_bytes ?? 0,
    };
  }));
}

export class WarmersState extends Stage implements CurveStage {
  /** In the order of the table: the soonest warm first. */
  readonly strategies: string[];
  readonly points: PointSummary[];
  readonly #hidden = new Set<string>();
  #focus: string | null = null;

  constructor(
    readonly study: Pick<StudyData, "sweep" | "points" | "traffic"> & { trials: { steady_tps: number | null }[] },
    readonly trials: Warmed[],
    appearance: Appearance,
  ) {
    super(appearance);
    this.points = study.points.filter((point) => spreadOf(point, "warm_after_seconds") !== null);
    this.strategies = this.points.map(({ label }) => label);
  }

  get longest(): number {
    return Math.max(1, ...this.points.map((point) => point.measured_seconds ?? 0));
  }

  get bound(): number | null {
    return this.points.map((point) => spreadOf(point, "bound_seconds")?.median ?? null).find((bound) => bound !== null) ?? null;
  }

  /** Transactions per second of the warm server, common to all trials. */
  get steady(): number | null {
    return this.study.trials.map(({ steady_tps: steady }) => steady).find((steady) => steady !== null) ?? null;
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
    return strategyStyle(strategy, this.strategies, this.isDark);
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
