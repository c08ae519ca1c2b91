// The question, the answer, and what speaks against it.

import { element } from "../../element";
import { count, ratio, time, unbroken } from "../../format";
import { trustBox } from "../../sections/trust";
import { P99, rangeText, TPS, WORST } from "../metrics";
import { type Axis, axesOf, doubtOf, isRefused } from "../pivot";
import type { MeasurementVerdict, PointSummary, StudyData } from "../record";

export function head(study: StudyData): HTMLElement {
  const { sweep } = study;
  return element(
    "header",
    { class: "head" },
    element("h1", { tabindex: -1 }, sweep.question === "" ? `Study ${sweep.id}` : sweep.question),
    element("p", { class: "answer" }, unbroken(study.headline)),
    figures(study),
    element("p", { class: "study" }, [
      `study ${sweep.id}`,
      time(sweep.started_at),
      `PostgreSQL ${sweep.server.version.split(" ")[0] ?? ""} on ${sweep.machine.hostname}`,
      `${count(sweep.points)} points × ${sweep.repeats} repeats`,
      ...axesOf(study).map(axisText),
    ].join(" · ")),
  );
}

/** The best point, and what it is held against: the last one, and what its users waited. */
function figures({ points }: StudyData): HTMLElement | null {
  const served = (point: PointSummary): number => TPS.of(point)?.median ?? 0;
  const measured = points.filter((point) => TPS.of(point) !== null && doubtOf(point) !== "refused").sort((a, b) => served(b) - served(a));
  const [best, last] = [measured[0], measured.at(-1)];
  if (!best || !last) return null;
  const figure = (name: string, value: string, note: string): HTMLElement => element("div", {}, element("dt", {}, name), element("dd", {}, value), element("dd", { class: "note" }, note));
  const spread = (point: PointSummary): string => {
    const range = TPS.of(point);
    return [point.label, range === null ? "" : rangeText(range, TPS.render)].filter((text) => text !== "").join("; ");
  };
  const [p99, worst] = [P99.of(best), WORST.of(best)];
  return element(
    "dl",
    { class: "figures", "aria-label": "The study in figures" },
    figure("most, transactions per second", count(served(best)), spread(best)),
    ...(last === best ? [] : [
      figure("least, transactions per second", count(served(last)), spread(last)),
      figure("most ÷ least", served(last) > 0 ? `${ratio(served(best) / served(last))} ×` : "–", `of ${count(measured.length)} points, medians of their trials`),
    ]),
    figure("99th percentile where most are served", p99 === null ? "–" : P99.render(p99.median), worst === null ? "" : `worst second ${count(worst.median)} transactions`),
  );
}

/** Long lists of values are told by their ends. */
function axisText({ name, values }: Axis): string {
  return values.length <= 6 ? `${name} ${values.join(", ")}` : `${name} ${values[0] ?? ""} to ${values.at(-1) ?? ""} (${values.length} values)`;
}

/** Points that are named for one verdict; more are counted. */
const NAMED = 4;

export function verdicts(study: StudyData): HTMLElement {
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
  const good = [goodItem(`${here}, in random order within blocks (seed ${study.exact.seed}).`), ...(hasFailed ? [] : [goodItem("No trial failed.")])];
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

function goodItem(text: string): HTMLElement {
  return element("li", { class: "good" }, element("span", { class: "mark", "aria-hidden": "true" }, "✓"), element("span", { class: "unseen" }, "In order: "), text);
}

interface Verdict extends MeasurementVerdict {
  points: string[];
  trials: number;
}

/** Each kind once, whatever its numbers are, with the points that say so; what was not measured as asked comes first. */
function verdictsOf({ points }: StudyData): Verdict[] {
  const byKind = new Map<string, Verdict>();
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

function where({ points, trials }: Verdict): string {
  const named = points.length <= NAMED ? points.join("; ") : `${points.slice(0, NAMED).join("; ")}; and ${points.length - NAMED} other points`;
  return trials > 1 ? `the first of ${count(trials)} trials that say so, at ${named}` : named;
}
