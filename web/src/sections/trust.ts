// What speaks for and against the measurement, before anything is drawn from it.

import { element } from "../element";
import { count } from "../format";
import { isRefused } from "../pivot";
import type { MeasurementVerdict, StudyData } from "../../generated/record";

const item = (isGood: boolean, text: string): HTMLElement =>
  element(
    "li",
    { class: isGood ? "good" : "bad" },
    element("span", { class: "mark", "aria-hidden": "true" }, isGood ? "✓" : "!"),
    element("span", { class: "unseen" }, isGood ? "In order: " : "Warning: "),
    text,
  );

/** What is wrong that is seen at once. */
const SHOWN = 3;

/** What is wrong comes first, the gravest of it; the rest and what is in order unfolds. */
function trustBox(title: string, bad: HTMLElement[], good: HTMLElement[]): HTMLElement {
  const [shown, rest] = [bad.slice(0, SHOWN), bad.slice(SHOWN)];
  const name = [rest.length > 0 && `${rest.length} more`, good.length > 0 && "what is in order"].filter((one) => one !== false).join(", and ");
  return element(
    "section",
    { class: bad.length === 0 ? "trust" : "trust warned", "aria-labelledby": "trust" },
    element("h2", { id: "trust" }, title),
    shown.length > 0 && element("ul", {}, ...shown),
    name !== "" && element("details", {}, element("summary", {}, name.charAt(0).toUpperCase() + name.slice(1)), element("ul", {}, ...rest, ...good)),
  );
}

/** Points that are named for one verdict; more are counted. */
const NAMED = 4;

export function trust(study: StudyData): HTMLElement {
  const { sweep, trials } = study;
  const planned = sweep.points * sweep.repeats;
  const unfinished = sweep.ended_at === null ? [{ kind: "", sentence: `The study has not ended: it still runs, or was stopped. So far ${count(trials.length)} of ${count(planned)} trials are here.`, remedy: "" }] : [];
  const ofPoints = verdictsOf(study);
  const ofSweep = told(sweep).filter(({ sentence }) => !ofPoints.some((one) => one.sentence === sentence));
  const remarks = study.remarks.map((sentence) => ({ kind: "", sentence, remedy: "" }));
  const all = [...[...unfinished, ...ofSweep, ...remarks].map((verdict) => ({ verdict, place: "" })), ...ofPoints.map((verdict) => ({ verdict, place: where(verdict) }))];
  // What measured something else than was asked for comes first, whoever says it.
  const bad = all.sort((a, b) => Number(isRefused(b.verdict.kind)) - Number(isRefused(a.verdict.kind))).map(({ verdict, place }) => badItem(verdict, place));
  // No tick stands beside a warning that contradicts it.
  const here = unfinished.length === 0 ? `${count(trials.length)} of ${count(planned)} trials are here` : "Those that are here ran";
  const hasFailed = trials.some((trial) => trial.failure !== null) || ofPoints.some(({ kind }) => kind === "strategy_failed");
  const good = [item(true, `${here}, in random order within blocks (seed ${study.exact.seed}).`), ...(hasFailed ? [] : [item(true, "No trial failed.")]), ...starts(study)];
  const title = bad.length === 0 ? "Nothing speaks against these numbers" : `${bad.length === 1 ? "One thing speaks" : `${count(bad.length)} things speak`} against these numbers`;
  return trustBox(title, bad, good);
}

/** No tick stands beside a trial that began otherwise, or with a head start. */
function starts({ trials, points }: StudyData): HTMLElement[] {
  const isDenied = points.some(({ verdicts: all }) => all.some(({ sentence }) => sentence.includes("head start")));
  return trials.length > 0 && !isDenied && trials.every((trial) => trial.start_verdict === "cold") ? [item(true, "Every trial began cold, as was measured right before it.")] : [];
}

/** Verdicts, and texts that say more than they do: an older pgthaw kept texts alone. */
export function told({ verdicts: all, warnings }: { verdicts: MeasurementVerdict[]; warnings: string[] }): MeasurementVerdict[] {
  const texts = new Set(all.map(({ sentence, remedy }) => `${sentence}: ${remedy}`));
  return [...all, ...warnings.filter((text) => !texts.has(text)).map((sentence) => ({ kind: "", sentence, remedy: "" }))];
}

/** What is wrong, where, and what to do about it. */
export function badItem({ kind, sentence, remedy }: MeasurementVerdict, place = ""): HTMLElement {
  const refused = isRefused(kind);
  return element("li", { class: refused ? "bad refused" : "bad" },
    element("span", { class: "mark", "aria-hidden": "true" }, "!"),
    element("span", { class: "unseen" }, refused ? "Not what was asked for: " : "Warning: "),
    sentence.charAt(0).toUpperCase() + sentence.slice(1), place !== "" && ` (${place})`,
    remedy !== "" && element("span", { class: "remedy" }, element("span", { class: "unseen" }, "Remedy: "), remedy));
}

interface Placed extends MeasurementVerdict {
  points: string[];
  trials: number;
}

/** Each kind once, whatever its numbers are, with the points that say so; what was not measured as asked comes first. */
function verdictsOf({ points }: StudyData): Placed[] {
  const byKind = new Map<string, Placed>();
  const add = (key: string, verdict: MeasurementVerdict, point: string, trials: number): void => {
    const known = byKind.get(key);
    if (known) {
      known.trials += trials;
      if (!known.points.includes(point)) known.points.push(point);
    } else byKind.set(key, { ...verdict, points: [point], trials });
  };
  const withoutNumbers = (text: string): string => text.replace(/\d+(?:[.,]\d+)?/g, "#");
  for (const point of points) {
    for (const verdict of point.verdicts) add(`${verdict.kind} ${verdict.kind === "not_in_force" ? verdict.sentence : ""}`, verdict, point.label, verdict.trials);
    for (const [sentence, trials] of Object.entries(point.warnings)) add(withoutNumbers(sentence), { kind: "", sentence, remedy: "" }, point.label, trials);
  }
  return [...byKind.values()].sort((a, b) => Number(isRefused(b.kind)) - Number(isRefused(a.kind)) || b.trials - a.trials);
}

function where({ points, trials }: Placed): string {
  const named = points.length <= NAMED ? points.join("; ") : `${points.slice(0, NAMED).join("; ")}; and ${points.length - NAMED} other points`;
  return trials > 1 ? `the first of ${count(trials)} trials that say so, at ${named}` : named;
}
