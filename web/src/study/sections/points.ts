// Every point as a row, and every trial of it as a link.

import { type Child, element, folded, MANY_ROWS, table } from "../../element";
import { bytes } from "../../format";
import { linkTo } from "../address";
import { METRICS, type Metric, rangeText } from "../metrics";
import type { PointSummary, StudyData, TrialOutline } from "../record";

export function everyPoint(study: StudyData): HTMLElement {
  const { length } = study.points;
  return length > MANY_ROWS ? folded(`All ${length} points`, () => pointsTable(study)) : pointsTable(study);
}

function pointsTable(study: StudyData): HTMLElement {
  const byPoint = new Map<number, TrialOutline[]>();
  for (const trial of study.trials) {
    const known = byPoint.get(trial.number);
    if (known) known.push(trial);
    else byPoint.set(trial.number, [trial]);
  }
  const columns = [...(study.sweep.varied.length > 0 ? study.sweep.varied : ["point"]), ...METRICS.map((metric) => metric.label), "trials"];
  const axes = columns.length - METRICS.length - 1;
  const rows = study.points.map((point): Child[] => [
    ...(study.sweep.varied.length > 0 ? point.values : [point.label]),
    ...METRICS.map((metric) => figures(metric, point)),
    trials(study, byPoint.get(point.number) ?? []),
  ]);
  const made = table("Every point", columns.map((title, index) => ({ title, isNumber: index >= axes && index < columns.length - 1 })), rows, "low");
  made.id = "points";
  return made;
}

function figures(metric: Metric, point: PointSummary): HTMLElement {
  const range = metric.of(point);
  const spread = range === null ? "" : rangeText(range, metric.render === bytes ? bytes : metric.renderAxis);
  return element("span", { class: "cell" }, element("span", { class: "median" }, range === null ? "–" : metric.render(range.median)), spread !== "" && element("span", { class: "range" }, spread));
}

function trials(study: StudyData, of: TrialOutline[]): HTMLElement {
  const sorted = [...of].sort((a, b) => a.repeat - b.repeat);
  return element("span", { class: "repeats" }, ...sorted.map((trial) =>
    element("a", { href: linkTo(["study", study.sweep.id, "trial", trial.number, trial.repeat]), title: trial.failure ?? "Open this trial", class: trial.failure === null ? null : "against" }, String(trial.repeat))));
}
