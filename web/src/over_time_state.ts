// Which points of a study are drawn over time, and their seconds, which are asked for when somebody wants them.

import { type Appearance, Stage } from "./appearance";
import type { CurveStage } from "./curve_stage";
import type { Drawn } from "./curves";
import { SERIES, type SeriesStyle, seriesStyle } from "./palette";
import type { StudyData } from "../generated/record";
import type { Source } from "./source";

/** So many are drawn at first; no more at once than there are hues. */
const FIRST = 6;
export const MOST = SERIES.length;

export class OverTimeState extends Stage implements CurveStage {
  /** Labels of the points, each with the place of its hue; `null`: it is not drawn. */
  readonly #places = new Map<string, number | null>();
  readonly #numbers: Map<string, number>;
  readonly #trials = new Map<string, Drawn[]>();
  readonly bound = null;
  #focus: string | null = null;

  constructor(
    readonly study: StudyData,
    readonly source: Source,
    appearance: Appearance,
  ) {
    super(appearance);
    this.#numbers = new Map(study.points.map(({ label, number }) => [label, number]));
    study.points.forEach(({ label }, place) => this.#places.set(label, place < FIRST ? place : null));
  }

  get names(): string[] {
    return [...this.#places.keys()];
  }

  get shown(): string[] {
    return this.names.filter((name) => this.isShown(name));
  }

  isShown(name: string): boolean {
    return (this.#places.get(name) ?? null) !== null;
  }

  get isFull(): boolean {
    return this.shown.length >= MOST;
  }

  get trials(): Drawn[] {
    return this.shown.flatMap((name) => this.#trials.get(name) ?? []);
  }

  get longest(): number {
    return Math.max(1, ...this.trials.map(({ series }) => series?.second.at(-1) ?? 0));
  }

  get focus(): string | null {
    return this.#focus;
  }

  style(name: string): SeriesStyle {
    return seriesStyle(this.#places.get(name) ?? MOST - 1, this.isDark);
  }

  opacity(name: string): number {
    return this.#focus === null || this.#focus === name ? 1 : 0.15;
  }

  setFocus(name: string | null): void {
    if (this.#focus === name) return;
    this.#focus = name;
    this.tell();
  }

  /** A point takes the first hue that is free; where none is it stays away. */
  toggle(name: string): void {
    if (this.isShown(name)) {
      this.#places.set(name, null);
    } else {
      const taken = new Set(this.#places.values());
      const free = Array.from({ length: MOST }, (_, place) => place).find((place) => !taken.has(place));
      if (free === undefined) return;
      this.#places.set(name, free);
    }
    this.tell();
    void this.load();
  }

  /** Asks for the seconds of what is shown, of every trial that went well. */
  async load(): Promise<void> {
    const missing = this.shown.filter((name) => !this.#trials.has(name));
    await Promise.all(missing.map(async (name) => {
      const { study, source } = this;
      const trials = study.trials.filter(({ number, failure }) => number === this.#numbers.get(name) && failure === null);
      const found = await Promise.all(trials.map(({ number, repeat }) => source.trial(study.sweep.id, number, repeat)));
      this.#trials.set(name, found.flatMap((one) => (one === null ? [] : [{ strategy: name, series: one.series }])));
    }));
    if (missing.length > 0) this.tell();
  }
}
