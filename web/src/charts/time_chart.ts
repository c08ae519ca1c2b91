import type { CustomSeriesOption, EChartsOption, LineSeriesOption, SeriesOption, TitleComponentOption } from "echarts";
import type { Stage } from "../appearance";
import type { Curve, Point } from "../curves";
import { type Child, element, table } from "../element";
import { compact, range, type Scale, seconds, sizeSteps } from "../format";
import type { SeriesStyle, Symbol, Theme } from "../palette";
import { axisOf, type ChartPlan, pointer, pointerList, ruleOf, rules, type View } from "./figure";

export interface Line extends Curve<number | null> {
  id: string;
  style: SeriesStyle;
  opacity?: number;
  shade?: number;
  isSubject?: boolean;
}

export interface Panel extends Scale {
  id: string;
  max?: number;
  floor?: number;
  title?: string;
  weight: number;
  isStack?: boolean;
  lines: Line[];
  levels?: { value: number; label: string; position: "insideStartTop" | "insideEndTop" | "insideEndBottom" }[];
  more?: SeriesOption[];
}

export interface TimeChart {
  panels: Panel[];
  /** End of the time axis in seconds; `null` for an axis of transactions. */
  longest: number | null;
  /** Earliest possible warm time in seconds. */
  bound?: number | null;
  renderInstant: (at: number) => string;
  toldAt?: (at: number) => string[];
  /** Rows of the table; by default every instant. */
  instants?: { title: string; ends: number[] };
}

type Head<S extends Stage> = Pick<ChartPlan<S>, "id" | "title" | "explanation" | "unit"> & Partial<Pick<ChartPlan<S>, "controls" | "legend" | "height">>;

export const timePlan = <S extends Stage>(head: Head<S>, chart: (view: View<S>) => TimeChart): ChartPlan<S> => ({
  height: (view) => (placesOf(chart(view), view.width).at(-1)?.bottom ?? 0) + 34,
  ...head,
  option: (view) => optionOf(view, chart(view)),
  numbers: (view) => timesTable(head.title, chart(view)),
});

/** Pixels of a panel of weight 1, of a title line, and around the title. */
const UNIT = 120;
const TITLE_LINE = 17;
const AROUND_TITLE = 17;

/** Approximate pixels per character of a title. */
const CHARACTER = 6.6;

type Place = ReturnType<typeof placesOf>[number];

function placesOf({ panels }: TimeChart, width: number) {
  let bottom = -AROUND_TITLE;
  return panels.map((panel) => {
    const [title, titleTop] = [titleLines(panel, width), bottom + AROUND_TITLE + 6];
    const top = titleTop + title.length * TITLE_LINE + 6;
    bottom = top + panel.weight * UNIT - 8;
    return { panel, title, titleTop, top, bottom };
  });
}

/** Omits repeated names: two compared trials have lines of the same names. */
const named = ({ lines }: Panel): Line[] => lines.filter(({ name }, place) => lines.findIndex((one) => one.name === name) === place);

/** Replaces characters that ECharts interprets. */
const plain = (text: string): string => text.replace(/[{}|]/g, " ");

function titleLines(panel: Panel, width: number): string[] {
  const { title = "" } = panel;
  const [lines, names] = [[title], named(panel)];
  let used = title.length;
  for (const [place, { name, style }] of names.length < 2 ? [] : names.entries()) {
    const fits = (used + name.length + 5) * CHARACTER < width;
    const marked = `{c${place}|${style.symbol.sign}} {name|${plain(name)}}`;
    lines.push(fits ? `${lines.pop() ?? ""}   ${marked}` : marked);
    used = fits ? used + name.length + 5 : name.length + 2;
  }
  return lines;
}

function titleOf({ panel, title, titleTop }: Place, theme: Theme): TitleComponentOption {
  const letters = (color: string) => ({ color, fontSize: 12, fontWeight: 400 as const });
  const rich = Object.fromEntries(named(panel).map(({ style }, place) => [`c${place}`, letters(style.color)]));
  const textStyle = { fontSize: 12.5, lineHeight: TITLE_LINE, fontWeight: 600 as const, color: theme.ink, rich: { ...rich, name: letters(theme.soft) } };
  return { text: title.join("\n"), left: 0, top: titleTop, padding: 0, textStyle };
}

