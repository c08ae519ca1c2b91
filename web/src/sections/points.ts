// Every point as a row, and every trial of it as a link.

import { type Child, element, folded, MANY_ROWS, table } from "../element";
import { bytes } from "../format";
import { linkTo } from "../address";
import { columnOf, type Metric, metricsOf, rangeText } from "../metrics";
import type { PointSummary, StudyData, TrialOutline } from "../../generated/record";

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
  const { varied } = study.sweep;
  const metrics = metricsOf(study);
  // The links come first: a table of many figures is wider than its page.
  const named = ["trials, by repeat", ...(varied.length > 0 ? varied : ["point"])];
  const columns = [...named, ...metrics.map(columnOf)].map((title, index) => ({ title, isNumber: index >= named.length }));
  const rows = study.points.map((point): Child[] => [
    trials(study, byPoint.get(point.number) ?? []),
    ...(varied.length > 0 ? point.values : [point.label]),
    ...metrics.map((metric) => figures(metric, point)),
  ]);
  const made = table("Every point", columns, rows, "low");
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
