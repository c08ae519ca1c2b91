import { type Appearance, Stage } from "./appearance";
import { element, swatch } from "./element";
import { spreadOf } from "./metrics";
import { SERIES, type SeriesStyle, seriesStyle, strategyStyle } from "./palette";
import type { Source } from "./source";
import type { PointSummary, RelationResidency, StudyData, TrialOutline, TrialSeries } from "../generated/record";

export interface Drawn extends Pick<TrialOutline, "repeat" | "judgement" | "no_verdict"> {
  name: string;
  series: TrialSeries | null;
  residency: RelationResidency[];
  startBytes: number;
}

async function readTrials(source: Source, { sweep, points, trials }: StudyData, names: string[]): Promise<Drawn[]> {
  const labels = new Map(points.map(({ number, label }) => [number, label]));
  const wanted = trials.filter(({ number, failure }) => failure === null && names.includes(labels.get(number) ?? ""));
  return Promise.all(wanted.map(async ({ number, repeat, judgement, no_verdict }) => {
    const detail = await source.trial(sweep.id, number, repeat);
    const { warming, start_state: start } = detail?.trial ?? {};
    return { name: labels.get(number) ?? "", repeat, judgement, no_verdict, series: detail?.series ?? null, residency: warming?.residency ?? [], startBytes: start?.os_resident_bytes ?? 0 };
  }));
}

export class CurveStage extends Stage {
  readonly #places: Map<string, number>;
  trials: Drawn[] = [];
  /** Earliest possible warm time in seconds; `null` if unknown. */
  readonly bound: number | null = null;
  focus: string | null = null;

  /** At most `most` curves are visible, `first` of them initially. */
  constructor(appearance: Appearance, readonly names: string[], readonly most = names.length, first = most) {
    super(appearance);
    this.#places = new Map(names.slice(0, first).map((name, place) => [name, place]));
  }

  get visible(): string[] {
    return this.names.filter((name) => this.isVisible(name));
  }

  isVisible(name: string): boolean {
    return this.#places.has(name);
  }

  get longest(): number {
    return Math.max(1, ...this.trials.filter(({ name }) => this.isVisible(name)).map(({ series }) => series?.second.at(-1) ?? 0));
  }

  style(name: string): SeriesStyle {
    return seriesStyle(this.#places.get(name) ?? 0, this.theme.isDark);
  }

  opacity(name: string): number {
    return this.focus === null || this.focus === name ? 1 : 0.15;
  }

  setFocus(name: string | null): void {
    if (this.focus === name) return;
    this.focus = name;
    this.tell();
  }

  /** Uses the first free hue; without one the curve stays hidden. */
  toggle(name: string): void {
    if (!this.#places.delete(name)) {
      const taken = new Set(this.#places.values());
      const free = this.names.findIndex((_, place) => place < this.most && !taken.has(place));
      if (free >= 0) this.#places.set(name, free);
    }
    this.tell();
  }

  show(names: string[]): void {
    for (const name of this.names) if (names.includes(name) !== this.isVisible(name)) this.toggle(name);
  }

  chips(label: string, told: (name: string) => string | null, ...more: HTMLElement[]): HTMLElement {
    const chips = this.names.map((name) => {
      const [sign, text] = [element("span", { class: "sign" }), told(name)];
      const button = element("button", {
        type: "button", class: "chip", "data-strategy": name, title: "Show or hide", click: () => this.toggle(name),
        mouseenter: () => this.isVisible(name) && this.setFocus(name), mouseleave: () => this.setFocus(null),
      }, sign, element("span", {}, name), text !== null && element("span", { class: "soft" }, text));
      return { name, button, sign };
    });
    const update = (): void => {
      for (const { name, button, sign } of chips) {
        button.setAttribute("aria-pressed", String(this.isVisible(name)));
        button.disabled = !this.isVisible(name) && this.visible.length >= this.most;
        sign.replaceChildren(...(this.isVisible(name) ? [swatch(this.style(name))] : []));
      }
    };
    this.subscribe(update);
    update();
    return element("nav", { class: "legend", "aria-label": label }, element("div", { class: "chips" }, ...chips.map(({ button }) => button)), ...more);
  }
}

const FIRST_POINTS = 6;

/** The seconds are loaded on demand. */
export class PointsStage extends CurveStage {
  readonly #known = new Set<string>();

  constructor(readonly study: StudyData, readonly source: Source, appearance: Appearance) {
    super(appearance, study.points.map(({ label }) => label), SERIES.length, FIRST_POINTS);
  }

  override toggle(name: string): void {
    super.toggle(name);
    void this.load();
  }

  async load(): Promise<void> {
    const missing = this.visible.filter((name) => !this.#known.has(name));
    for (const name of missing) this.#known.add(name);
    if (missing.length === 0) return;
    this.trials.push(...await readTrials(this.source, this.study, missing));
    this.tell();
  }
}

type WarmUp = Pick<StudyData, "sweep" | "points" | "traffic">;

/** Whether only the warmer varies, with a load that starts cold. */
export const isWarmUp = ({ sweep, points }: Pick<StudyData, "sweep" | "points">): boolean =>
  sweep.varied.length === 1 && sweep.varied[0] === "strategy" && points.some((point) => spreadOf(point, "warm_after_seconds") !== null);

export class WarmersStage extends CurveStage {
  /** In the table's order: fastest first. */
  readonly points: PointSummary[];
  override readonly bound: number | null;

  /** `steady`: throughput of the warm server, common to all trials. */
  constructor(readonly study: WarmUp, trials: Drawn[], readonly steady: number | null, appearance: Appearance) {
    const points = study.points.filter((point) => spreadOf(point, "warm_after_seconds") !== null);
    super(appearance, points.map(({ label }) => label));
    [this.points, this.trials] = [points, trials];
    this.bound = boundOf(points);
  }

  static async read(source: Source, study: StudyData, appearance: Appearance): Promise<WarmersStage> {
    const steady = study.trials.find(({ steady_tps: tps }) => tps !== null)?.steady_tps ?? null;
    return new WarmersStage(study, await readTrials(source, study, study.points.map(({ label }) => label)), steady, appearance);
  }

  override get longest(): number {
    return Math.max(1, ...this.points.map((point) => point.measured_seconds ?? 0));
  }

  override style(name: string): SeriesStyle {
    return strategyStyle(name, this.names, this.theme.isDark);
  }
}

/** Seconds that the device needs for the wanted data. */
export const boundOf = (points: PointSummary[]): number | null =>
  points.map((point) => spreadOf(point, "bound_seconds")?.median ?? null).find((bound) => bound !== null) ?? null;
