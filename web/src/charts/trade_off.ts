// Latency against throughput: every point where its trials put it, joined along an axis.

import type { EChartsOption, LineSeriesOption } from "echarts";
import { textStyle } from "./engine";
import type { ChartPlan, View } from "./figure";
import { element, table } from "../element";
import { DASHES, SYMBOLS, seriesStyle } from "../palette";
import { columnOf, type Metric, P50, P99, TPS, WORST } from "../metrics";
import { doubtOf, valuesOf } from "../pivot";
import type { PointSummary } from "../../generated/record";
import type { StudyState } from "../state";
import { chips } from "./legend";

const against = (view: View<StudyState>): Metric => ({ p50: P50, worst: WORST })[view.choices["against"] ?? ""] ?? P99;

export const tradeOff: ChartPlan<StudyState> = {
  id: "trade-off",
  title: "Throughput and what it costs",
  explanation: "Right is more transactions per second, up is longer to wait. A line joins the points along the first axis, whose values stand beside them. Where a line turns up and back, more load only made everybody wait.",
  unit: (view) => `${against(view).unit}, against transactions per second`,
  controls: [{ name: "against", label: "Against", options: [["p99", "99th percentile"], ["p50", "median"], ["worst", "worst second"]] }],
  height: (view) => (view.isNarrow ? 320 : 440),
  legend: ({ state }) => keys(state),
  option,
  numbers: ({ state }) => {
    const metrics = [TPS, WORST, P50, P99];
    const columns = ["point", ...metrics.map(columnOf)].map((title, index) => ({ title, isNumber: index > 0 }));
    const cell = (point: PointSummary) => (metric: Metric): string => {
      const range = metric.of(point);
      return range === null ? "–" : metric.render(range.median);
    };
    return table("Throughput beside latency", columns, state.study.points.map((point) => [point.label, ...metrics.map(cell(point))]));
  },
};

/** Of the small multiples. */
const FACETS = Object.values(SYMBOLS);

/** Colours of the second axis, and signs of the small multiples, which share this chart. */
function keys(state: StudyState): HTMLElement | null {
  const colours = chips(state);
  const { facet } = state.layout;
  if (facet === "") return colours;
  const signs = valuesOf(state.axes, facet).map((value, panel) => element("span", { class: "key" }, element("span", { "aria-hidden": "true" }, FACETS[panel % FACETS.length]?.sign ?? ""), value));
  return element("div", {}, colours, element("p", { class: "keys" }, element("span", { class: "soft" }, facet), ...signs));
}

interface Placed {
  point: PointSummary;
  x: string;
}

function option(view: View<StudyState>): EChartsOption {
  const { state } = view;
  const { theme, axes, layout } = state;
  const metric = against(view);
  const facets = valuesOf(axes, layout.facet);
  const ys = valuesOf(axes, layout.y);
  const shown = new Map<string, Placed>();
  const series = facets.flatMap((facet, panel) => ys.map((y, place) => {
    const placed = valuesOf(axes, layout.x).flatMap((x): Placed[] => {
      const point = state.points.at(layout, x, y, facet);
      return point === null || TPS.of(point) === null || metric.of(point) === null ? [] : [{ point, x }];
    });
    placed.forEach((one, index) => shown.set(`${panel}:${place}:${index}`, one));
    return lineOf(view, placed, panel, place);
  }));
  const axis = { axisLabel: { color: theme.soft }, splitLine: { lineStyle: { color: theme.rule } }, axisLine: { show: false }, nameTextStyle: { color: theme.soft } };
  return {
    textStyle: textStyle(theme),
    grid: { left: 8, right: 24, top: 20, bottom: 30, containLabel: true },
    xAxis: { ...axis, type: "value", min: 0, name: TPS.unit, nameLocation: "middle", nameGap: 28, splitNumber: view.isNarrow ? 4 : 8, axisLabel: { color: theme.soft, formatter: TPS.renderAxis, hideOverlap: true } },
    yAxis: { ...axis, ...(metric.isLog ? { type: "log" as const } : { type: "value" as const, min: 0 }), axisLabel: { color: theme.soft, formatter: metric.renderAxis } },
    tooltip: {
      trigger: "item", confine: true, transitionDuration: 0, backgroundColor: theme.paper, borderColor: theme.rule, textStyle: { color: theme.ink, fontSize: 12 },
      formatter: (params) => {
        const one = Array.isArray(params) ? params[0] : params;
        const placed = shown.get(`${one?.seriesId?.slice("curve:".length)}:${one?.dataIndex}`);
        return placed ? figuresOf(placed.point) : "";
      },
    },
    series,
  };
}

function lineOf(view: View<StudyState>, placed: Placed[], panel: number, place: number): LineSeriesOption {
  const { state } = view;
  const { theme } = state;
  const { color, dash: own, symbol } = seriesStyle(place, state.isDark);
  // Where symbols tell small multiples apart, dashes tell the lines.
  const isFaceted = state.layout.facet !== "";
  const dash = isFaceted ? (DASHES[place % DASHES.length] ?? own) : own;
  return {
    type: "line", id: `curve:${panel}:${place}`, symbolSize: 9, symbolKeepAspect: true, emphasis: { disabled: true },
    symbol: `path://${(isFaceted ? FACETS[panel % FACETS.length] : symbol)?.path ?? ""}`,
    data: placed.map(({ point, x }) => ({
      value: [TPS.of(point)?.median ?? 0, against(view).of(point)?.median ?? 0],
      itemStyle: doubtOf(point) === null ? { color } : { color: theme.paper, borderColor: color, borderWidth: 1.5 },
      label: { show: true, position: "top" as const, color: theme.soft, fontSize: 11, formatter: () => x },
    })),
    labelLayout: { hideOverlap: true },
    // Ways to warm have no order.
    lineStyle: { color, width: state.layout.x === "strategy" ? 0 : 1.5, type: dash.length > 0 ? dash : "solid", opacity: 0.7 },
  };
}

function figuresOf(point: PointSummary): HTMLElement {
  const rows = [TPS, WORST, P50, P99].map((metric) => {
    const range = metric.of(point);
    return element("tr", {}, element("td", {}, metric.label), element("td", { class: "number" }, range === null ? "–" : metric.render(range.median)));
  });
  return element("div", { class: "pointer" }, element("p", {}, point.label), element("table", {}, ...rows));
}
