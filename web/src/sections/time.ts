import { usersOf } from "../charts/time_by_users";
import { card, type Child, code, element, type Facts, folded, ofPoints, paragraph, section, table } from "../element";
import { count, latency, percent, seconds } from "../format";
import type { StudyState } from "../pivot";
import type { SweepTrial, TimedPoint } from "../../generated/record";

const SOURCES: Record<string, string> = {
  bpf: "every context switch, counted in the kernel",
  memory: "samples of the wait events in the processes’ memory: estimates",
  sql: "samples of pg_stat_activity: estimates",
};

const length = (ns: number): string => (ns < 1000 ? `${ns.toFixed(0)} ns` : latency(ns / 1000));

const exactShare = (share: number): string => `${(100 * share).toFixed(2)} %`;

/** Has the columns of Greg Smith's slides. */
export function timeTable({ study }: StudyState): HTMLElement {
  const counted = ["updates", "commands read", "commands handled", "LWLock waits"].flatMap((title, place) => [title, place === 0 ? "waited (s)" : "total (s)", "mean"]);
  const titles = ["users", ...counted, "transactions per minute", "response time", "explained", "length", "explained in a second, lowest–highest", "processors used", "cost"];
  const processors = study.sweep.machine.cores;
  const row = (point: TimedPoint): Child[] => {
    // Sampling counts no commands and cannot distinguish ready from running.
    const countedOf = (number: number): number | null => (point.ready_seconds === null ? null : number);
    const figures: [number | null, number][] = [
      [point.activity_reports, point.statistics_seconds], [countedOf(point.commands), point.reading_seconds],
      [countedOf(point.handled), point.handled_seconds], [point.lwlock_waits, point.lwlock_seconds],
    ];
    const range = [point.explained_ratio_min, point.explained_ratio_max].map((one) => (one === null ? "–" : (100 * one).toFixed(2)));
    return [
      usersOf(point),
      ...figures.flatMap(([number, total]) => [number === null ? "–" : count(number), total.toFixed(1), number === null || number < 1 ? "–" : length((total / number) * 1e9)]),
      point.tps === null ? "–" : count(60 * point.tps), point.response_us === null ? "–" : latency(point.response_us),
      point.explained_seconds === null ? "–" : `${point.explained_seconds.toFixed(2)} s`, seconds(point.length_seconds), `${range.join("–")} %`,
      `${point.processors_used.toFixed(2)} of ${processors}`, exactShare(point.cost_seconds / (point.length_seconds * processors)),
    ];
  };
  return element("div", {},
    paragraph("lead", "Means of the trials. Updates are reports to pg_stat_activity; “waited” is the time that backends waited for locks of the shared statistics. “Commands read”: the time from the end of a command to the receipt of the next. “Commands handled”: the time from the receipt of a command to its end. “Explained” is the sum of these two times ÷ the number of users."),
    ofPoints(study.timed.length, () => table("Time of the client backends", titles, study.timed.map(row), { id: "times", className: "low" })));
}

export function timeOfTrial({ time }: SweepTrial): HTMLElement | null {
  if (!time) return null;
  const [runs, kernel] = [time.programs.reduce((sum, one) => sum + one.runs, 0), time.programs.reduce((sum, one) => sum + one.total_ns, 0)];
  const share = (ratio: number | null): string => (ratio === null ? "–" : exactShare(ratio));
  const inKernel = runs > 0 ? `, ${seconds(kernel / 1e9)} of it in the kernel in ${count(runs)} runs (${count(kernel / runs)} ns each)` : "";
  const recovered = `${count(time.recovered)} unreported starts on a processor (${seconds(time.recovered_seconds)}), ${count(time.wakes_missed)} ends of waits`;
  const facts: Facts = [
    ["source", SOURCES[time.source] ?? time.source],
    ...time.refused.map(({ source, reason }): [string, string] => [`why not ${source}`, reason]),
    ["explained", `${share(time.explained_ratio)} of the lifetime of ${count(time.processes)} processes, ${share(time.explained_ratio_min)} to ${share(time.explained_ratio_max)} in single seconds`],
    ...(time.is_cut_short ? [["ended before the trial", "the measurement used more than 2 % of all processors; with time = true in the study file, it continues nevertheless"]] satisfies Facts : []),
    ["time with unreadable events", seconds(time.unknown_seconds)],
    ["processes not followed", count(time.lost_processes)],
    ["processor time of the measurement", `${seconds(time.cost_seconds)}${inKernel}`],
    ...(time.recovered + time.wakes_missed > 0 ? [["recovered", recovered]] satisfies Facts : []),
  ];
  const names = [...(time.handled_statistic ? [time.handled_statistic] : []), ...time.statistics];
  const lived = time.statistics.reduce((sum, one) => sum + one.total_ns, 0);
  const rows = names.map(({ name, count: number, total_ns: total, max_ns: max }): Child[] => [
    code(name), number === 0 ? "–" : count(number), length(total), percent(total / (lived || 1)), number === 0 ? "–" : length(total / number), max === null ? "–" : length(max),
  ]);
  return section("time-names", "Time of the server’s processes", element("div", { class: "cards" }, card("Measurement", facts)),
    folded(`All ${names.length} names`, () => table("Time by name", ["name", "count", "total", "share", "mean", "longest"], rows, { className: "low" })));
}
