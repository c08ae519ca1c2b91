// Two sides held against each other, in one study or in two: what the server computes of their trials.

import type { Appearance } from "../appearance";
import { type ChartPlan, figure } from "../charts/figure";
import { ratiosPlan } from "../charts/ratios";
import { type Child, element, table } from "../element";
import { ratioText, ratio as shortRatio } from "../format";
import { seriesStyle } from "../palette";
import { linkTo, readAddress, remember } from "../address";
import { METRICS } from "../metrics";
import type { SweepComparison, StudyData, StudyLine } from "../../generated/record";
import { badItem } from "../sections/trust";
import { select } from "../sections/pivot_bar";
import type { Source } from "../source";


interface Side {
  id: string;
  /** `AXIS=VALUE,…`; empty: the study as a whole. */
  values: string;
}

export async function comparePage(source: Source, appearance: Appearance): Promise<HTMLElement[]> {
  const studies = (await source.studies()).filter((line) => line.damaged === null);
  const { query } = readAddress();
  const side = (name: "a" | "b"): Side => ({ id: query.get(name) ?? studies[0]?.id ?? "", values: query.get(`${name}.values`) ?? "" });
  const sides = { a: side("a"), b: side("b") };
  let metric = query.get("metric") ?? "tps";
  const result = element("div", { "aria-live": "polite" });
  const show = async (): Promise<void> => {
    remember({ a: sides.a.id, "a.values": sides.a.values, b: sides.b.id, "b.values": sides.b.values, metric });
    const made: HTMLElement[] = await compared(source, appearance, sides.a, sides.b, metric).catch((error: unknown) => [element("p", { class: "against", role: "alert" }, error instanceof Error ? error.message : String(error))]);
    result.replaceChildren(...made);
  };
  const form = element(
    "form",
    { class: "sides", submit: (event) => { event.preventDefault(); void show(); } },
    ...(["a", "b"] as const).map((name) => sideForm(name, sides[name], studies)),
    select("compare-metric", "figure", METRICS.map(({ id, label }) => [id, label]), metric, (id) => { metric = id; void show(); }),
    element("button", { type: "submit" }, "Compare"),
  );
  if (studies.length > 0 && (sides.a.values !== "" || sides.b.values !== "" || sides.a.id !== sides.b.id)) await show();
  return [
    element("h1", { tabindex: -1 }, "Two sides held against each other"),
    element("p", { class: "lead" }, "B ÷ A in each cell, over the pairs of trials of one block, with what chance leaves open. A side is a study, or the part of it with certain values: clients=4, or clients=4,disk=gp3."),
    form,
    result,
  ];
}

function sideForm(name: "a" | "b", side: Side, studies: StudyLine[]): HTMLElement {
  const label = name.toUpperCase();
  const options = studies.map((line): [string, string] => [line.id, `${line.question === "" ? "" : `${line.question} · `}${line.id}`]);
  const values = element("input", { id: `values-${name}`, type: "search", value: side.values, placeholder: "clients=4", input: () => { side.values = values.value.trim(); } });
  return element(
    "fieldset",
    {},
    element("legend", {}, label),
    select(`study-${name}`, "study", options, side.id, (id) => { side.id = id; }),
    element("label", { class: "choice" }, element("span", {}, "with these values"), values),
  );
}

const written = ({ id, values }: Side): string => (values === "" ? id : `${id}:${values}`);

async function compared(source: Source, appearance: Appearance, a: Side, b: Side, metric: string): Promise<HTMLElement[]> {
  const [comparison, study_a, study_b] = await Promise.all([source.compare(written(a), written(b), metric), source.study(a.id), source.study(b.id)]);
  const plan = ratios(comparison);
  const against = comparison.verdicts.map((one) => badItem(one));
  return [
    ...(against.length === 0 ? [] : [element("section", { class: "trust warned" }, element("h2", {}, "What speaks against it"), element("ul", {}, ...against))]),
    ...(plan === null ? [] : [figure(plan, appearance)]),
    cells(comparison),
    ...(a.id === b.id ? [] : [element("h3", {}, "What the two studies differ in"), differences(study_a, study_b)]),
  ];
}

/** In the colour of a first series: there is one alone. */
function ratios({ cells: all, a, b, noise_floor: floor }: SweepComparison): ChartPlan<Appearance> | null {
  const byName = new Map(all.map(({ label, ratio }) => [label === "" ? "all" : label, ratio]));
  return ratiosPlan<Appearance>({
    title: "B ÷ A", about: `${b} ÷ ${a}.${floor === null ? "" : " Within the shaded part equal sides of this study lie too."}`, floor,
    names: [...byName.keys()],
    quantities: [{ id: "all", label: "B ÷ A", to: "equal", find: (name) => byName.get(name) ?? null }],
    style: ({ isDark }) => ({ style: seriesStyle(0, isDark), opacity: 1 }),
  });
}

function cells({ cells: all }: SweepComparison): HTMLElement {
  const columns = ["cell", "B ÷ A (×)", "pairs", "interval holds in (of cases)", "p", "p (Holm)", "detectable", "checkpoint cycles"].map((title, index) => ({ title, isNumber: index > 0 }));
  const rows = all.map((cell): Child[] => [
    cell.label === "" ? "all" : cell.label, ratioText(cell.ratio), String(cell.ratio.pairs), shortRatio(cell.ratio.coverage), cell.p.toFixed(4), cell.p_holm.toFixed(4),
    cell.smallest_detectable === null ? "–" : `${shortRatio(cell.smallest_detectable)} ×`, cell.cycles === 0 ? "whole trials" : String(cell.cycles),
  ]);
  const made = table("Ratios by cell", columns, rows, "low");
  made.id = "ratio-cells";
  return made;
}

function differences(a: StudyData, b: StudyData): HTMLElement {
  const factsOf = ({ subject, sweep }: StudyData): [string, string][] => [
    ["question", subject], ["host", sweep.machine.hostname], ["kernel", sweep.machine.kernel], ["processor", `${sweep.machine.cores} × ${sweep.machine.cpu_model}`],
    ["file system", sweep.machine.file_system], ["device", sweep.machine.device.name], ["PostgreSQL", sweep.server.version], ["pgbench", sweep.pgbench_version],
    ["pgthaw", sweep.pgthaw_version], ["varies", sweep.varied.join(", ")], ["points × repeats", `${sweep.points} × ${sweep.repeats}`], ["the study file", JSON.stringify(sweep.study)],
  ];
  const others = factsOf(b);
  const rows = factsOf(a).flatMap(([name, value], index): Child[][] => {
    const other = others[index]?.[1] ?? "";
    return value === other ? [] : [[name, element("code", {}, value), element("code", {}, other)]];
  });
  const link = ({ sweep }: StudyData): HTMLElement => element("a", { href: linkTo(["study", sweep.id]) }, sweep.id);
  return element("div", {}, table("What the studies differ in", ["", "A", "B"].map((title) => ({ title, isNumber: false })), [["study", link(a), link(b)], ...rows], "pairs"));
}
