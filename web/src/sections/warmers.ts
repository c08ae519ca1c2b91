// Warmers held against each other: how soon what is wanted was resident, or the server warm.

import { type ChartPlan, figure } from "../charts/figure";
import { niceAbove } from "../charts/lines";
import { ratiosPlan } from "../charts/ratios";
import { timesPlan } from "../charts/times";
import { element, figureOf as headFigure } from "../element";
import { instant, spread } from "../format";
import { metricOf, rangeText, spreadOf } from "../metrics";
import { strategyStyle } from "../palette";
import type { PointSummary, Spread, StudyData, WarmerRatio } from "../../generated/record";
import type { StudyState } from "../state";
import { isWarmUp } from "../warmers_state";

const residentOf = (point: PointSummary): Spread | null => spreadOf(point, "resident_after_seconds");

/** Do its trials end when what is wanted is resident? */
export const isOfWarmers = ({ points }: StudyData): boolean => points.some((point) => residentOf(point) !== null || spreadOf(point, "load_bytes_per_second") !== null);

export function warmersSection(state: StudyState): HTMLElement {
  const ratios = ratiosOf(state.study);
  return element(
    "section",
    { class: "charts", "aria-labelledby": "warmers" },
    element("h2", { id: "warmers" }, "How soon it was resident"),
    figure(timesOf(state.study), state),
    ratios && figure(ratios, state),
  );
}

const strategiesOf = ({ sweep, points }: StudyData): string[] => {
  const axis = sweep.varied.indexOf("strategy");
  return points.map((point) => point.values[axis] ?? point.label);
};

/** By the warmer, where nothing else varies. */
const nameOf = ({ sweep }: StudyData, point: PointSummary): string => (sweep.varied.length === 1 ? (point.values[0] ?? "") : point.label);

/** Bars of what each trial waits for. */
export function timesOf(study: StudyData): ChartPlan<StudyState> {
  const isWarm = isWarmUp(study);
  return timesPlan<StudyState>(
    {
      id: isWarm ? "warm-times" : "resident-times",
      title: isWarm ? "Seconds until warm" : "Seconds until resident",
      explanation: `The median of the repeats, with a whisker from the soonest to the latest, and its ratio to the bound: ${isWarm ? "bytes ÷ bandwidth. Hatched: not warm within the trial." : "the least that the disk allows for the best merging of gaps. Hatched: not reached by half of the repeats. Paler: until shared_buffers were back too."}`,
      unit: isWarm ? "seconds since the workload began" : "seconds since the warmer began",
    },
    ({ isDark }) => {
      const names = strategiesOf(study);
      const rows = study.points.flatMap((point, place) => {
        const strategy = names[place] ?? "";
        const [reached, buffers] = [isWarm ? spreadOf(point, "warm_after_seconds") : residentOf(point), spreadOf(point, "buffers_after_seconds")];
        const shared = { limit: point.measured_seconds ?? 0, style: strategyStyle(strategy, names, isDark) };
        return [
          ...(reached === null ? [] : [{ ...shared, name: nameOf(study, point), time: reached, times: spreadOf(point, "bound_ratio"), opacity: 1, isSubject: strategy === "pgthaw" }]),
          ...(buffers === null ? [] : [{ ...shared, name: `${nameOf(study, point)}: shared_buffers`, time: buffers, times: null, opacity: 0.5 }]),
        ];
      });
      const bounds = new Set(study.points.flatMap((point) => spreadOf(point, "bound_seconds")?.median ?? []));
      const bound = bounds.size === 1 ? ([...bounds][0] ?? null) : null;
      const ends = rows.flatMap(({ time }) => [time.median, time.max]).filter((end) => end !== null);
      return { rows, bound, end: ends.length > 0 ? niceAbove(1.05 * Math.max(...ends, bound ?? 0)) : Math.max(1, ...rows.map(({ limit }) => limit)) };
    },
  );
}

/** Warmers beside each other, a choice for each of their peers; `null` where nothing is compared. */
export function ratiosOf({ ratios }: StudyData): ChartPlan<StudyState> | null {
  const rowOf = ({ cell, dividend }: WarmerRatio): string => [dividend, cell].filter((part) => part !== "").join(", ");
  const names = [...new Set(ratios.map(rowOf))];
  // Of what other figures are divided than those of the rest stands beside them.
  const quantityOf = ({ of, divisor }: WarmerRatio): string => `${of === "to-50" ? "50 %" : "time"} ÷ ${divisor}`;
  const dividends = new Map(ratios.map((one) => [rowOf(one), one.dividend]));
  const quantities = [...new Set(ratios.map(quantityOf))].sort((a, b) => Number(a.startsWith("50")) - Number(b.startsWith("50")));
  return ratiosPlan<StudyState>({
    names,
    quantities: quantities.map((id) => ({ id, label: id, to: id.split(" ÷ ")[1] ?? "", find: (name: string) => ratios.find((one) => quantityOf(one) === id && rowOf(one) === name) ?? null })),
    style: ({ isDark }, name) => ({ style: strategyStyle(dividends.get(name) ?? "", [...dividends.values()], isDark), opacity: 1 }),
  });
}

/** The figures of pgthaw, or of the soonest warmer. */
export function warmersFigures(study: StudyData): HTMLElement | null {
  const names = strategiesOf(study);
  const reached = isWarmUp(study) ? "warm_after_seconds" : "resident_after_seconds";
  const soonest = (point: PointSummary): number => spreadOf(point, reached)?.median ?? Number.POSITIVE_INFINITY;
  const sorted = [...study.points].filter((point) => spreadOf(point, reached) !== null).sort((a, b) => soonest(a) - soonest(b));
  const subject = study.points.find((_, place) => names[place] === "pgthaw") ?? sorted[0];
  if (!subject) return null;
  // What it is held against: doing nothing, and the soonest other way.
  const others = sorted.filter((one) => one !== subject);
  const compared = [others.find(({ label }) => label === "nothing"), others.find(({ label }) => label !== "nothing" && !label.startsWith("pgthaw"))];
  const beside = compared.flatMap((one) => (one === undefined ? [] : [`${nameOf(study, one)} ${spread(spreadOf(one, reached), instant, `${one.measured_seconds ?? 0} s`).median}`]));
  const steady = study.trials.find(({ steady_tps: tps }) => tps !== null)?.steady_tps ?? null;
  const ids = ["resident-after", "warm-after", "bound-ratio", "served-until-warm", "buffers-after", "load-rate", "cpu-per-gb"];
  const figures = ids.map(metricOf).flatMap((metric, place) => {
    const range = metric.of(subject);
    if (range === null) return [];
    if (place > 1) return [headFigure(metric.label, metric.render(range.median), metric.unit)];
    return [headFigure(`${nameOf(study, subject)} ${metric.label}`, Number.isFinite(range.median) ? metric.render(range.median) : `> ${subject.measured_seconds ?? 0} s`, [rangeText(range, metric.render), ...beside].filter((text) => text !== "").join("; ") || metric.unit)];
  });
  const more = steady === null ? [] : [headFigure("steady throughput", metricOf("tps").render(steady), "transactions per second")];
  return element("dl", { class: "figures", "aria-label": `Figures of ${nameOf(study, subject)}` }, ...[...figures, ...more].slice(0, 4));
}
