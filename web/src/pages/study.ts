// A study: its question, what speaks against it, how ways to warm compare, and its points in pictures and tables.

import type { Appearance } from "../appearance";
import { figure } from "../charts/figure";
import { lines } from "../charts/lines";
import { timeByUsers } from "../charts/time_by_users";
import { tradeOff } from "../charts/trade_off";
import { element } from "../element";
import { fold } from "../fold";
import { P99, TPS } from "../metrics";
import { runningBanner } from "../navigation";
import { background } from "../sections/background";
import { beside } from "../sections/beside";
import { downloads } from "../sections/downloads";
import { facts } from "../sections/facts";
import { fooled } from "../sections/fooled";
import { head } from "../sections/head";
import { heatMap } from "../sections/heat_map";
import { isOfJobs, jobsSection } from "../sections/jobs";
import { method } from "../sections/method";
import { noise } from "../sections/noise";
import { pivotBar } from "../sections/pivot_bar";
import { overTimeSection } from "../sections/over_time";
import { everyPoint } from "../sections/points";
import { timeTable } from "../sections/time";
import { trust } from "../sections/trust";
import { warmUpSections } from "../sections/warm_up";
import { isOfWarmers, ratiosOf, warmersSection } from "../sections/warmers";
import { OverTimeState } from "../over_time_state";
import type { StudyData } from "../../generated/record";
import type { Source } from "../source";
import { StudyState } from "../state";
import { isWarmUp, readWarmed, WarmersState } from "../warmers_state";

export async function studyPage(source: Source, appearance: Appearance, id: string): Promise<HTMLElement[]> {
  const study = await source.study(id);
  const top = [...(source.isServed ? [runningBanner(() => source.live(), study.sweep.id)] : []), head(study), trust(study)];
  if (study.points.length === 0) return [...top, element("p", {}, "No trial has ended yet."), facts(study)];
  const state = new StudyState(study, appearance);
  const hasCurves = await hasSeconds(source, study);
  const isOfWarmUp = isWarmUp(study);
  const isServing = study.points.some((point) => TPS.of(point) !== null);
  const ratios = ratiosOf(study);
  const points = [pivotBar(state), heatMap(state)];
  return [
    ...top,
    ...(isOfWarmers(study) ? [warmersSection(state)] : []),
    ...(isOfJobs(study) ? [jobsSection(state)] : []),
    ...(!isOfWarmUp
      ? [element("section", { "aria-labelledby": "pictures" }, element("h2", { id: "pictures" }, "The points"), ...points)]
      : [...warmUpSections(new WarmersState(study, await readWarmed(source, study), appearance), state), fold("pictures", "The points, figure by figure", ...points)]),
    // Ways to warm have no order that a line could join.
    ...(state.axes.some(({ name }) => name !== "strategy") ? [fold("curves", "The points as curves", figure(lines, state))] : []),
    // Of ways to warm the first chart is one over time.
    ...(!isOfWarmUp && isServing && study.points.length > 1 && hasCurves ? [overTimeSection(new OverTimeState(study, source, appearance))] : []),
    ...(study.points.some((point) => P99.of(point) !== null) ? [fold("costs", "Throughput is not all", fooled(state), figure(tradeOff, state), noise(study))] : []),
    ...(ratios === null || isOfWarmers(study) || isOfWarmUp ? [] : [fold("warmers", "Ways to warm beside each other", figure(ratios, state))]),
    ...(study.timed.length > 0 ? [fold("time", "Where the time of the server went", figure(timeByUsers, state), timeTable(state))] : []),
    fold("every-point", "Every point and every trial", everyPoint(study)),
    ...(isServing ? [fold("writes", "Checkpoints and settings", background(state), beside(state, source))] : []),
    facts(study),
    downloads(study, source, hasCurves),
    ...(isOfWarmUp ? [method(study)] : []),
  ];
}

/** A report of a large study has none. */
async function hasSeconds(source: Source, { sweep, trials }: StudyData): Promise<boolean> {
  const first = trials.find(({ failure }) => failure === null);
  return source.isServed || (first !== undefined && (await source.trial(sweep.id, first.number, first.repeat)) !== null);
}
