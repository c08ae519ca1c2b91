// The table of times and ratios: every column of the terminal's table.

import { type Column, element, table } from "../element";
import { bytes, count, instant, ratio, seconds, spread } from "../format";
import type { Spread, StrategySummary } from "../record";
import type { State } from "../state";
import { swatch } from "../swatch";

interface Measure extends Column {
  of: (strategy: StrategySummary) => Spread | null;
  render: (value: number) => string;
  /** What an unreached value is longer than. */
  limit: string;
}

export function tournament(state: State): HTMLElement {
  const measures = measuresOf(state);
  const columns: Column[] = [{ title: "strategy", isNumber: false }, ...measures];
  const rows = state.data.summary.strategies.map((one) => [
    name(state, one.strategy),
    ...measures.map((measure) => cell(measure.of(one), measure)),
  ]);
  const made = table("What each strategy achieved", columns, rows);
  made.id = "tournament";
  return made;
}

function measuresOf(state: State): Measure[] {
  const { bound_seconds: bound, trial_seconds: limit } = state.data.summary;
  const time = (title: string, of: Measure["of"]): Measure => ({ title, of, render: instant, limit: `${limit} s`, isNumber: true });
  const amount = (title: string, of: Measure["of"], render = count): Measure => ({ title, of, render, limit: "", isNumber: true });
  const beyond = bound === null ? "" : ratio(limit / bound);
  return [
    time("warm after", (one) => one.warm_after_seconds),
    time("50 % after", (one) => one.to_50_seconds),
    time("90 % after", (one) => one.to_90_seconds),
    time("95 % after", (one) => one.to_95_seconds),
    { title: "warm ÷ bound (×)", of: (one) => one.bound_ratio, render: ratio, limit: beyond, isNumber: true },
    amount("served by then (transactions)", (one) => one.served_until_warm),
    amount("nothing by then (transactions)", (one) => one.nothing_served_by_then),
    amount("served in all (transactions)", (one) => one.served),
    { ...time("command took", (one) => one.ended_after_seconds), render: seconds },
    amount("read from the device (by anybody)", (one) => one.device_read_bytes, bytes),
  ];
}

function name(state: State, strategy: string): HTMLElement {
  const made = element("span", { class: strategy === "pgthaw" ? "name subject" : "name" }, swatch(state.style(strategy)), strategy);
  state.subscribe(() => made.firstElementChild?.replaceWith(swatch(state.style(strategy))));
  return made;
}

function cell(value: Spread | null, measure: Measure): HTMLElement {
  const { median, range } = spread(value, measure.render, measure.limit);
  return element(
    "span",
    { class: value?.median === null ? "cell beyond" : "cell" },
    element("span", { class: "median" }, median),
    range !== null && element("span", { class: "range" }, range),
  );
}
