// One trial: its curves on one time axis, and everything that was kept of it.

import type { Appearance } from "../appearance";
import { figure } from "../charts/figure";
import { type Child, card, element, folded, heading, settingsTable, table } from "../element";
import { bandwidth, bytes, count, latency, percent, range, seconds, time } from "../format";
import { linkTo } from "../address";
import { coursesOf, relationCourses } from "../charts/relations";
import { TrialStage, trialChart } from "../charts/trial_chart";
import { stalls } from "../charts/trial_marks";
import { looksOf } from "../charts/trial_panels";
import { metricOf } from "../metrics";
import type { LatencyHistogram, StudyData, SweepTrial, TrialData, TrialOutline } from "../../generated/record";
import { settingDifferences } from "../sections/beside";
import { timeOfTrial } from "../sections/time";
import { badItem, told } from "../sections/trust";
import { select } from "../sections/pivot_bar";
import type { Source } from "../source";

/** `wanted` are the point's number and the repeat; `beside` is another trial of the study, `NUMBER-REPEAT`. */
export async function trialPage(source: Source, appearance: Appearance, id: string, wanted: [number, number], beside: string | null): Promise<HTMLElement[]> {
  const study = await source.study(id);
  const [number, repeat] = wanted;
  const outline = study.trials.find((one) => one.number === number && one.repeat === repeat);
  if (!outline) throw new Error(`the study has no trial ${repeat} of point ${number}`);
  const [data, other] = await Promise.all([source.trial(id, number, repeat), otherTrial(source, id, beside)]);
  const label = labelOf(study, number);
  const top = [crumbs(study, label), ...heading(label), element("p", { class: "study" }, summary(outline)), siblings(study, outline, beside)];
  if (data === null) return [...top, element("p", {}, "This page has the figures of its trials and not their curves: pgthaw serve shows those too.")];
  const stage = new TrialStage(appearance, data, other, study.measures);
  const curves = data.series.second.length > 0 || looksOf(data.trial).length > 0 ? figure(trialChart, stage) : element("p", {}, "No second of it was kept.");
  const relations = coursesOf(data).length > 0 ? [figure(relationCourses, stage)] : [];
  return [...top, warnings(data.trial), curves, ...relations, ...(looksOf(data.trial).length > 0 ? [] : [stalls(data) ?? []].flat()), ...details(data, other)];
}

async function otherTrial(source: Source, id: string, beside: string | null): Promise<TrialData | null> {
  const found = /^(\d+)-(\d+)$/.exec(beside ?? "");
  return found ? source.trial(id, Number(found[1]), Number(found[2])) : null;
}

const labelOf = (study: StudyData, number: number): string => study.points.find((point) => point.number === number)?.label ?? `point ${number}`;

function crumbs({ subject, sweep }: StudyData, label: string): HTMLElement {
  return element("nav", { class: "crumbs", "aria-label": "Where this is" }, element("a", { href: linkTo(["study", sweep.id]) }, subject === "" ? sweep.id : subject), " / ", label);
}

/** Of its figures, those that stand at its head. */
const TOLD = ["tps", "worst-second", "p99", "warm-after", "to-50", "resident-after", "buffers-after", "bound-ratio", "load-rate"];

function summary(trial: TrialOutline): string {
  return [
    `repeat ${trial.repeat}, number ${trial.position} in the order of the study`,
    time(trial.started_at),
    trial.start_verdict === null ? "did not start" : `started ${trial.start_verdict}`,
    ...TOLD.map(metricOf).flatMap(({ key, label, render }) => (typeof trial[key] === "number" ? [`${label} ${render(trial[key])}`] : [])),
  ].join(" · ");
}

