// What speaks for and against the measurement, before anything is drawn from it.

import { element } from "../element";
import { count, percent } from "../format";
import type { ReportData } from "../record";

interface Verdict {
  isGood: boolean;
  text: string;
}

/** Repeats below which a spread says little. */
const FEW_REPEATS = 3;

export function trust(data: ReportData): HTMLElement {
  const verdicts = verdictsOf(data);
  const against = verdicts.filter((one) => !one.isGood).length;
  const title = against === 0 ? "Nothing speaks against these numbers" : `${against === 1 ? "One thing speaks" : `${against} things speak`} against these numbers`;
  // What is wrong comes first.
  const items = [...verdicts].sort((a, b) => Number(a.isGood) - Number(b.isGood)).map((verdict) =>
    element(
      "li",
      { class: verdict.isGood ? "good" : "bad" },
      element("span", { class: "mark", "aria-hidden": "true" }, verdict.isGood ? "✓" : "!"),
      element("span", { class: "unseen" }, verdict.isGood ? "In order: " : "Warning: "),
      verdict.text,
    ),
  );
  return element(
    "section",
    { class: against === 0 ? "trust" : "trust warned", "aria-labelledby": "trust" },
    element("h2", { id: "trust" }, title),
    element("ul", {}, ...items),
  );
}

function verdictsOf(data: ReportData): Verdict[] {
  const { run, summary } = data;
  const bad = (text: string): Verdict => ({ isGood: false, text });
  return [
    ...(run.ended_at === null ? [bad("The run did not end: it is still going on, or was stopped. Trials may be missing.")] : []),
    ...run.warnings.map(bad),
    ...summary.strategies.flatMap((one) => one.caveats.map((caveat) => bad(`${one.strategy}: ${caveat}`))),
    ...starts(data),
    ...limit(data),
    ...repeats(data),
    ...run.study.skipped_strategies.map(([strategy, how]) => bad(`${strategy} was skipped: ${how}`)),
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
    text: `${count(cold)} of ${count(trials.length)} trials started cold: before the start at most ${most} of the database was measured in the page cache.`,
  }];
}

function limit(data: ReportData): Verdict[] {
  const { disk } = data.run.study;
  if (disk.not_enforced !== null) return [{ isGood: false, text: `The disk ${disk.name} was asked for and is not in force: ${disk.not_enforced}` }];
  if (isDenied(data, "above its limit")) return [];
  const text = disk.riops === null && disk.rbps === null
    ? "The device was not limited: its bandwidth is not known, so there is no bound to compare with."
    : `The limit of the ${disk.name} disk held for the server and for every strategy alike.`;
  return [{ isGood: true, text }];
}

function repeats({ trials, summary }: ReportData): Verdict[] {
  const fewest = Math.min(...summary.strategies.map((one) => one.trials));
  if (trials.length === 0) return [{ isGood: false, text: "No trial was kept." }];
  // The run's own warnings tell of a single one.
  if (fewest < FEW_REPEATS) return [];
  return [{ isGood: true, text: `Every strategy was tried at least ${fewest} times; medians are given with the smallest and the largest.` }];
}
