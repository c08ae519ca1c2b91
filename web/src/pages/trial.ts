import { linkTo } from "../address";
import type { Appearance } from "../appearance";
import { figure } from "../charts/figure";
import { coursesOf, relationCourses } from "../charts/residency";
import { looksOf, stalls, trialChart, TrialStage } from "../charts/trial_chart";
import { card, cell, type Child, code, element, type Facts, folded, heading, type Option, paragraph, section, select, table } from "../element";
import { bandwidth, bytes, count, latency, percent, range, seconds, time } from "../format";
import { metricOf } from "../metrics";
import { differencesOf } from "../sections/tables";
import { timeOfTrial } from "../sections/time";
import { againstBox, plainVerdict } from "../sections/trust";
import type { LatencyHistogram, StudyData, SweepTrial, TrialData, TrialOutline } from "../../generated/record";
import type { Source } from "../source";

/** `beside` names a trial to compare, as `NUMBER-REPEAT`. */
export async function trialPage(source: Source, appearance: Appearance, id: string, [number, repeat]: [number, number], beside: string | null): Promise<HTMLElement[]> {
  const study = await source.study(id);
  const outline = study.trials.find((one) => one.number === number && one.repeat === repeat);
  if (!outline) throw new Error(`the study has no trial ${repeat} of point ${number}`);
  const found = /^(\d+)-(\d+)$/.exec(beside ?? "");
  const [data, other] = await Promise.all([source.trial(id, number, repeat), found && source.trial(id, Number(found[1]), Number(found[2]))]);
  const label = labelOf(study, number);
  const up = element("a", { href: linkTo(["study", study.sweep.id]) }, study.subject || study.sweep.id);
  const crumbs = element("nav", { class: "crumbs", "aria-label": "Where this is" }, up, " / ", label);
  const top = [crumbs, ...heading(label), paragraph("study", summary(outline)), siblings(study, outline, beside)];
  if (data === null) return [...top, element("p", {}, "This page has only the figures of its trials. pgthaw serve also shows the curves.")];
  const stage = new TrialStage(appearance, data, other, study.measures);
  const isIdle = looksOf(data.trial).length > 0;
  const parts = [
    warnings(data.trial),
    data.series.second.length > 0 || isIdle ? figure(trialChart, stage) : element("p", {}, "pgthaw stored no values for the single seconds of this trial."),
    coursesOf(data).length > 0 ? figure(relationCourses, stage) : null,
    isIdle ? null : stalls(data),
    ...details(data, other),
  ];
  return [...top, ...parts.filter((part) => part !== null)];
}

const labelOf = (study: StudyData, number: number): string => study.points.find((point) => point.number === number)?.label ?? `point ${number}`;

const TOLD = ["tps", "worst-second", "p99", "warm-after", "to-50", "resident-after", "buffers-after", "bound-ratio", "load-rate"];

const summary = (trial: TrialOutline): string => [
  `repeat ${trial.repeat}, trial ${trial.position} in the order of the study`,
  time(trial.started_at),
  trial.start_verdict === null ? "did not start" : `started ${trial.start_verdict}`,
  ...TOLD.map(metricOf).flatMap(({ key, label, render }) => (typeof trial[key] === "number" ? [`${label} ${render(trial[key])}`] : [])),
].join(" · ");

function siblings({ sweep, trials, ...study }: StudyData, shown: TrialOutline, beside: string | null): HTMLElement {
  const link = ({ number, repeat }: TrialOutline, held: string): string => linkTo(["study", sweep.id, "trial", number, repeat], held === "" ? {} : { with: held });
  const linked = (text: string, trial: TrialOutline | undefined): HTMLElement | undefined =>
    trial && element("a", { href: link(trial, beside ?? ""), "aria-current": trial === shown ? "page" : null }, text);
  const at = (position: number): TrialOutline | undefined => trials.find((one) => one.position === position);
  const repeats = trials.filter((one) => one.number === shown.number).sort((a, b) => a.repeat - b.repeat);
  const others = trials.filter((one) => one !== shown && one.failure === null).slice(0, 500);
  const options = others.map(({ number, repeat }): Option => [`${number}-${repeat}`, `${labelOf({ sweep, trials, ...study }, number)}, repeat ${repeat}`]);
  return element("div", { class: "pivot" },
    element("nav", { class: "repeats", "aria-label": "Repeats of this point" }, element("span", { class: "soft" }, "repeat "), ...repeats.map((one) => linked(String(one.repeat), one))),
    linked("previous trial", at(shown.position - 1)),
    linked("next trial", at(shown.position + 1)),
    select("beside-trial", "compare with", [["", "none"], ...options], beside ?? "", (value) => { location.hash = link(shown, value).slice(1); }));
}

function warnings(trial: SweepTrial): HTMLElement {
  const all = [...(trial.failure === null ? [] : [plainVerdict(`The trial failed: ${trial.failure}`)]), ...trial.verdicts];
  return all.length === 0 ? paragraph("soft", "This trial has no verdicts.") : againstBox("Verdicts on this trial", all);
}