function optionOf(view: View, chart: TimeChart): EChartsOption {
  const { theme, isNarrow } = view;
  const places = placesOf(chart, view.width);
  const isLone = chart.panels.every(({ title }) => title === undefined);
  const last = places.length - 1;
  const { axisLine: { lineStyle }, axisLabel, splitLine } = axisOf(theme);
  return {
    grid: places.map(({ top, bottom }) => isLone
      ? { left: 8, right: isNarrow ? 8 : 16, top: 22, bottom: 8, containLabel: true }
      // Axis labels must not shift a panel's time axis.
      : { left: isNarrow ? 60 : 66, right: 16, top, height: bottom - top, outerBoundsMode: "none" as const }),
    title: isLone ? [] : places.map((place) => titleOf(place, theme)),
    axisPointer: { link: [{ xAxisIndex: "all" }] },
    xAxis: places.map((_, index) => ({
      type: "value", gridIndex: index, min: 0, ...(chart.longest === null ? {} : { max: chart.longest }), splitNumber: isNarrow ? 4 : 10, splitLine: { show: false },
      axisLine: { lineStyle }, axisTick: { show: index === last, lineStyle },
      axisLabel: { ...axisLabel, show: index === last, formatter: chart.longest === null ? compact : "{value} s" },
      axisPointer: { show: true, label: { show: false }, lineStyle: { ...lineStyle, type: "solid", width: 1 } },
    })),
    yAxis: places.map(({ panel }, index) => ({
      gridIndex: index, splitNumber: isLone ? 5 : 3, axisLabel: { ...axisLabel, formatter: panel.renderAxis }, splitLine, axisLine: { show: false }, axisPointer: { show: false },
      ...(panel.isLog ? { type: "log" as const, ...(panel.floor === undefined ? {} : { min: panel.floor }) } : { type: "value" as const }),
      ...(panel.max === undefined ? {} : { max: panel.max, interval: panel.max / 2 }), ...(panel.isSize ? { min: 0, ...sizeSteps(mostOf(panel)) } : {}),
    })),
    tooltip: pointer(theme, "axis", (all) => {
      const value = all.find(({ seriesId }) => seriesId?.startsWith("line:"))?.value;
      return Array.isArray(value) && typeof value[0] === "number" ? listAt(value[0], chart) : "";
    }),
    series: places.flatMap(({ panel }, index) => {
      const all = [...panel.lines.flatMap((line, place) => [...bandOf(line, panel), lineOf(line, place, panel, theme)]), ...(panel.more ?? []), rulesOf(panel, chart, theme)];
      return all.map((one) => ({ ...one, xAxisIndex: index, yAxisIndex: index }) as SeriesOption);
    }),
  };
}

const mostOf = ({ lines, levels = [] }: Panel): number =>
  Math.max(1, ...lines.flatMap(({ points }) => points.map(({ median, max }) => max ?? median ?? 0)), ...levels.map(({ value }) => value));

export const onAxis = ({ isLog, floor = 1 }: Pick<Panel, "isLog" | "floor">, value: number): number => (isLog ? Math.max(value, floor) : value);

/** ECharts merges points of longer lines, but keeps minimum and maximum. */
const MANY_POINTS = 4000;

const SYMBOLS = 6;

/** Symbols of overlapping lines are offset. */
function sparse({ path }: Symbol, points: number, place: number, of: number): (value: unknown, at: { dataIndex: number }) => string {
  const step = Math.max(1, Math.round(points / SYMBOLS));
  const first = Math.floor(((place + 0.5) / Math.max(1, of)) * step);
  return (_, { dataIndex }) => (dataIndex % step === first ? `path://${path}` : "none");
}

function lineOf({ id, name, points, style: { color, width, dash, symbol }, opacity = 1, isSubject }: Line, place: number, panel: Panel, theme: Theme): LineSeriesOption {
  const hasSymbols = panel.lines.length > 1 || points.length <= 2;
  // The page's colour separates stacked areas.
  const parted = { color, borderColor: theme.surround, borderWidth: 1 };
  return {
    type: "line", id: `line:${id}`, name, data: points.map(({ at, median }) => [at, median === null ? null : onAxis(panel, median)]),
    ...(hasSymbols ? { symbol: sparse(symbol, points.length, place, panel.lines.length), symbolSize: isSubject ? 10 : 8, symbolKeepAspect: true, showSymbol: true } : { showSymbol: false }),
    ...(points.length > MANY_POINTS ? { sampling: "minmax" as const } : {}),
    lineStyle: { color: panel.isStack ? theme.surround : color, width: panel.isStack ? 1.2 : width, type: dash.length > 0 ? dash : "solid", opacity },
    itemStyle: panel.isStack ? parted : { color, opacity },
    ...(panel.isStack ? { stack: panel.id, areaStyle: { color, opacity: 1 } } : {}),
    emphasis: { disabled: true }, z: isSubject ? 5 : 4,
  };
}

