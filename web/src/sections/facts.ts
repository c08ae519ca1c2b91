// Machine, server, study and every trial: what one needs to measure it again.

import { type Child, card, element, table } from "../element";
import { fold } from "../fold";
import { after, bytes, count, instant, percent, seconds, time } from "../format";
import type { ReportData, Study, Trial } from "../record";
import { disk } from "./head";

export function facts(data: ReportData): HTMLElement {
  const { machine, server, study, settings } = data.run;
  return fold(
    "facts",
    "Machine, settings and study",
    element(
      "div",
      { class: "cards" },
      card("Machine", [
        ["host", machine.hostname],
        ["kernel", machine.kernel],
        ["processor", `${machine.cores} × ${machine.cpu_model}`],
        ["memory", bytes(machine.memory_bytes)],
        ["file system", machine.file_system],
        ["device", `${machine.device.name} (${machine.device.major_minor}), ${machine.device.rotational ? "rotating" : "not rotating"}`],
        ["read-ahead of its own", bytes(machine.device.read_ahead_bytes)],
      ]),
      card("Server", [
        ["version", server.version],
        ["shared_buffers", bytes(server.shared_buffers_bytes)],
        ["block size", `${count(server.block_size)} B`],
        ["data directory", server.data_directory ?? "not told"],
        ["system identifier", data.exact.system_identifier],
      ]),
      card("Study", [
        ["workload", `${study.script}, ${study.clients} clients, ${study.jobs} jobs`],
        ["scale", `${study.scale} (${bytes(study.database_bytes)})`],
        ["in the warm snapshot", bytes(study.wanted_bytes)],
        ["disk", disk(data)],
        ["bound", study.bound_seconds === null ? "not known" : `${seconds(study.bound_seconds)} = bytes ÷ bandwidth`],
        ["start state", study.start_state],
        ["forecast of nothing", forecast(study)],
        ["trials", `${study.repeats} × ${study.until_steady ? "until steady, at most " : ""}${study.seconds} s per strategy`],
        ["seed of the order", data.exact.seed],
        ["pgthaw", data.run.pgthaw_version],
      ]),
    ),
    element("h3", {}, "What was run"),
    commands(data),
    element("h3", {}, "Server settings that are not the default"),
    settings.length === 0
      ? element("p", { class: "soft" }, "None, or they were not readable.")
      : table("Server settings", ["setting", "value"].map((title) => ({ title, isNumber: false })), settings.map(([name, value]) => [code(name), code(value)]), "pairs"),
    element("h3", {}, "Every trial, in the order in which they ran"),
    everyTrial(data),
  );
}

function forecast(study: Study): string {
  if (study.forecast === null) return "none: the device's figures or the workload are not known";
  const { to_50_seconds: half, warm_after_seconds: warm } = study.forecast;
  const ends = warm === null ? "" : ` (${warm.low.toFixed(0)} to ${warm.high === null ? "never" : warm.high.toFixed(0)})`;
  return `half of its throughput ${half === null ? "never" : after(half.seconds)}, warm ${warm === null ? "never" : after(warm.seconds)}${ends}`;
}

const code = (text: string): HTMLElement => element("code", {}, text);

function commands(data: ReportData): HTMLElement {
  const rows = data.summary.strategies.map((one) => {
    const outcomes = data.trials.filter((trial) => trial.strategy === one.strategy).map((trial) => trial.outcome);
    const command = outcomes[0]?.command ?? "";
    return [one.strategy, element("span", {}, command === "" ? "–" : code(command), printed(outcomes.map((outcome) => outcome.output)))];
  });
  return table("What was run", ["strategy", "command"].map((title) => ({ title, isNumber: false })), rows, "pairs");
}

/** The end of what the strategy printed, the repeats one below the other. */
function printed(outputs: string[]): HTMLElement | null {
  const all = outputs.map((output) => output.trim()).filter((output) => output !== "");
  return all.length === 0
    ? null
    : element("details", {}, element("summary", { class: "soft" }, "what it printed last"), element("pre", {}, all.join("\n\n")));
}

function everyTrial(data: ReportData): HTMLElement {
  const columns = ["#", "strategy", "repeat", "started (UTC)", "resident at the start", "warm after", "50 % after", "90 % after", "95 % after", "served (transactions)", "read from the device (by anybody)", "read by the strategy", "command ended after"];
  const limit = data.summary.trial_seconds;
  const rows = [...data.trials].sort((a, b) => a.position - b.position).map((trial) => trialRow(trial, limit, data.run.steady_tps !== null));
  return table("Every trial", columns.map((title, index) => ({ title, isNumber: index !== 1 })), rows, "low");
}

function trialRow(trial: Trial, limit: number, isSteadyKnown: boolean): Child[] {
  const orBeyond = (value: number | null): string => (value === null ? `> ${limit} s` : instant(value));
  const share = (value: number | null): string => (isSteadyKnown ? orBeyond(value) : "–");
  const { os_resident_bytes: resident, total_bytes: total, verdict } = trial.start_state;
  return [
    String(trial.position),
    trial.strategy,
    String(trial.repeat),
    time(trial.started_at).slice(0, 19),
    `${percent(total > 0 ? resident / total : 0)}, ${verdict}`,
    trial.warm_after_seconds === null ? orBeyond(null) : instant(trial.warm_after_seconds),
    share(trial.to_50_seconds),
    share(trial.to_90_seconds),
    share(trial.to_95_seconds),
    count(trial.served),
    bytes(trial.device_read_bytes),
    trial.outcome.issued_bytes === null ? "–" : bytes(trial.outcome.issued_bytes),
    trial.outcome.ended_after_seconds === null ? "–" : seconds(trial.outcome.ended_after_seconds),
  ];
}