function details({ trial, series }: TrialData, other: TrialData | null): (HTMLElement | null)[] {
  const differing = other === null ? [] : [element("h3", {}, "Differences between the two trials"), differencesOf(trial, other.trial, ["this trial", "the other trial"], "–")];
  return [
    section("kept", "Stored data of the trial",
      element("div", { class: "cards" }, ...cardsOf(trial, series).map(([title, facts]) => facts.length > 0 && card(title, facts))),
      devices(trial), warmer(trial), ...(trial.command === "" ? [] : [element("h3", {}, "pgbench"), element("pre", {}, trial.command), hosts(trial)])),
    trial.latency === null ? null : section("latencies", "Latency", latencies(trial)),
    timeOfTrial(trial),
    section("server", "Counters of the server", checkpoints(trial), statistics(trial), buffers(trial)),
    section("settings", "Settings", ...differing, element("h3", {}, "Changed from the default"),
      table("Settings of the server", ["setting", "value"], trial.settings.map((setting) => setting.map(code)), { className: "pairs low", texts: [0, 1] })),
  ];
}

function cardsOf(trial: SweepTrial, { flushes }: TrialData["series"]): [string, Facts][] {
  const { start_state: state, checkpoints: all, fresh_copy: fresh, warming, cycle_tps: cycle } = trial;
  const [job, brought] = [warming?.job, warming?.brought];
  const isIdle = looksOf(trial).length > 0;
  const inCache = state !== null && state.total_bytes > 0 ? state.os_resident_bytes / state.total_bytes : 0;
  return [
    ["Point", Object.entries(trial.point).filter(([, value]) => value !== null && !Array.isArray(value)).map(([name, value]) => [name, String(value)])],
    ["Trial", [
      ["started", state === null ? "no" : `${state.verdict}: ${percent(inCache)} of ${bytes(state.total_bytes)} in the page cache`],
      ["duration", seconds(trial.lasted_seconds)],
      ...factsIf(job, ({ warmer_seconds: before, load_seconds: load, whole_seconds: whole }) => [
        ...factsIf(trial.strategy_outcome && before, (took) => [["duration of the warmer", seconds(took)]]), ["duration of the job", seconds(load)], ["total from the cold start", seconds(whole)],
      ]),
      ...factsIf(isIdle ? null : trial, ({ transactions, failed, skipped, retries, checkpoint_cycles: cycles }) => [
        ["transactions", count(transactions)], ["failed", count(failed)], ["skipped", count(skipped)], ["retries", count(retries)],
        ["complete checkpoint cycles", cycle === null ? count(cycles) : `${count(cycles)}, with ${count(cycle)} transactions per second`],
      ]),
    ]],
    ["Device and checkpoints", [
      ["read from the device, all processes", bytes(trial.device_read_bytes)], ["completed checkpoints", count(all.length)],
      ["buffers written by checkpoints", count(all.reduce((sum, one) => sum + one.buffers, 0))],
      ["longest synchronisation of a file", all.length === 0 ? "–" : seconds(Math.max(...all.map((one) => one.longest_sync_seconds)))],
      ...factsIf(fresh, ({ way, bytes: size, seconds: took }) => [["fresh copy of the databases", `${way} of ${bytes(size)} in ${seconds(took)}`]]),
    ]],
    // Concurrent transactions matter for commit_siblings.
    ["WAL flushes", factsIf(flushes, (found) => [
      ["by all processes, counted by the server", found.per_second === null ? "not counted" : `${found.per_second.toFixed(1)} per second`],
      ["samples with a flush in progress", `${count(found.seen)} of ${count(found.looks)}`],
      ["mean number of other transactions during a flush", found.others === null ? "–" : found.others.toFixed(1)], ["commit_siblings", found.commit_siblings],
    ])],
    // For trials that end when all pages of the snapshot are resident.
    ["Restored data", factsIf(brought, ({ wanted_pages: pages, wanted_pieces: pieces, resident_bytes: resident, bound, device_reads: reads, cpu_seconds: cpu }) => [
      ["wanted", `${warming?.wanted_bytes == null ? "" : `${bytes(warming.wanted_bytes)}: `}${count(pages)} pages in ${count(pieces)} pieces`], ["resident at the end", bytes(resident)],
      ["best merging of reads", bound === null ? "unknown: the disk has no limit" : `${count(bound.reads)} reads of ${bytes(bound.read_bytes)} in ${seconds(bound.seconds)}`],
      ["device reads, all processes", reads === null ? "–" : count(reads)], ["processor time of the warmer", cpu === null ? "–" : seconds(cpu)],
    ])],
  ];
}

const factsIf = <T>(found: T | null | undefined, facts: (found: T) => Facts): Facts => (found === null || found === undefined ? [] : facts(found));

