import type { EChartsOption, SeriesOption } from "echarts";
import { keys, swatch, table } from "../element";
import { compact, count, latency, percent } from "../format";
import { hueStyle, seriesStyle } from "../palette";
import type { StudyState } from "../pivot";
import type { TimedPoint } from "../../generated/record";
import { axisOf, categoryOf, type ChartPlan, pointer, pointerList, type PointerRow, valuesOn, type View } from "./figure";
import { KINDS, type TimeKind } from "./trial_chart";

const HEIGHT = 200;
const STACK_HEIGHT = 320;
const TITLE = 24;
const GAP = 16;

export const timeByUsers: ChartPlan<StudyState> = {
  id: "time-by-users",
  title: "Throughput, response time, and time by state",
  explanation: "Medians and means of the trials, point by point. The lowest panel shows client backends by state, from bottom to top: on a processor, ready for a processor, waiting, idle.",
  unit: () => "response time is the mean of a closed loop: clients ÷ transactions per second",
  controls: [{ name: "scale", label: "Unit of time", options: [["share", "share of the time"], ["backends", "mean number of backends"]] }],
  height: () => 2 * (HEIGHT + TITLE + GAP) + STACK_HEIGHT + TITLE + 48,
  legend: ({ state, theme }) => keys(kindsOf(state).map(({ label, hue }) => [swatch(hueStyle(hue, theme.isDark)), label])),
  option,
  numbers: (view) => {
    const kinds = kindsOf(view.state);
    const all = (point: TimedPoint): number => kinds.reduce((sum, kind) => sum + valueOf(point, kind, false), 0);
    const rows = view.state.study.timed.map((point) => [nameOf(point), ...kinds.map((kind) => told(view, point, kind)), all(point).toFixed(2)]);
    return table("Time of the client backends", ["users", ...kinds.map(({ label }) => label), "total (backends)"], rows);
  },
};

/** 0 if this time was not measured. */
function secondsOf(point: TimedPoint, { field }: TimeKind): number {
  const value = point[field];
  return typeof value === "number" ? value : 0;
}

const kindsOf = ({ study }: StudyState): TimeKind[] => KINDS.filter((kind) => study.timed.some((point) => secondsOf(point, kind) > 0));

export const usersOf = ({ clients, others }: TimedPoint): string => [clients === null ? "" : String(clients), others].filter((part) => part !== "").join(", ");

const nameOf = (point: TimedPoint): string => usersOf(point) || `point ${point.number}`;

function valueOf(point: TimedPoint, kind: TimeKind, isShare: boolean): number {
  const whole = KINDS.reduce((sum, one) => sum + secondsOf(point, one), 0);
  return secondsOf(point, kind) / (isShare ? whole || 1 : point.length_seconds || 1);
}

const isShared = ({ choices }: View): boolean => choices["scale"] !== "backends";
const told = (view: View, point: TimedPoint, kind: TimeKind): string => (isShared(view) ? percent(valueOf(point, kind, true)) : valueOf(point, kind, false).toFixed(2));

function option(view: View<StudyState>): EChartsOption {
  const { theme, state } = view;
  const { timed } = state.study;
  const isShare = isShared(view);
  const panels = [
    { title: "Transactions per minute", render: compact, values: timed.map(({ tps }) => (tps === null ? null : 60 * tps)) },
    { title: "Response time", render: latency, values: timed.map(({ response_us: response }) => response) },
    { title: `Time of the client backends (${isShare ? "share" : "backends"})`, render: isShare ? percent : compact, values: null },
  ].map((panel, place) => ({ ...panel, gridIndex: place, isLast: place === 2, top: (place + 1) * TITLE + place * (HEIGHT + GAP) }));
  const series = panels.flatMap(({ title, values, gridIndex: place }): SeriesOption[] => {
    const shared = { xAxisIndex: place, yAxisIndex: place, emphasis: { disabled: true } };
    const { color, symbol } = seriesStyle(place, theme.isDark);
    const line = { ...shared, type: "line" as const, id: title, name: title, symbol: `path://${symbol.path}`, symbolSize: 9, symbolKeepAspect: true, lineStyle: { color }, itemStyle: { color } };
    if (values !== null) return [{ ...line, data: values }];
    return kindsOf(state).map((kind) => ({
      ...shared, type: "bar", id: kind.column, name: kind.label, stack: "time", data: timed.map((point) => valueOf(point, kind, isShare)), barCategoryGap: "20%",
      itemStyle: { color: hueStyle(kind.hue, theme.isDark).color, borderColor: theme.surround, borderWidth: 1 },
    }));
  });
  return {
    grid: panels.map(({ top, isLast }) => ({ left: view.isNarrow ? 56 : 72, right: 16, top, height: isLast ? STACK_HEIGHT : HEIGHT, outerBoundsMode: "none" as const })),
    title: panels.map(({ title, top }) => ({ text: title, left: 0, top: top - TITLE, padding: 0, textStyle: { fontSize: 12.5, fontWeight: 600, color: theme.ink } })),
    xAxis: panels.map(({ gridIndex, isLast }) => ({
      ...categoryOf(theme, timed.map(nameOf)), gridIndex, axisLine: { lineStyle: { color: theme.soft } }, axisLabel: { ...axisOf(theme).axisLabel, show: isLast },
      ...(isLast ? { name: "users", nameLocation: "middle" as const, nameGap: 26 } : {}),
    })),
    yAxis: panels.map(({ gridIndex, isLast, render }) => ({ ...valuesOn(theme, render), gridIndex, min: 0, ...(isLast && isShare ? { max: 1 } : {}), splitNumber: 4 })),
    tooltip: pointer(theme, "axis", ([one]) => {
      const point = timed[one?.dataIndex ?? -1];
      if (!point) return "";
      const head = [nameOf(point), ...(point.tps === null ? [] : [`${count(60 * point.tps)} per minute`, ...(point.response_us === null ? [] : [latency(point.response_us)])])];
      return pointerList([head.join(", ")], kindsOf(state).map((kind): PointerRow => [hueStyle(kind.hue, theme.isDark), kind.label, told(view, point, kind)]));
    }),
    series,
  };
}
