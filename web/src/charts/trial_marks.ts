// What lies across all panels of a trial: checkpoints in their phases, and stalls.

import type { LineSeriesOption, ScatterSeriesOption } from "echarts";
import { element, table } from "../element";
import { count } from "../format";
import type { Theme } from "../palette";
import type { SweepTrial, TrialData } from "../../generated/record";

export interface Phase {
  from: number;
  until: number;
  /** Files are synchronised, which is when all else waits. */
  isSync: boolean;
  /** Why the checkpoint was made, at its beginning. */
  reason: string;
  told: string;
}

/** A checkpoint that had begun before is shown from the start on, and one that has not ended up to the end. */
export function phasesOf({ checkpoints, checkpoint_begun: begun, lasted_seconds: lasted }: SweepTrial): Phase[] {
  const ended = checkpoints.flatMap(({ ended_after_seconds: end, total_seconds: total, write_seconds: writing, reason, buffers }): Phase[] => {
    const told = `checkpoint${reason === "" ? "" : ` (${reason})`}, ${count(buffers)} buffers`;
    const [from, written] = [Math.max(0, end - total), Math.max(0, end - total + writing)];
    return [{ from, until: written, isSync: false, reason, told: `${told}: writing` }, { from: written, until: end, isSync: true, reason: "", told: `${told}: synchronising` }];
  });
  return begun === null || begun === undefined ? ended : [...ended, { from: begun.began_after_seconds, until: lasted, isSync: false, reason: begun.reason, told: `checkpoint (${begun.reason}) that did not end within the trial` }];
}

/** Labels of more than these would lie on each other. */
const LABELLED = 12;

/** The marks behind one panel; the first one has their names. */
export function marks(data: TrialData, theme: Theme, index: number): (LineSeriesOption | ScatterSeriesOption)[] {
  const { trial, series } = data;
  const phases = phasesOf(trial);
  const area = (id: string, opacity: number, color: string, areas: { from: number; until: number; name: string }[]): LineSeriesOption => ({
    type: "line", id: `${id}:${index}`, xAxisIndex: index, yAxisIndex: index, data: [], silent: true, z: 1,
    markArea: {
      silent: true, animation: false, itemStyle: { color, opacity },
      label: { show: index === 0 && areas.length <= LABELLED, position: "insideTop", color: theme.soft, fontSize: 10, formatter: ({ name }) => name },
      data: areas.map(({ from, until, name }) => [{ xAxis: from, name }, { xAxis: until }]),
    },
  });
  return [
    area("checkpoints", 0.13, theme.soft, phases.filter((one) => !one.isSync).map((one) => ({ ...one, name: one.reason }))),
    area("synchronising", 0.3, theme.soft, phases.filter((one) => one.isSync).map((one) => ({ ...one, name: "" }))),
    warmerEnd(data, theme, index),
    area("stalls", 0.16, theme.warn, series.stalls.map(({ from_second: from, until_second: until }) => ({ from, until, name: "" }))),
    ...(index === 0 ? [triangles(data, theme)] : []),
  ];
}

/** An upright where what warmed the server had done its work. */
function warmerEnd({ trial }: TrialData, theme: Theme, index: number): LineSeriesOption {
  const end = trial.strategy_outcome?.ended_after_seconds ?? null;
  const label = { show: index === 0, formatter: `${String(trial.point["strategy"])} ended`, color: theme.soft, fontSize: 10, position: "insideEndTop" as const };
  return {
    type: "line", id: `warmer-end:${index}`, xAxisIndex: index, yAxisIndex: index, data: [], silent: true, z: 2,
    markLine: { silent: true, symbol: "none", animation: false, data: end === null ? [] : [{ xAxis: end, lineStyle: { color: theme.ink, type: [4, 3], width: 1 }, label }] },
  };
}

/** Where a stall was: colour alone does not tell it. They point into it from what was usual. */
function triangles({ series }: TrialData, theme: Theme): ScatterSeriesOption {
  return {
    type: "scatter", id: "stall-marks", xAxisIndex: 0, yAxisIndex: 0, silent: true, z: 6, tooltip: { show: false },
    symbol: "triangle", symbolRotate: 180, symbolSize: [10, 8], itemStyle: { color: theme.warn, opacity: 1 },
    data: series.stalls.map((stall) => [(stall.from_second + stall.until_second) / 2, stall.usual_tps]),
  };
}

/** What is at this moment, for the pointer. */
export function marksAt({ trial, series }: TrialData, at: number): string[] {
  const phases = phasesOf(trial).filter(({ from, until }) => at >= from && at <= until).map(({ told }) => told);
  const stalls = series.stalls.filter(({ from_second: from, until_second: until }) => at >= from && at <= until).map(() => "stall");
  return [...stalls, ...phases];
}

/** The stalls with what was seen in them. `null`: there are no seconds to judge by. */
export function stalls({ series }: TrialData): HTMLElement | null {
  if (series.second.length === 0) return null;
  if (series.stalls.length === 0) return element("p", { class: "soft", id: "stalls" }, "No stall: no second fell below half of what was usual around it by more than chance.");
  const columns = ["stall", "slowest second (tps)", "usual around it (tps)", "seen meanwhile"].map((title, index) => ({ title, isNumber: index === 1 || index === 2 }));
  const rows = series.stalls.map(({ from_second: from, until_second: until, least_tps: least, usual_tps: usual, seen }) => [`${from}–${until} s`, count(least), count(usual), seen.length === 0 ? "nothing" : seen.join("; ")]);
  const made = table("Stalls", columns, rows, "low stalls");
  made.id = "stalls";
  return element("div", {}, element("h3", {}, series.stalls.length === 1 ? "One stall" : `${series.stalls.length} stalls`), element("p", { class: "lead" }, "Seconds below half of what was usual around them, beyond what chance explains; marked in the chart."), made);
}
