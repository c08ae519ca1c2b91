// What every second served, beside the same second of "nothing" in the same round.

import { shareCurve } from "../curves";
import { ratio } from "../format";
import type { Traffic } from "../../generated/record";
import type { ChartPlan, View } from "./figure";
import { curvesTable, type TimeChart, timeOption } from "./time_chart";

/** A log axis ends here: what served less is drawn at it. */
const LOWEST_SHARE = 0.01;

/** The plan of the interference; `null` without `nothing`, or when nothing else was measured. */
export function interference({ warmers }: Traffic): ChartPlan | null {
  if (warmers.length === 0) return null;
  const promised = warmers.filter((one) => one.floor !== null);
  const floors = promised.map((one) => ({ value: one.floor ?? 0, label: `floor of ${one.strategy}: ${one.floor ?? 0}` }));
  const chart = (view: View): TimeChart => ({
    curves: view.state.visible.filter((one) => one !== "nothing").map((one) => shareCurve(view.state.trials, one, "nothing")),
    isLog: view.choices["axis"] !== "linear",
    floor: LOWEST_SHARE,
    render: ratio,
    renderAxis: (value) => String(Number(value.toPrecision(2))),
    renderInstant: (at) => `second ${at + 0.5}`,
    levels: [{ value: 1, label: "as with nothing", isLabelRight: true }, ...floors],
  });
  const head = {
    id: "interference",
    title: "What the traffic got meanwhile",
    explanation:
      "Transactions of each second ÷ those of “nothing” in the same second of the same round; the line is the median of the rounds, the band reaches from the least to the most. Below 1 the warmer takes from the traffic, above it has paid off.",
  };
  return {
    ...head,
    unit: () => "transactions ÷ those with nothing",
    height: (view) => (view.isNarrow ? 280 : 360),
    controls: [{ name: "axis", label: "Vertical axis", options: [["log", "log"], ["linear", "linear"]] }],
    option: (view) => timeOption(view, chart(view)),
    numbers: (view) => curvesTable(head.title, chart(view)),
  };
}
