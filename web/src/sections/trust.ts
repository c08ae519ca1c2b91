import { element } from "../element";
import { count } from "../format";
import { isRefused } from "../pivot";
import type { MeasurementVerdict, StudyData } from "../../generated/record";

const SHOWN = 3;

const NAMED = 4;

const upper = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

const item = (className: string, mark: string, kind: string, ...text: (Node | string | false)[]): HTMLElement =>
  element("li", { class: className }, element("span", { class: "mark", "aria-hidden": "true" }, mark), element("span", { class: "unseen" }, kind), ...text);

function badItem({ kind, sentence, remedy }: MeasurementVerdict, place = ""): HTMLElement {
  const [className, name] = isRefused(kind) ? ["bad refused", "Not as requested: "] : ["bad", "Warning: "];
  return item(className, "!", name, upper(sentence), place !== "" && ` (${place})`,
    remedy !== "" && element("span", { class: "remedy" }, element("span", { class: "unseen" }, "Remedy: "), remedy));
}

export const againstBox = (title: string, verdicts: MeasurementVerdict[]): HTMLElement =>
  element("section", { class: "trust warned" }, element("h2", {}, title), element("ul", {}, ...verdicts.map((one) => badItem(one))));

export const plainVerdict = (sentence: string): MeasurementVerdict => ({ kind: "", sentence, remedy: "" });

/** Doubts about the study, the worst first. A click unfolds all after the third. */
export function trust(study: StudyData): HTMLElement {
  const { sweep, trials, remarks } = study;
  const planned = sweep.points * sweep.repeats;
  const hasEnded = sweep.ended_at !== null;
  const unfinished = hasEnded ? [] : [plainVerdict(`The study has not ended: it still runs, or was stopped. It has ${count(trials.length)} of ${count(planned)} trials.`)];
  const ofPoints = verdictsOf(study);
  const ofSweep = sweep.verdicts.filter(({ sentence }) => !ofPoints.some((one) => one.sentence === sentence));
  const all = [...[...unfinished, ...ofSweep, ...remarks.map(plainVerdict)].map((verdict) => ({ verdict, place: "" })), ...ofPoints.map((verdict) => ({ verdict, place: where(verdict) }))];
  const bad = all.sort((a, b) => Number(isRefused(b.verdict.kind)) - Number(isRefused(a.verdict.kind))).map(({ verdict, place }) => badItem(verdict, place));
  // A check mark must not contradict a warning about the start state or a head start.
  const here = hasEnded ? `${count(trials.length)} of ${count(planned)} trials ran` : "These trials ran";
  const hasFailed = trials.some((trial) => trial.failure !== null) || ofPoints.some(({ kind }) => kind === "strategy_failed");
  const hasHeadStart = study.points.some(({ verdicts }) => verdicts.some(({ kind }) => kind === "head_start"));
  const allCold = trials.length > 0 && !hasHeadStart && trials.every((trial) => trial.start_verdict === "cold");
  const good = [
    `${here}, in random order within rounds (seed ${study.exact.seed}).`,
    ...(hasFailed ? [] : ["No trial failed."]),
    ...(allCold ? ["Every trial started cold, as measured directly before it."] : []),
  ].map((text) => item("good", "✓", "OK: ", text));
  const title = bad.length === 0 ? "No doubts about these numbers" : `${bad.length === 1 ? "One doubt" : `${count(bad.length)} doubts`} about these numbers`;
  const [shown, rest] = [bad.slice(0, SHOWN), bad.slice(SHOWN)];
  return element("section", { class: bad.length === 0 ? "trust" : "trust warned", "aria-labelledby": "trust" },
    element("h2", { id: "trust" }, title),
    shown.length > 0 && element("ul", {}, ...shown),
    element("details", {}, element("summary", {}, rest.length > 0 ? `${rest.length} more, and passed checks` : "Passed checks"), element("ul", {}, ...rest, ...good)));
}

interface Placed extends MeasurementVerdict {
  points: string[];
  trials: number;
}

function verdictsOf({ points }: StudyData): Placed[] {
  const byKind = new Map<string, Placed>();
  const add = (key: string, verdict: MeasurementVerdict, point: string, trials: number): void => {
    const known = byKind.get(key) ?? { ...verdict, points: [], trials: 0 };
    known.trials += trials;
    if (!known.points.includes(point)) known.points.push(point);
    byKind.set(key, known);
  };
  for (const point of points) {
    for (const verdict of point.verdicts) add(`${verdict.kind} ${verdict.kind === "not_in_force" ? verdict.sentence : ""}`, verdict, point.label, verdict.trials);
    for (const [sentence, trials] of Object.entries(point.warnings)) add(sentence.replace(/\d+(?:[.,]\d+)?/g, "#"), plainVerdict(sentence), point.label, trials);
  }
  return [...byKind.values()].sort((a, b) => b.trials - a.trials);
}

function where({ points, trials }: Placed): string {
  const named = points.length <= NAMED ? points.join("; ") : `${points.slice(0, NAMED).join("; ")}; and ${points.length - NAMED} other points`;
  return trials > 1 ? `the first of ${count(trials)} such trials, at ${named}` : named;
}
