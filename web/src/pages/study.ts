import type { Appearance } from "../appearance";
import { figure } from "../charts/figure";
import { lines, tradeOff } from "../charts/lines";
import { points } from "../charts/over_time";
import { timeByUsers } from "../charts/time_by_users";
import { isWarmUp, PointsStage, WarmersStage } from "../curve_stage";
import { askWhileShown, element, fold, section } from "../element";
import { P99, TPS } from "../metrics";
import { StudyState } from "../pivot";
import { downloads, facts } from "../sections/facts";
import { head } from "../sections/head";
import { heatMap, pivotBar } from "../sections/heat_map";
import { background, beside, everyPoint, fooled, noise } from "../sections/tables";
import { timeTable } from "../sections/time";
import { trust } from "../sections/trust";
import { method, warmUpSections } from "../sections/warm_up";
import { isOfJobs, isOfWarmers, jobsSection, ratiosOf, warmersSection } from "../sections/warmers";
import type { StudyData } from "../../generated/record";
import type { Source } from "../source";
import { leftOf } from "./live";

export async function studyPage(source: Source, appearance: Appearance, id: string): Promise<HTMLElement[]> {
  const study = await source.study(id);
  const top = [...(source.isServed ? [runningBanner(source, study.sweep.id)] : []), head(study), trust(study)];
  if (study.points.length === 0) return [...top, element("p", {}, "No trial has ended yet."), facts(study)];
  const state = new StudyState(study, appearance);
  const hasCurves = await hasSeconds(source, study);
  const isOfWarmUp = isWarmUp(study);
  const isServing = study.points.some((point) => TPS.of(point) !== null);
  const ratios = ratiosOf(study);
  const pictures = [pivotBar(state), heatMap(state)];
  return [
    ...top,
    ...(isOfWarmers(study) ? [warmersSection(state)] : []),
    ...(isOfJobs(study) ? [jobsSection(state)] : []),
    ...(!isOfWarmUp ? [section("pictures", "The points", ...pictures)]
      : [...warmUpSections(await WarmersStage.read(source, study, appearance), state), fold("pictures", "The points, figure by figure", ...pictures)]),
    // Warmers have no order, so they have no curves.
    ...(state.axes.some(({ name }) => name !== "strategy") ? [fold("curves", "The points as curves", figure(lines, state))] : []),
    // In a study of warmers, the first chart already shows time.
    ...(!isOfWarmUp && isServing && study.points.length > 1 && hasCurves ? [overTime(new PointsStage(study, source, appearance))] : []),
    ...(study.points.some((point) => P99.of(point) !== null) ? [fold("costs", "Throughput is not everything", fooled(state), figure(tradeOff, state), noise(study))] : []),
    ...(ratios === null || isOfWarmers(study) || isOfWarmUp ? [] : [fold("warmers", "Warmers compared", figure(ratios, state))]),
    ...(study.timed.length > 0 ? [fold("time", "Time of the server", figure(timeByUsers, state), timeTable(state))] : []),
    fold("every-point", "Every point and every trial", everyPoint(study)),
    ...(isServing ? [fold("writes", "Checkpoints and settings", background(state), beside(state, source))] : []),
    facts(study),
    downloads(study, source, hasCurves),
    ...(isOfWarmUp ? [method(study)] : []),
  ];
}

/** Reports of many trials omit the samples of each second. */
async function hasSeconds(source: Source, { sweep, trials }: StudyData): Promise<boolean> {
  const first = trials.find(({ failure }) => failure === null);
  return source.isServed || (first !== undefined && (await source.trial(sweep.id, first.number, first.repeat)) !== null);
}

function overTime(state: PointsStage): HTMLElement {
  const box = fold("over-time-fold", "Points over time", state.chips(`Points in the chart, ${state.most} at most`, () => null), figure(points, state));
  const load = (): void => void (box.open && state.load());
  box.addEventListener("toggle", load);
  load();
  return box;
}

function runningBanner(source: Source, id: string): HTMLElement {
  const told = element("span", {});
  const banner = element("p", { class: "running", role: "status", hidden: true }, told, " ", element("a", { href: "#/live" }, "Watch it"));
  const ask = async (): Promise<void> => {
    const trial = (await source.live()).find((one) => one.sweep_id === id);
    banner.hidden = trial === undefined;
    const text = trial === undefined ? "" : `Running now: trial ${trial.position} of ${trial.trials}, ${trial.label}, repeat ${trial.repeat}; ${leftOf(trial)}.`;
    if (told.textContent !== text) told.textContent = text;
  };
  const hide = (): void => { banner.hidden = true; };
  void ask().catch(hide);
  askWhileShown(banner, 3000, ask, hide);
  return banner;
}
