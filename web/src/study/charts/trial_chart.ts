// A trial on one time axis: its panels, with checkpoints shaded across all of them.

import type { CustomSeriesOption, EChartsOption, LineSeriesOption, SeriesOption, TitleComponentOption } from "echarts";
import type { Appearance, Backdrop } from "../../appearance";
import { textStyle } from "../../charts/engine";
import type { ChartPlan, View } from "../../charts/figure";
import { element, table } from "../../element";
import { seconds } from "../../format";
import { lineStyleOf } from "../colours";
import type { TrialData } from "../record";
import { swatchOf } from "./legend";
import { type Curve, type Panel, PANELS } from "./trial_panels";

/** Height of a panel with the weight 1, and the room for its title. */
const UNIT = 120;
const TITLE = 34;

/** A trial on the page, and one that is held beside it. */
export class TrialStage implements Backdrop {
  constructor(
    readonly appearance: Appearance,
    readonly shown: TrialData,
    readonly other: TrialData | null,
  ) {}

  get theme(): Backdrop["theme"] {
    return this.appearance.theme;
  }

  get isDark(): boolean {
    return this.appearance.isDark;
  }

  get isPrinting(): boolean {
    return this.appearance.isPrinting;
  }

  subscribe(listener: () => void): void {
    this.appearance.subscribe(listener);
  }

  get trials(): TrialData[] {
    return this.other === null ? [this.shown] : [this.shown, this.other];
  }

  get seconds(): number {
    return Math.max(1, ...this.trials.map(({ series }) => series.second.at(-1) ?? 0));
  }
}

/** Panels that have something to show. */
const panelsOf = (stage: TrialStage): Panel[] => PANELS.filter((panel) => stage.trials.some((data) => panel.curves(data).length > 0));

export const trialChart: ChartPlan<TrialStage> = {
  id: "trial",
  title: "Second by second",
  explanation: "All panels share the time axis. A band reaches from the least to the most; grey uprights are checkpoints, from their beginning to their end.",
  unit: ({ state: { shown } }) => (shown.series.width > 1 ? `each point joins ${shown.series.width} seconds; its band holds the least and the most of them` : "each point is a second"),
  height: ({ state }) => panelsOf(state).reduce((sum, panel) => sum + panel.weight * UNIT + TITLE, 0) + 30,
  legend: ({ state }) => (state.other === null ? null : both(state)),
  option,
  numbers,
};

function both({ shown, other, isDark }: TrialStage): HTMLElement {
  const name = (data: TrialData, place: number): HTMLElement => element("span", { class: "key" }, swatchOf(place, isDark), `point ${data.trial.number}, repeat ${data.trial.repeat}`);
  return element("p", { class: "keys" }, name(shown, 0), other !== null && name(other, 1));
}

function option(view: View<TrialStage>): EChartsOption {
  const { state } = view;
  const { theme } = state;
  const panels = panelsOf(state);
  let top = 0;
  const grids = panels.map(({ weight }) => {
    const grid = { left: view.isNarrow ? 52 : 66, right: 12, top: top + TITLE - 8, height: weight * UNIT - 8 };
    top += weight * UNIT + TITLE;
    return grid;
  });
  return {
    textStyle: textStyle(theme),
    grid: grids,
    title: panels.map((panel, index) => titleOf(state, panel, (grids[index]?.top ?? 0) - 22)),
    axisPointer: { link: [{ xAxisIndex: "all" }] },
    xAxis: panels.map((_, index) => ({
      type: "value", gridIndex: index, min: 0, max: state.seconds, splitNumber: view.isNarrow ? 4 : 10, splitLine: { show: false },
      axisLine: { lineStyle: { color: theme.soft } }, axisTick: { show: index === panels.length - 1, lineStyle: { color: theme.soft } },
      axisLabel: { show: index === panels.length - 1, color: theme.soft, formatter: "{value} s", hideOverlap: true },
      axisPointer: { show: true, label: { show: false }, lineStyle: { color: theme.soft, type: "solid", width: 1 } },
    })),
    yAxis: panels.map((panel, index) => ({
      gridIndex: index, splitNumber: 3, axisLabel: { color: theme.soft, formatter: panel.renderAxis, hideOverlap: true }, splitLine: { lineStyle: { color: theme.rule } },
      axisLine: { show: false }, axisPointer: { show: false }, ...(panel.isLog ? { type: "log" as const } : { type: "value" as const, min: 0 }),
    })),
    tooltip: tooltip(state, panels),
    series: panels.flatMap((panel, index) => [shading(state, index), ...state.trials.flatMap((data, place) => seriesOf(state, panel, index, data, place))]),
  };
}

