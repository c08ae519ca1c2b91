// What the charts over time share: axes, lines with their bands, the bound, and the list under the pointer.

import type { CustomSeriesOption, EChartsOption, LineSeriesOption, SeriesOption, TooltipComponentOption } from "echarts";
import type { Curve, Point } from "../curves";
import { type Child, element, table } from "../element";
import { compact, range, seconds, sizeSteps } from "../format";
import type { CurveStage } from "../curve_stage";
import { sparse, swatch } from "../swatch";
import { textStyle } from "./engine";
import type { View } from "./figure";

export interface TimeChart {
  curves: Curve[];
  render: (value: number) => string;
  renderAxis: (value: number) => string;
  /** Of the numbers in the table, where they have none themselves. */
  tableUnit?: string;
  /** An axis of sizes has their steps. */
  isSize?: boolean;
  /** How an instant of a point is told. */
  renderInstant: (at: number) => string;
  /** Over the transactions that were served, instead of over time: nothing that is known in seconds is drawn then. */
  isOverTransactions?: boolean;
  isLog?: boolean;
  /** A log axis has no zero: what is lower is drawn here. */
  floor?: number;
  /** Horizontal lines, with their label at the left or at the right. */
  levels?: { value: number; label: string; isLabelRight?: boolean }[];
  /** Draws above the curves. */
  more?: SeriesOption[];
}

/** Points beyond which neighbours are joined on screen: keeping the smallest and the largest, so that no stall is lost. */
const MANY_POINTS = 4000;

export function timeOption(view: View<CurveStage>, chart: TimeChart): EChartsOption {
  const { state, isNarrow } = view;
  const series = chart.curves.flatMap((curve, place): SeriesOption[] => [band(curve, chart, state), line(curve, place, chart, state)]);
  return {
    textStyle: textStyle(state.theme),
    grid: { left: 8, right: isNarrow ? 8 : 16, top: 22, bottom: 8, containLabel: true },
    xAxis: timeAxis(view, chart),
    yAxis: valueAxis(view, chart),
    tooltip: tooltip(chart, state),
    series: [...series, ...(chart.more ?? []), lines(chart, state)],
  };
}

function timeAxis(view: View<CurveStage>, chart: TimeChart): NonNullable<EChartsOption["xAxis"]> {
  const { theme, longest } = view.state;
  return {
    type: "value",
    min: 0,
    ...(chart.isOverTransactions ? {} : { max: longest }),
    splitNumber: view.isNarrow ? 4 : 10,
    axisLine: { lineStyle: { color: theme.soft } },
    axisTick: { show: true, lineStyle: { color: theme.soft } },
    axisLabel: { color: theme.soft, formatter: chart.isOverTransactions ? compact : "{value} s", hideOverlap: true },
    splitLine: { show: false },
    axisPointer: { lineStyle: { color: theme.soft, type: "solid", width: 1 } },
  };
}

function valueAxis(view: View<CurveStage>, chart: TimeChart): NonNullable<EChartsOption["yAxis"]> {
  const { theme } = view.state;
  const shared = {
    axisLabel: { color: theme.soft, formatter: chart.renderAxis },
    splitLine: { lineStyle: { color: theme.rule } },
    axisLine: { show: false },
  };
  if (chart.isSize) return { ...shared, type: "value", min: 0, ...sizeSteps(Math.max(...chart.curves.flatMap(({ points }) => points.map((point) => point.max)), ...(chart.levels ?? []).map((level) => level.value))) };
  if (!chart.isLog) return { ...shared, type: "value", splitNumber: 5 };
  return chart.floor === undefined ? { ...shared, type: "log" } : { ...shared, type: "log", min: chart.floor };
}

const onAxis = (chart: TimeChart, value: number): number => (chart.isLog ? Math.max(value, chart.floor ?? 0) : value);

function line(curve: Curve, place: number, chart: TimeChart, state: CurveStage): LineSeriesOption {
  const style = state.style(curve.strategy);
  const isSubject = curve.strategy === "pgthaw";
  return {
    type: "line",
    id: `line:${curve.strategy}`,
    name: curve.strategy,
    data: curve.points.map((point) => [point.at, onAxis(chart, point.median)]),
    symbol: sparse(style.symbol, curve.points.length, place, chart.curves.length),
    symbolSize: isSubject ? 10 : 8,
    symbolKeepAspect: true,
    showSymbol: true,
    ...(curve.points.length > MANY_POINTS ? { sampling: "minmax" as const } : {}),
    lineStyle: { color: style.color, width: style.width, type: style.dash.length > 0 ? style.dash : "solid", opacity: state.opacity(curve.strategy) },
    itemStyle: { color: style.color, opacity: state.opacity(curve.strategy) },
    emphasis: { disabled: true },
    z: isSubject ? 5 : 3,
  };
}

