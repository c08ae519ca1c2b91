// A trial on one time axis: its panels, with checkpoints shaded across all of them.

import type { CustomSeriesOption, EChartsOption, LineSeriesOption, SeriesOption, TitleComponentOption } from "echarts";
import { type Appearance, Stage } from "../appearance";
import { middles } from "../curves";
import { textStyle } from "./engine";
import type { ChartPlan, View } from "./figure";
import { element, table } from "../element";
import { seconds, sizeSteps } from "../format";
import { hueStyle, type SeriesStyle, seriesStyle } from "../palette";
import { sparse, swatch } from "../swatch";
import type { Measure, TrialData } from "../../generated/record";
import { marks, marksAt } from "./trial_marks";
import { type Curve, looksOf, makePanels, type Panel } from "./trial_panels";

/** Height of a panel with the weight 1, of a line of its title, and the room around that. */
const UNIT = 120;
const TITLE_LINE = 17;
const AROUND_TITLE = 17;

/** About as wide is a character of a title. */
const CHARACTER = 6.6;

/** A trial on the page, and one that is held beside it. */
export class TrialStage extends Stage {
  /** Those that have something to show. */
  readonly panels: Panel[];

  constructor(
    appearance: Appearance,
    readonly shown: TrialData,
    readonly other: TrialData | null,
    measures: Measure[],
  ) {
    super(appearance);
    this.panels = makePanels(measures).filter((panel) => this.trials.some((data) => panel.curves(data).length > 0));
  }

  get trials(): TrialData[] {
    return this.other === null ? [this.shown] : [this.shown, this.other];
  }

  get seconds(): number {
    const looked = this.trials.map(({ trial }) => looksOf(trial).at(-1)?.seconds ?? 0);
    return Math.max(looked.some((end) => end > 0) ? 0.1 : 1, ...looked, ...this.trials.map(({ series }) => series.second.at(-1) ?? 0));
  }
}

export const trialChart: ChartPlan<TrialStage> = {
  id: "trial",
  title: "Second by second",
  explanation: "All panels share the time axis. A band reaches from the least to the most. Grey uprights are checkpoints, darker while they synchronise files; yellow ones are stalls, each below a triangle.",
  unit: ({ state: { shown } }) => (shown.series.width > 1 ? `each point joins ${shown.series.width} seconds; its band holds the least and the most of them` : "each point is a second"),
  height: (view) => (placesOf(view).at(-1)?.bottom ?? 0) + 34,
  legend: ({ state }) => (state.other === null ? null : both(state)),
  option,
  numbers,
};

/** The other trial's lines are dashed. */
const trialStyle = (place: number, isDark: boolean): SeriesStyle => ({ ...seriesStyle(place, isDark), dash: place === 1 ? [5, 3] : [] });

function both({ shown, other, isDark }: TrialStage): HTMLElement {
  const name = (data: TrialData, place: number): HTMLElement => element("span", { class: "key" }, swatch(trialStyle(place, isDark)), `point ${data.trial.number}, repeat ${data.trial.repeat}`);
  return element("p", { class: "keys" }, name(shown, 0), other !== null && name(other, 1), element("span", { class: "soft" }, "The other’s lines are dashed; areas and marks are of this one."));
}

/** Where a panel is, with the lines of its title. */
interface Place {
  panel: Panel;
  title: string[];
  titleTop: number;
  top: number;
  bottom: number;
}

function placesOf(view: View<TrialStage>): Place[] {
  let top = 0;
  return view.state.panels.map((panel) => {
    const title = titleLines(view.state, panel, view.width);
    const titleTop = top + 6;
    const gridTop = titleTop + title.length * TITLE_LINE + 6;
    const bottom = gridTop + panel.weight * UNIT - 8;
    top = bottom + AROUND_TITLE;
    return { panel, title, titleTop, top: gridTop, bottom };
  });
}

/** Braces and bars would be marks of the chart library's. */
const plain = (text: string): string => text.replace(/[{}|]/g, " ");

/** Where a panel has several curves, their names stand beside its title with their symbols, on as many lines as they need. */
function titleLines(state: TrialStage, panel: Panel, width: number): string[] {
  const curves = panel.curves(state.shown);
  const names = curves.length < 2 ? [] : curves.map((curve) => plain(curve.name));
  const lines = [panel.title];
  let used = panel.title.length;
  for (const [which, name] of names.entries()) {
    const fits = (used + name.length + 5) * CHARACTER < width;
    const sign = styleIn(state, curves, curves[which] as Curve, 0, which).symbol.sign;
    const marked = `{c${which}|${sign}} {name|${name}}`;
    if (fits) lines.push(`${lines.pop() ?? ""}   ${marked}`);
    else lines.push(marked);
    used = fits ? used + name.length + 5 : name.length + 2;
  }
  return lines;
}

