// The answer first: one sentence, the study it holds for, and four figures.

import { element } from "../element";
import { bandwidth, bytes, count, instant, ratio, seconds, spread, time, unbroken } from "../format";
import type { ReportData, Spread } from "../record";
import type { State } from "../state";

export function head(state: State, switcher: HTMLElement | null): HTMLElement {
  const { data } = state;
  const [answer = "", ...rest] = unbroken(data.headline).replace(/\.$/, "").split("; ");
  const button = element("button", { type: "button", class: "theme", click: () => state.toggleTheme() });
  const name = (): void => {
    button.textContent = state.isDark ? "Light" : "Dark";
    button.setAttribute("aria-label", `Switch to the ${state.isDark ? "light" : "dark"} theme`);
  };
  name();
  state.subscribe(name);
  return element(
    "header",
    { class: "head" },
    element(
      "div",
      { class: "bar" },
      element("span", { class: "brand" }, "pgthaw"),
      element("span", { class: "soft" }, `run ${data.run.id}`),
      element("span", { class: "soft" }, time(data.run.started_at)),
      button,
    ),
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
    figure(`${subject.strategy} warm${subject.warm_after_seconds.median === 0 ? "" : " after"}`, warm.median, warm.range),
    bound === null
      ? figure("the bound", "–", "not known: the device has no limit")
      : figure(`the bound of ${seconds(bound)}`, times.median, `${bytes(data.run.study.wanted_bytes)} ÷ bandwidth`),
    figure("served by then", counted(subject.served_until_warm), nothingBy(subject.nothing_served_by_then)),
    figure("steady throughput", data.run.steady_tps === null ? "–" : count(data.run.steady_tps), "transactions per second"),
  );
}

const counted = (value: Spread): string => (value.median === null ? "–" : count(value.median));

const nothingBy = (value: Spread | null): string =>
  value?.median == null ? "transactions" : `transactions; with nothing ${count(value.median)}`;

function figure(label: string, value: string, note: string | null): HTMLElement {
  return element("div", {}, element("dt", {}, label), element("dd", {}, value), note && element("dd", { class: "note" }, note));
}
