import { card, element, type Facts, fold } from "../element";
import { boundOf } from "../curve_stage";
import { after, bandwidth, bytes, clock, count, seconds, time } from "../format";
import { metricsOf } from "../metrics";
import type { DatabaseMaking, Disk, StudyData, StudyForecast } from "../../generated/record";
import type { Source } from "../source";

export function facts(study: StudyData): HTMLElement {
  const cards = Object.entries(factsOf(study)).map(([title, entries]) => card(title, entries));
  return fold("facts", "Machine, server and study", element("div", { class: "cards" }, ...cards),
    element("details", { class: "numbers" }, element("summary", {}, "The study as parsed"), element("pre", {}, JSON.stringify(study.sweep.study, null, 2))));
}

export function factsOf({ sweep, exact, total_seconds: total, points }: StudyData): Record<string, Facts> {
  const { machine, server, warmup } = sweep;
  const { device } = machine;
  const bound = boundOf(points);
  return {
    Machine: [
      ["host", machine.hostname], ["kernel", machine.kernel], ["processor", `${machine.cores} × ${machine.cpu_model}`], ["memory", bytes(machine.memory_bytes)],
      ["file system", machine.file_system], ["device", `${device.name} (${device.major_minor}), ${device.rotational ? "rotating" : "not rotating"}`],
      ...known(["device model", device.model], ["device driver", device.drivers.join(", ")], ["device write cache", device.write_cache]),
      ["device read-ahead", bytes(device.read_ahead_bytes)],
    ],
    Server: [
      ["version", server.version], ["pgbench", sweep.pgbench_version], ["shared_buffers", bytes(server.shared_buffers_bytes)], ["block size", `${count(server.block_size)} B`],
      ["data directory", server.data_directory ?? "unknown"], ["system identifier", exact.system_identifier],
    ],
    Study: [
      ["id", sweep.id], ["started", time(sweep.started_at)], ["ended", sweep.ended_at === null ? "not yet" : time(sweep.ended_at)],
      ...known(["duration of the trials", total === null ? "" : clock(total)]),
      ...sweep.databases.map(makingOf),
      ["seed of the order", exact.seed], ["SHA-256 of the study", sweep.digest], ["pgthaw", sweep.pgthaw_version],
      ...(warmup ? [
        ["database", bytes(warmup.database_bytes)], ["in the warm snapshot", bytes(warmup.wanted_bytes)], ["disk", disk(warmup.disk)],
        ["bound", bound === null ? "unknown" : `${seconds(bound)} = bytes ÷ bandwidth`], ["forecast without a warmer", forecast(warmup.forecast)],
        ["trials", `${sweep.repeats} for each of ${points.length} warmers`],
      ] satisfies Facts : []),
      ...known(["imported from", sweep.source ?? ""]),
    ],
  };
}

const known = (...all: Facts): Facts => all.filter(([, value]) => value !== "");

function makingOf({ database, scale, file_system: fileSystem, server, seconds: took, steps }: DatabaseMaking): [string, string] {
  const others = ([["database", database, "default"], ["file system", fileSystem, "native"], ["server", server, "default"]] as const)
    .filter(([, value, usual]) => value !== usual).map(([what, value]) => `, ${what} ${value}`).join("");
  const parts = steps.map(({ step, seconds: one }) => `${step} ${one.toFixed(2)} s`).join(", ");
  return [`creation of scale ${scale}${others}`, `${took.toFixed(2)} s${parts === "" ? "" : `: ${parts}`}`];
}

export function disk({ name, riops, rbps, read_ahead: ahead, not_enforced: notLimited, read_ahead_not_enforced: notAhead }: Disk): string {
  const inForce = (why: string | null): string => (why === null ? "" : " (not in force)");
  const limits = [riops === null ? "" : `, ${count(riops)} reads/s`, rbps === null ? "" : `, ${bandwidth(rbps)}`].join("");
  return `${name} disk${limits}${inForce(notLimited)}${ahead === null ? "" : `, read-ahead ${bytes(ahead)}${inForce(notAhead)}`}`;
}