function option(view: View<TrialStage>): EChartsOption {
  const { state } = view;
  const { theme } = state;
  const places = placesOf(view);
  const last = places.length - 1;
  return {
    textStyle: textStyle(theme),
    // Room that a label of one panel takes would move its time axis away from the others'.
    grid: places.map(({ top, bottom }) => ({ left: view.isNarrow ? 52 : 66, right: 16, top, height: bottom - top, outerBoundsMode: "none" as const })),
    title: places.map((place) => titleOf(state, place)),
    axisPointer: { link: [{ xAxisIndex: "all" }] },
    xAxis: places.map((_, index) => ({
      type: "value", gridIndex: index, min: 0, max: state.seconds, splitNumber: view.isNarrow ? 4 : 10, splitLine: { show: false },
      axisLine: { lineStyle: { color: theme.soft } }, axisTick: { show: index === last, lineStyle: { color: theme.soft } },
      axisLabel: { show: index === last, color: theme.soft, formatter: "{value} s", hideOverlap: true },
      axisPointer: { show: true, label: { show: false }, lineStyle: { color: theme.soft, type: "solid", width: 1 } },
    })),
    yAxis: places.map(({ panel }, index) => ({
      gridIndex: index, splitNumber: 3, axisLabel: { color: theme.soft, formatter: panel.renderAxis, hideOverlap: true }, splitLine: { lineStyle: { color: theme.rule } },
      axisLine: { show: false }, axisPointer: { show: false }, ...(panel.max === undefined ? {} : { max: panel.max, interval: panel.max / 2 }), ...(panel.isLog ? { type: "log" as const } : { type: "value" as const, min: 0 }),
      ...(panel.isSize ? sizeSteps(mostOf(state, panel)) : {}),
    })),
    tooltip: tooltip(state, places.map(({ panel }) => panel)),
    series: places.flatMap(({ panel }, index) => [
      ...marks(state.shown, theme, index),
      ...goalOf(state, panel, index),
      ...(panel.isStack ? [state.shown] : state.trials).flatMap((data, place) => seriesOf(state, panel, index, data, place)),
    ]),
  };
}

/** A line across, where something is to be reached. */
function goalOf({ shown, theme }: TrialStage, panel: Panel, index: number): LineSeriesOption[] {
  const goal = panel.goal?.(shown) ?? null;
  if (goal === null) return [];
  const label = { formatter: `wanted ${panel.render(goal)}`, color: theme.soft, fontSize: 11, position: "insideEndBottom" as const };
  return [{ type: "line", id: `goal:${panel.id}`, xAxisIndex: index, yAxisIndex: index, data: [], markLine: { silent: true, symbol: "none", animation: false, data: [{ yAxis: goal, lineStyle: { color: theme.soft, type: [4, 3], width: 1 }, label }] } }];
}

const mostOf = (state: TrialStage, panel: Panel): number => Math.max(1, panel.goal?.(state.shown) ?? 0, ...state.trials.flatMap((data) => panel.curves(data).flatMap(({ values }) => values.map((value) => value ?? 0))));

function titleOf(state: TrialStage, { panel, title, titleTop }: Place): TitleComponentOption {
  const curves = panel.curves(state.shown);
  const rich = Object.fromEntries(curves.map((curve, which) => [`c${which}`, { color: styleIn(state, curves, curve, 0, which).color, fontSize: 12, fontWeight: 400 as const }]));
  return { text: title.join("\n"), left: 0, top: titleTop, padding: 0, textStyle: { fontSize: 12.5, lineHeight: TITLE_LINE, fontWeight: 600, color: state.theme.ink, rich: { ...rich, name: { color: state.theme.soft, fontSize: 12, fontWeight: 400 as const } } } };
}

/** A span is drawn at its middle. */
const timesOf = ({ series }: TrialData, { at }: Curve): number[] => at ?? middles(series);

/** The place among its values of the first at this time or later. */
const placeOf = (data: TrialData, curve: Curve, time: number): number => timesOf(data, curve).findIndex((at) => at >= time - 1e-9);

/** A log axis has no zero. */
const onAxis = (panel: Panel, value: number | null): number | null => (value === null ? null : panel.isLog ? Math.max(1, value) : value);

/** The curves of a panel have hues of their own; a lone one has its trial's. */
function styleIn({ isDark }: TrialStage, curves: Curve[], curve: Curve, place: number, which: number): SeriesStyle {
  const { dash } = trialStyle(place, isDark);
  if (curve.hue) return { ...hueStyle(curve.hue, isDark), dash };
  // Those that have a hue of their own take none of the others'.
  const own = curves.slice(0, which).filter((one) => one.hue === undefined).length;
  return { ...seriesStyle(curves.length > 1 ? own : place, isDark), dash };
}

