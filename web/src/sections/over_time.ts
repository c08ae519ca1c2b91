// Points of a study over time in one chart, a curve for each.

import { type ChartPlan, figure, type View } from "../charts/figure";
import { curvesTable, type TimeChart, timeOption } from "../charts/time_chart";
import { rateCurve } from "../curves";
import { element } from "../element";
import { fold } from "../fold";
import { bandwidth, compact, count } from "../format";
import { MOST, OverTimeState } from "../over_time_state";
import { swatch } from "../swatch";
import type { TrialSeries } from "../../generated/record";

interface Quantity {
  label: string;
  unit: string;
  render: (value: number) => string;
  renderAxis: (value: number) => string;
  of: (series: TrialSeries) => (number | null)[];
}

const perSecond = (unit: string) => ({ unit, render: count, renderAxis: compact });
const ofBytes = (unit: string) => ({ unit, render: bandwidth, renderAxis: bandwidth });

const QUANTITIES: Record<string, Quantity> = {
  throughput: { label: "transactions", ...perSecond("transactions per second"), of: ({ tps }) => tps.mean },
  writes: { label: "writes", ...perSecond("writes per second, by anybody"), of: ({ machine }) => machine?.["device_writes"] ?? [] },
  written: { label: "written", ...ofBytes("written per second, by anybody"), of: ({ machine }) => machine?.["device_written_bytes"] ?? [] },
  reads: { label: "reads", ...perSecond("reads per second, by anybody"), of: ({ device_reads: reads }) => reads },
  read: { label: "read", ...ofBytes("read per second, by anybody"), of: ({ device_read_bytes: read }) => read.mean },
};

const quantityOf = ({ choices }: View<OverTimeState>): Quantity => QUANTITIES[choices["quantity"] ?? ""] ?? (QUANTITIES["throughput"] as Quantity);

const overTime: ChartPlan<OverTimeState> = {
  id: "over-time",
  title: "Points over time",
  explanation: "Each line is the median of a point\u2019s trials, and its band reaches from the lowest to the highest.",
  unit: (view) => quantityOf(view).unit,
  height: (view) => (view.isNarrow ? 300 : 420),
  controls: [{ name: "quantity", label: "What is drawn", options: Object.entries(QUANTITIES).map(([name, { label }]): [string, string] => [name, label]) }],
  option: (view) => timeOption(view, chartOf(view)),
  numbers: (view) => curvesTable("Points over time", chartOf(view)),
};

function chartOf(view: View<OverTimeState>): TimeChart {
  const { state } = view;
  const { of, render, renderAxis } = quantityOf(view);
  const curves = state.shown.map((name) => rateCurve(state.trials, name, of));
  const renderInstant = (at: number): string => (Number.isInteger(at + 0.5) ? `second ${at + 0.5}` : `around ${at} s`);
  return { curves, render, renderAxis, renderInstant };
}

/** Folded: the seconds are asked for when it is opened. */
export function overTimeSection(state: OverTimeState): HTMLElement {
  const chips = state.names.map((name) => chip(state, name));
  state.subscribe(() => chips.forEach(({ update }) => update()));
  const box = fold("over-time-fold", "Points over time", element("nav", { class: "legend", "aria-label": `Points in the chart, ${MOST} at most` },
    element("div", { class: "chips" }, ...chips.map(({ button }) => button))), figure(overTime, state));
  const load = (): void => void (box.open && state.load());
  box.addEventListener("toggle", load);
  load();
  return box;
}

function chip(state: OverTimeState, name: string): { button: HTMLButtonElement; update: () => void } {
  const sign = element("span", {});
  const button = element("button", {
    type: "button", class: "chip", title: "Show or hide", click: () => state.toggle(name),
    mouseenter: () => state.isShown(name) && state.setFocus(name), mouseleave: () => state.setFocus(null),
  }, sign, element("span", {}, name));
  const update = (): void => {
    button.setAttribute("aria-pressed", String(state.isShown(name)));
    button.disabled = !state.isShown(name) && state.isFull;
    sign.replaceChildren(...(state.isShown(name) ? [swatch(state.style(name))] : []));
  };
  update();
  return { button, update };
}
