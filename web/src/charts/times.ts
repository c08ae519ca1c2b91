// Bars: seconds until something was reached, each beside the bound.

import type { BarSeriesOption, CustomSeriesOption, CustomSeriesRenderItemReturn, EChartsOption } from "echarts";
import type { Backdrop } from "../appearance";
import { table } from "../element";
import { instant, ratio, seconds, spread } from "../format";
import type { SeriesStyle } from "../palette";
import type { Spread } from "../../generated/record";
import { textStyle } from "./engine";
import type { ChartPlan, View } from "./figure";

const ROW_HEIGHT = 34;
const NARROW_ROW_HEIGHT = 46;

/** A bar. */
interface Row {
  name: string;
  time: Spread;
  /** The part of it that came first, drawn paler; of the median. */
  before?: number | null;
  /** ÷ the bound. */
  times: Spread | null;
  /** What a time that was not reached is longer than. */
  limit: number;
  style: SeriesStyle;
  opacity: number;
  isSubject?: boolean;
}

interface Times {
  /** The first one stands on top. */
  rows: Row[];
  bound: number | null;
  /** Of the axis. */
  end: number;
}

type Head = Pick<ChartPlan, "id" | "title" | "explanation"> & { unit: string };

/** A plan whose bars follow from what the reader chose. */
export function timesPlan<S extends Backdrop>({ unit, ...head }: Head, of: (state: S) => Times): ChartPlan<S> {
  return {
    ...head,
    unit: () => unit,
    height: (view) => of(view.state).rows.length * (view.isNarrow ? NARROW_ROW_HEIGHT : ROW_HEIGHT) + 60,
    option: (view) => {
      const times = of(view.state);
      // The category axis counts from below.
      const rows = [...times.rows].reverse();
      return {
        textStyle: textStyle(view.state.theme),
        grid: { left: 8, right: view.isNarrow ? 16 : 130, top: 24, bottom: 8, containLabel: true },
        xAxis: xAxis(view, times.end),
        yAxis: yAxis(view, rows),
        series: [earlier(rows), bars(view, rows, times), labels(view, rows, times)],
      };
    },
    numbers: (view) => {
      const { rows, bound } = of(view.state);
      const hasEarlier = rows.some(({ before }) => before !== undefined);
      const titles = ["strategy", "median", "soonest–latest", hasEarlier ? "of it the warmer" : "÷ bound (×)"];
      return table(head.title, titles.map((title, index) => ({ title, isNumber: index > 0 })), rows.map((one) => {
        const time = spread(one.time, seconds, `${one.limit} s`);
        const last = hasEarlier ? (one.before == null ? null : seconds(one.before)) : ratioText(one, bound);
        return [one.name, time.median, time.range ?? "–", last ?? "–"];
      }));
    },
  };
}

function xAxis({ state: { theme }, isNarrow }: View<Backdrop>, end: number): NonNullable<EChartsOption["xAxis"]> {
  return {
    type: "value",
    min: 0,
    max: end,
    splitNumber: isNarrow ? 4 : 8,
    axisLabel: { color: theme.soft, formatter: (value: number) => `${Number(value.toPrecision(3))} s`, hideOverlap: true },
    splitLine: { lineStyle: { color: theme.rule } },
  };
}

/** On a narrow page the names stand above the bars instead. */
function yAxis({ state: { theme }, isNarrow }: View<Backdrop>, rows: Row[]): NonNullable<EChartsOption["yAxis"]> {
  const subject = rows.find((one) => one.isSubject);
  return {
    type: "category",
    data: rows.map((one) => one.name),
    axisLine: { lineStyle: { color: theme.soft } },
    axisTick: { show: false },
    axisLabel: {
      show: !isNarrow,
      color: theme.ink,
      fontSize: 13,
      width: 200,
      overflow: "truncate",
      formatter: (name: string) => (name === subject?.name ? `{subject|${name}}` : name),
      rich: { subject: { fontWeight: 700, fontSize: 13, color: subject?.style.color ?? theme.ink } },
    },
  };
}

/** The median ratio to the bound; `null` without a bound. */
function ratioText({ times, limit }: Row, bound: number | null): string | null {
  if (bound === null || times === null) return null;
  return times.median === null ? `> ${ratio(limit / bound)}` : ratio(times.median);
}

/** What came first, below the rest of each bar. */
function earlier(rows: Row[]): BarSeriesOption {
  const data = rows.map(({ name, before, style: { color }, opacity }) => ({ name, value: before ?? 0, itemStyle: { color, opacity: 0.45 * opacity } }));
  return { type: "bar", id: "earlier", stack: "time", data, barWidth: 14, emphasis: { disabled: true } };
}

function bars({ state }: View<Backdrop>, rows: Row[], { bound, end }: Times): BarSeriesOption {
  const data = rows.map(({ name, time: { median }, before, style: { color }, opacity }) => ({
    name,
    value: (median ?? end) - (before ?? 0),
    itemStyle: median === null
      ? { color: state.theme.paper, borderColor: color, borderWidth: 1, opacity, decal: hatch(color) }
      : { color, opacity },
  }));
  return {
    type: "bar",
    id: "bars",
    stack: "time",
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
function labels({ state, isNarrow }: View<Backdrop>, rows: Row[], { bound, end }: Times): CustomSeriesOption {
  return {
    type: "custom",
    id: "labels",
    data: rows.map((one, row) => [one.time.max ?? end, row]),
    silent: true,
    z: 4,
    renderItem: (params, api) => {
      const row = params.dataIndex;
      const one = rows[row];
      if (!one) return undefined;
      const at = (value: number): [number, number] => api.coord([value, row]) as [number, number];
      const { min, max } = one.time;
      const whisker = min === null || min === max ? [] : whiskerBetween(at(min), at(max ?? end), max !== null, state.theme.ink);
      const [right, y] = at(max ?? end);
      const place = isNarrow ? { x: at(0)[0] + 2, y: y - 19 } : { x: right + 10, y };
      const figures = figuresOf(one, bound);
      const text = { text: isNarrow ? `${one.name}   ${figures}` : figures, ...place, fill: state.theme.ink, backgroundColor: state.theme.surround, padding: [4, 3], font: `12px ${textStyle(state.theme).fontFamily}` };
      return { type: "group", children: [...whisker, { type: "text", style: { ...text, verticalAlign: "middle" } }] };
    },
  };
}

function figuresOf(one: Row, bound: number | null): string {
  const time = one.time.median === null ? `> ${one.limit} s` : instant(one.time.median);
  const times = ratioText(one, bound);
  return times === null ? time : `${time}   ${times} ×`;
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
