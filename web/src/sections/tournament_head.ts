// The head of a study of ways to warm: what was measured, and four figures.

import { element } from "../element";
import { bandwidth, bytes, count, instant, ratio, seconds, spread } from "../format";
import type { Spread, StrategySummary, Tournament } from "../../generated/record";

/** What was measured, on which disk, how often. */
export function describe(data: Tournament): string[] {
  const { study: plan } = data.run;
  return [
    `pgbench ${plan.script}, ${plan.clients} clients, scale ${plan.scale} (${bytes(plan.database_bytes)})`,
    disk(data),
    `${plan.repeats === 1 ? "1 trial" : `${plan.repeats} trials`} of ${plan.seconds} s for each of ${data.summary.strategies.length} strategies`,
  ];
}

export function disk(data: Tournament): string {
  const { disk: limit } = data.run.study;
  const limits = [
    limit.riops === null ? null : `${count(limit.riops)} reads/s`,
    limit.rbps === null ? null : bandwidth(limit.rbps),
  ].filter((one) => one !== null);
  const text = `${limit.name} disk${limits.length > 0 ? `, ${limits.join(", ")}` : ""}`;
  const limited = limit.not_enforced === null ? text : `${text} (not in force)`;
  if (limit.read_ahead === null) return limited;
  return `${limited}, read-ahead ${bytes(limit.read_ahead)}${limit.read_ahead_not_enforced === null ? "" : " (not in force)"}`;
}

/** The figures of pgthaw, or of the soonest strategy when pgthaw did not take part. */
export function tournamentFigures(data: Tournament): HTMLElement | null {
  const { strategies, trial_seconds: limit, bound_seconds: bound } = data.summary;
  const subject = strategies.find((one) => one.strategy === "pgthaw") ?? strategies[0];
  if (!subject) return null;
  const warm = spread(subject.warm_after_seconds, instant, `${limit} s`);
  const beyond = bound === null ? "" : `${ratio(limit / bound)} ×`;
  const times = spread(subject.bound_ratio, (value) => `${ratio(value)} ×`, beyond);
  return element(
    "dl",
    { class: "figures", "aria-label": `Figures of ${subject.strategy}` },
    figure(
      `${subject.strategy} warm${subject.warm_after_seconds.median === 0 ? "" : " after"}`,
      warm.median,
      [warm.range, ...beside(data, subject)].filter((one) => one !== null).join("; ") || null,
    ),
    bound === null
      ? figure("the bound", "–", "not known: the device has no limit")
      : figure(`the bound of ${seconds(bound)}`, times.median, `${bytes(data.run.study.wanted_bytes)} ÷ bandwidth`),
    figure("served by then", counted(subject.served_until_warm), nothingBy(subject.nothing_served_by_then)),
    figure("steady throughput", data.run.steady_tps === null ? "–" : count(data.run.steady_tps), "transactions per second"),
  );
}

/** What the subject is held against: doing nothing, and the soonest other way. */
function beside({ summary }: Tournament, subject: StrategySummary): string[] {
  const others = summary.strategies.filter((one) => one !== subject && one.strategy !== "nothing");
  const compared = [summary.strategies.find((one) => one.strategy === "nothing"), others.find((one) => !one.strategy.startsWith("pgthaw"))];
  return compared.flatMap((one) => (one === undefined || one === subject ? [] : [`${one.strategy} ${spread(one.warm_after_seconds, instant, `${summary.trial_seconds} s`).median}`]));
}

const counted = (value: Spread): string => (value.median === null ? "–" : count(value.median));

const nothingBy = (value: Spread | null): string =>
  value?.median == null ? "transactions" : `transactions; with nothing ${count(value.median)}`;

export function figure(label: string, value: string, note: string | null): HTMLElement {
  return element("div", {}, element("dt", {}, label), element("dd", {}, value), note && element("dd", { class: "note" }, note));
}