function bandOf({ id, points, style, opacity = 1, shade = 0.18 }: Line, panel: Panel): CustomSeriesOption[] {
  const corners = points.flatMap(({ at, min, max }) => (min === null || max === null ? [] : [[at, onAxis(panel, min), onAxis(panel, max)] as [number, number, number]]));
  if (corners.every(([, low, high]) => low === high)) return [];
  return [{
    type: "custom", id: `band:${id}`, silent: true, clip: true, z: 2, tooltip: { show: false }, data: corners, encode: { x: 0, y: [1, 2] },
    renderItem: ({ dataIndex }, api) => {
      if (dataIndex !== 0) return undefined;
      const points = [...corners.map(([at, , high]) => api.coord([at, high])), ...[...corners].reverse().map(([at, low]) => api.coord([at, low]))];
      return { type: "polygon", shape: { points }, style: { fill: style.color, opacity: shade * opacity } };
    },
  }];
}

/** First share of the time axis, where centred labels would cover the vertical axis. */
const BESIDE_AXIS = 0.12;

function rulesOf({ id, levels = [] }: Panel, { bound = null, longest }: TimeChart, theme: Theme): LineSeriesOption {
  const across = levels.map(({ value, label, position }) => ruleOf(theme, false, { yAxis: value }, label, { position }));
  const align = (bound ?? 0) < BESIDE_AXIS * (longest ?? 0) ? "left" : "center";
  const upright = bound === null || longest === null ? [] : [ruleOf(theme, true, { xAxis: bound }, `bound ${seconds(bound)}`, { position: "end", distance: 4, align })];
  return { type: "line", id: `rules:${id}`, data: [], markLine: rules([...upright, ...across]) };
}

const ends = ({ min, max }: Point<number | null>, render: (value: number) => string): string => (min === null || max === null || min === max ? "" : range(render(min), render(max)));

function listAt(at: number, { panels, renderInstant, toldAt }: TimeChart): HTMLElement {
  const isLone = panels.length === 1;
  const found = panels.flatMap(({ lines, render, isStack }) => lines.flatMap(({ name, points, style, isSubject }) => {
    // Panels have points at different instants.
    const point = points.find((one) => (isLone ? one.at === at : one.at >= at - 1e-9));
    // Omits zeros, which are frequent in stacks.
    if (!point || point.median === null || (isStack && point.median < 0.05)) return [];
    const label = isSubject ? element("span", { class: "subject" }, name) : name;
    return [{ value: point.median, row: [style, label, render(point.median), ends(point, render)] as [SeriesStyle, Child, string, string] }];
  }));
  if (isLone) found.sort((a, b) => b.value - a.value);
  return pointerList([renderInstant(at)], found.map(({ row }) => row), toldAt?.(at));
}

function timesTable(caption: string, { panels, renderInstant, instants }: TimeChart): HTMLElement {
  const curves = panels.flatMap((panel) => named(panel).map((line) => ({ ...line, panel })));
  const shown = instants?.ends ?? [...new Set(curves.flatMap(({ points }) => points.map(({ at }) => at)))].sort((a, b) => a - b);
  const columns = curves.map(({ points, panel: { render } }) => {
    let [next, last] = [0, undefined as Point<number | null> | undefined];
    return shown.map((until): Child => {
      // Sampled states keep their last value.
      if (instants === undefined) last = undefined;
      for (; (points[next]?.at ?? Number.POSITIVE_INFINITY) <= until; next += 1) last = points[next];
      if (last === undefined || last.median === null) return "–";
      const around = ends(last, render);
      return around === "" ? render(last.median) : element("span", { title: around }, render(last.median));
    });
  });
  const titles = curves.map(({ name, panel: { tableUnit } }) => `${name}${tableUnit === undefined ? "" : ` (${tableUnit})`}`);
  const rows = shown.map((at, row): Child[] => [instants === undefined ? renderInstant(at) : `${at} s`, ...columns.map((cells) => cells[row])]);
  return table(caption, [instants?.title ?? "", ...titles], rows, { texts: instants === undefined ? [0] : [] });
}