function devices({ devices: all }: SweepTrial): HTMLElement | null {
  if (!all || all.length === 0) return null;
  const rows = all.map((one) => [
    one.part, one.disk ?? "–", one.device, count(one.reads_per_second), bandwidth(one.read_bytes_per_second), count(one.writes_per_second), bandwidth(one.written_bytes_per_second),
    one.bytes_per_write === null ? "–" : bytes(one.bytes_per_write), percent(one.busy_ratio),
  ]);
  const titles = ["part", "disk", "device", "reads per second", "read", "writes per second", "written", "mean write", "busy"];
  return element("div", {}, element("h3", {}, "Devices that hold the server’s files: means over the trial, all processes"),
    table("Devices that hold the server’s files", titles, rows, { className: "low", texts: [0, 1, 2] }));
}

function warmer({ point, strategy_outcome: outcome }: SweepTrial): HTMLElement | null {
  if (!outcome || outcome.command === "") return null;
  const { command, ended_after_seconds: ended, issued_bytes: issued, output } = outcome;
  const told = `It ${ended === null ? "did not end within the trial" : `ended after ${seconds(ended)}`}${issued === null ? "" : `, read ${bytes(issued)}`}.`;
  return element("div", { id: "warmer" }, element("h3", {}, `Run of ${String(point["strategy"])}`), element("pre", {}, command), paragraph("soft", told),
    output.trim() !== "" && folded("Last output", () => element("pre", {}, output.trim())));
}

function hosts({ generators }: SweepTrial): HTMLElement | null {
  if (!generators) return null;
  const milliseconds = (value: number): string => `${value.toFixed(1)} ms`;
  const rows = generators.hosts.map((one) => [
    one.host, one.pgbench_version, count(one.clients), count(one.jobs), milliseconds(one.started_after_ms),
    `${milliseconds(one.clock_offset_ms)} ± ${milliseconds(one.clock_uncertainty_ms)}`, count(one.transactions), count(one.tps),
  ]);
  const titles = ["host", "pgbench", "clients", "threads", "started after", "clock ahead by", "transactions", "throughput (tps)"];
  return table("Hosts that generated the load", titles, rows, { className: "low", texts: [0, 1] });
}

function latencies({ latency: all, scripts }: SweepTrial): HTMLElement {
  const percentile = ({ percentiles }: LatencyHistogram, share: number): Child => {
    const found = percentiles.find((one) => one.share === share);
    if (!found) return element("span", { class: "soft", title: "unknown: fewer than ten transactions were slower than this percentile" }, "–");
    return cell(latency(found.us), range(latency(found.low_us), latency(found.high_us)));
  };
  const row = (name: string, one: LatencyHistogram | null): Child[][] => one === null ? [] : [
    [name, count(one.count), `${latency(one.mean_us)} ± ${latency(one.stddev_us)}`, ...[0.5, 0.9, 0.95, 0.99, 0.999].map((share) => percentile(one, share)), latency(one.max_us)],
  ];
  const ofScripts = scripts.flatMap(({ script, response, service }) => [...row(service === null ? script : `${script}, from its scheduled start`, response), ...row(`${script}, from its start`, service)]);
  const titles = ["", "transactions", "mean", "50 %", "90 %", "95 %", "99 %", "99.9 %", "longest"];
  return table("Latency by script: mean ± standard deviation, and percentiles with 95 % intervals", titles, [...row("all scripts", all), ...ofScripts], { className: "low" });
}

function checkpoints({ checkpoints: all }: SweepTrial): HTMLElement {
  if (all.length === 0) return paragraph("soft", "No checkpoint ended within the trial.");
  const rows = all.map((one) => [
    seconds(one.ended_after_seconds), one.reason, count(one.buffers), ...[one.write_seconds, one.sync_seconds, one.longest_sync_seconds, one.total_seconds].map(seconds),
  ]);
  return table("Checkpoints", ["ended after", "reason", "written (buffers)", "writing", "synchronising", "longest file", "total"], rows, { className: "low", texts: [1] });
}

function statistics({ statistics: views }: SweepTrial): HTMLElement {
  const rows = Object.entries(views).flatMap(([view, all]) => all.flatMap(({ key, added }) =>
    Object.entries(added).map(([column, value]): Child[] => [view, Object.values(key).join(", "), column, Number.isInteger(value) ? count(value) : value.toFixed(2)])));
  return folded("Increased counters of the statistics views", () => table("Statistics views", ["view", "row", "column", "increase"], rows, { texts: [0, 1, 2] }));
}

function buffers({ buffers_before: before, buffers_after: after }: SweepTrial): HTMLElement {
  const counts = [...new Set([...before, ...after].map((one) => one.usage_count))].sort((a, b) => a - b);
  const rows = counts.map((usage) => [String(usage), ...[before, after].flatMap((all) => {
    const found = all.find((one) => one.usage_count === usage);
    return [count(found?.buffers ?? 0), count(found?.dirty ?? 0)];
  })]);
  const titles = ["usage count", "before (buffers)", "dirty before (buffers)", "after (buffers)", "dirty after (buffers)"];
  return folded("shared_buffers by usage count, before and after", () => table("shared_buffers", titles, rows, { texts: [] }));
}
