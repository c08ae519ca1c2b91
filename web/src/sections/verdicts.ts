// What the model says of every trial's curve: was it ever steady, and which warm-up fits it?

import { type Child, element, table } from "../element";
import { compact, count, seconds } from "../format";
import type { Estimate, Judgement, ReportData, Trial } from "../record";

const NAMES: Record<Judgement["verdict"], string> = {
  steady: "steady",
  not_reached: "not reached",
  periodic: "periodic",
  degrading: "degrading",
};

export function verdicts(data: ReportData): HTMLElement {
  const order = data.summary.strategies.map((one) => one.strategy);
  const trials = [...data.trials].sort((a, b) => order.indexOf(a.strategy) - order.indexOf(b.strategy) || a.repeat - b.repeat);
  const columns = ["strategy", "repeat", "verdict", "why", "steady throughput", "fit: cold", "fit: warm", "fit: pages", "off by"];
  const rows = trials.map((trial): Child[] => [trial.strategy, String(trial.repeat), ...judged(trial)]);
  const made = table("Verdicts over the curves", columns.map((title, index) => ({ title, isNumber: index === 1 || index > 3 })), rows, "low");
  made.id = "verdicts";
  return element(
    "div",
    {},
    element("h3", {}, "Was it ever steady?"),
    element("p", { class: "soft" }, "The verdict of pgthaw steady over each trial. Where nothing but the workload warmed, the closed form is fitted: what a client's transaction takes when nothing and when everything is cached, and the pages that the workload chooses from, each with its 95 % interval; off by is how far the measured throughput typically is from that curve."),
    made,
  );
}

function judged({ judgement, no_verdict: why }: Trial): Child[] {
  if (judgement === null) return ["no verdict", why ?? "", "–", "–", "–", "–", "–"];
  const { verdict, reason, steady_from_seconds: from, steady_tps: steady, fit, no_fit: noFit } = judgement;
  const since = from === null ? "" : ` from ${seconds(from)}`;
  const parts = fit === null
    ? ["–", "–", "–", "–"]
    : [estimate(fit.cold_seconds, milliseconds), estimate(fit.hit_seconds, milliseconds), estimate(fit.pages, compact), `${(100 * fit.residual_share).toFixed(1)} %`];
  const because = noFit === null ? reason : `${reason}; no fit: ${noFit}`;
  return [`${NAMES[verdict]}${since}`, because, steady === null ? "–" : count(steady), ...parts];
}

const milliseconds = (value: number): string => `${(1000 * value).toPrecision(3)} ms`;

/** The value above its interval. */
function estimate({ value, low, high }: Estimate, render: (value: number) => string): HTMLElement {
  const interval = low === null || high === null ? "not known" : `${render(low)} – ${render(high)}`;
  return element("span", { class: "cell" }, element("span", { class: "median" }, render(value)), element("span", { class: "range" }, interval));
}
