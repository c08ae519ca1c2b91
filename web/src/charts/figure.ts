// A figure: title, explanation, controls, the chart, and the same numbers as a table.

import type { EChartsOption } from "echarts";
import type { Backdrop } from "../appearance";
import { element } from "../element";
import type { WarmersState } from "../warmers_state";
import { type Chart, createChart } from "./engine";

/** What a chart is drawn for. */
export interface View<S extends Backdrop = WarmersState> {
  state: S;
  width: number;
  isNarrow: boolean;
  /** The chosen value of each control. */
  choices: Record<string, string>;
}

export interface Control {
  name: string;
  label: string;
  options: [value: string, label: string][];
}

export interface ChartPlan<S extends Backdrop = WarmersState> {
  /** Name in the page's address and for tests. */
  id: string;
  title: string;
  explanation: string;
  /** The axis's quantity and unit, above the chart. */
  unit: (view: View<S>) => string;
  controls?: Control[];
  height: (view: View<S>) => number;
  option: (view: View<S>) => EChartsOption;
  /** What the colours mean, where the page does not say it elsewhere. */
  legend?: (view: View<S>) => HTMLElement | null;
  /** The numbers of the chart; made when they are first looked at. */
  numbers: (view: View<S>) => HTMLElement;
}

/** The charts of the page by id, for tests. */
export const charts = new Map<string, Chart>();

const NARROW = 560;

/** So long charts that nobody sees leave the page to those that are seen. */
const OFF_SCREEN_MS = 250;

export function figure<S extends Backdrop>(plan: ChartPlan<S>, state: S): HTMLElement {
  const choices: Record<string, string> = {};
  const box = element("div", { class: "chart", role: "img", "aria-label": `${plan.title}. ${plan.explanation}` });
  const unit = element("p", { class: "unit" });
  const numbers = element("details", { class: "numbers" }, element("summary", {}, "The numbers of this chart"));
  const legend = element("div", { class: "chart-legend" });
  let chart: Chart | null = null;

  const view = (): View<S> => {
    const width = box.clientWidth;
    return { state, width, isNarrow: width < NARROW, choices };
  };
  // A chart that is not on screen waits for those that are: the page opens quickly however many there are.
  let isOnScreen = false;
  let isStale = true;
  const draw = (): void => {
    const now = view();
    isStale = now.width === 0;
    if (isStale) return;
    describe(now);
    box.style.height = `${plan.height(now)}px`;
    chart ??= createChart(box);
    chart.resize();
    chart.setOption({ animation: false, ...plan.option(now) }, { notMerge: true });
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
    // Who reads a table that grows stays where he was.
    numbers.querySelector(".scroll")?.scrollTo(left, top);
  };
  numbers.addEventListener("toggle", () => numbers.open && listNumbers());

  const controls = (plan.controls ?? []).map((control) => segments(control, choices, draw));
  const drawWhenSeen = (): void => {
    if (isOnScreen || state.isPrinting) return draw();
    isStale = true;
    // Its text is read aloud wherever it is.
    describe(view());
  };
  new ResizeObserver(() => {
    if (isOnScreen || state.isPrinting) return draw();
    isStale = true;
    setTimeout(() => isStale && draw(), OFF_SCREEN_MS);
  }).observe(box);
  new IntersectionObserver((entries) => {
    isOnScreen = entries.at(-1)?.isIntersecting ?? true;
    if (isOnScreen && isStale) draw();
  }).observe(box);
  state.subscribe(drawWhenSeen);
  return element(
    "figure",
    { id: plan.id },
    element(
      "div",
      { class: "figure-head" },
      element("figcaption", {}, element("h3", {}, plan.title), element("p", {}, plan.explanation)),
      controls.length > 0 && element("div", { class: "controls" }, ...controls),
    ),
    plan.legend !== undefined && legend,
    unit,
    box,
    numbers,
  );
}

/** A choice of one among a few, as buttons side by side. */
function segments(control: Control, choices: Record<string, string>, changed: () => void): HTMLElement {
  const buttons = control.options.map(([value, label]) => {
    const choose = (): void => {
      choices[control.name] = value;
      for (const button of buttons) button.setAttribute("aria-pressed", String(button.value === value));
      changed();
    };
    return element("button", { type: "button", value, "aria-pressed": "false", click: choose }, label);
  });
  const first = control.options[0]?.[0] ?? "";
  choices[control.name] = first;
  buttons[0]?.setAttribute("aria-pressed", "true");
  return element("div", { class: "segments", role: "group", "aria-label": control.label }, ...buttons);
}