/** The other repeats, the trials before and after, and which trial is held beside. */
function siblings(study: StudyData, shown: TrialOutline, beside: string | null): HTMLElement {
  const link = (trial: TrialOutline): string => linkTo(["study", study.sweep.id, "trial", trial.number, trial.repeat], beside === null ? {} : { with: beside });
  const repeats = study.trials.filter((one) => one.number === shown.number).sort((a, b) => a.repeat - b.repeat);
  const byPosition = (step: number): TrialOutline | undefined => study.trials.find((one) => one.position === shown.position + step);
  const [before, after] = [byPosition(-1), byPosition(1)];
  const others = study.trials.filter((one) => one !== shown && one.failure === null).slice(0, 500);
  const options: [string, string][] = [["", "nothing"], ...others.map((one): [string, string] => [`${one.number}-${one.repeat}`, `${labelOf(study, one.number)}, repeat ${one.repeat}`])];
  const chosen = select("beside-trial", "beside it", options, beside ?? "", (value) => {
    location.hash = linkTo(["study", study.sweep.id, "trial", shown.number, shown.repeat], value === "" ? {} : { with: value }).slice(1);
  });
  return element(
    "div",
    { class: "pivot" },
    element("nav", { class: "repeats", "aria-label": "Repeats of this point" }, element("span", { class: "soft" }, "repeat "),
      ...repeats.map((one) => element("a", { href: link(one), "aria-current": one === shown ? "page" : null }, String(one.repeat)))),
    before !== undefined && element("a", { href: link(before) }, "the trial before"),
    after !== undefined && element("a", { href: link(after) }, "the trial after"),
    chosen,
  );
}

function warnings(trial: SweepTrial): HTMLElement {
  const failed = trial.failure === null ? [] : [{ kind: "", sentence: `It failed: ${trial.failure}`, remedy: "" }];
  const all = [...failed, ...told(trial)];
  if (all.length === 0) return element("p", { class: "soft" }, "The trial says nothing against itself.");
  return element("section", { class: "trust warned" }, element("h2", {}, "What the trial says against itself"), element("ul", {}, ...all.map((one) => badItem(one))));
}

function details({ trial, series }: TrialData, other: TrialData | null): HTMLElement[] {
  return [
    element("section", { "aria-labelledby": "kept" }, element("h2", { id: "kept" }, "What was kept of it"),
      element("div", { class: "cards" }, workload(trial), start(trial), reads(trial), flushes(series), broughtBack(trial)),
      devices(trial),
      warmer(trial),
      ...(trial.command === "" ? [] : [element("h3", {}, "pgbench"), element("pre", {}, trial.command), hosts(trial)])),
    ...(trial.latency === null ? [] : [element("section", { "aria-labelledby": "latencies" }, element("h2", { id: "latencies" }, "Latency"), latencies(trial))]),
    ...[timeOfTrial(trial) ?? []].flat(),
    element("section", { "aria-labelledby": "server" }, element("h2", { id: "server" }, "What the server counted"), checkpoints(trial), statistics(trial), buffers(trial)),
    element("section", { "aria-labelledby": "settings" }, element("h2", { id: "settings" }, "Settings"), ...settings(trial, other?.trial ?? null)),
  ];
}

function workload(trial: SweepTrial): HTMLElement {
  const named = Object.entries(trial.point).filter(([, value]) => value !== null && !Array.isArray(value)).map(([name, value]): [string, string] => [name, String(value)]);
  return card("Point", named);
}

function start(trial: SweepTrial): HTMLElement {
  const { start_state: state, lasted_seconds: lasted, transactions, failed, skipped, retries, checkpoint_cycles: cycles, cycle_tps: cycle } = trial;
  const served: [string, string][] = [
    ["transactions", count(transactions)],
    ["failed", count(failed)],
    ["skipped", count(skipped)],
    ["tried again", count(retries)],
    ["whole cycles of checkpoints", cycle === null ? count(cycles) : `${count(cycles)}, with ${count(cycle)} transactions per second`],
  ];
  return card("Trial", [
    ["started", state === null ? "not" : `${state.verdict}: ${percent(state.total_bytes > 0 ? state.os_resident_bytes / state.total_bytes : 0)} of ${bytes(state.total_bytes)} in the page cache`],
    ["lasted", seconds(lasted)],
    ...jobOf(trial),
    ...(looksOf(trial).length > 0 ? [] : served),
  ]);
}

/** What each device did, where parts of the server have devices of their own. */
function devices({ devices: all }: SweepTrial): HTMLElement | null {
  if (!all || all.length === 0) return null;
  const columns = ["part", "its disk", "device", "reads per second", "read", "writes per second", "written", "a write", "busy"].map((title, index) => ({ title, isNumber: index > 2 }));
  const rows = all.map((one) => [
    one.part, one.disk ?? "–", one.device, count(one.reads_per_second), bandwidth(one.read_bytes_per_second), count(one.writes_per_second), bandwidth(one.written_bytes_per_second),
    one.bytes_per_write === null ? "–" : bytes(one.bytes_per_write), percent(one.busy_ratio),
  ]);
  return element("div", {}, element("h3", {}, "Devices of the server’s parts, means over the trial, by anybody"), table("Devices of the server’s parts", columns, rows, "low"));
}

