// Ways to warm held against each other: curves, the table of times and ratios, and where the relations were resident.

import { figure } from "../charts/figure";
import { interference } from "../charts/interference";
import { ratios } from "../charts/ratios";
import { heatMaps, sharesTable } from "../charts/residency";
import { device, latencies, resident, served, throughput } from "../charts/time_charts";
import { warmTimes } from "../charts/times";
import { relationsOf } from "../curves";
import { type Column, element, folded, table } from "../element";
import { fold } from "../fold";
import { bytes, count, instant, ratio, seconds, spread } from "../format";
import type { Spread, StrategySummary } from "../../generated/record";
import { swatch } from "../swatch";
import type { TournamentState } from "../tournament_state";
import { interferenceTable } from "./interference";
import { legend } from "./legend";
import { verdicts } from "./verdicts";

/** The first picture, and below it what unfolds. */
export function tournamentSections(state: TournamentState): HTMLElement[] {
  const { data } = state;
  const [ratioPlan, interferencePlan] = [ratios(data), interference(data)];
  return [
    element(
      "section",
      { class: "charts", "aria-labelledby": "warming" },
      element("h2", { id: "warming" }, "How it warmed up"),
      legend(state),
      figure(throughput, state),
      fold(
        "meanwhile",
        "Meanwhile: what users got, memory and the device",
        figure(served, state),
        interferencePlan && figure(interferencePlan, state),
        interferencePlan && interferenceTable(data),
        ...[resident, device].map((plan) => figure(plan, state)),
        figure(latencies, state),
      ),
    ),
    fold("result", "Times and ratios of every strategy", figure(warmTimes, state), ratioPlan && figure(ratioPlan, state), tournament(state), verdicts(data)),
    residency(state),
  ];
}

function residency(state: TournamentState): HTMLElement {
  const relations = relationsOf(state.data.trials);
  return fold(
    "residency",
    "What was in memory, before and after",
    element("p", { class: "lead" }, "Every relation is cut into equal pieces. The stronger its colour, the more of a piece was resident when the trial began and when it ended."),
    relations.length === 0 && element("p", { class: "soft" }, "No residency was stored with these trials."),
    ...heatMaps(state).map((plan) => figure(plan, state)),
    relations.length > 0 && folded(`All ${relations.length} relations as a table`, () => sharesTable(state, relations)),
  );
}

interface Measure extends Column {
  of: (strategy: StrategySummary) => Spread | null;
  render: (value: number) => string;
  /** What an unreached value is longer than. */
  limit: string;
}

function tournament(state: TournamentState): HTMLElement {
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

function measuresOf(state: TournamentState): Measure[] {
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

function name(state: TournamentState, strategy: string): HTMLElement {
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
