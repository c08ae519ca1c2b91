import type { CustomSeriesOption, EChartsOption, LineSeriesOption, SeriesOption } from "echarts";
import { element, keys, type Option, swatch, table } from "../element";
import { sizeSteps } from "../format";
import { columnOf, type Metric, P50, P99, rangeText, renderMedian, TPS, WORST } from "../metrics";
import { DASHES, SYMBOLS, type SeriesStyle, seriesStyle } from "../palette";
import { doubtOf, type StudyState, valuesOf } from "../pivot";
import type { PointSummary } from "../../generated/record";
import { axisOf, categoryOf, type ChartPlan, niceAbove, pointer, pointerList, type PointerRow, valuesOn, type View } from "./figure";

const PANEL_HEIGHT = 270;
const LONE_HEIGHT = 380;
const GAP = 30;

type Study = View<StudyState>;

const facetsOf = ({ state }: Study): string[] => valuesOf(state.axes, state.layout.facet);
const columnsOf = (view: Study): number => Math.min(facetsOf(view).length, view.width > 1000 ? 3 : view.width > 620 ? 2 : 1);
const panelHeight = (view: Study): number => (facetsOf(view).length > 1 ? PANEL_HEIGHT : LONE_HEIGHT);

const coloursOf = ({ axes, layout: { y }, theme }: StudyState): HTMLElement | null =>
  y === "" ? null : keys(valuesOf(axes, y).map((value, place) => [swatch(seriesStyle(place, theme.isDark)), value]), y);

function lineOf({ theme }: Study, { color, dash, symbol }: SeriesStyle, points: (PointSummary | null)[], valueOf: (point: PointSummary | null, place: number) => object): LineSeriesOption {
  const ring = { color: theme.paper, borderColor: color, borderWidth: 1.5 };
  return {
    type: "line", symbol: `path://${symbol.path}`, symbolSize: 9, symbolKeepAspect: true, emphasis: { disabled: true }, lineStyle: { color, type: dash.length > 0 ? dash : "solid" },
    data: points.map((point, place) => ({ ...valueOf(point, place), itemStyle: point === null || doubtOf(point) === null ? { color } : ring })),
  };
}

export const lines: ChartPlan<StudyState> = {
  id: "lines",
  title: "Over one axis",
  explanation: "Each line joins the medians of the points. A vertical bar spans the trials from lowest to highest; its broad part is the confidence interval of the median (with three or more trials). A ring marks a point whose figures are in doubt.",
  unit: ({ state }) => state.metric.caption,
  height: (view) => Math.ceil(facetsOf(view).length / columnsOf(view)) * panelHeight(view),
  legend: ({ state }) => coloursOf(state),
  option: linesOption,
  numbers: (view) => {
    const { metric } = view.state;
    const rows = allPoints(view).map((point) => [point.label, renderMedian(metric, point), rangeText(metric.of(point), metric.render) || "–", String(point.trials)]);
    return table(`${metric.caption} of each point`, ["point", columnOf({ ...metric, label: "median" }), "lowest–highest", "trials"], rows);
  },
};

