import type { EChartsOption, TooltipComponentOption } from "echarts";
import { BarChart, CustomChart, HeatmapChart, LineChart, ScatterChart } from "echarts/charts";
import { AriaComponent, GridComponent, MarkAreaComponent, MarkLineComponent, TitleComponent, TooltipComponent, VisualMapComponent } from "echarts/components";
import * as echarts from "echarts/core";
import { SVGRenderer } from "echarts/renderers";
import type { Stage } from "../appearance";
import { type Child, element, type Option, swatch } from "../element";
import type { SeriesStyle, Theme } from "../palette";

echarts.use([
  AriaComponent, BarChart, CustomChart, GridComponent, HeatmapChart, LineChart, MarkAreaComponent, MarkLineComponent, ScatterChart, SVGRenderer,
  TitleComponent, TooltipComponent, VisualMapComponent,
]);

export interface View<S extends Stage = Stage> {
  state: S;
  theme: Theme;
  width: number;
  isNarrow: boolean;
  choices: Record<string, string>;
}

export interface Control {
  name: string;
  label: string;
  options: Option[];
}

export interface ChartPlan<S extends Stage = Stage> {
  id: string;
  title: string;
  explanation: string;
  unit: (view: View<S>) => string;
  controls?: Control[];
  height: (view: View<S>) => number;
  option: (view: View<S>) => EChartsOption;
  /** Legend, only if the page does not explain the colours elsewhere. */
  legend?: (view: View<S>) => HTMLElement | null;
  numbers: (view: View<S>) => HTMLElement;
}

export const charts = new Map<string, echarts.EChartsType>();

const NARROW = 560;

/** Delay before charts off screen are redrawn, so that visible charts come first. */
const OFF_SCREEN_MS = 250;

export function figure<S extends Stage>(plan: ChartPlan<S>, state: S): HTMLElement {
  const choices: Record<string, string> = {};
  const box = element("div", { class: "chart", role: "img", "aria-label": `${plan.title}. ${plan.explanation}` });
  const unit = element("p", { class: "unit" });
  const numbers = element("details", { class: "numbers" }, element("summary", {}, "Numbers of this chart"));
  const legend = element("div", { class: "chart-legend" });
  let chart: echarts.EChartsType | null = null;
  const view = (): View<S> => ({ state, theme: state.theme, width: box.clientWidth, isNarrow: box.clientWidth < NARROW, choices });
  let isOnScreen = false;
  let isStale = true;
  const draw = (): void => {
    const now = view();
    isStale = now.width === 0;
    if (isStale) return;
    describe(now);
    box.style.height = `${plan.height(now)}px`;
    // SVG is sharp in print, and fast enough.
    chart ??= echarts.init(box, null, { renderer: "svg" });
    chart.resize();
    chart.setOption(optionOf(plan, now), { notMerge: true });
    charts.set(plan.id, chart);
  };
  const describe = (now: View<S>): void => {
    unit.textContent = plan.unit(now);
    legend.replaceChildren(...[plan.legend?.(now) ?? []].flat());
    if (numbers.open) listNumbers();
  };
  const listNumbers = (): void => {
    const before = numbers.querySelector(".scroll");
    const [left, top] = [before?.scrollLeft ?? 0, before?.scrollTop ?? 0];
    numbers.replaceChildren(numbers.firstElementChild as Element, plan.numbers(view()));
    numbers.querySelector(".scroll")?.scrollTo(left, top);
  };
  numbers.addEventListener("toggle", () => numbers.open && listNumbers());

  const controls = (plan.controls ?? []).map((control) => segments(control, choices, draw));
  /** Draws the chart. If it is off screen, runs `later` instead. */
  const drawWhenSeen = (later: () => void): void => {
    if (isOnScreen || state.appearance.isPrinting) return draw();
    isStale = true;
    later();
  };
  new ResizeObserver(() => drawWhenSeen(() => setTimeout(() => isStale && draw(), OFF_SCREEN_MS))).observe(box);
  new IntersectionObserver((entries) => {
    isOnScreen = entries.at(-1)?.isIntersecting ?? true;
    if (isOnScreen && isStale) draw();
  }).observe(box);
  // Updates the description also off screen, for screen readers.
  state.subscribe(() => drawWhenSeen(() => describe(view())));
  return element("figure", { id: plan.id },
    element("div", { class: "figure-head" },
      element("figcaption", {}, element("h3", {}, plan.title), element("p", {}, plan.explanation)),
      controls.length > 0 && element("div", { class: "controls" }, ...controls)),
    plan.legend !== undefined && legend, unit, box, numbers);
}

