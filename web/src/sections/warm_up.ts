import type { Appearance } from "../appearance";
import { type ChartPlan, figure } from "../charts/figure";
import { device, interference, latencies, resident, served, throughput } from "../charts/over_time";
import { heatMaps, sharesTable } from "../charts/residency";
import { isWarmUp, WarmersStage } from "../curve_stage";
import { relationsOf } from "../curves";
import { cell, type Child, element, fold, folded, keys, paragraph, section, swatch, table } from "../element";
import { bytes, compact, count, instant, range, ratio, ratioText, seconds, spread } from "../format";
import { spreadOf } from "../metrics";
import { StudyState } from "../pivot";
import type { Estimate, Fit, Judgement, LeastShare, Spread, StudyData, Traffic } from "../../generated/record";
import type { Source } from "../source";
import { isOfWarmers, ratiosOf, timesOf } from "./warmers";

export function warmUpSections(state: WarmersStage, study: StudyState): HTMLElement[] {
  const { traffic } = state.study;
  const [interferencePlan, ratioPlan] = [interference(traffic), ratiosOf(study.study)];
  const few = ["pgthaw", "nothing", state.names.find((name) => name !== "pgthaw" && name !== "nothing") ?? ""];
  const show = (text: string, names: string[]): HTMLElement => element("button", { type: "button", click: () => state.show(names) }, text);
  const legend = state.chips("Strategies in the charts", (name) => warmAfter(state, name), element("div", { class: "segments" }, show("all", state.names), show("the main three", few)));
  return [
    section("warming", "Warm-up of the server", legend, figure(throughput, state),
      fold("meanwhile", "Transactions, memory and device during the warm-up",
        figure(served, state), interferencePlan && figure(interferencePlan, state), interferencePlan && trafficTable(traffic),
        ...[resident, device, latencies].map((plan) => figure(plan, state)))),
    fold("result", "Times and ratios of every warmer", figure(timesOf(study.study), study), ratioPlan && figure(ratioPlan, study), achieved(state), verdicts(state)),
    residency(state),
  ];
}

function warmAfter(state: WarmersStage, name: string): string {
  const point = state.points.find(({ label }) => label === name);
  return spread(point === undefined ? null : spreadOf(point, "warm_after_seconds"), instant, `${state.longest} s`).median;
}

export async function firstChart(source: Source, appearance: Appearance, study: StudyData): Promise<HTMLElement[]> {
  const alone = { id: `first-${study.sweep.id}`, controls: [], explanation: "" };
  if (isWarmUp(study)) {
    const state = await WarmersStage.read(source, study, appearance);
    const legend = (): HTMLElement => keys(state.names.map((name) => [swatch(state.style(name)), `${name} ${warmAfter(state, name)}`]));
    return [figure<WarmersStage>({ ...throughput, ...alone, legend, height: () => 300 }, state)];
  }
  return isOfWarmers(study) ? [figure<StudyState>({ ...timesOf(study), ...alone } satisfies ChartPlan<StudyState>, new StudyState(study, appearance))] : [];
}

function residency(state: WarmersStage): HTMLElement {
  const relations = relationsOf(state.trials);
  return fold("residency", "Data in memory, before and after",
    paragraph("lead", "Each relation is divided into equal pieces. The stronger the colour, the more of a piece was resident at the start or at the end of the trial."),
    relations.length === 0 && paragraph("soft", "This page has no residency data."),
    ...heatMaps(state).map((plan) => figure(plan, state)),
    relations.length > 0 && folded(`All ${relations.length} relations as a table`, () => sharesTable(state, relations)));
}

function achieved(state: WarmersStage): HTMLElement {
  const { longest, bound } = state;
  const [limit, timesLimit] = [`${longest} s`, bound === null ? "" : ratio(longest / bound)];
  const all: [title: string, key: string, render: (value: number) => string, limit: string][] = [
    ["warm after", "warm_after_seconds", instant, limit], ["50 % after", "to_50_seconds", instant, limit], ["90 % after", "to_90_seconds", instant, limit],
    ["95 % after", "to_95_seconds", instant, limit], ["warm ÷ bound (×)", "bound_ratio", ratio, timesLimit],
    ["served until warm (transactions)", "served_until_warm", count, ""], ["served in total (transactions)", "served", count, ""],
    ["command took", "warmer_seconds", seconds, limit], ["read from the device (all processes)", "device_read_bytes", bytes, ""],
  ];
  const measures = all.filter(([, key]) => bound !== null || key !== "bound_ratio");
  const nameOf = (name: string): HTMLElement => {
    const made = element("span", { class: name === "pgthaw" ? "name subject" : "name" }, swatch(state.style(name)), name);
    state.subscribe(() => made.firstElementChild?.replaceWith(swatch(state.style(name))));
    return made;
  };
  const rows = state.points.map((point): Child[] => [nameOf(point.label), ...measures.map(([, key, render, limit]) => {
    const value = spreadOf(point, key);
    const told = spread(value, render, limit);
    return cell(told.median, told.range, value?.median === null ? "beyond" : "");
  })]);
  return table("Results of each warmer", ["warmer", ...measures.map(([title]) => title)], rows, { id: "achieved" });
}

function verdicts({ names, trials: all }: WarmersStage): HTMLElement {
  const trials = [...all].sort((a, b) => names.indexOf(a.name) - names.indexOf(b.name) || a.repeat - b.repeat);
  const rows = trials.map(({ name, repeat, judgement, no_verdict: why }): Child[] => [name, String(repeat), ...(judgement === null ? ["none", why ?? "", "–", "–"] : judged(judgement))]);
  return element("div", {},
    element("h3", {}, "Was the throughput ever steady?"),
    paragraph("soft", "The verdict of pgthaw judge on each trial. If only the workload warmed the server, pgthaw fits the model’s warm-up curve to the trial’s throughput. The parameters of this curve, each with its 95 % interval, are the time of a client’s transaction with nothing and with everything cached, and the number of pages that the workload uses. “Off by” is the typical deviation of the measured throughput from this curve."),
    table("Verdicts on the curves", ["warmer", "repeat", "verdict", "reason", "steady throughput (tps)", "fit"], rows, { id: "verdicts", className: "low", texts: [0, 2, 3, 5] }));
}

