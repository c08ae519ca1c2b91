// How a cold server warmed up, warmer by warmer: curves, the table of times and ratios, and where the relations were resident.

import type { Appearance } from "../appearance";
import { type ChartPlan, figure } from "../charts/figure";
import { interference } from "../charts/interference";
import { heatMaps, sharesTable } from "../charts/residency";
import { device, latencies, resident, served, throughput } from "../charts/time_charts";
import { relationsOf } from "../curves";
import { type Child, type Column, element, folded, table } from "../element";
import { fold } from "../fold";
import { bytes, count, instant, ratio, seconds, spread } from "../format";
import { spreadOf } from "../metrics";
import type { PointSummary, StudyData } from "../../generated/record";
import type { Source } from "../source";
import { StudyState } from "../state";
import { swatch } from "../swatch";
import { isWarmUp, readWarmed, WarmersState } from "../warmers_state";
import { legend } from "./legend";
import { trafficTable } from "./traffic";
import { verdicts } from "./verdicts";
import { isOfWarmers, ratiosOf, timesOf } from "./warmers";

/** The first picture, and below it what unfolds. */
export function warmUpSections(state: WarmersState, study: StudyState): HTMLElement[] {
  const interferencePlan = interference(state.study.traffic);
  const ratioPlan: ChartPlan<StudyState> | null = ratiosOf(study.study);
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
        interferencePlan && trafficTable(state.study.traffic),
        ...[resident, device].map((plan) => figure(plan, state)),
        figure(latencies, state),
      ),
    ),
    fold("result", "Times and ratios of every warmer", figure(timesOf(study.study), study), ratioPlan && figure(ratioPlan, study), achieved(state), verdicts(state)),
    residency(state),
  ];
}

/** The chart that a study of warmers begins with, as it stands beside others. */
export async function firstChart(source: Source, appearance: Appearance, study: StudyData): Promise<HTMLElement[]> {
  const alone = { id: `first-${study.sweep.id}`, controls: [], explanation: "" };
  if (isWarmUp(study)) {
    const state = new WarmersState(study, await readWarmed(source, study), appearance);
    return [figure({ ...throughput, ...alone, legend: () => keys(state), height: () => 300 }, state)];
  }
  return isOfWarmers(study) ? [figure({ ...timesOf(study), ...alone }, new StudyState(study, appearance))] : [];
}

const keys = (state: WarmersState): HTMLElement =>
  element("p", { class: "keys" }, ...state.points.map((point) => {
    const { median } = spread(spreadOf(point, "warm_after_seconds"), instant, `${state.longest} s`);
    return element("span", { class: "key" }, swatch(state.style(point.label)), `${point.label} ${median}`);
  }));

function residency(state: WarmersState): HTMLElement {
  const relations = relationsOf(state.trials);
  return fold(
    "residency",
    "What was in memory, before and after",
    element("p", { class: "lead" }, "Every relation is cut into equal pieces. The stronger its colour, the more of a piece was resident when the trial began and when it ended."),
    relations.length === 0 && element("p", { class: "soft" }, "No residency is here."),
    ...heatMaps(state).map((plan) => figure(plan, state)),
    relations.length > 0 && folded(`All ${relations.length} relations as a table`, () => sharesTable(state, relations)),
  );
}

interface Measure extends Column {
  key: string;
  render: (value: number) => string;
  /** What an unreached value is longer than. */
  limit: string;
}

function achieved(state: WarmersState): HTMLElement {
  const measures = measuresOf(state);
  const columns: Column[] = [{ title: "warmer", isNumber: false }, ...measures];
  const rows = state.points.map((point): Child[] => [name(state, point.label), ...measures.map((measure) => cell(point, measure))]);
  const made = table("What each warmer achieved", columns, rows);
  made.id = "achieved";
  return made;
}

function measuresOf({ longest, bound }: WarmersState): Measure[] {
  const time = (title: string, key: string, render = instant): Measure => ({ title, key, render, limit: `${longest} s`, isNumber: true });
  const amount = (title: string, key: string, render = count): Measure => ({ title, key, render, limit: "", isNumber: true });
  return [
    time("warm after", "warm_after_seconds"),
    time("50 % after", "to_50_seconds"),
    time("90 % after", "to_90_seconds"),
    time("95 % after", "to_95_seconds"),
    { ...amount("warm ÷ bound (×)", "bound_ratio", ratio), limit: bound === null ? "" : ratio(longest / bound) },
    amount("served by then (transactions)", "served_until_warm"),
    amount("served in all (transactions)", "served"),
    time("command took", "warmer_seconds", seconds),
    amount("read from the device (by anybody)", "device_read_bytes", bytes),
  ];
}

function name(state: WarmersState, strategy: string): HTMLElement {
  const made = element("span", { class: strategy === "pgthaw" ? "name subject" : "name" }, swatch(state.style(strategy)), strategy);
  state.subscribe(() => made.firstElementChild?.replaceWith(swatch(state.style(strategy))));
  return made;
}

function cell(point: PointSummary, { key, render, limit }: Measure): HTMLElement {
  const value = spreadOf(point, key);
  const { median, range } = spread(value, render, limit);
  return element(
    "span",
    { class: value?.median === null ? "cell beyond" : "cell" },
    element("span", { class: "median" }, median),
    range !== null && element("span", { class: "range" }, range),
  );
}