function segments({ name, label, options }: Control, choices: Record<string, string>, changed: () => void): HTMLElement {
  const choose = (chosen: string): void => {
    choices[name] = chosen;
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.value === chosen));
  };
  const buttons = options.map(([value, text]) => element("button", { type: "button", value, click: () => { choose(value); changed(); } }, text));
  choose(options[0]?.[0] ?? "");
  return element("div", { class: "segments", role: "group", "aria-label": label }, ...buttons);
}

/** ECharts measures text itself and needs the font's name. */
export const fontFamily = (): string => getComputedStyle(document.body).fontFamily;

const optionOf = <S extends Stage>(plan: ChartPlan<S>, view: View<S>): EChartsOption =>
  ({ animation: false, textStyle: { fontFamily: fontFamily(), color: view.theme.soft }, ...plan.option(view) });

export function drawSvg<S extends Stage>(plan: ChartPlan<S>, view: View<S>): string {
  const chart = echarts.init(null, null, { renderer: "svg", ssr: true, width: view.width, height: plan.height(view) });
  chart.setOption(optionOf(plan, view));
  const drawn = chart.renderToSVGString();
  chart.dispose();
  return drawn;
}

export const axisOf = ({ soft, rule }: Theme) => ({
  axisLine: { show: false, lineStyle: { color: soft } }, splitLine: { lineStyle: { color: rule } }, nameTextStyle: { color: soft },
  axisLabel: { color: soft, hideOverlap: true },
});

export const valuesOn = (theme: Theme, formatter: (value: number) => string) => ({ ...axisOf(theme), axisLabel: { ...axisOf(theme).axisLabel, formatter } });

export const categoryOf = (theme: Theme, data: string[]) => ({ ...axisOf(theme), type: "category" as const, data, axisTick: { show: false } });

/** Line across a chart; a bound's line is stronger than a level's. */
export const ruleOf = (theme: Theme, isBound: boolean, at: { xAxis: number } | { yAxis: number }, label: string, more: object) => ({
  ...at, lineStyle: { color: isBound ? theme.ink : theme.soft, type: isBound ? [4, 3] : [2, 3], width: 1 },
  label: { formatter: label, color: isBound ? theme.ink : theme.soft, fontSize: 11, ...more },
});

export const rules = (data: ReturnType<typeof ruleOf>[]) => ({ silent: true, symbol: "none", animation: false, data, z: 5 });

type Pointed = { seriesId?: string; seriesIndex?: number; dataIndex: number; value?: unknown };

export const pointer = (theme: Theme, trigger: "axis" | "item", told: (pointed: Pointed[]) => HTMLElement | ""): TooltipComponentOption => ({
  trigger, confine: true, transitionDuration: 0, backgroundColor: theme.paper, borderColor: theme.rule, textStyle: { color: theme.ink, fontSize: 12 },
  formatter: (params) => told([params].flat()),
});

export type PointerRow = [style: SeriesStyle | null, name: Child, value: string, range?: string];

export function pointerList(heads: string[], rows: PointerRow[], after: string[] = []): HTMLElement {
  const told = (lines: string[]): HTMLElement[] => lines.map((text) => element("p", {}, text));
  const lines = rows.map(([style, name, value, range]) => element("tr", {}, style !== null && element("td", {}, swatch(style)), element("td", {}, name),
    element("td", { class: "number" }, value), range !== undefined && element("td", { class: "number soft" }, range)));
  return element("div", { class: "pointer" }, ...told(heads), lines.length > 0 && element("table", {}, ...lines), ...told(after));
}

/** Rounds up to a round number, the common end of the axes of small multiples. */
export function niceAbove(value: number): number {
  const size = 10 ** Math.floor(Math.log10(value));
  return ([1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].find((step) => step * size >= value) ?? 10) * size;
}
