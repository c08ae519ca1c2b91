import { ratiosPlan, type Time, timesPlan } from "../charts/bars";
import { type ChartPlan, figure } from "../charts/figure";
import { isWarmUp } from "../curve_stage";
import { section } from "../element";
import { chosenOf, spreadOf } from "../metrics";
import { strategyStyle } from "../palette";
import type { StudyState } from "../pivot";
import type { PointSummary, StudyData, WarmerRatio } from "../../generated/record";

/** Whether trials end when all pages of the snapshot are resident. */
export const isOfWarmers = ({ points }: StudyData): boolean => points.some((point) => ["resident_after_seconds", "load_bytes_per_second"].some((key) => spreadOf(point, key) !== null));

/** Whether the trials measure how long a job takes from a cold start, not how throughput rises. */
export const isOfJobs = (study: StudyData): boolean => chosenOf(study, null).name === "whole";

export function warmersSection(state: StudyState): HTMLElement {
  const ratios = ratiosOf(state.study);
  return section("warmers", "Time until resident", figure(timesOf(state.study), state), ratios && figure(ratios, state));
}

export const jobsSection = (state: StudyState): HTMLElement => section("jobs", "Duration of the job", figure(jobTimes, state));

export const strategiesOf = ({ sweep, points }: StudyData): string[] => {
  const axis = sweep.varied.indexOf("strategy");
  return points.map((point) => point.values[axis] ?? point.label);
};

export const nameOf = ({ sweep }: StudyData, point: PointSummary): string => (sweep.varied.length === 1 ? (point.values[0] ?? "") : point.label);

/** Seconds of the warmer before the load; 0 if they run together. */
export const beforeLoad = (point: PointSummary): number => Math.max(0, (spreadOf(point, "whole_seconds")?.median ?? 0) - (spreadOf(point, "load_seconds")?.median ?? 0));

function timesBy(study: StudyData, isDark: boolean, key: string, more: (point: PointSummary) => Partial<Time>): { place: number; time: Time }[] {
  const names = strategiesOf(study);
  return study.points.flatMap((point, place) => {
    const [time, strategy] = [spreadOf(point, key), names[place] ?? ""];
    if (time === null) return [];
    const style = strategyStyle(strategy, names, isDark);
    return [{ place, time: { name: nameOf(study, point), time, times: null, limit: point.measured_seconds ?? 0, style, isSubject: strategy === "pgthaw", ...more(point) } }];
  });
}

export function timesOf(study: StudyData): ChartPlan<StudyState> {
  const isWarm = isWarmUp(study);
  const [id, title, unit, key] = isWarm
    ? ["warm-times", "Seconds until warm", "seconds since the workload began", "warm_after_seconds"]
    : ["resident-times", "Seconds until resident", "seconds since the warmer began", "resident_after_seconds"];
  const [least, hatched] = isWarm
    ? ["bytes ÷ bandwidth", "Hatched: not warm within the trial."]
    : ["the least time that the disk allows, reading across gaps between blocks where that is faster", "Hatched: in half of the repeats or more, the data never became resident. Paler: the time until shared_buffers were restored too."];
  const isBounded = study.points.some((point) => spreadOf(point, "bound_ratio") !== null);
  const explanation = `The median of the repeats, with a whisker from the earliest to the latest${isBounded ? `, and its ratio to the bound: ${least}` : ""}. ${hatched}`;
  return timesPlan({ id, title, explanation, unit: () => unit }, ({ theme: { isDark } }) => {
    const reached = timesBy(study, isDark, key, (point) => ({ times: spreadOf(point, "bound_ratio") }));
    const buffers = timesBy(study, isDark, "buffers_after_seconds", (point) => ({ name: `${nameOf(study, point)}: shared_buffers`, opacity: 0.5, isSubject: false }));
    const bounds = new Set(study.points.flatMap((point) => spreadOf(point, "bound_seconds")?.median ?? []));
    return { times: [...reached, ...buffers].sort((a, b) => a.place - b.place).map(({ time }) => time), bound: bounds.size === 1 ? ([...bounds][0] ?? null) : null };
  });
}

const jobTimes: ChartPlan<StudyState> = timesPlan({
  id: "job-times", title: "Seconds until the job was done", unit: () => "seconds since the cold start",
  explanation: "The median of the repeats from a cold start, with a whisker from the earliest to the latest. The paler part is the time of the warmer before the job.",
}, ({ state: { study }, theme: { isDark } }) => ({
  times: timesBy(study, isDark, "whole_seconds", (point) => ({ name: point.values.join(", ") || point.label, before: beforeLoad(point) })).map(({ time }) => time), bound: null,
}));

export function ratiosOf({ ratios }: StudyData): ChartPlan<StudyState> | null {
  const rowOf = ({ cell, dividend }: WarmerRatio): string => [dividend, cell].filter((part) => part !== "").join(", ");
  const quantityOf = ({ of, divisor }: WarmerRatio): string => `${of === "to-50" ? "50 %" : "time"} ÷ ${divisor}`;
  const dividends = new Map(ratios.map((one) => [rowOf(one), one.dividend]));
  const quantities = [...new Set(ratios.map(quantityOf))].sort((a, b) => Number(a.startsWith("50")) - Number(b.startsWith("50")));
  return ratiosPlan({
    title: "Ratios within the rounds", about: "Each ratio is a strategy’s time divided by another strategy’s time in the same round, or by the bound.", floor: null,
    names: [...dividends.keys()],
    quantities: quantities.map((id) => ({ id, to: id.split(" ÷ ")[1] ?? "", find: (name) => ratios.find((one) => quantityOf(one) === id && rowOf(one) === name) ?? null })),
    style: (name, isDark) => strategyStyle(dividends.get(name) ?? "", [...dividends.values()], isDark),
  });
}
