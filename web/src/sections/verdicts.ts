// What the model says of every trial's curve: was it ever steady, and which warm-up fits it?

import { type Child, element, table } from "../element";
import { compact, count, instant, range } from "../format";
import type { Estimate, Fit, Judgement } from "../../generated/record";
import type { Warmed, WarmersState } from "../warmers_state";

const NAMES: Record<Judgement["verdict"], string> = {
  steady: "steady",
  not_reached: "not reached",
  periodic: "periodic",
  degrading: "degrading",
};

export function verdicts({ strategies: order, trials: all }: WarmersState): HTMLElement {
  const trials = [...all].sort((a, b) => order.indexOf(a.strategy) - order.indexOf(b.strategy) || a.repeat - b.repeat);
  const columns = ["warmer", "repeat", "verdict", "why", "steady throughput (tps)", "fit"];
  const rows = trials.map((trial): Child[] => [trial.strategy, String(trial.repeat), ...judged(trial)]);
  const made = table("Verdicts over the curves", columns.map((title, index) => ({ title, isNumber: index === 1 || index === 4 })), rows, "low");
  made.id = "verdicts";
  return element(
    "div",
    {},
    element("h3", {}, "Was it ever steady?"),
    element("p", { class: "soft" }, "The verdict of pgthaw judge over each trial. Where nothing but the workload warmed, the closed form is fitted: what a client's transaction takes when nothing and when everything is cached, and the pages that the workload chooses from, each with its 95 % interval; off by is how far the measured throughput typically is from that curve."),
    made,
  );
}

function judged({ judgement, no_verdict: why }: Warmed): Child[] {
  if (judgement === null) return ["none", why ?? "", "–", "–"];
  const { verdict, undecided, reason, steady_from_seconds: from, steady_tps: steady, fit, no_fit: noFit } = judgement;
  const since = from === null ? "" : ` ${from < 0.05 ? "" : "from "}${instant(from)}`;
  const fitted = fit === null ? `none: ${noFit ?? ""}` : parameters(fit);
  const name = undecided === null ? NAMES[verdict] : "not decided";
  return [`${name}${since}`, reason, steady === null ? "–" : count(steady), fitted];
}

const milliseconds = (value: number): string => `${(1000 * value).toPrecision(3)} ms`;

/** The parameters above their intervals. */
function parameters({ cold_seconds: cold, hit_seconds: hit, pages, residual_share: off }: Fit): HTMLElement {
  const values = `cold ${milliseconds(cold.value)}, warm ${milliseconds(hit.value)}, ${compact(pages.value)} pages; off by ${(100 * off).toFixed(1)} %`;
  const intervals = [interval(cold, milliseconds), interval(hit, milliseconds), interval(pages, compact)].join(", ");
  return element("span", { class: "cell" }, values, element("span", { class: "range" }, intervals));
}

const interval = ({ low, high }: Estimate, render: (value: number) => string): string =>
  low === null || high === null ? "not known" : range(render(low), render(high));
