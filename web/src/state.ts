// What the reader of a study chose: the figure and the layout of the axes. The address keeps it.

import { type Appearance, Stage } from "./appearance";
import { linkTo, readAddress, remember } from "./address";
import { chosenOf, type Metric, metricOf } from "./metrics";
import { type Axis, axesOf, completed, defaultLayout, type Layout, Points, withAxis } from "./pivot";
import type { StudyData } from "../generated/record";

export class StudyState extends Stage {
  readonly study: StudyData;
  readonly axes: Axis[];
  readonly points: Points;
  readonly #firstRepeats: Map<number, number>;
  #metric: Metric;
  #layout: Layout;

  constructor(study: StudyData, appearance: Appearance) {
    super(appearance);
    this.study = study;
    this.axes = axesOf(study);
    this.points = new Points(study);
    this.#firstRepeats = new Map([...study.trials].sort((a, b) => b.repeat - a.repeat).map((trial) => [trial.number, trial.repeat]));
    const { query } = readAddress();
    this.#metric = chosenOf(study, query.get("metric"));
    const standard = defaultLayout(this.axes);
    const fixed = Object.fromEntries(this.axes.flatMap(({ name }) => (query.has(`at.${name}`) ? [[name, query.get(`at.${name}`) ?? ""]] : [])));
    const asked = { x: query.get("x") ?? standard.x, y: query.get("y") ?? standard.y, facet: query.get("by") ?? standard.facet, fixed };
    this.#layout = completed(asked, this.axes);
  }

  get metric(): Metric {
    return this.#metric;
  }

  get layout(): Layout {
    return this.#layout;
  }

  /** Where the trials of a point begin. */
  linkToPoint(number: number): string {
    return linkTo(["study", this.study.sweep.id, "trial", number, this.#firstRepeats.get(number) ?? 1]);
  }

  setMetric(id: string): void {
    this.#metric = metricOf(id);
    remember({ metric: id });
    this.tell();
  }

  setAxis(place: "x" | "y" | "facet", name: string): void {
    this.#change(withAxis(this.#layout, place, name, this.axes));
  }

  setFixed(axis: string, value: string): void {
    this.#change({ ...this.#layout, fixed: { ...this.#layout.fixed, [axis]: value } });
  }

  #change(layout: Layout): void {
    this.#layout = layout;
    const unused = Object.fromEntries(this.axes.map(({ name }) => [`at.${name}`, ""]));
    const fixed = Object.fromEntries(Object.entries(layout.fixed).map(([name, value]) => [`at.${name}`, value]));
    // An axis that is taken away stays away: "none" is no axis's name, "-" neither.
    remember({ ...unused, x: layout.x || "-", y: layout.y || "-", by: layout.facet || "-", ...fixed });
    this.tell();
  }
}
