// Throughput, response and where the time of the client backends went, over the points of a study: one below the other.

import type { BarSeriesOption, EChartsOption, LineSeriesOption } from "echarts";
import { textStyle } from "./engine";
import type { ChartPlan, View } from "./figure";
import { element, table } from "../element";
import { compact, count, latency, percent } from "../format";
import { hueStyle, seriesStyle } from "../palette";
import { swatch } from "../swatch";
import { KINDS, secondsOf, type TimeKind } from "../time_kinds";
import type { TimedPoint } from "../../generated/record";
import type { StudyState } from "../state";

const HEIGHT = 200;
const STACK_HEIGHT = 320;
const TITLE = 24;
const GAP = 16;

export const timeByUsers: ChartPlan<StudyState> = {
  id: "time-by-users",
  title: "Throughput, response, and where the time went",
  explanation: "The points side by side, medians and means of their trials. Below: what the client backends did with their lives, from the bottom on a processor, ready for one, waiting, and idle at the top.",
  unit: () => "response is the mean of a closed loop: clients by transactions per second",
  controls: [{ name: "scale", label: "How the time is told", options: [["share", "share of the time"], ["backends", "backends in the mean"]] }],
  height: () => 2 * (HEIGHT + TITLE + GAP) + STACK_HEIGHT + TITLE + 48,
  legend: ({ state }) => element("p", { class: "keys" }, ...kindsOf(state).map(({ label, hue }) => element("span", { class: "key" }, swatch(hueStyle(hue, state.isDark)), label))),
  option,
  numbers,
};

/** Kinds of which there is something. */
const kindsOf = ({ study }: StudyState): TimeKind[] => KINDS.filter((kind) => study.timed.some((point) => secondsOf(point, kind) > 0));

const nameOf = ({ clients, others, number }: TimedPoint): string => [clients === null ? "" : String(clients), others].filter((part) => part !== "").join(", ") || `point ${number}`;

function valueOf(point: TimedPoint, kind: TimeKind, isShare: boolean): number {
  const whole = KINDS.reduce((sum, one) => sum + secondsOf(point, one), 0);
  return secondsOf(point, kind) / (isShare ? whole || 1 : point.length_seconds || 1);
}

function option(view: View<StudyState>): EChartsOption {
  const { state, choices } = view;
  const { theme, isDark, study: { timed } } = state;
  const isShare = choices.scale !== "backends";
  const tops = [TITLE, 2 * TITLE + HEIGHT + GAP, 3 * TITLE + 2 * (HEIGHT + GAP)];
  const titles = ["Transactions per minute", "Response", isShare ? "Where the time of the client backends went (share)" : "Where the time of the client backends went (backends)"];
  const line = (place: number, name: string, values: (number | null)[]): LineSeriesOption => {
    const { color, symbol } = seriesStyle(place, isDark);
    return { type: "line", id: name, name, xAxisIndex: place, yAxisIndex: place, data: values, symbol: `path://${symbol.path}`, symbolSize: 9, symbolKeepAspect: true, lineStyle: { color }, itemStyle: { color }, emphasis: { disabled: true } };
  };
  const bar = (kind: TimeKind): BarSeriesOption => ({
    type: "bar", id: kind.column, name: kind.label, stack: "time", xAxisIndex: 2, yAxisIndex: 2, data: timed.map((point) => valueOf(point, kind, isShare)), barCategoryGap: "20%",
    itemStyle: { color: hueStyle(kind.hue, isDark).color, borderColor: theme.surround, borderWidth: 1 }, emphasis: { disabled: true },
  });
  const renders = [compact, latency, isShare ? percent : compact];
  return {
    textStyle: textStyle(theme),
    grid: tops.map((top, place) => ({ left: view.isNarrow ? 56 : 72, right: 16, top, height: place === 2 ? STACK_HEIGHT : HEIGHT, outerBoundsMode: "none" as const })),
    title: titles.map((text, place) => ({ text, left: 0, top: (tops[place] ?? 0) - TITLE, padding: 0, textStyle: { fontSize: 12.5, fontWeight: 600, color: theme.ink } })),
    xAxis: titles.map((_, place) => ({
      type: "category", gridIndex: place, data: timed.map(nameOf), axisLine: { lineStyle: { color: theme.soft } }, axisTick: { show: false },
      axisLabel: { show: place === 2, color: theme.soft, hideOverlap: true }, ...(place === 2 ? { name: "users", nameLocation: "middle" as const, nameGap: 26, nameTextStyle: { color: theme.soft } } : {}),
    })),
    yAxis: titles.map((_, place) => ({
      gridIndex: place, min: 0, ...(place === 2 && isShare ? { max: 1 } : {}), splitNumber: 4, axisLabel: { color: theme.soft, formatter: renders[place] ?? compact, hideOverlap: true }, splitLine: { lineStyle: { color: theme.rule } }, axisLine: { show: false },
    })),
    tooltip: tooltip(view),
    series: [
      line(0, "per minute", timed.map(({ tps }) => (tps === null ? null : 60 * tps))),
      line(1, "response", timed.map(({ response_us: response }) => response)),
      ...kindsOf(state).map(bar),
    ],
  };
}

function tooltip({ state, choices }: View<StudyState>): NonNullable<EChartsOption["tooltip"]> {
  const { theme } = state;
  const isShare = choices.scale !== "backends";
  return {
    trigger: "axis", confine: true, transitionDuration: 0, backgroundColor: theme.paper, borderColor: theme.rule, textStyle: { color: theme.ink, fontSize: 12 },
    formatter: (params) => {
      const point = state.study.timed[(Array.isArray(params) ? params : [params])[0]?.dataIndex ?? -1];
      if (!point) return "";
      const rows = kindsOf(state).map((kind) => element("tr", {}, element("td", {}, swatch(hueStyle(kind.hue, state.isDark))), element("td", {}, kind.label),
        element("td", { class: "number" }, isShare ? percent(valueOf(point, kind, true)) : valueOf(point, kind, false).toFixed(2))));
      const served = point.tps === null ? "" : `, ${count(60 * point.tps)} per minute${point.response_us === null ? "" : `, ${latency(point.response_us)}`}`;
      return element("div", { class: "pointer" }, element("p", {}, `${nameOf(point)}${served}`), element("table", {}, ...rows));
    },
  };
}

function numbers({ state, choices }: View<StudyState>): HTMLElement {
  const isShare = choices.scale !== "backends";
  const kinds = kindsOf(state);
  const columns = ["users", ...kinds.map(({ label }) => label), "in all (backends)"].map((title, index) => ({ title, isNumber: index > 0 }));
  const rows = state.study.timed.map((point) => [
    nameOf(point), ...kinds.map((kind) => (isShare ? percent(valueOf(point, kind, true)) : valueOf(point, kind, false).toFixed(2))), kinds.reduce((sum, kind) => sum + valueOf(point, kind, false), 0).toFixed(2),
  ]);
  return table("Where the time of the client backends went", columns, rows);
}
