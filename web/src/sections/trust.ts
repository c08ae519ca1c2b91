// What speaks for and against the measurement, before anything is drawn from it.

import { element } from "../element";
import { count, percent } from "../format";
import type { ReportData } from "../record";

interface Verdict {
  isGood: boolean;
  text: string;
  /** The strategy that it concerns. */
  of?: string;
  /** Something else was measured than was asked for. */
  isGrave?: boolean;
}

/** Repeats below which a spread says little. */
const FEW_REPEATS = 3;

export function trust(data: ReportData): HTMLElement {
  const verdicts = verdictsOf(data);
  const bad = grouped(verdicts.filter((one) => !one.isGood));
  const title = bad.length === 0 ? "Nothing speaks against these numbers" : `${bad.length === 1 ? "One thing speaks" : `${bad.length} things speak`} against these numbers`;
  return trustBox(title, bad.map((text) => item(false, text)), verdicts.filter((one) => one.isGood).map(({ text }) => item(true, text)));
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
export function trustBox(title: string, bad: HTMLElement[], good: HTMLElement[]): HTMLElement {
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
function grouped(verdicts: Verdict[]): string[] {
  const byText = new Map<string, string[]>();
  // Those who say it in the order in which they come; what concerns all strategies before what concerns one.
  for (const { text, of } of verdicts) byText.set(text, [...(byText.get(text) ?? []), ...(of === undefined ? [] : [of])]);
  const severity = (text: string): number => (verdicts.find((one) => one.text === text)?.isGrave ? 0 : 1);
  return [...byText].sort(([a, ofA], [b, ofB]) => severity(a) - severity(b) || ofB.length - ofA.length).map(([text, of]) => {
    if (of.length === 0) return text;
    return of.length === 1 ? `${of[0]}: ${text}` : `${text} (${of.length} strategies: ${of.join(", ")})`;
  });
}

function verdictsOf(data: ReportData): Verdict[] {
  const { run, summary } = data;
  const bad = (text: string): Verdict => ({ isGood: false, text });
  return [
    ...(run.ended_at === null ? [{ ...bad("The run did not end: it is still going on, or was stopped. Trials may be missing."), isGrave: true }] : []),
    ...run.warnings.map(bad),
    ...summary.strategies.flatMap((one) => one.caveats.map((text): Verdict => ({ ...bad(text), of: one.strategy }))),
    ...starts(data),
    ...limit(data),
    ...repeats(data),
    ...run.study.skipped_strategies.map(([strategy, how]) => ({ ...bad(`skipped: ${how}`), of: strategy })),
    { isGood: true, text: `The trials ran in random order (seed ${data.exact.seed}), each on a freshly started server.` },
  ];
}

/** Does a trial say otherwise? No tick stands beside a warning that contradicts it. */
const isDenied = ({ summary }: ReportData, words: string): boolean => summary.strategies.some((one) => one.caveats.some((caveat) => caveat.includes(words)));

function starts(data: ReportData): Verdict[] {
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

function limit(data: ReportData): Verdict[] {
  const { disk } = data.run.study;
  if (disk.not_enforced !== null) return [{ isGood: false, isGrave: true, text: `The disk ${disk.name} was asked for and is not in force: ${disk.not_enforced}` }];
  if (isDenied(data, "above its limit")) return [];
  const text = disk.riops === null && disk.rbps === null
    ? "The device was not limited: its bandwidth is not known, so there is no bound to compare with."
    : `The limit of the ${disk.name} disk held for the server and for every strategy alike.`;
  return [{ isGood: true, text }];
}

function repeats({ trials, summary }: ReportData): Verdict[] {
  const fewest = Math.min(...summary.strategies.map((one) => one.trials));
  if (trials.length === 0) return [{ isGood: false, isGrave: true, text: "No trial was kept." }];
  // The run's own warnings tell of a single one.
  if (fewest < FEW_REPEATS) return [];
  return [{ isGood: true, text: `Every strategy was tried at least ${fewest} times; medians are given with the smallest and the largest.` }];
}
