// What speaks for and against the measurement, before anything is drawn from it.

import { element } from "../element";
import { count, percent } from "../format";
import { isRefused } from "../pivot";
import type { MeasurementVerdict, StudyData, Tournament } from "../../generated/record";

interface Remark {
  isGood: boolean;
  text: string;
  /** The strategy that it concerns. */
  of?: string;
  /** Something else was measured than was asked for. */
  isGrave?: boolean;
}

/** Repeats below which a spread says little. */
const FEW_REPEATS = 3;

export function trust(study: StudyData): HTMLElement {
  return study.tournament === null ? verdicts(study) : tournamentTrust(study.tournament, study.exact.seed);
}

function tournamentTrust(data: Tournament, seed: string): HTMLElement {
  const all = remarks(data, seed);
  const bad = grouped(all.filter((one) => !one.isGood));
  const title = bad.length === 0 ? "Nothing speaks against these numbers" : `${bad.length === 1 ? "One thing speaks" : `${bad.length} things speak`} against these numbers`;
  return trustBox(title, bad.map((text) => item(false, text)), all.filter((one) => one.isGood).map(({ text }) => item(true, text)));
}

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

/** The same text of several once, with how many say so and which. */
function grouped(verdicts: Remark[]): string[] {
  const byText = new Map<string, string[]>();
  // Those who say it in the order in which they come; what concerns all strategies before what concerns one.
  for (const { text, of } of verdicts) byText.set(text, [...(byText.get(text) ?? []), ...(of === undefined ? [] : [of])]);
  const severity = (text: string): number => (verdicts.find((one) => one.text === text)?.isGrave ? 0 : 1);
  return [...byText].sort(([a, ofA], [b, ofB]) => severity(a) - severity(b) || ofB.length - ofA.length).map(([text, of]) => {
    if (of.length === 0) return text;
    return of.length === 1 ? `${of[0]}: ${text}` : `${text} (${of.length} strategies: ${of.join(", ")})`;
  });
}

function remarks(data: Tournament, seed: string): Remark[] {
  const { run, summary } = data;
  const bad = (text: string): Remark => ({ isGood: false, text });
  return [
    ...(run.ended_at === null ? [{ ...bad("The run did not end: it is still going on, or was stopped. Trials may be missing."), isGrave: true }] : []),
    ...run.warnings.map(bad),
    ...summary.strategies.flatMap((one) => one.caveats.map((text): Remark => ({ ...bad(text), of: one.strategy }))),
    ...starts(data),
    ...limit(data),
    ...repeats(data),
    ...run.study.skipped_strategies.map(([strategy, how]) => ({ ...bad(`skipped: ${how}`), of: strategy })),
    { isGood: true, text: `The trials ran in random order (seed ${seed}), each on a freshly started server.` },
  ];
}

/** Does a trial say otherwise? No tick stands beside a warning that contradicts it. */
const isDenied = ({ summary }: Tournament, words: string): boolean => summary.strategies.some((one) => one.caveats.some((caveat) => caveat.includes(words)));

function starts(data: Tournament): Remark[] {
  const { trials } = data;
  const cold = trials.filter((trial) => trial.start_state.verdict === "cold").length;
  const shares = trials.map(({ start_state: state }) => (state.total_bytes > 0 ? state.os_resident_bytes / state.total_bytes : 0));
  const most = percent(Math.max(0, ...shares));
  if (cold === trials.length && isDenied(data, "a head start")) return [];
  return [{
    isGood: cold === trials.length,
    isGrave: true,
    text: `${count(cold)} of ${count(trials.length)} trials started cold: before the start at most ${most} of the database was measured in the page cache.`,
  }];
}

function limit(data: Tournament): Remark[] {
  const { disk } = data.run.study;
  if (disk.not_enforced !== null) return [{ isGood: false, isGrave: true, text: `The disk ${disk.name} was asked for and is not in force: ${disk.not_enforced}` }];
  if (isDenied(data, "above its limit")) return [];
  const text = disk.riops === null && disk.rbps === null
    ? "The device was not limited: its bandwidth is not known, so there is no bound to compare with."
    : `The limit of the ${disk.name} disk held for the server and for every strategy alike.`;
  return [{ isGood: true, text }];
}

function repeats({ trials, summary }: Tournament): Remark[] {
  const fewest = Math.min(...summary.strategies.map((one) => one.trials));
  if (trials.length === 0) return [{ isGood: false, isGrave: true, text: "No trial was kept." }];
  // The run's own warnings tell of a single one.
  if (fewest < FEW_REPEATS) return [];
  return [{ isGood: true, text: `Every strategy was tried at least ${fewest} times; medians are given with the smallest and the largest.` }];
}

/** Points that are named for one verdict; more are counted. */
const NAMED = 4;

function verdicts(study: StudyData): HTMLElement {
  const { sweep, trials } = study;
  const planned = sweep.points * sweep.repeats;
  const unfinished = sweep.ended_at === null ? [{ kind: "", sentence: `The study has not ended: it still runs, or was stopped. So far ${count(trials.length)} of ${count(planned)} trials are here.`, remedy: "" }] : [];
  const ofPoints = verdictsOf(study);
  const ofSweep = told(sweep).filter(({ sentence }) => !ofPoints.some((one) => one.sentence === sentence));
  const all = [...[...unfinished, ...ofSweep].map((verdict) => ({ verdict, place: "" })), ...ofPoints.map((verdict) => ({ verdict, place: where(verdict) }))];
  // What measured something else than was asked for comes first, whoever says it.
  const bad = all.sort((a, b) => Number(isRefused(b.verdict.kind)) - Number(isRefused(a.verdict.kind))).map(({ verdict, place }) => badItem(verdict, place));
  // No tick stands beside a warning that contradicts it.
  const here = unfinished.length === 0 ? `${count(trials.length)} of ${count(planned)} trials are here` : "Those that are here ran";
  const hasFailed = trials.some((trial) => trial.failure !== null) || ofPoints.some(({ kind }) => kind === "strategy_failed");
  const good = [item(true, `${here}, in random order within blocks (seed ${study.exact.seed}).`), ...(hasFailed ? [] : [item(true, "No trial failed.")])];
  const title = bad.length === 0 ? "Nothing speaks against these numbers" : `${bad.length === 1 ? "One thing speaks" : `${count(bad.length)} things speak`} against these numbers`;
  return trustBox(title, bad, good);
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
