// The question, the answer, and its figures.

import { element, figureOf as figure, heading } from "../element";
import { bytes, count, ratio, time, unbroken } from "../format";
import { P99, rangeText, TPS, WORST } from "../metrics";
import { type Axis, axesOf, doubtOf } from "../pivot";
import type { PointSummary, StudyData } from "../../generated/record";
import { isWarmUp } from "../warmers_state";
import { disk } from "./facts";
import { isOfJobs, jobFigures } from "./jobs";
import { isOfWarmers, warmersFigures } from "./warmers";

export function head(study: StudyData): HTMLElement {
  const { sweep } = study;
  return element(
    "header",
    { class: "head" },
    ...heading(study.subject === "" ? `Study ${sweep.id}` : study.subject),
    element("p", { class: "answer" }, unbroken(study.headline)),
    figuresOf(study),
    element("p", { class: "study" }, [
      `study ${sweep.id}`,
      time(sweep.started_at),
      `PostgreSQL ${sweep.server.version.split(" ")[0] ?? ""} on ${sweep.machine.hostname}`,
      `${count(sweep.points)} points × ${sweep.repeats} repeats`,
      ...axesOf(study).map(axisText),
      ...(sweep.warmup ? [`a database of ${bytes(sweep.warmup.database_bytes)}`, disk(sweep.warmup.disk)] : []),
    ].join(" · ")),
  );
}

function figuresOf(study: StudyData): HTMLElement | null {
  if (isOfJobs(study)) return jobFigures(study);
  return isOfWarmers(study) || isWarmUp(study) ? warmersFigures(study) : figures(study);
}

/** The best point, and what it is held against: the last one, and what its users waited. */
function figures({ points }: StudyData): HTMLElement | null {
  const served = (point: PointSummary): number => TPS.of(point)?.median ?? 0;
  const measured = points.filter((point) => TPS.of(point) !== null && doubtOf(point) !== "refused").sort((a, b) => served(b) - served(a));
  const [best, last] = [measured[0], measured.at(-1)];
  if (!best || !last) return null;
  const spread = (point: PointSummary): string => {
    const range = TPS.of(point);
    return [point.label, range === null ? "" : rangeText(range, TPS.render)].filter((text) => text !== "").join("; ");
  };
  const [p99, worst] = [P99.of(best), WORST.of(best)];
  return element(
    "dl",
    { class: "figures", "aria-label": "The study in figures" },
    figure("most, transactions per second", count(served(best)), spread(best)),
    ...(last === best ? [] : [
      figure("least, transactions per second", count(served(last)), spread(last)),
      figure("most ÷ least", served(last) > 0 ? `${ratio(served(best) / served(last))} ×` : "–", `of ${count(measured.length)} points, medians of their trials`),
    ]),
    figure("99th percentile where most are served", p99 === null ? "–" : P99.render(p99.median), worst === null ? "" : `worst second ${count(worst.median)} transactions`),
  );
}

/** Long lists of values are told by their ends. */
function axisText({ name, values }: Axis): string {
  return values.length <= 6 ? `${name} ${values.join(", ")}` : `${name} ${values[0] ?? ""} to ${values.at(-1) ?? ""} (${values.length} values)`;
}
