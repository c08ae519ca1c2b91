// Jobs that somebody waits for: how long each took from a cold start, what warmed the server before it included.

import { figure } from "../charts/figure";
import { niceAbove } from "../charts/lines";
import { timesPlan } from "../charts/times";
import { element, figureOf as headFigure } from "../element";
import { seconds } from "../format";
import { chosenOf, spreadOf } from "../metrics";
import { strategyStyle } from "../palette";
import type { PointSummary, Spread, StudyData } from "../../generated/record";
import type { StudyState } from "../state";

const wholeOf = (point: PointSummary): Spread | null => spreadOf(point, "whole_seconds");

/** Do its trials end with so few transactions, from a cold start, that they draw no curve? */
export const isOfJobs = (study: StudyData): boolean => chosenOf(study, null).id === "whole";

/** By its values alone: `q2.sql, pgthaw`. */
const nameOf = ({ values, label }: PointSummary): string => (values.length > 0 ? values.join(", ") : label);

/** The job that was done soonest, and the one that took longest. */
export function jobFigures({ points }: StudyData): HTMLElement | null {
  const done = points.flatMap((point) => (wholeOf(point)?.median == null ? [] : [{ point, at: wholeOf(point)?.median ?? 0 }])).sort((a, b) => a.at - b.at);
  const [first, last] = [done[0], done.at(-1)];
  if (!first || !last) return null;
  const told = (name: string, { point, at }: { point: PointSummary; at: number }): HTMLElement => {
    const before = beforeLoad(point);
    return headFigure(name, seconds(at), `${nameOf(point)}${before > 0 ? `; ${seconds(before)} of it before the job began` : ""}`);
  };
  return element("dl", { class: "figures", "aria-label": "The study in figures" }, told("soonest done after", first), ...(last === first ? [] : [told("latest done after", last)]));
}

export function jobsSection(state: StudyState): HTMLElement {
  return element("section", { class: "charts", "aria-labelledby": "jobs" }, element("h2", { id: "jobs" }, "How long the job took"), figure(jobTimes, state));
}

/** Before the load began: what a warmer took alone, and nothing of one that works beside the load. */
const beforeLoad = (point: PointSummary): number =>
  Math.max(0, (wholeOf(point)?.median ?? 0) - (spreadOf(point, "load_seconds")?.median ?? 0));

const jobTimes = timesPlan<StudyState>(
  {
    id: "job-times",
    title: "Seconds until the job was done",
    explanation: "The median of the repeats from a cold start, with a whisker from the soonest to the latest. Paler: what warmed the server before the job began.",
    unit: "seconds since the cold start",
  },
  ({ study, isDark }) => {
    const axis = study.sweep.varied.indexOf("strategy");
    const names = study.points.map((point) => point.values[axis] ?? point.label);
    const rows = study.points.flatMap((point, place) => {
      const [time, strategy] = [wholeOf(point), names[place] ?? ""];
      if (time === null) return [];
      return [{ name: nameOf(point), time, before: beforeLoad(point), times: null, limit: point.measured_seconds ?? 0, style: strategyStyle(strategy, names, isDark), opacity: 1, isSubject: strategy === "pgthaw" }];
    });
    return { rows, bound: null, end: niceAbove(1.05 * Math.max(1, ...rows.flatMap(({ time }) => time.max ?? []))) };
  },
);