/** Of a trial that ended with its transactions, from cold. */
function jobOf({ warming, strategy_outcome: outcome }: SweepTrial): [string, string][] {
  const job = warming?.job;
  if (!job) return [];
  const warmer: [string, string][] = outcome && job.warmer_seconds !== null ? [["what warmed it took", seconds(job.warmer_seconds)]] : [];
  return [...warmer, ["the job took", seconds(job.load_seconds)], ["in all, from the cold start", seconds(job.whole_seconds)]];
}

function reads({ device_read_bytes: read, checkpoints: all, fresh_copy: fresh }: SweepTrial): HTMLElement {
  const longest = Math.max(0, ...all.map((one) => one.longest_sync_seconds));
  return card("Device and checkpoints", [
    ["read from the device, by anybody", bytes(read)],
    ["checkpoints that ended", count(all.length)],
    ["buffers that they wrote", count(all.reduce((sum, one) => sum + one.buffers, 0))],
    ["longest synchronisation of a file", all.length === 0 ? "–" : seconds(longest)],
    ...(fresh ? [["fresh copy of the databases", `${fresh.way} of ${bytes(fresh.bytes)} in ${seconds(fresh.seconds)}`] as [string, string]] : []),
  ]);
}

/** Of the log. Others at a flush are what commit_siblings asks for. */
function flushes({ flushes: found }: TrialData["series"]): HTMLElement | null {
  if (!found) return null;
  return card("Flushes of the log", [
    ["by everybody, as the server counts them", found.per_second === null ? "not counted" : `${found.per_second.toFixed(1)} per second`],
    ["looks that saw one under way", `${count(found.seen)} of ${count(found.looks)}`],
    ["other transactions under way then, in the mean", found.others === null ? "–" : found.others.toFixed(1)],
    ["commit_siblings", found.commit_siblings],
  ]);
}

/** Of a trial that ended when what is wanted was resident. */
function broughtBack({ warming }: SweepTrial): HTMLElement | null {
  const brought = warming?.brought;
  if (!brought) return null;
  const { bound, cpu_seconds: cpu, device_reads: reads } = brought;
  const wanted = warming.wanted_bytes;
  return card("What came back", [
    ["wanted", `${wanted === null ? "" : `${bytes(wanted)}: `}${count(brought.wanted_pages)} pages in ${count(brought.wanted_pieces)} pieces`],
    ["resident in the end", bytes(brought.resident_bytes)],
    ["the best merging", bound === null ? "not known: the disk has no limit" : `${count(bound.reads)} reads of ${bytes(bound.read_bytes)} in ${seconds(bound.seconds)}`],
    ["reads of the device, by anybody", reads === null ? "–" : count(reads)],
    ["the warmer’s own processors", cpu === null ? "–" : seconds(cpu)],
  ]);
}

/** What warmed the server, or the job beside its load, and the end of what it printed. */
function warmer({ point, strategy_outcome: outcome }: SweepTrial): HTMLElement | null {
  if (!outcome || outcome.command === "") return null;
  const told = [
    outcome.ended_after_seconds === null ? "did not end within the trial" : `ended after ${seconds(outcome.ended_after_seconds)}`,
    ...(outcome.issued_bytes === null ? [] : [`read ${bytes(outcome.issued_bytes)}`]),
  ].join(", ");
  const printed = outcome.output.trim();
  return element("div", { id: "warmer" }, element("h3", {}, `What ${String(point["strategy"])} did`), element("pre", {}, outcome.command), element("p", { class: "soft" }, `It ${told}.`),
    printed !== "" && folded("What it printed last", () => element("pre", {}, printed)));
}

/** Who made the load, where it was not this machine alone. */
function hosts({ generators }: SweepTrial): HTMLElement | null {
  if (!generators) return null;
  const milliseconds = (value: number): string => `${value.toFixed(1)} ms`;
  const columns = ["host", "pgbench", "clients", "threads", "began after", "its clock ahead by", "transactions", "throughput (tps)"].map((title, index) => ({ title, isNumber: index > 1 }));
  const rows = generators.hosts.map((one) => [
    one.host, one.pgbench_version, count(one.clients), count(one.jobs), milliseconds(one.started_after_ms), `${milliseconds(one.clock_offset_ms)} ± ${milliseconds(one.clock_uncertainty_ms)}`, count(one.transactions), count(one.tps),
  ]);
  return table("Hosts that made the load", columns, rows, "low");
}

