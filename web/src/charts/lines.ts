// A figure over one axis: a line for each value of a second axis, a small multiple for each of a third.

import type { CustomSeriesOption, EChartsOption, LineSeriesOption, SeriesOption } from "echarts";
import { textStyle } from "./engine";
import type { ChartPlan, View } from "./figure";
import { element, table } from "../element";
import { bytes, sizeSteps } from "../format";
import { seriesStyle } from "../palette";
import { swatch } from "../swatch";
import { rangeText } from "../metrics";
import { doubtOf, valuesOf } from "../pivot";
import type { PointSummary } from "../../generated/record";
import type { StudyState } from "../state";
import { chips } from "./legend";

const PANEL_HEIGHT = 270;
const LONE_HEIGHT = 380;
const GAP = 30;

export const lines: ChartPlan<StudyState> = {
  id: "lines",
  title: "Over one axis",
  explanation: "Each line joins the medians of the points; an upright reaches from the lowest trial to the highest, and its broad part is the interval of the median, where there are three trials or more. A ring marks a point with something against it.",
  unit: ({ state }) => state.metric.unit,
  height: (view) => rowsOf(view) * (facetsOf(view).length > 1 ? PANEL_HEIGHT : LONE_HEIGHT),
  legend: ({ state }) => chips(state),
  option,
  numbers,
};

const facetsOf = (view: View<StudyState>): string[] => valuesOf(view.state.axes, view.state.layout.facet);
const columnsOf = (view: View<StudyState>): number => Math.min(facetsOf(view).length, view.width > 1000 ? 3 : view.width > 620 ? 2 : 1);
const rowsOf = (view: View<StudyState>): number => Math.ceil(facetsOf(view).length / columnsOf(view));

function option(view: View<StudyState>): EChartsOption {
  const { state } = view;
  const { theme, metric, layout } = state;
  const [facets, xs, ys] = [facetsOf(view), valuesOf(state.axes, layout.x), valuesOf(state.axes, layout.y)];
  const columns = columnsOf(view);
  const height = facets.length > 1 ? PANEL_HEIGHT : LONE_HEIGHT;
  const width = (view.width - GAP * (columns - 1)) / columns;
  const grids = facets.map((_, index) => ({
    left: (index % columns) * (width + GAP) + 58, width: width - 66, top: Math.floor(index / columns) * height + 36, height: height - 90,
  }));
  const highest = highestOf(view);
  const lowest = Math.min(...allPoints(view).flatMap(({ point }) => metric.of(point)?.min ?? []).filter(Number.isFinite));
  const series = facets.flatMap((facet, grid) => ys.flatMap((y, place) => seriesOf(view, facet, grid, y, place, xs)));
  return {
    textStyle: textStyle(theme),
    grid: grids,
    title: facets.map((facet, index) => ({
      text: layout.facet === "" ? "" : `${layout.facet} ${facet}`, left: grids[index]?.left ?? 0, top: (grids[index]?.top ?? 0) - 30,
      textStyle: { fontSize: 13, fontWeight: 600, color: theme.ink, width: width - 70, overflow: "truncate" }, padding: 0,
    })),
    xAxis: facets.map((_, index) => ({
      type: "category", data: xs, gridIndex: index, name: layout.x, nameLocation: "middle", nameGap: 26, nameTextStyle: { color: theme.soft },
      axisLine: { lineStyle: { color: theme.soft } }, axisTick: { show: false },
      axisLabel: { color: theme.soft, hideOverlap: true, width: Math.max(40, width / xs.length - 6), overflow: "truncate" },
    })),
    yAxis: facets.map((_, index) => ({
      gridIndex: index, axisLabel: { color: theme.soft, formatter: metric.renderAxis }, splitLine: { lineStyle: { color: theme.rule } }, axisLine: { show: false },
      ...(metric.isLog
        ? { type: "log" as const, min: 10 ** Math.floor(Math.log10(Math.max(1, lowest))), max: 10 ** Math.ceil(Math.log10(Math.max(10, highest))) }
        : { type: "value" as const, min: 0, ...(highest <= 0 ? {} : metric.renderAxis === bytes ? sizeSteps(highest) : { max: niceAbove(highest) }), splitNumber: 4 }),
    })),
    tooltip: tooltip(view),
    series,
  };
}

/** Small multiples share their axis: its end is the next number that reads well. */
export function niceAbove(value: number): number {
  const size = 10 ** Math.floor(Math.log10(value));
  return ([1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].find((step) => step * size >= value) ?? 10) * size;
}

function allPoints({ state }: View<StudyState>): { point: PointSummary; x: string; y: string; facet: string }[] {
  const { axes, layout } = state;
  return valuesOf(axes, layout.facet).flatMap((facet) =>
    valuesOf(axes, layout.y).flatMap((y) =>
      valuesOf(axes, layout.x).flatMap((x) => {
        const point = state.points.at(layout, x, y, facet);
        return point === null ? [] : [{ point, x, y, facet }];
      }),
    ),
  );
}

