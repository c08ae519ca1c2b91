// Two points beside each other: figures, and the settings in which they differ.

import { type Child, element, table } from "../element";
import { ratio } from "../format";
import { readAddress, remember } from "../address";
import { columnOf, metricsOf } from "../metrics";
import type { PointSummary, SweepTrial } from "../../generated/record";
import type { Source } from "../source";
import type { StudyState } from "../state";
import { select } from "./pivot_bar";

/** `null`: there is nothing to compare with. */
export function beside(state: StudyState, source: Source): HTMLElement | null {
  const { points } = state.study;
  const [first, second] = points;
  if (!first || !second) return null;
  const { query } = readAddress();
  const numberOf = (name: string, standard: PointSummary): number => points.find((point) => String(point.number) === query.get(name))?.number ?? standard.number;
  const chosen = { a: numberOf("a", first), b: numberOf("b", second) };
  const result = element("div", { "aria-live": "polite" });
  const options = points.map((point): [string, string] => [String(point.number), point.label]);
  const choose = (side: "a" | "b") => (value: string) => {
    chosen[side] = Number(value);
    remember({ [side]: value });
    void show();
  };
  const show = async (): Promise<void> => {
    const [a, b] = [chosen.a, chosen.b].map((number) => points.find((point) => point.number === number)) as [PointSummary, PointSummary];
    const details = await Promise.all([a, b].map((point) => detailOf(state, source, point)));
    result.replaceChildren(figuresOf(state, a, b), ...differencesOf(a, b, details));
  };
  void show();
  return element(
    "div",
    { id: "beside" },
    element("h3", {}, "Two points beside each other"),
    element("p", { class: "lead" }, "Medians, and what differs in the settings that the server said were in force. pgthaw results compare says whether chance could have made the difference."),
    element("div", { class: "pivot" }, select("beside-a", "A", options, String(chosen.a), choose("a")), select("beside-b", "B", options, String(chosen.b), choose("b"))),
    result,
  );
}

async function detailOf(state: StudyState, source: Source, point: PointSummary): Promise<SweepTrial | null> {
  const trial = state.study.trials.find((one) => one.number === point.number && one.failure === null);
  if (!trial) return null;
  return (await source.trial(state.study.sweep.id, trial.number, trial.repeat).catch(() => null))?.trial ?? null;
}

function figuresOf(state: StudyState, a: PointSummary, b: PointSummary): HTMLElement {
  const rows = metricsOf(state.study).map((metric): Child[] => {
    const [of_a, of_b] = [metric.of(a), metric.of(b)];
    const shown = [of_a, of_b].map((range) => (range === null ? "–" : metric.render(range.median)));
    const quotient = of_a !== null && of_b !== null && of_a.median > 0 && Number.isFinite(of_a.median) && Number.isFinite(of_b.median) ? `${ratio(of_b.median / of_a.median)} ×` : "–";
    return [columnOf(metric), ...shown, quotient];
  });
  return table("Figures of both", ["figure", "A", "B", "B ÷ A (×)"].map((title, index) => ({ title, isNumber: index > 0 })), rows, "pairs");
}

function differencesOf(a: PointSummary, b: PointSummary, [of_a, of_b]: (SweepTrial | null)[]): HTMLElement[] {
  if (!of_a || !of_b) return [element("p", { class: "soft" }, `The settings of ${of_a ? b.label : a.label} are not here.`)];
  const rows = settingDifferences(of_a, of_b).map(([name, one, other]): Child[] => [element("code", {}, name), code(one), code(other)]);
  if (rows.length === 0) return [element("p", { class: "soft" }, "No setting differs.")];
  return [table("Settings that differ", ["setting", "A", "B"].map((title) => ({ title, isNumber: false })), rows, "pairs")];
}

const code = (value: string | null): HTMLElement => (value === null ? element("span", { class: "soft" }, "the default") : element("code", {}, value));

/** What was asked for and what the server said, by name; null: as the server is by default. */
export function settingDifferences(a: SweepTrial, b: SweepTrial): [string, string | null, string | null][] {
  const of = (trial: SweepTrial): Map<string, string> => new Map([
    ...Object.entries(trial.point).filter(([, value]) => value !== null && typeof value !== "object").map(([name, value]): [string, string] => [name, String(value)]),
    ...((trial.point["variables"] ?? []) as [string, string][]).map(([name, value]): [string, string] => [`-D ${name}`, value]),
    ...trial.settings,
  ]);
  const [one, other] = [of(a), of(b)];
  const names = [...new Set([...one.keys(), ...other.keys()])];
  return names.filter((name) => one.get(name) !== other.get(name)).map((name) => [name, one.get(name) ?? null, other.get(name) ?? null]);
}
