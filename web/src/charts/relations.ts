// When each relation got into the page cache: a row of colours over the seconds of a trial.

import type { EChartsOption } from "echarts";
import { element, table } from "../element";
import { bytes, percent, seconds } from "../format";
import type { RelationResidency, TrialData } from "../../generated/record";
import { textStyle } from "./engine";
import type { ChartPlan, View } from "./figure";
import type { TrialStage } from "./trial_chart";

const ROW_HEIGHT = 24;

/** A relation is in memory as a whole when so much of it is. */
const WHOLE = 0.99;

interface Row extends RelationResidency {
  course: NonNullable<RelationResidency["course"]>;
}

/** Relations that somebody looked at meanwhile. */
export const coursesOf = ({ trial }: TrialData): Row[] => (trial.warming?.residency ?? []).filter((one): one is Row => Boolean(one.course));

/** Seconds until so much of it was there; `null`: not within the trial. */
function reached({ course: { shares, step_seconds: step } }: Row, share: number): number | null {
  const place = shares.findIndex((one) => one >= share);
  return place < 0 ? null : (place + 1) * step;
}

export const relationCourses: ChartPlan<TrialStage> = {
  id: "relations",
  title: "When each relation was in the page cache",
  explanation: "The resident share of each relation, the largest on top, from the start of the trial on.",
  unit: ({ state: { shown } }) => {
    const step = coursesOf(shown)[0]?.course.step_seconds ?? 1;
    return step === 1 ? "each column is a second" : `each column is the end of ${step} seconds`;
  },
  height: ({ state: { shown } }) => coursesOf(shown).length * ROW_HEIGHT + 80,
  option,
  numbers: ({ state: { shown } }) => {
    const titles = ["relation", "size", "half after", `${percent(WHOLE)} after`, "at the end"];
    const told = (row: Row, share: number): string => {
      const at = reached(row, share);
      return at === null ? "not within the trial" : seconds(at);
    };
    const rows = coursesOf(shown).map((row) => [`${row.relation} (${row.kind})`, bytes(row.total_bytes), told(row, 0.5), told(row, WHOLE), percent(row.course.shares.at(-1) ?? 0)]);
    return table("Relations in the page cache", titles.map((title, index) => ({ title, isNumber: index > 0 })), rows);
  },
};

function option(view: View<TrialStage>): EChartsOption {
  const { theme, shown } = view.state;
  const rows = coursesOf(shown);
  const ends = (rows[0]?.course.shares ?? []).map((_, place) => (place + 1) * (rows[0]?.course.step_seconds ?? 1));
  const names = view.isNarrow ? 110 : 200;
  return {
    textStyle: textStyle(theme),
    grid: { left: names, right: 16, top: 6, height: rows.length * ROW_HEIGHT },
    xAxis: { type: "category", data: ends.map(String), axisTick: { show: false }, axisLine: { lineStyle: { color: theme.soft } },
      axisLabel: { color: theme.soft, formatter: (value: string) => `${value} s`, hideOverlap: true } },
    yAxis: { type: "category", inverse: true, data: rows.map((one) => one.relation), axisTick: { show: false }, axisLine: { show: false },
      axisLabel: { color: theme.ink, fontSize: 12, width: names - 12, overflow: "truncate" } },
    visualMap: { min: 0, max: 1, dimension: 2, calculable: false, orient: "horizontal", left: view.isNarrow ? 0 : names, bottom: 0, itemHeight: 90, itemWidth: 9,
      text: ["all", "nothing resident"], textStyle: { color: theme.soft, fontSize: 11 }, inRange: { color: theme.heat } },
    tooltip: { confine: true, transitionDuration: 0, backgroundColor: theme.paper, borderColor: theme.rule, textStyle: { color: theme.ink, fontSize: 12 },
      formatter: (params) => (Array.isArray(params) ? "" : pointed(params.value, rows, ends)) },
    series: [{
      type: "heatmap", id: "relations", progressive: 0,
      data: rows.flatMap(({ course }, row) => course.shares.map((share, place): [number, number, number] => [place, row, share])),
      itemStyle: { borderColor: theme.paper, borderWidth: 0 },
      emphasis: { itemStyle: { borderColor: theme.ink, borderWidth: 1 } },
    }],
  };
}

function pointed(value: unknown, rows: Row[], ends: number[]): HTMLElement {
  const [place, row, share] = Array.isArray(value) ? (value as number[]) : [];
  return element("div", { class: "pointer" },
    element("p", {}, rows[row ?? 0]?.relation ?? ""),
    element("p", {}, `${percent(share ?? 0)} resident after ${seconds(ends[place ?? 0] ?? 0)}`));
}