function linesOption(view: Study): EChartsOption {
  const { theme, state: { metric, layout, axes } } = view;
  const [facets, xs, ys] = [facetsOf(view), valuesOf(axes, layout.x), valuesOf(axes, layout.y)];
  const [columns, height] = [columnsOf(view), panelHeight(view)];
  const width = (view.width - GAP * (columns - 1)) / columns;
  const places = facets.map((_, index) => ({ left: (index % columns) * (width + GAP), top: Math.floor(index / columns) * height }));
  const ranges = allPoints(view).flatMap((point) => metric.of(point) ?? []);
  const highest = Math.max(0, ...ranges.flatMap(({ min, median, max }) => [min, median, max]).filter(Number.isFinite));
  const lowest = Math.min(...ranges.map(({ min }) => min).filter(Number.isFinite));
  return {
    grid: places.map(({ left, top }) => ({ left: left + 58, width: width - 66, top: top + 36, height: height - 90 })),
    title: facets.map((facet, index) => ({
      text: layout.facet === "" ? "" : `${layout.facet} ${facet}`, left: (places[index]?.left ?? 0) + 58, top: (places[index]?.top ?? 0) + 6, padding: 0,
      textStyle: { fontSize: 13, fontWeight: 600, color: theme.ink, width: width - 70, overflow: "truncate" },
    })),
    xAxis: facets.map((_, gridIndex) => ({
      ...categoryOf(theme, xs), gridIndex, name: layout.x, nameLocation: "middle", nameGap: 26, axisLine: { lineStyle: { color: theme.soft } },
      axisLabel: { ...axisOf(theme).axisLabel, width: Math.max(40, width / xs.length - 6), overflow: "truncate" },
    })),
    yAxis: facets.map((_, gridIndex) => ({
      ...valuesOn(theme, metric.renderAxis), gridIndex,
      ...(metric.isLog
        ? { type: "log" as const, min: 10 ** Math.floor(Math.log10(Math.max(1, lowest))), max: 10 ** Math.ceil(Math.log10(Math.max(10, highest))) }
        : { type: "value" as const, min: 0, ...(highest <= 0 ? {} : metric.isSize ? sizeSteps(highest) : { max: niceAbove(highest) }), splitNumber: 4 }),
    })),
    tooltip: pointer(theme, "axis", (all) => {
      const first = all.find(({ seriesId }) => seriesId?.startsWith("line:"));
      if (!first) return "";
      const [facet, x] = [facets[Math.floor((first.seriesIndex ?? 0) / 2 / ys.length)] ?? "", xs[first.dataIndex] ?? ""];
      const rows = ys.flatMap((y, place): PointerRow[] => {
        const range = metric.of(view.state.pointAt(x, y, facet));
        return range === null ? [] : [[seriesStyle(place, theme.isDark), y === "" ? metric.label : `${layout.y} ${y}`, metric.render(range.median), rangeText(range, metric.render)]];
      });
      return pointerList([[layout.facet === "" ? "" : `${layout.facet} ${facet}`, `${layout.x} ${x}`].filter((part) => part.trim() !== "").join(", ")], rows);
    }),
    series: facets.flatMap((facet, grid) => ys.flatMap((y, place) => {
      const drawn = seriesOf(view, xs.map((x) => view.state.pointAt(x, y, facet)), seriesStyle(place, theme.isDark), 10 * highest);
      return drawn.map((one) => ({ ...one, id: `${one.id}:${facet}:${y}`, name: y, xAxisIndex: grid, yAxisIndex: grid }) as SeriesOption);
    })),
  };
}

const allPoints = ({ state }: Study): PointSummary[] =>
  [state.layout.facet, state.layout.y, state.layout.x].map((axis) => valuesOf(state.axes, axis))
    .reduce<string[][]>((all, values) => all.flatMap((before) => values.map((value) => [...before, value])), [[]])
    .flatMap(([facet = "", y = "", x = ""]) => state.pointAt(x, y, facet) ?? []);

/** Medians with whiskers, which extend to `beyond` if their upper end is infinite. */
function seriesOf(view: Study, found: (PointSummary | null)[], style: SeriesStyle, beyond: number): [CustomSeriesOption, LineSeriesOption] {
  const [{ metric }, { color, width }] = [view.state, style];
  const reached = (value: number | undefined): number | null => (value !== undefined && Number.isFinite(value) ? value : null);
  const line = lineOf(view, style, found, (point) => ({ value: reached(metric.of(point)?.median) }));
  const whiskers: CustomSeriesOption = {
    type: "custom", id: "range", silent: true, z: 3, clip: true, encode: { x: 0, y: [1, 2] },
    data: found.flatMap((point, index) => {
      const range = metric.of(point);
      if (range === null || !Number.isFinite(range.min)) return [];
      return [[index, range.min, reached(range.max) ?? beyond], ...(range.interval ? [[index, range.interval.low, range.interval.high, 1]] : [])];
    }),
    renderItem: (_, api) => {
      const [from, to] = [1, 2].map((end) => api.coord([api.value(0), api.value(end)])) as [[number, number], [number, number]];
      const strength = api.value(3) === 1 ? { lineWidth: 6, opacity: 0.35 } : { lineWidth: 1.5, opacity: 0.65 };
      return { type: "line", shape: { x1: from[0], y1: from[1], x2: to[0], y2: to[1] }, style: { stroke: color, ...strength } };
    },
  };
  return [whiskers, { ...line, id: "line", z: 4, connectNulls: false, lineStyle: { ...line.lineStyle, width } }];
}

