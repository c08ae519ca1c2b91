// The answer first: one sentence, the study it holds for, and four figures.

import { element } from "../element";
import { bandwidth, bytes, count, instant, ratio, seconds, spread, time, unbroken } from "../format";
import { navigation, runningBanner } from "../navigation";
import type { ReportData, Spread, StrategySummary } from "../record";
import type { State } from "../state";
import { ServedSource } from "../study/source";

export function head(state: State, switcher: HTMLElement | null, home: string | null): HTMLElement {
  const { data } = state;
  const [answer = "", ...rest] = unbroken(data.headline).replace(/\.$/, "").split("; ");
  return element(
    "header",
    { class: "head" },
    navigation(state, home, element("span", { class: "soft" }, `run ${data.run.id}`), element("span", { class: "soft" }, time(data.run.started_at))),
    home !== null && runningBanner(() => new ServedSource(home).live(), data.run.id, home),
    switcher,
    element("h1", {}, answer, rest.length > 0 && element("span", { class: "rest" }, `; ${rest.join("; ")}.`), rest.length === 0 && "."),
    element("p", { class: "study" }, study(data)),
    figures(data),
  );
}

function study(data: ReportData): string {
  const { study: plan, server } = data.run;
  return [
    `PostgreSQL ${server.version.split(" ")[0] ?? ""}`,
    `${plan.title === null ? "" : `${plan.title}: `}pgbench ${plan.script}, ${plan.clients} clients, scale ${plan.scale} (${bytes(plan.database_bytes)})`,
    disk(data),
    `${plan.repeats === 1 ? "1 trial" : `${plan.repeats} trials`} of ${plan.seconds} s for each of ${data.summary.strategies.length} strategies`,
  ].join(" · ");
}

export function disk(data: ReportData): string {
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
function figures(data: ReportData): HTMLElement | null {
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
function beside({ summary }: ReportData, subject: StrategySummary): string[] {
  const others = summary.strategies.filter((one) => one !== subject && one.strategy !== "nothing");
  const compared = [summary.strategies.find((one) => one.strategy === "nothing"), others.find((one) => !one.strategy.startsWith("pgthaw"))];
  return compared.flatMap((one) => (one === undefined || one === subject ? [] : [`${one.strategy} ${spread(one.warm_after_seconds, instant, `${summary.trial_seconds} s`).median}`]));
}

const counted = (value: Spread): string => (value.median === null ? "–" : count(value.median));

const nothingBy = (value: Spread | null): string =>
  value?.median == null ? "transactions" : `transactions; with nothing ${count(value.median)}`;

function figure(label: string, value: string, note: string | null): HTMLElement {
  return element("div", {}, element("dt", {}, label), element("dd", {}, value), note && element("dd", { class: "note" }, note));
}
