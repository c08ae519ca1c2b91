// Warmers of an idle server held against each other: how soon what is wanted was resident.

import { type ChartPlan, figure } from "../charts/figure";
import { niceAbove } from "../charts/lines";
import { ratiosPlan } from "../charts/ratios";
import { timesPlan } from "../charts/times";
import { element } from "../element";
import { metricOf } from "../metrics";
import { strategyStyle } from "../palette";
import type { PointSummary, Spread, StudyData, WarmerRatio } from "../../generated/record";
import type { StudyState } from "../state";
import { figure as headFigure } from "./tournament_head";

const spreadOf = (point: PointSummary, key: string): Spread | null => (point[key] as Spread | null | undefined) ?? null;
const residentOf = (point: PointSummary): Spread | null => spreadOf(point, "resident_after_seconds");

/** Do its trials end when what is wanted is resident? */
export const isOfWarmers = ({ points }: StudyData): boolean => points.some((point) => residentOf(point) !== null || spreadOf(point, "load_bytes_per_second") !== null);

export function warmersSection(state: StudyState): HTMLElement {
  const ratios = ratiosOf(state.study);
  return element(
    "section",
    { class: "charts", "aria-labelledby": "warmers" },
    element("h2", { id: "warmers" }, "How soon it was resident"),
    figure(residentTimes, state),
    ratios && figure(ratios, state),
  );
}

const strategiesOf = ({ sweep, points }: StudyData): string[] => {
  const axis = sweep.varied.indexOf("strategy");
  return points.map((point) => point.values[axis] ?? point.label);
};

/** By the warmer, where nothing else varies. */
const nameOf = ({ sweep }: StudyData, point: PointSummary): string => (sweep.varied.length === 1 ? (point.values[0] ?? "") : point.label);

const residentTimes = timesPlan<StudyState>(
  {
    id: "resident-times",
    title: "Seconds until resident",
    explanation:
      "The median of the repeats, with a whisker from the soonest to the latest, and its ratio to the bound: the least that the disk allows for the best merging of gaps. Hatched: not reached by half of the repeats. Paler: until shared_buffers were back too.",
    unit: "seconds since the warmer began",
  },
  ({ study, isDark }) => {
    const names = strategiesOf(study);
    const rows = study.points.flatMap((point, place) => {
      const strategy = names[place] ?? "";
      const [resident, buffers] = [residentOf(point), spreadOf(point, "buffers_after_seconds")];
      const shared = { limit: point.measured_seconds ?? 0, style: strategyStyle(strategy, names, isDark) };
      return [
        ...(resident === null ? [] : [{ ...shared, name: nameOf(study, point), time: resident, times: spreadOf(point, "bound_ratio"), opacity: 1, isSubject: strategy === "pgthaw" }]),
        ...(buffers === null ? [] : [{ ...shared, name: `${nameOf(study, point)}: shared_buffers`, time: buffers, times: null, opacity: 0.5 }]),
      ];
    });
    const bounds = new Set(study.points.flatMap((point) => spreadOf(point, "bound_seconds")?.median ?? []));
    const bound = bounds.size === 1 ? ([...bounds][0] ?? null) : null;
    const reached = rows.flatMap(({ time }) => [time.median, time.max]).filter((end) => end !== null);
    return { rows, bound, end: reached.length > 0 ? niceAbove(1.05 * Math.max(...reached, bound ?? 0)) : Math.max(1, ...rows.map(({ limit }) => limit)) };
  },
);

/** Which figures are divided, unless it is the time until resident or warm. */
function nameOfRatio({ cell, dividend, divisor, of, to }: WarmerRatio): string {
  const labels = [...new Set([of, to].filter((name) => name !== "bound").map((name) => metricOf(name).label.replace(" after", "")))];
  const what = ["resident-after", "warm-after"].includes(of) && labels.length === 1 ? [] : [labels.join(" ÷ ")];
  return [...(cell === "" ? [] : [cell]), `${dividend} ÷ ${divisor}`, ...what].join(", ");
}

/** Warmers beside each other; `null` where nothing is compared. */
export function ratiosOf(study: StudyData): ChartPlan<StudyState> | null {
  const byName = new Map(study.ratios.map((one) => [nameOfRatio(one), one]));
  return ratiosPlan<StudyState>({
    names: [...byName.keys()],
    quantities: [{ id: "all", label: "one warmer ÷ the other", to: "equal", find: (name) => byName.get(name) ?? null }],
    style: ({ isDark }, name) => ({ style: strategyStyle(byName.get(name)?.dividend ?? "", [], isDark), opacity: 1 }),
  });
}

/** The figures of pgthaw, or of the soonest warmer. */
export function warmersFigures(study: StudyData): HTMLElement | null {
  const soonest = (point: PointSummary): number => residentOf(point)?.median ?? Number.POSITIVE_INFINITY;
  const names = strategiesOf(study);
  const subject = study.points.find((_, place) => names[place] === "pgthaw") ?? [...study.points].sort((a, b) => soonest(a) - soonest(b))[0];
  if (!subject) return null;
  const figures = ["resident-after", "bound-ratio", "buffers-after", "load-rate", "cpu-per-gb"].map(metricOf).flatMap((metric, place) => {
    const range = metric.of(subject);
    return range === null ? [] : [headFigure(place === 0 ? `${nameOf(study, subject)} ${metric.label}` : metric.label, metric.render(range.median), metric.unit)];
  });
  return element("dl", { class: "figures", "aria-label": `Figures of ${nameOf(study, subject)}` }, ...figures.slice(0, 4));
}