function forecast(told: StudyForecast | null): string {
  if (told === null) return "none: the speed of the device, or the workload, is unknown";
  const { to_50_seconds: half, warm_after_seconds: warm } = told;
  const ends = warm === null ? "" : ` (${warm.low.toFixed(0)} to ${warm.high === null ? "never" : warm.high.toFixed(0)})`;
  return `half of its throughput ${half === null ? "never" : after(half.seconds)}, warm ${warm === null ? "never" : after(warm.seconds)}${ends}`;
}

type Value = string | number | null;

export function downloads(study: StudyData, source: Source, hasSeconds: boolean): HTMLElement {
  const { sweep, points, trials } = study;
  const metrics = metricsOf(study);
  const fields = ["number", "repeat", "position", "started_at", "start_verdict", "failure", ...metrics.map(({ key }) => key)];
  const everyTrial = (): string =>
    csv([...sweep.varied, ...fields], trials.map((trial) => [...valuesAt(study, trial.number), ...fields.map((field) => (trial[field] as Value | undefined) ?? null)]));
  const everyPoint = (): string => csv(
    [...sweep.varied, ...metrics.flatMap(({ name }) => [name, `${name}_min`, `${name}_max`]), "trials", "failures"],
    points.map((point) => {
      const ranges = metrics.map((metric) => metric.of(point)).flatMap((range) => [range?.median, range?.min, range?.max]);
      return [...point.values, ...ranges.map((end) => (end !== undefined && Number.isFinite(end) ? end : null)), point.trials, point.failures];
    }),
  );
  const download = (label: string, ending: string, type: string, content: () => string | Promise<string>): HTMLElement => {
    const file = `pgthaw-${sweep.id}${ending}`;
    const save = async (): Promise<void> => {
      const address = URL.createObjectURL(new Blob([await content()], { type }));
      element("a", { href: address, download: file }).click();
      setTimeout(() => URL.revokeObjectURL(address), 60_000);
    };
    return element("button", { type: "button", "data-file": file, click: () => void save() }, label);
  };
  return fold("downloads", "The numbers",
    element("p", {}, "pgthaw results show --json prints all stored data, including every second."),
    element("div", { class: "buttons" },
      download("The study (JSON)", ".json", "application/json", () => JSON.stringify(study)),
      download("Every point (CSV)", "-points.csv", "text/csv", everyPoint),
      download("Every trial (CSV)", "-trials.csv", "text/csv", everyTrial),
      hasSeconds && download("Every second of every trial (CSV)", "-samples.csv", "text/csv", () => samplesCsv(study, source))));
}

const valuesAt = ({ points }: StudyData, number: number): string[] => points.find((point) => point.number === number)?.values ?? [];

async function samplesCsv(study: StudyData, source: Source): Promise<string> {
  const { sweep, trials } = study;
  const fields = [
    "second", "tps", "latency_us_mean", "latency_us_min", "latency_us_max", "latency_us_deviation", "foreground_read_bytes", "device_read_bytes", "device_reads", "os_resident_bytes",
  ] as const;
  const rows: Value[][] = [];
  for (const { number, repeat, position } of trials) {
    const series = (await source.trial(sweep.id, number, repeat))?.series;
    const values = valuesAt(study, number);
    series?.second.forEach((_, span) => rows.push([...values, repeat, position, ...fields.map((field) => {
      const column = series[field];
      return ("mean" in column ? column.mean : column)[span] ?? null;
    })]));
  }
  return csv([...sweep.varied, "repeat", "position", ...fields], rows);
}

/** Writes CSV by RFC 4180, with stored field names in the header. A missing value is an empty field. */
function csv(header: string[], rows: Value[][]): string {
  const field = (value: Value): string => {
    const text = value === null ? "" : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [header, ...rows].map((row) => `${row.map(field).join(",")}\r\n`).join("");
}