/** Of all that was reached. */
function highestOf(view: View<StudyState>): number {
  const ranges = allPoints(view).flatMap(({ point }) => view.state.metric.of(point) ?? []);
  return Math.max(0, ...ranges.flatMap(({ min, median, max }) => [min, median, max]).filter(Number.isFinite));
}

/** What was not reached has no place on the axis. */
const reached = (value: number | undefined): number | null => (value !== undefined && Number.isFinite(value) ? value : null);

function seriesOf(view: View<StudyState>, facet: string, grid: number, y: string, place: number, xs: string[]): SeriesOption[] {
  const { state } = view;
  const { metric, layout, theme } = state;
  const { color, dash, symbol, width } = seriesStyle(place, state.isDark);
  const found = xs.map((x) => state.points.at(layout, x, y, facet));
  // Of trials that did not get there, the upright leaves the picture.
  const beyond = 10 * highestOf(view);
  const line: LineSeriesOption = {
    type: "line", id: `line:${facet}:${y}`, name: y, xAxisIndex: grid, yAxisIndex: grid,
    data: found.map((point) => {
      const isDoubtful = point !== null && doubtOf(point) !== null;
      return {
        value: point === null ? null : reached(metric.of(point)?.median),
        itemStyle: isDoubtful ? { color: theme.paper, borderColor: color, borderWidth: 1.5 } : { color },
      };
    }),
    symbol: `path://${symbol.path}`, symbolSize: 9, symbolKeepAspect: true, connectNulls: false, emphasis: { disabled: true }, z: 4,
    lineStyle: { color, width, type: dash.length > 0 ? dash : "solid" },
  };
  const whiskers: CustomSeriesOption = {
    type: "custom", id: `range:${facet}:${y}`, xAxisIndex: grid, yAxisIndex: grid, silent: true, z: 3, clip: true,
    data: found.flatMap((point, index) => {
      const range = point === null ? null : metric.of(point);
      if (range === null || !Number.isFinite(range.min)) return [];
      return [[index, range.min, Number.isFinite(range.max) ? range.max : beyond], ...(range.interval ? [[index, range.interval.low, range.interval.high, 1]] : [])];
    }),
    encode: { x: 0, y: [1, 2] },
    renderItem: (_, api) => {
      const [from, to] = [api.coord([api.value(0), api.value(1)]), api.coord([api.value(0), api.value(2)])] as [[number, number], [number, number]];
      return { type: "line", shape: { x1: from[0], y1: from[1], x2: to[0], y2: to[1] }, style: api.value(3) === 1 ? { stroke: color, lineWidth: 6, opacity: 0.35 } : { stroke: color, lineWidth: 1.5, opacity: 0.65 } };
    },
  };
  return [whiskers, line];
}

function tooltip(view: View<StudyState>): NonNullable<EChartsOption["tooltip"]> {
  const { state } = view;
  const { theme, metric, layout } = state;
  return {
    trigger: "axis", confine: true, transitionDuration: 0, backgroundColor: theme.paper, borderColor: theme.rule, textStyle: { color: theme.ink, fontSize: 12 },
    formatter: (params) => {
      const all = (Array.isArray(params) ? params : [params]).filter((one) => one.seriesId?.startsWith("line:"));
      const [first] = all;
      if (!first) return "";
      const facet = facetsOf(view)[Math.floor((first.seriesIndex ?? 0) / 2 / valuesOf(state.axes, layout.y).length)] ?? "";
      const x = valuesOf(state.axes, layout.x)[first.dataIndex] ?? "";
      const rows = valuesOf(state.axes, layout.y).flatMap((y, place) => {
        const point = state.points.at(layout, x, y, facet);
        const range = point === null ? null : metric.of(point);
        if (range === null) return [];
        return [element("tr", {}, element("td", {}, swatch(seriesStyle(place, state.isDark))), element("td", {}, y === "" ? metric.label : `${layout.y} ${y}`),
          element("td", { class: "number" }, metric.render(range.median)), element("td", { class: "number soft" }, rangeText(range, metric.render)))];
      });
      const head = [layout.facet === "" ? "" : `${layout.facet} ${facet}`, `${layout.x} ${x}`].filter((part) => part.trim() !== "").join(", ");
      return element("div", { class: "pointer" }, element("p", {}, head), element("table", {}, ...rows));
    },
  };
}

function numbers(view: View<StudyState>): HTMLElement {
  const { metric } = view.state;
  const columns = ["point", `median${metric.tableUnit === undefined ? "" : ` (${metric.tableUnit})`}`, "lowest–highest", "trials"].map((title, index) => ({ title, isNumber: index > 0 }));
  const rows = allPoints(view).map(({ point }) => {
    const range = metric.of(point);
    return [point.label, range === null ? "–" : metric.render(range.median), range === null ? "–" : rangeText(range, metric.render) || "–", String(point.trials)];
  });
  return table(`${metric.unit} of each point`, columns, rows);
}
