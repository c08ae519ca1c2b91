// The question, the answer, and what speaks against it.

import { element } from "../../element";
import { count, time, unbroken } from "../../format";
import { type Axis, axesOf } from "../pivot";
import type { StudyData } from "../record";

export function head(study: StudyData): HTMLElement {
  const { sweep } = study;
  return element(
    "header",
    { class: "head" },
    element("h1", { tabindex: -1 }, sweep.question === "" ? `Study ${sweep.id}` : sweep.question),
    element("p", { class: "answer" }, unbroken(study.headline)),
    element("p", { class: "study" }, [
      `study ${sweep.id}`,
      time(sweep.started_at),
      `PostgreSQL ${sweep.server.version.split(" ")[0] ?? ""} on ${sweep.machine.hostname}`,
      `${count(sweep.points)} points × ${sweep.repeats} repeats`,
      ...axesOf(study).map(axisText),
    ].join(" · ")),
  );
}

/** Long lists of values are told by their ends. */
function axisText({ name, values }: Axis): string {
  return values.length <= 6 ? `${name} ${values.join(", ")}` : `${name} ${values[0] ?? ""} to ${values.at(-1) ?? ""} (${values.length} values)`;
}

interface Verdict {
  text: string;
  points: string[];
  trials: number;
}

/** Points that are named for one warning; more are counted. */
const NAMED = 4;

export function verdicts(study: StudyData): HTMLElement {
  const { sweep, trials } = study;
  const found = verdictsOf(study);
  const own = [
    ...(sweep.ended_at === null ? ["The study has not ended: it still runs, or was stopped. Trials may be missing."] : []),
    ...sweep.warnings,
  ];
  const against = own.length + found.length;
  const bad = [...own, ...found.map(textOf)].map((text) => item(false, text));
  const good = [
    item(true, `${count(trials.length)} of ${count(sweep.points * sweep.repeats)} trials are here, in random order within blocks (seed ${study.exact.seed}).`),
    ...(trials.some((trial) => trial.failure !== null) ? [] : [item(true, "No trial failed.")]),
  ];
  const title = against === 0 ? "Nothing speaks against these numbers" : `${against === 1 ? "One thing speaks" : `${count(against)} things speak`} against these numbers`;
  return element("section", { class: against === 0 ? "trust" : "trust warned", "aria-labelledby": "trust" }, element("h2", { id: "trust" }, title), list(bad, good));
}

const LISTED = 12;

function list(bad: HTMLElement[], good: HTMLElement[]): HTMLElement {
  if (bad.length <= LISTED) return element("ul", {}, ...bad, ...good);
  const rest = element("details", {}, element("summary", {}, `${bad.length - LISTED} more`), element("ul", {}, ...bad.slice(LISTED)));
  return element("div", {}, element("ul", {}, ...bad.slice(0, LISTED)), rest, element("ul", {}, ...good));
}

function item(isGood: boolean, text: string): HTMLElement {
  return element("li", { class: isGood ? "good" : "bad" },
    element("span", { class: "mark", "aria-hidden": "true" }, isGood ? "✓" : "!"),
    element("span", { class: "unseen" }, isGood ? "In order: " : "Warning: "), text);
}

/** Each text once, whatever its numbers are, with the points that say so. */
function verdictsOf({ points }: StudyData): Verdict[] {
  const byKind = new Map<string, Verdict>();
  for (const point of points) {
    for (const [text, trials] of Object.entries(point.warnings)) {
      const kind = text.replace(/\d+(?:[.,]\d+)?/g, "#");
      const known = byKind.get(kind);
      if (known) {
        known.trials += trials;
        if (!known.points.includes(point.label)) known.points.push(point.label);
      } else byKind.set(kind, { text, points: [point.label], trials });
    }
  }
  return [...byKind.values()].sort((a, b) => b.trials - a.trials);
}

function textOf({ text, points, trials }: Verdict): string {
  const named = points.length <= NAMED ? points.join("; ") : `${points.slice(0, NAMED).join("; ")}; and ${points.length - NAMED} other points`;
  return `${trials > 1 ? `${count(trials)} trials, of which the first: ` : ""}${text} (${named})`;
}
