// Machine, server and study: what one needs to measure it again.

import { card, element, settingsTable } from "../element";
import { fold } from "../fold";
import { after, bytes, clock, count, seconds, time } from "../format";
import type { DatabaseMaking, StudyData, Tournament } from "../../generated/record";
import { disk } from "./tournament_head";

export function facts({ sweep, exact, total_seconds: total, tournament }: StudyData): HTMLElement {
  const { machine, server } = sweep;
  return fold(
    "facts",
    "Machine, server and study",
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
        ...told("its model", machine.device.model),
        ...told("driven by", machine.device.drivers.join(", ")),
        ...told("its write cache", machine.device.write_cache),
        ["read-ahead of its own", bytes(machine.device.read_ahead_bytes)],
      ]),
      card("Server", [
        ["version", server.version],
        ["pgbench", sweep.pgbench_version],
        ["shared_buffers", bytes(server.shared_buffers_bytes)],
        ["block size", `${count(server.block_size)} B`],
        ["data directory", server.data_directory ?? "not told"],
        ["system identifier", exact.system_identifier],
      ]),
      card("Study", [
        ["id", sweep.id],
        ["began", time(sweep.started_at)],
        ["ended", sweep.ended_at === null ? "not yet" : time(sweep.ended_at)],
        ...(total === null ? [] : [["its trials took", clock(total)] as [string, string]]),
        ...makings(sweep.databases),
        ["seed of the order", exact.seed],
        ["SHA-256 of its meaning", sweep.digest],
        ["pgthaw", sweep.pgthaw_version],
        ...(tournament === null ? [] : asked(tournament)),
        ...(sweep.source === undefined ? [] : [["imported from", sweep.source] as [string, string]]),
      ]),
    ),
    tournament !== null && tournament.run.settings.length > 0 && element("h3", {}, "Server settings that are not the default"),
    tournament !== null && tournament.run.settings.length > 0 && settingsTable(tournament.run.settings),
    element("details", { class: "numbers" }, element("summary", {}, "The study as it was understood"), element("pre", {}, JSON.stringify(sweep.study, null, 2))),
  );
}

/** A row, unless nothing is known. */
function told(what: string, value: string): [string, string][] {
  return value === "" ? [] : [[what, value]];
}

/** How long each database took to make, step by step. */
function makings(all: DatabaseMaking[]): [string, string][] {
  return all.map(({ database, scale, file_system: fileSystem, server, seconds: took, steps }) => {
    const others = ([["database", database, "default"], ["file system", fileSystem, "native"], ["server", server, "default"]] as const)
      .filter(([, value, usual]) => value !== usual).map(([what, value]) => `, ${what} ${value}`).join("");
    const parts = steps.map(({ step, seconds: one }) => `${step} ${one.toFixed(2)} s`).join(", ");
    return [`made scale ${scale}${others}`, `${took.toFixed(2)} s${parts === "" ? "" : `: ${parts}`}`];
  });
}

/** What was asked of the ways to warm, and what is known beforehand. */
function asked(data: Tournament): [string, string][] {
  const { study } = data.run;
  return [
    ["in the warm snapshot", bytes(study.wanted_bytes)],
    ["disk", disk(data)],
    ["bound", study.bound_seconds === null ? "not known" : `${seconds(study.bound_seconds)} = bytes ÷ bandwidth`],
    ["start state", study.start_state],
    ["forecast of nothing", forecast(study)],
    ...(study.query_mode === null ? [] : [["query mode", study.query_mode] as [string, string]]),
    ...(study.memory === null ? [] : [["memory of the server", bytes(study.memory)] as [string, string]]),
    ["trials", `${study.repeats} × ${study.until_steady ? "until steady, at most " : ""}${study.seconds} s per strategy`],
  ];
}

function forecast(study: Tournament["run"]["study"]): string {
  if (study.forecast === null) return "none: the device's figures or the workload are not known";
  const { to_50_seconds: half, warm_after_seconds: warm } = study.forecast;
  const ends = warm === null ? "" : ` (${warm.low.toFixed(0)} to ${warm.high === null ? "never" : warm.high.toFixed(0)})`;
  return `half of its throughput ${half === null ? "never" : after(half.seconds)}, warm ${warm === null ? "never" : after(warm.seconds)}${ends}`;
}
