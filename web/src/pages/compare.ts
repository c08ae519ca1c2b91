// Two sides held against each other, in one study or in two: what the server computes of their trials.

import type { CustomSeriesOption, EChartsOption } from "echarts";
import type { Appearance } from "../appearance";
import { textStyle } from "../charts/engine";
import { type ChartPlan, figure, type View } from "../charts/figure";
import { type Child, element, table } from "../element";
import { ratioText, ratio as shortRatio } from "../format";
import { seriesStyle } from "../palette";
import { linkTo, readAddress, remember } from "../address";
import { METRICS } from "../metrics";
import type { Comparison, StudyData, StudyLine } from "../record";
import { badItem } from "../sections/trust";
import { select } from "../sections/pivot_bar";
import type { Source } from "../source";


interface Side {
  id: string;
  /** `AXIS=VALUE,…`; empty: the study as a whole. */
  values: string;
}

export async function comparePage(source: Source, appearance: Appearance): Promise<HTMLElement[]> {
  const studies = await source.studies();
  const { query } = readAddress();
  const side = (name: "a" | "b"): Side => ({ id: query.get(name) ?? studies[0]?.id ?? "", values: query.get(`${name}.values`) ?? "" });
  const sides = { a: side("a"), b: side("b") };
  let metric = query.get("metric") ?? "tps";
  const result = element("div", { "aria-live": "polite" });
  const show = async (): Promise<void> => {
    remember({ a: sides.a.id, "a.values": sides.a.values, b: sides.b.id, "b.values": sides.b.values, metric });
    const made = await compared(source, appearance, sides.a, sides.b, metric).catch((error: unknown) => [element("p", { class: "against", role: "alert" }, error instanceof Error ? error.message : String(error))]);
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
    figure(plan, appearance),
    cells(comparison),
    ...(a.id === b.id ? [] : [element("h3", {}, "What the two studies differ in"), differences(study_a, study_b)]),
  ];
}

const ROW = 30;

function ratios({ cells: all, a, b, noise_floor: floor }: Comparison): ChartPlan<Appearance> {
  return {
    id: "ratios", title: "B ÷ A", explanation: `${b} ÷ ${a}: a point is the median of the pairs, the line its interval; beyond the upright at 1 B is larger.${floor === null ? "" : " Within the shaded part equal sides of this study lie too."}`,
    unit: () => "B ÷ A (×), on the axis below", height: () => all.length * ROW + 70,
    option: (view) => ratioOption(view, all, floor),
    numbers: () => cells({ cells: all } as Comparison),
  };
}

function ratioOption(view: View<Appearance>, all: Comparison["cells"], floor: number | null): EChartsOption {
  const { theme } = view.state;
  const rows = [...all].reverse();
  const middle = (index: number): number => rows[index]?.ratio.median.at_least ?? 1;
  const ends = (index: number): [number, number] => {
    const interval = rows[index]?.ratio.interval;
    return [interval?.at_least ?? middle(index), interval?.at_most ?? middle(index)];
  };
  const extremes = [...rows.flatMap((_, index) => ends(index)), ...(floor === null ? [] : [1 / floor, floor])];
  // Ends that read well, whatever the intervals are.
  const least = Math.min(0.9, ...extremes);
  const [low, high] = [least > 0.2 ? Math.floor(least * 9.5) / 10 : least * 0.9, Math.ceil(Math.max(1.1, ...extremes) * 10.5) / 10];
  const whiskers: CustomSeriesOption = {
    type: "custom", id: "interval", silent: true, data: rows.map((_, index) => [...ends(index), index]), encode: { x: [0, 1], y: 2 },
    renderItem: (_, api) => {
      const [from, to] = [api.coord([api.value(0), api.value(2)]), api.coord([api.value(1), api.value(2)])] as [[number, number], [number, number]];
      return { type: "line", shape: { x1: from[0], y1: from[1], x2: to[0], y2: to[1] }, style: { stroke: theme.ink, lineWidth: 1.5 } };
    },
  };
  return {
    textStyle: textStyle(theme),
    grid: { left: 8, right: 24, top: 10, bottom: 30, containLabel: true },
    xAxis: { ...(high / low > 4 ? { type: "log" as const, logBase: 2 } : { type: "value" as const }), min: low, max: high, axisLabel: { color: theme.soft, formatter: shortRatio, hideOverlap: true }, splitLine: { lineStyle: { color: theme.rule } }, minInterval: 0.01, splitNumber: view.isNarrow ? 4 : 8 },
    yAxis: { type: "category", data: rows.map(({ label }) => (label === "" ? "all" : label)), axisTick: { show: false }, axisLine: { show: false }, axisLabel: { color: theme.ink, width: view.isNarrow ? 130 : 320, overflow: "break", fontSize: view.isNarrow ? 11 : 12, lineHeight: 13, interval: 0 } },
    tooltip: { trigger: "item", confine: true, transitionDuration: 0, backgroundColor: theme.paper, borderColor: theme.rule, textStyle: { color: theme.ink, fontSize: 12 },
      formatter: (params) => {
        const cell = rows[(Array.isArray(params) ? params[0] : params)?.dataIndex ?? 0];
        return cell ? element("div", { class: "pointer" }, element("p", {}, cell.label), element("p", {}, `${ratioText(cell.ratio)}, ${cell.ratio.pairs} pairs`)) : "";
      } },
    series: [whiskers, {
      type: "scatter", id: "median", symbolSize: 9, itemStyle: { color: seriesStyle(0, theme.isDark).color }, data: rows.map((_, index) => [middle(index), index]),
      markLine: { silent: true, symbol: "none", label: { show: false }, data: [{ xAxis: 1, lineStyle: { color: theme.soft, type: "solid", width: 1 } }] },
      ...(floor === null ? {} : { markArea: { silent: true, animation: false, itemStyle: { color: theme.soft, opacity: 0.16 }, data: [[{ xAxis: 1 / floor }, { xAxis: floor }]] } }),
    }],
  };
}

function cells({ cells: all }: Comparison): HTMLElement {
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