const against = ({ choices }: Study): Metric => ({ p50: P50, worst: WORST })[choices["against"] ?? ""] ?? P99;

const SIGNS = Object.values(SYMBOLS);
const signOf = (panel: number) => SIGNS[panel % SIGNS.length] ?? SYMBOLS.circle;

export const tradeOff: ChartPlan<StudyState> = {
  id: "trade-off",
  title: "Throughput and its price in latency",
  explanation: "Further right is higher throughput, further up is higher latency. A line joins the points along the study’s first axis; the labels are the values of this axis. Where a line turns upwards or back to the left, more load only added latency.",
  unit: (view) => `${against(view).caption}, against transactions per second`,
  controls: [{ name: "against", label: "Against", options: [["p99", "99th percentile"], ["p50", "median"], ["worst", "worst second"]] satisfies Option[] }],
  height: ({ isNarrow }) => (isNarrow ? 320 : 440),
  legend: ({ state }) => {
    const { axes, layout: { facet } } = state;
    if (facet === "") return coloursOf(state);
    return element("div", {}, coloursOf(state), keys(valuesOf(axes, facet).map((value, panel) => [element("span", { "aria-hidden": "true" }, signOf(panel).sign), value]), facet));
  },
  option: tradeOffOption,
  numbers: ({ state }) => {
    const metrics = [TPS, WORST, P50, P99];
    return table("Throughput and latency", ["point", ...metrics.map(columnOf)], state.study.points.map((point) => [point.label, ...metrics.map((metric) => renderMedian(metric, point))]));
  },
};

function tradeOffOption(view: Study): EChartsOption {
  const { theme, state: { layout, axes } } = view;
  const metric = against(view);
  const shown = new Map<string, PointSummary>();
  const isFaceted = layout.facet !== "";
  const series = facetsOf(view).flatMap((facet, panel) => valuesOf(axes, layout.y).map((y, place): LineSeriesOption => {
    const id = `curve:${panel}:${place}`;
    const placed = valuesOf(axes, layout.x).map((x) => ({ x, point: view.state.pointAt(x, y, facet) })).filter(({ point }) => TPS.of(point) !== null && metric.of(point) !== null);
    placed.forEach(({ point }, index) => point && shown.set(`${id}:${index}`, point));
    const style = seriesStyle(place, theme.isDark);
    // If symbols distinguish small multiples, dashes distinguish lines.
    const [symbol, dash] = isFaceted ? [signOf(panel), DASHES[place % DASHES.length] ?? style.dash] : [style.symbol, style.dash];
    const line = lineOf(view, { ...style, dash, symbol }, placed.map(({ point }) => point), (point, index) => ({
      value: [TPS.of(point)?.median ?? 0, metric.of(point)?.median ?? 0],
      label: { show: true, position: "top", color: theme.soft, fontSize: 11, formatter: () => placed[index]?.x ?? "" },
    }));
    // Warmers have no order, so no line joins them.
    return { ...line, id, labelLayout: { hideOverlap: true }, lineStyle: { ...line.lineStyle, width: layout.x === "strategy" ? 0 : 1.5, opacity: 0.7 } };
  }));
  return {
    grid: { left: 8, right: 24, top: 20, bottom: 30, containLabel: true },
    xAxis: { ...valuesOn(theme, TPS.renderAxis), type: "value", min: 0, name: TPS.caption, nameLocation: "middle", nameGap: 28, splitNumber: view.isNarrow ? 4 : 8 },
    yAxis: { ...valuesOn(theme, metric.renderAxis), ...(metric.isLog ? { type: "log" as const } : { type: "value" as const, min: 0 }) },
    tooltip: pointer(theme, "item", ([one]) => {
      const point = shown.get(`${one?.seriesId}:${one?.dataIndex}`);
      return point === undefined ? "" : pointerList([point.label], [TPS, WORST, P50, P99].map((metric) => [null, metric.label, renderMedian(metric, point)]));
    }),
    series,
  };
}
