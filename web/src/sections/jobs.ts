// Jobs that somebody waits for: how long each took from a cold start, what warmed the server before it included.

import { figure } from "../charts/figure";
import { niceAbove } from "../charts/lines";
import { timesPlan } from "../charts/times";
import { element } from "../element";
import { strategyStyle } from "../palette";
import type { PointSummary, Spread, StudyData } from "../../generated/record";
import type { StudyState } from "../state";

const spreadOf = (point: PointSummary, key: string): Spread | null => (point[key] as Spread | null | undefined) ?? null;
const wholeOf = (point: PointSummary): Spread | null => spreadOf(point, "whole_seconds");

/** Do its trials end with so many transactions, from a cold start? */
export const isOfJobs = ({ points }: StudyData): boolean => points.some((point) => wholeOf(point) !== null);

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
      return [{ name: point.label, time, before: beforeLoad(point), times: null, limit: point.measured_seconds ?? 0, style: strategyStyle(strategy, names, isDark), opacity: 1, isSubject: strategy === "pgthaw" }];
    });
    return { rows, bound: null, end: niceAbove(1.05 * Math.max(1, ...rows.flatMap(({ time }) => time.max ?? []))) };
  },
);
