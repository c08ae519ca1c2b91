import { linkTo, readAddress, remember } from "../address";
import { type Appearance, Stage } from "../appearance";
import { ratiosPlan } from "../charts/bars";
import { figure } from "../charts/figure";
import { alarm, type Child, code, element, type Option, paragraph, select, table } from "../element";
import { ratio, ratioText } from "../format";
import { METRICS } from "../metrics";
import { seriesStyle } from "../palette";
import type { StudyData, StudyLine, SweepComparison } from "../../generated/record";
import { factsOf } from "../sections/facts";
import { againstBox } from "../sections/trust";
import type { Source } from "../source";

interface Side {
  id: string;
  /** `AXIS=VALUE,…`; empty for the whole study. */
  values: string;
}

export async function comparePage(source: Source, appearance: Appearance): Promise<HTMLElement[]> {
  const studies = (await source.studies()).filter((line) => line.damaged === null);
  const { query } = readAddress();
  const [a, b] = ["a", "b"].map((name): Side => ({ id: query.get(name) ?? studies[0]?.id ?? "", values: query.get(`${name}.values`) ?? "" })) as [Side, Side];
  let metric = query.get("metric") ?? "tps";
  const result = element("div", { "aria-live": "polite" });
  const show = async (): Promise<void> => {
    remember({ a: a.id, "a.values": a.values, b: b.id, "b.values": b.values, metric });
    result.replaceChildren(...await compared(source, appearance, a, b, metric).catch((error: unknown) => [alarm(error)]));
  };
  const form = element("form", { class: "sides", submit: (event) => { event.preventDefault(); void show(); } },
    sideForm("a", a, studies), sideForm("b", b, studies),
    select("compare-metric", "figure", METRICS.map(({ name, label }) => [name, label]), metric, (name) => { metric = name; void show(); }),
    element("button", { type: "submit" }, "Compare"));
  if (studies.length > 0 && (a.values !== "" || b.values !== "" || a.id !== b.id)) await show();
  return [
    element("h1", { tabindex: -1 }, "Two sides compared"),
    paragraph("lead", "B ÷ A in each cell, with its interval. A pair is two trials of one round. A side is a study, or a part of it: clients=4, or clients=4,disk=gp3."),
    form,
    result,
  ];
}

function sideForm(name: "a" | "b", side: Side, studies: StudyLine[]): HTMLElement {
  const options = studies.map(({ id, question }): Option => [id, `${question === "" ? "" : `${question} · `}${id}`]);
  const values = element("input", { id: `values-${name}`, type: "search", value: side.values, placeholder: "clients=4", input: () => { side.values = values.value.trim(); } });
  return element("fieldset", {}, element("legend", {}, name.toUpperCase()),
    select(`study-${name}`, "study", options, side.id, (id) => { side.id = id; }),
    element("label", { class: "choice" }, element("span", {}, "with these values"), values));
}

async function compared(source: Source, appearance: Appearance, a: Side, b: Side, metric: string): Promise<HTMLElement[]> {
  const written = ({ id, values }: Side): string => (values === "" ? id : `${id}:${values}`);
  const [comparison, studyA, studyB] = await Promise.all([source.compare(written(a), written(b), metric), source.study(a.id), source.study(b.id)]);
  const { cells, noise_floor: floor, verdicts } = comparison;
  const byName = new Map(cells.map(({ label, ratio }) => [label || "all", ratio]));
  const plan = ratiosPlan({
    title: "B ÷ A", about: `${comparison.b} ÷ ${comparison.a}.${floor === null ? "" : " The shaded area shows by how much repeated measurements of the same point differ."}`, floor,
    names: [...byName.keys()], quantities: [{ id: "B ÷ A", to: "equal", find: (name) => byName.get(name) ?? null }],
    style: (_, isDark) => seriesStyle(0, isDark),
  });
  return [
    ...(verdicts.length === 0 ? [] : [againstBox("Verdicts on this comparison", verdicts)]),
    ...(plan === null ? [] : [figure(plan, new Stage(appearance))]),
    ratioCells(comparison),
    ...(a.id === b.id ? [] : [element("h3", {}, "Differences between the two studies"), differences(studyA, studyB)]),
  ];
}

function ratioCells({ cells }: SweepComparison): HTMLElement {
  const rows = cells.map(({ label, ratio: found, p, p_holm: holm, smallest_detectable: least, cycles }): Child[] => [
    label || "all", ratioText(found), String(found.pairs), ratio(found.coverage), p.toFixed(4), holm.toFixed(4),
    least === null ? "–" : `${ratio(least)} ×`, cycles === 0 ? "whole trials" : String(cycles),
  ]);
  const titles = ["cell", "B ÷ A (×)", "pairs", "interval holds in (share of cases)", "p", "p (Holm)", "detectable", "checkpoint cycles"];
  return table("Ratios by cell", titles, rows, { id: "ratio-cells", className: "low" });
}

/** Facts of a study's run rather than its design. */
const OF_RUN = ["id", "started", "ended", "duration of the trials", "seed of the order", "SHA-256 of the study"];

function differences(a: StudyData, b: StudyData): HTMLElement {
  const [ofA, ofB] = [a, b].map((study) => new Map([
    ["question", study.subject], ...Object.values(factsOf(study)).flat().filter(([name]) => !OF_RUN.includes(name)),
    ["varies", study.sweep.varied.join(", ")], ["points × repeats", `${study.sweep.points} × ${study.sweep.repeats}`], ["the study file", JSON.stringify(study.sweep.study)],
  ])) as [Map<string, string>, Map<string, string>];
  const names = [...new Set([...ofA.keys(), ...ofB.keys()])].filter((name) => ofA.get(name) !== ofB.get(name));
  const link = ({ sweep }: StudyData): HTMLElement => element("a", { href: linkTo(["study", sweep.id]) }, sweep.id);
  const rows = names.map((name): Child[] => [name, code(ofA.get(name) ?? ""), code(ofB.get(name) ?? "")]);
  return table("Differences between the studies", ["", "A", "B"], [["study", link(a), link(b)], ...rows], { className: "pairs", texts: [0, 1, 2] });
}