/** Where a panel has several curves, their names stand beside its title in their colours. */
function titleOf(state: TrialStage, panel: Panel, top: number): TitleComponentOption {
  const curves = panel.curves(state.shown);
  // Braces would be marks of the chart library's.
  const plain = (text: string): string => text.replace(/[{}|]/g, " ");
  const names = curves.length < 2 ? [] : curves.map((curve, which) => `{c${which}|━ ${plain(curve.name)}}`);
  const rich = Object.fromEntries(curves.map((_, which) => [`c${which}`, { color: lineStyleOf(which, state.isDark).color, fontSize: 12, fontWeight: 400 as const }]));
  return { text: [panel.title, ...names].join("   "), left: 0, top, padding: 0, textStyle: { fontSize: 12.5, fontWeight: 600, color: state.theme.ink, rich } };
}

/** A span is drawn at its middle. */
const middles = ({ series }: TrialData): number[] => series.second.map((end, index) => (end + (series.second[index - 1] ?? 0)) / 2);

/** A log axis has no zero. */
const onAxis = (panel: Panel, value: number | null): number | null => (value === null ? null : panel.isLog ? Math.max(1, value) : value);

/** The curves of a panel have colours of their own; a lone one has its trial's. The other trial's lines are dashed. */
const colourOf = (curves: Curve[], place: number, which: number): number => (curves.length > 1 ? which : place);

function seriesOf(state: TrialStage, panel: Panel, index: number, data: TrialData, place: number): SeriesOption[] {
  const at = middles(data);
  const curves = panel.curves(data);
  return curves.flatMap((curve, which): SeriesOption[] => {
    const { color } = lineStyleOf(colourOf(curves, place, which), state.isDark);
    const line: LineSeriesOption = {
      type: "line", id: `line:${panel.id}:${place}:${which}`, name: curve.name, xAxisIndex: index, yAxisIndex: index,
      data: curve.values.map((value, span) => [at[span] ?? 0, onAxis(panel, value)]),
      symbol: "circle", symbolSize: 4, showSymbol: at.length <= 2, lineStyle: { color, width: 1.6, type: place === 1 ? [5, 3] : "solid" }, itemStyle: { color },
      emphasis: { disabled: true }, z: 4,
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

/** Checkpoints of the trial that is shown. */
function shading({ shown, theme }: TrialStage, index: number): LineSeriesOption {
  const areas = shown.trial.checkpoints.map(({ ended_after_seconds: end, total_seconds: total, reason }): [{ xAxis: number; name?: string }, { xAxis: number }] => [
    { xAxis: Math.max(0, end - total), ...(index === 0 ? { name: reason } : {}) }, { xAxis: end },
  ]);
  return {
    type: "line", id: `checkpoints:${index}`, xAxisIndex: index, yAxisIndex: index, data: [], silent: true, z: 1,
    markArea: {
      silent: true, animation: false, itemStyle: { color: theme.soft, opacity: 0.16, borderColor: theme.soft, borderWidth: 0.5 },
      label: { show: index === 0 && areas.length <= 12, position: "insideTop", color: theme.soft, fontSize: 10, formatter: ({ name }) => name },
      data: areas,
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
      const rows = panels.flatMap((panel) => state.trials.flatMap((data, place) => {
        const span = middles(data).findIndex((middle) => middle >= at - 1e-9);
        const curves = panel.curves(data);
        return curves.flatMap((curve, which) => rowOf(panel, curve, span, colourOf(curves, place, which), state.isDark));
      }));
      const checkpoints = state.shown.trial.checkpoints.filter(({ ended_after_seconds: end, total_seconds: total }) => at >= end - total && at <= end).map(({ reason, buffers }) => element("p", {}, `checkpoint (${reason}), ${buffers} buffers`));
      return element("div", { class: "pointer" }, element("p", {}, `at ${seconds(at)}`), element("table", {}, ...rows), ...checkpoints);
    },
  };
}

function rowOf(panel: Panel, curve: Curve, span: number, place: number, isDark: boolean): HTMLElement[] {
  const value = curve.values[span] ?? null;
  if (value === null) return [];
  const [low, high] = [curve.low?.[span] ?? null, curve.high?.[span] ?? null];
  return [element("tr", {}, element("td", {}, swatchOf(place, isDark)), element("td", {}, curve.name), element("td", { class: "number" }, panel.render(value)),
    element("td", { class: "number soft" }, low === null || high === null ? "" : `${panel.render(low)}–${panel.render(high)}`))];
}

function numbers({ state }: View<TrialStage>): HTMLElement {
  const { shown } = state;
  const curves = panelsOf(state).flatMap((panel) => panel.curves(shown).map((curve) => ({ panel, curve })));
  const columns = ["until", ...curves.map(({ curve }) => curve.name)].map((title) => ({ title, isNumber: true }));
  const rows = shown.series.second.map((end, span) => [`${end} s`, ...curves.map(({ panel, curve }) => {
    const value = curve.values[span] ?? null;
    return value === null ? "–" : panel.render(value);
  })]);
  return table("The trial second by second", columns, rows);
}
