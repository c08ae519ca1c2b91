// Machine, server and study: what one needs to measure it again.

import { card, element } from "../../element";
import { fold } from "../../fold";
import { bytes, count, time } from "../../format";
import type { StudyData } from "../record";

export function facts({ sweep, exact }: StudyData): HTMLElement {
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
        ["device", `${machine.device.name} (${machine.device.major_minor})`],
        ["read-ahead of its own", bytes(machine.device.read_ahead_bytes)],
      ]),
      card("Server", [
        ["version", server.version],
        ["pgbench", sweep.pgbench_version],
        ["block size", `${count(server.block_size)} B`],
        ["system identifier", exact.system_identifier],
      ]),
      card("Study", [
        ["id", sweep.id],
        ["began", time(sweep.started_at)],
        ["ended", sweep.ended_at === null ? "not yet" : time(sweep.ended_at)],
        ["seed of the order", exact.seed],
        ["SHA-256 of its meaning", sweep.digest],
        ["pgthaw", sweep.pgthaw_version],
        ...(sweep.source === undefined ? [] : [["imported from", sweep.source] as [string, string]]),
      ]),
    ),
    element("details", { class: "numbers" }, element("summary", {}, "The study as it was understood"), element("pre", {}, JSON.stringify(sweep.study, null, 2))),
  );
}