function seriesOf(state: TrialStage, panel: Panel, index: number, data: TrialData, place: number): SeriesOption[] {
  const curves = panel.curves(data);
  return curves.flatMap((curve, which): SeriesOption[] => {
    const at = timesOf(data, curve);
    const { color, dash, symbol } = styleIn(state, curves, curve, place, which);
    const line: LineSeriesOption = {
      type: "line", id: `line:${panel.id}:${place}:${which}`, name: curve.name, xAxisIndex: index, yAxisIndex: index,
      data: curve.values.map((value, span) => [at[span] ?? 0, onAxis(panel, value)]),
      ...(curves.length > 1 || at.length <= 2 ? { symbol: sparse(symbol, at.length, which, curves.length), symbolSize: 8, symbolKeepAspect: true, showSymbol: true } : { showSymbol: false }),
      // What is stacked is parted by the paper, whatever the colours are.
      lineStyle: { color: panel.isStack ? state.theme.surround : color, width: panel.isStack ? 1.2 : 1.6, type: dash.length > 0 ? dash : "solid" }, itemStyle: panel.isStack ? { color, borderColor: state.theme.surround, borderWidth: 1 } : { color },
      emphasis: { disabled: true }, z: 4,
      ...(panel.isStack ? { stack: panel.id, areaStyle: { color, opacity: 1 } } : {}),
      ...(curve.values.length > 4000 ? { sampling: "minmax" as const } : {}),
    };
    return curve.low && curve.high ? [band(panel, index, at, curve, color, `${panel.id}:${place}:${which}`), line] : [line];
  });
}

/** From the least to the most, broken where there is nothing. */
function band(panel: Panel, index: number, at: number[], curve: Curve, color: string, id: string): CustomSeriesOption {
  const corners = at.flatMap((time, span): [number, number, number][] => {
    const [low, high] = [onAxis(panel, curve.low?.[span] ?? null), onAxis(panel, curve.high?.[span] ?? null)];
    return low === null || high === null ? [] : [[time, low, high]];
  });
  return {
    type: "custom", id: `band:${id}`, xAxisIndex: index, yAxisIndex: index, silent: true, clip: true, z: 2, tooltip: { show: false },
    data: corners, encode: { x: 0, y: [1, 2] },
    renderItem: (params, api) => {
      if (params.dataIndex !== 0) return undefined;
      const points = [...corners.map(([time, , high]) => api.coord([time, high])), ...[...corners].reverse().map(([time, low]) => api.coord([time, low]))];
      return { type: "polygon", shape: { points }, style: { fill: color, opacity: 0.18 } };
    },
  };
}

function tooltip(state: TrialStage, panels: Panel[]): NonNullable<EChartsOption["tooltip"]> {
  const { theme } = state;
  return {
    trigger: "axis", confine: true, transitionDuration: 0, backgroundColor: theme.paper, borderColor: theme.rule, textStyle: { color: theme.ink, fontSize: 12 },
    formatter: (params) => {
      const first = (Array.isArray(params) ? params : [params]).find((one) => one.seriesId?.startsWith("line:"));
      const value = first?.value;
      if (!first || !Array.isArray(value) || typeof value[0] !== "number") return "";
      const at = value[0];
      const rows = panels.flatMap((panel) => (panel.isStack ? [state.shown] : state.trials).flatMap((data, place) => {
        const curves = panel.curves(data);
        return curves.flatMap((curve, which) => rowOf(panel, curve, placeOf(data, curve, at), styleIn(state, curves, curve, place, which)));
      }));
      const told = marksAt(state.shown, at).map((text) => element("p", {}, text));
      return element("div", { class: "pointer" }, element("p", {}, `at ${seconds(at)}`), element("table", {}, ...rows), ...told);
    },
  };
}

function rowOf(panel: Panel, curve: Curve, span: number, style: SeriesStyle): HTMLElement[] {
  const value = curve.values[span] ?? null;
  // Of what is stacked there is much that is nothing.
  if (value === null || (panel.isStack && value < 0.05)) return [];
  const [low, high] = [curve.low?.[span] ?? null, curve.high?.[span] ?? null];
  return [element("tr", {}, element("td", {}, swatch(style)), element("td", {}, curve.name), element("td", { class: "number" }, panel.render(value)),
    element("td", { class: "number soft" }, low === null || high === null ? "" : `${panel.render(low)}–${panel.render(high)}`))];
}

function numbers({ state }: View<TrialStage>): HTMLElement {
  const { shown } = state;
  const curves = state.panels.flatMap((panel) => panel.curves(shown).map((curve) => ({ panel, curve })));
  const columns = ["until", ...curves.map(({ curve, panel }) => `${curve.name}${panel.tableUnit === undefined ? "" : ` (${panel.tableUnit})`}`)].map((title) => ({ title, isNumber: true }));
  const rows = shown.series.second.map((end, span) => [`${end} s`, ...curves.map(({ panel, curve }) => {
    // What was looked at more often, as it was at the end of the second.
    const value = curve.values[curve.at === undefined ? span : curve.at.filter((at) => at <= end).length - 1] ?? null;
    return value === null ? "–" : panel.render(value);
  })]);
  return table("The trial second by second", columns, rows);
}