function judged({ verdict, undecided, reason, warmth, steady_from_seconds: from, steady_tps: steady, fit, no_fit: noFit }: Judgement): Child[] {
  const since = from === null ? "" : ` ${from < 0.05 ? "" : "from "}${instant(from)}`;
  const name = undecided === null ? verdict.replace("_", " ") : "not decided";
  const cold = warmth !== null && warmth.is_warm === false ? ", but cold" : "";
  return [`${name}${since}${cold}`, warmth === null ? reason : `${reason}; ${warmth.evidence}`, steady === null ? "–" : count(steady), fit === null ? `none: ${noFit ?? ""}` : parameters(fit)];
}

function parameters({ cold_seconds: cold, hit_seconds: hit, pages, residual_share: off }: Fit): HTMLElement {
  const milliseconds = (value: number): string => `${(1000 * value).toPrecision(3)} ms`;
  const interval = ({ low, high }: Estimate, render: (value: number) => string): string => (low === null || high === null ? "unknown" : range(render(low), render(high)));
  const values = `cold ${milliseconds(cold.value)}, warm ${milliseconds(hit.value)}, ${compact(pages.value)} pages; off by ${(100 * off).toFixed(1)} %`;
  return element("span", { class: "cell" }, values, element("span", { class: "range" }, [interval(cold, milliseconds), interval(hit, milliseconds), interval(pages, compact)].join(", ")));
}

function trafficTable({ deadline_seconds: deadline, warmers }: Traffic): HTMLElement {
  const share = (one: LeastShare | null): string => (one === null ? "–" : `${ratio(one.share)} in second ${one.second}${one.repeat === null ? "" : ` of round ${one.repeat}`}`);
  const median = (value: Spread | null): string => spread(value, count, "").median;
  const titles = [
    "warmer", "lowest second (÷ nothing)", "lowest of any round (÷ nothing)", "floor (÷ nothing)", "ahead in total from", "transactions served without a warmer (“nothing”) in the time that this warmer took to warm the server",
    "served in total ÷ nothing (×)",
  ];
  const later = deadline === null ? [] : [`served by ${seconds(deadline)} (transactions)`, "÷ nothing (×)", "pgthaw ÷ this warmer (×)"];
  const rows = warmers.map((one) => [
    one.strategy, share(one.lowest), share(one.least),
    one.floor === null || one.is_floor_held === null ? "–" : `${ratio(one.floor)} ${one.is_floor_held ? "held" : "missed"}`,
    one.ahead_from_second === null ? "never" : `second ${one.ahead_from_second}`, median(one.nothing_served_by_then), ratioText(one.served_ratio),
    ...(deadline === null ? [] : [median(one.served_by_deadline), ratioText(one.deadline_ratio), ratioText(one.pgthaw_ratio)]),
  ]);
  const note = deadline === null ? "" : ` ${seconds(deadline)} is 1.25 × the bound.`;
  return element("div", {},
    paragraph("soft", `The floor applies to the lowest second of all rounds. “Ahead”: from the end of this second to the end of the trial, the server had served more transactions in total than with “nothing”.${note}`),
    table("Throughput beside the warmer, in figures", [...titles, ...later], rows, { className: "low" }));
}

const DEFINITIONS: [string, string][] = [
  ["warm", "Fewer than 1 % of transactions read from the device, sustained to the end of the trial. Seconds count from the start of the workload, which starts together with the strategy. pgthaw finds the moment to a tenth of a second, from the workload’s reads."],
  ["50, 90, 95 %", "Whole seconds until throughput (its running median over a few seconds) reached this share of the steady level. The whole run has one steady level: the median over all warm seconds of all trials."],
  ["bound", "The bytes that the warm state has in the page cache, divided by the bandwidth of the disk: no warmer that reads them all can be faster."],
  ["served until warm", "Transactions served until the server was warm, or in the whole trial if it never was. The column for “nothing” counts its transactions until the same time."],
  ["medians and ranges", "Over the repeats. A repeat that ended too early to measure the time counts as longer than all others. If the median or an end of the range is unknown, “>” and the trial’s length are shown."],
  ["ratios", "Ratios of the two trials of one round, whose order is random, so a drift of the machine affects both. The interval is that of the sign test, which assumes no distribution: the interval omits as many of the lowest and as many of the highest ratios as its confidence level allows. If a trial ended too early to measure the time, the ratio is a limit: “<” or “>”."],
  ["device read", "Bytes that all processes read from the device in the whole trial, as counted by the kernel."],
  ["resident", "Measured with cachestat and mincore on the relations' files; shared_buffers with pg_buffercache. Pages whose read is still queued count as resident: a strategy that only requests read-ahead seems to be done long before its data arrives."],
];

export const method = ({ sweep }: StudyData): HTMLElement => fold("method", "How the numbers were measured",
  element("dl", { class: "method" }, ...DEFINITIONS.flatMap(([term, text]) => [element("dt", {}, term), element("dd", {}, text)])),
  paragraph("soft", `Made by pgthaw ${sweep.pgthaw_version}. This file needs no network and sends nothing. It draws with Apache ECharts (Apache-2.0) and zrender (BSD-3-Clause), whose notices and licences are in its script.`));
