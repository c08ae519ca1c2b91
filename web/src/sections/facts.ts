// Machine, server and study: what one needs to measure it again.

import { card, element } from "../element";
import { fold } from "../fold";
import { after, bandwidth, bytes, clock, count, seconds, time } from "../format";
import { spreadOf } from "../metrics";
import type { DatabaseMaking, Disk, StudyData, StudyForecast } from "../../generated/record";

export function facts(study: StudyData): HTMLElement {
  const { sweep, exact, total_seconds: total } = study;
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
        ...asked(study),
        ...(sweep.source === undefined ? [] : [["imported from", sweep.source] as [string, string]]),
      ]),
    ),
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

/** What was asked of a study of ways to warm, and what is known beforehand. */
function asked({ sweep: { warmup, repeats }, points }: StudyData): [string, string][] {
  if (!warmup) return [];
  const bound = points.map((point) => spreadOf(point, "bound_seconds")?.median ?? null).find((one) => one !== null) ?? null;
  return [
    ["database", bytes(warmup.database_bytes)],
    ["in the warm snapshot", bytes(warmup.wanted_bytes)],
    ["disk", disk(warmup.disk)],
    ["bound", bound === null ? "not known" : `${seconds(bound)} = bytes ÷ bandwidth`],
    ["forecast of nothing", forecast(warmup.forecast)],
    ["trials", `${repeats} for each of ${points.length} warmers`],
  ];
}

export function disk(limit: Disk): string {
  const limits = [
    limit.riops === null ? null : `${count(limit.riops)} reads/s`,
    limit.rbps === null ? null : bandwidth(limit.rbps),
  ].filter((one) => one !== null);
  const text = `${limit.name} disk${limits.length > 0 ? `, ${limits.join(", ")}` : ""}`;
  const limited = limit.not_enforced === null ? text : `${text} (not in force)`;
  if (limit.read_ahead === null) return limited;
  return `${limited}, read-ahead ${bytes(limit.read_ahead)}${limit.read_ahead_not_enforced === null ? "" : " (not in force)"}`;
}

function forecast(told: StudyForecast | null): string {
  if (told === null) return "none: the device's figures or the workload are not known";
  const { to_50_seconds: half, warm_after_seconds: warm } = told;
  const ends = warm === null ? "" : ` (${warm.low.toFixed(0)} to ${warm.high === null ? "never" : warm.high.toFixed(0)})`;
  return `half of its throughput ${half === null ? "never" : after(half.seconds)}, warm ${warm === null ? "never" : after(warm.seconds)}${ends}`;
}