/** From the smallest to the largest of the repeats, as one shape. */
function band(curve: Curve, chart: TimeChart, state: CurveStage): CustomSeriesOption {
  const isFlat = curve.points.every((point) => point.min === point.max);
  const outline = [
    ...curve.points.map((point): [number, number] => [point.at, onAxis(chart, point.max)]),
    ...[...curve.points].reverse().map((point): [number, number] => [point.at, onAxis(chart, point.min)]),
  ];
  const strength = state.focus === curve.strategy ? 0.3 : curve.strategy === "pgthaw" ? 0.2 : 0.1;
  return {
    type: "custom",
    id: `band:${curve.strategy}`,
    name: curve.strategy,
    clip: true,
    silent: true,
    data: isFlat ? [] : outline,
    renderItem: (params, api) => {
      if (params.dataIndex !== 0) return undefined;
      const points = outline.map((corner) => api.coord(corner));
      const fill = state.style(curve.strategy).color;
      return { type: "polygon", shape: { points }, style: { fill, opacity: strength * state.opacity(curve.strategy) } };
    },
    tooltip: { show: false },
    z: 1,
  };
}

/** In this share of the time axis a label would lie on those of the other axis. */
const BESIDE_AXIS = 0.12;

/** The bound, upright, and the chart's own levels, across. */
function lines(chart: TimeChart, state: CurveStage): LineSeriesOption {
  const { theme, bound, longest } = state;
  const label = { color: theme.soft, fontSize: 11 };
  const levels = (chart.levels ?? []).map((level) => ({
    yAxis: level.value,
    lineStyle: { color: theme.soft, type: [2, 3], width: 1 },
    label: { ...label, formatter: level.label, position: level.isLabelRight ? ("insideEndTop" as const) : ("insideStartTop" as const) },
  }));
  const upright = bound === null || chart.isOverTransactions ? [] : [{
    xAxis: bound,
    lineStyle: { color: theme.ink, type: [4, 3], width: 1 },
    label: { ...label, color: theme.ink, formatter: `bound ${seconds(bound)}`, position: "end" as const, distance: 4, align: bound < BESIDE_AXIS * longest ? "left" as const : "center" as const },
  }];
  return {
    type: "line",
    id: "lines",
    data: [],
    markLine: { silent: true, symbol: "none", animation: false, data: [...upright, ...levels] },
  };
}

function tooltip(chart: TimeChart, state: CurveStage): TooltipComponentOption {
  return {
    trigger: "axis",
    confine: true,
    transitionDuration: 0,
    backgroundColor: state.theme.paper,
    borderColor: state.theme.rule,
    textStyle: { color: state.theme.ink, fontSize: 12 },
    formatter: (params) => {
      const first = (Array.isArray(params) ? params : [params]).find((one) => one.seriesId?.startsWith("line:"));
      const value = first?.value;
      const at = Array.isArray(value) && typeof value[0] === "number" ? value[0] : null;
      return at === null ? "" : list(at, chart, state);
    },
  };
}

/** The strategies at an instant, the largest value first. */
function list(at: number, chart: TimeChart, state: CurveStage): HTMLElement {
  const found = chart.curves
    .flatMap((curve) => {
      const point = curve.points.find((one) => one.at === at);
      return point ? [{ strategy: curve.strategy, point }] : [];
    })
    .sort((a, b) => b.point.median - a.point.median);
  const rows = found.map(({ strategy, point }) =>
    element(
      "tr",
      {},
      element("td", {}, swatch(state.style(strategy))),
      element("td", { class: strategy === "pgthaw" ? "subject" : null }, strategy),
      element("td", { class: "number" }, chart.render(point.median)),
      element("td", { class: "number soft" }, point.min === point.max ? "" : ends(point, chart.render)),
    ),
  );
  return element("div", { class: "pointer" }, element("p", {}, chart.renderInstant(at)), element("table", {}, ...rows));
}

const ends = (point: Point, render: (value: number) => string): string => range(render(point.min), render(point.max));

/** Instants down, strategies across: the median, and the range below it. */
export function curvesTable(caption: string, chart: TimeChart): HTMLElement {
  const instants = [...new Set(chart.curves.flatMap((curve) => curve.points.map((point) => point.at)))].sort((a, b) => a - b);
  const columns = ["", ...chart.curves.map((curve) => `${curve.strategy}${chart.tableUnit === undefined ? "" : ` (${chart.tableUnit})`}`)].map((title, index) => ({ title, isNumber: index > 0 }));
  const byInstant = chart.curves.map((curve) => new Map(curve.points.map((point) => [point.at, point])));
  const rows = instants.map((at): Child[] => [
    chart.renderInstant(at),
    ...byInstant.map((points): Child => {
      const point = points.get(at);
      if (!point) return "–";
      const isOne = point.min === point.max;
      return isOne ? chart.render(point.median) : element("span", { title: ends(point, chart.render) }, chart.render(point.median));
    }),
  ]);
  return table(caption, columns, rows);
}
