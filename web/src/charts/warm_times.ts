// Bars: seconds until warm, each beside the bound.

import type { BarSeriesOption, CustomSeriesOption, CustomSeriesRenderItemReturn, EChartsOption } from "echarts";
import { table } from "../element";
import { instant, ratio, seconds, spread } from "../format";
import type { StrategySummary } from "../record";
import { textStyle } from "./engine";
import type { ChartPlan, View } from "./figure";

const ROW_HEIGHT = 34;
const NARROW_ROW_HEIGHT = 46;

/** The first strategy stands on top; the category axis counts from below. */
const rowsOf = (view: View): StrategySummary[] =>
  view.state.data.summary.strategies.filter((one) => view.state.isVisible(one.strategy)).reverse();

export const warmTimes: ChartPlan = {
  id: "warm-times",
  title: "Seconds until warm",
  explanation:
    "The median of the repeats, with a whisker from the soonest to the latest, and its ratio to the bound: bytes ÷ bandwidth. Hatched: not warm within the trial.",
  unit: () => "seconds since the workload began",
  height: (view) => rowsOf(view).length * (view.isNarrow ? NARROW_ROW_HEIGHT : ROW_HEIGHT) + 60,
  option: (view) => ({
    textStyle: textStyle(view.state.theme),
    grid: { left: 8, right: view.isNarrow ? 16 : 130, top: 24, bottom: 8, containLabel: true },
    xAxis: xAxis(view),
    yAxis: yAxis(view),
    series: [bars(view), labels(view)],
  }),
  numbers: (view) => {
    const limit = `${view.state.data.summary.trial_seconds} s`;
    const columns = ["strategy", "median", "soonest–latest", "÷ bound (×)"].map((title, index) => ({ title, isNumber: index > 0 }));
    const rows = [...rowsOf(view)].reverse().map((one) => {
      const time = spread(one.warm_after_seconds, seconds, limit);
      return [one.strategy, time.median, time.range ?? "–", ratioText(one, view) ?? "–"];
    });
    return table("Seconds until warm", columns, rows);
  },
};

function xAxis(view: View): NonNullable<EChartsOption["xAxis"]> {
  const { theme } = view.state;
  return {
    type: "value",
    min: 0,
    max: view.state.data.summary.trial_seconds,
    splitNumber: view.isNarrow ? 4 : 8,
    axisLabel: { color: theme.soft, formatter: "{value} s", hideOverlap: true },
    splitLine: { lineStyle: { color: theme.rule } },
  };
}

/** On a narrow page the names stand above the bars instead. */
function yAxis(view: View): NonNullable<EChartsOption["yAxis"]> {
  const { theme } = view.state;
  return {
    type: "category",
    data: rowsOf(view).map((one) => one.strategy),
    axisLine: { lineStyle: { color: theme.soft } },
    axisTick: { show: false },
    axisLabel: {
      show: !view.isNarrow,
      color: theme.ink,
      fontSize: 13,
      width: 200,
      overflow: "truncate",
      formatter: (name: string) => (name === "pgthaw" ? `{subject|${name}}` : name),
      rich: { subject: { fontWeight: 700, fontSize: 13, color: view.state.style("pgthaw").color } },
    },
  };
}

/** The median ratio to the bound; `null` without a bound. */
function ratioText(one: StrategySummary, view: View): string | null {
  const { bound_seconds: bound, trial_seconds: limit } = view.state.data.summary;
  if (bound === null || one.bound_ratio === null) return null;
  return one.bound_ratio.median === null ? `> ${ratio(limit / bound)}` : ratio(one.bound_ratio.median);
}

function bars(view: View): BarSeriesOption {
  const { state } = view;
  const { bound_seconds: bound, trial_seconds: limit } = state.data.summary;
  const data = rowsOf(view).map((one) => {
    const { color } = state.style(one.strategy);
    const opacity = state.opacity(one.strategy);
    const reached = one.warm_after_seconds.median;
    return {
      name: one.strategy,
      value: reached ?? limit,
      itemStyle: reached === null
        ? { color: state.theme.paper, borderColor: color, borderWidth: 1, opacity, decal: hatch(color) }
        : { color, opacity },
    };
  });
  return {
    type: "bar",
    id: "bars",
    data,
    barWidth: 14,
    emphasis: { disabled: true },
    markLine: {
      z: 3,
      silent: true,
      symbol: "none",
      data: bound === null ? [] : [{
        xAxis: bound,
        lineStyle: { color: state.theme.ink, type: [4, 3], width: 1 },
        label: { formatter: `bound ${seconds(bound)}`, color: state.theme.ink, fontSize: 11, position: "end", distance: 4 },
      }],
    },
  };
}

const hatch = (color: string) => ({
  symbol: "rect",
  color,
  dashArrayX: [1, 0] as [number, number],
  dashArrayY: [1.5, 5] as [number, number],
  rotation: Math.PI / 4,
});

/** What belongs to each bar: the whisker over the repeats, and the figures beside it, or above it on a narrow page. */
function labels(view: View): CustomSeriesOption {
  const { state } = view;
  const limit = state.data.summary.trial_seconds;
  const rows = rowsOf(view);
  return {
    type: "custom",
    id: "labels",
    data: rows.map((one, row) => [one.warm_after_seconds.max ?? limit, row]),
    silent: true,
    z: 4,
    renderItem: (params, api) => {
      const row = params.dataIndex;
      const one = rows[row];
      if (!one) return undefined;
      const at = (value: number): [number, number] => api.coord([value, row]) as [number, number];
      const { min, max } = one.warm_after_seconds;
      const whisker = min === null || min === max ? [] : whiskerBetween(at(min), at(max ?? limit), max !== null, state.theme.ink);
      const [right, y] = at(max ?? limit);
      const place = view.isNarrow ? { x: at(0)[0] + 2, y: y - 19 } : { x: right + 10, y };
      const text = { text: figuresOf(one, view), ...place, fill: state.theme.ink, backgroundColor: state.theme.surround, padding: [4, 3], font: `12px ${textStyle(state.theme).fontFamily}` };
      return { type: "group", children: [...whisker, { type: "text", style: { ...text, verticalAlign: "middle" } }] };
    },
  };
}

function figuresOf(one: StrategySummary, view: View): string {
  const reached = one.warm_after_seconds.median;
  const time = reached === null ? `> ${view.state.data.summary.trial_seconds} s` : instant(reached);
  const times = ratioText(one, view);
  const figures = times === null ? time : `${time}   ${times} ×`;
  return view.isNarrow ? `${one.strategy}   ${figures}` : figures;
}

/** A line with an end at each side; open where the latest repeat did not get there. */
function whiskerBetween(
  [left, y]: [number, number],
  [right]: [number, number],
  isClosed: boolean,
  ink: string,
): Exclude<CustomSeriesRenderItemReturn, undefined | null>[] {
  const style = { stroke: ink, lineWidth: 1.3 };
  const stroke = (x1: number, y1: number, x2: number, y2: number) => ({ type: "line" as const, shape: { x1, y1, x2, y2 }, style });
  const ends = isClosed ? [left, right] : [left];
  return [stroke(left, y, right, y), ...ends.map((x) => stroke(x, y - 5, x, y + 5))];
}