/** A percentile with its interval; without enough transactions beyond it there is none. */
function percentile({ percentiles }: LatencyHistogram, share: number): Child {
  const found = percentiles.find((one) => one.share === share);
  if (!found) return element("span", { class: "soft", title: "fewer than ten transactions lie beyond it" }, "–");
  return element("span", { class: "cell" }, element("span", { class: "median" }, latency(found.us)), element("span", { class: "range" }, range(latency(found.low_us), latency(found.high_us))));
}

function latencies({ latency: all, scripts }: SweepTrial): HTMLElement {
  const columns = ["", "answered (transactions)", "mean", "50 %", "90 %", "95 %", "99 %", "99.9 %", "longest"].map((title, index) => ({ title, isNumber: index > 0 }));
  const row = (name: string, one: LatencyHistogram): Child[] => [name, count(one.count), `${latency(one.mean_us)} ± ${latency(one.stddev_us)}`, ...[0.5, 0.9, 0.95, 0.99, 0.999].map((share) => percentile(one, share)), latency(one.max_us)];
  const rows = [
    ...(all === null ? [] : [row("all scripts", all)]),
    ...scripts.flatMap((one) => [row(one.service === null ? one.script : `${one.script}, since it was due`, one.response), ...(one.service === null ? [] : [row(`${one.script}, since it began`, one.service)])]),
  ];
  return table("Latency by script, mean ± standard deviation, with intervals of 95 %", columns, rows, "low");
}

function checkpoints({ checkpoints: all }: SweepTrial): HTMLElement {
  if (all.length === 0) return element("p", { class: "soft" }, "No checkpoint ended within the trial.");
  const columns = ["ended after", "why", "written (buffers)", "writing", "synchronising", "longest file", "in all"].map((title, index) => ({ title, isNumber: index !== 1 }));
  const rows = all.map((one) => [seconds(one.ended_after_seconds), one.reason, count(one.buffers), seconds(one.write_seconds), seconds(one.sync_seconds), seconds(one.longest_sync_seconds), seconds(one.total_seconds)]);
  return table("Checkpoints", columns, rows, "low");
}

function statistics({ statistics: views }: SweepTrial): HTMLElement {
  const rows = Object.entries(views).flatMap(([view, all]) => all.flatMap(({ key, added }) =>
    Object.entries(added).map(([column, value]): Child[] => [view, Object.values(key).join(", "), column, Number.isInteger(value) ? count(value) : value.toFixed(2)])));
  return element("details", { class: "numbers" }, element("summary", {}, "Everything that grew in the statistics views"),
    table("Statistics views", ["view", "row", "column", "added"].map((title, index) => ({ title, isNumber: index === 3 })), rows));
}

function buffers({ buffers_before: before, buffers_after: after }: SweepTrial): HTMLElement {
  const counts = [...new Set([...before, ...after].map((one) => one.usage_count))].sort((a, b) => a - b);
  const of = (all: SweepTrial["buffers_before"], usage: number): string[] => {
    const found = all.find((one) => one.usage_count === usage);
    return [count(found?.buffers ?? 0), count(found?.dirty ?? 0)];
  };
  return element("details", { class: "numbers" }, element("summary", {}, "shared_buffers by usage count, before and after"),
    table("shared_buffers", ["usage count", "before (buffers)", "of them dirty (buffers)", "after (buffers)", "of them dirty (buffers)"].map((title) => ({ title, isNumber: true })), counts.map((usage) => [String(usage), ...of(before, usage), ...of(after, usage)])));
}

function settings(trial: SweepTrial, other: SweepTrial | null): HTMLElement[] {
  const code = (text: string | null): HTMLElement => element("code", {}, text ?? "–");
  const differing = other === null ? [] : [
    element("h3", {}, "In which the two trials differ"),
    table("Settings that differ", ["setting", "this one", "the one beside it"].map((title) => ({ title, isNumber: false })), settingDifferences(trial, other).map(([name, a, b]) => [code(name), code(a), code(b)]), "pairs"),
  ];
  return [...differing, element("h3", {}, "That are not the default"),
    settingsTable(trial.settings)];
}
