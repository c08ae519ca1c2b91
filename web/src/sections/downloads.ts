// The numbers themselves, made into files by the page.

import { element } from "../element";
import { fold } from "../fold";
import type { ReportData, Sample, Spread } from "../record";

type Value = string | number | null;

/** Buttons that save the data as it was stored, and as tables. `json` is the very text that the page holds. */
export function downloads(data: ReportData, json: string): HTMLElement {
  const name = `pgthaw-${data.run.id}`;
  return fold(
    "downloads",
    "The numbers",
    element("p", {}, "Everything on this page, for your own analysis."),
    element(
      "div",
      { class: "buttons" },
      download("Everything (JSON)", `${name}.json`, "application/json", () => json),
      download("Every second of every trial (CSV)", `${name}-samples.csv`, "text/csv", () => samplesCsv(data)),
      download("Every trial (CSV)", `${name}-trials.csv`, "text/csv", () => trialsCsv(data)),
      download("The table (CSV)", `${name}-strategies.csv`, "text/csv", () => strategiesCsv(data)),
    ),
  );
}

export function download(label: string, file: string, type: string, content: () => string): HTMLElement {
  const save = (): void => {
    const address = URL.createObjectURL(new Blob([content()], { type }));
    element("a", { href: address, download: file }).click();
    setTimeout(() => URL.revokeObjectURL(address), 60_000);
  };
  return element("button", { type: "button", "data-file": file, click: save }, label);
}

/** RFC 4180, for programs: field names as stored, a missing value is empty. */
export function csv(header: string[], rows: Value[][]): string {
  const field = (value: Value): string => {
    const text = value === null ? "" : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [header, ...rows].map((row) => `${row.map(field).join(",")}\r\n`).join("");
}

const SAMPLE_FIELDS: (keyof Sample)[] = [
  "second", "monotonic_ms", "wall_ms", "transactions", "latency_us_mean", "latency_us_min", "latency_us_max",
  "foreground_read_bytes", "device_read_bytes", "device_reads", "os_resident_bytes",
];

export function samplesCsv({ run, trials }: ReportData): string {
  const rows = trials.flatMap((trial) =>
    trial.samples.map((sample) => [run.id, trial.strategy, trial.repeat, trial.position, ...SAMPLE_FIELDS.map((field) => sample[field])]),
  );
  return csv(["run_id", "strategy", "repeat", "position", ...SAMPLE_FIELDS], rows);
}

function trialsCsv({ run, trials }: ReportData): string {
  const header = [
    "run_id", "strategy", "repeat", "position", "started_at", "start_os_resident_bytes", "start_total_bytes", "start_verdict",
    "warm_after_seconds", "to_50_seconds", "to_90_seconds", "to_95_seconds", "served_until_warm", "served", "device_read_bytes",
    "command", "ended_after_seconds", "issued_bytes", "failure",
  ];
  const rows = trials.map((one) => [
    run.id, one.strategy, one.repeat, one.position, one.started_at, one.start_state.os_resident_bytes, one.start_state.total_bytes,
    one.start_state.verdict, one.warm_after_seconds, one.to_50_seconds, one.to_90_seconds, one.to_95_seconds, one.served_until_warm,
    one.served, one.device_read_bytes, one.outcome.command, one.outcome.ended_after_seconds, one.outcome.issued_bytes, one.outcome.failure,
  ]);
  return csv(header, rows);
}

function strategiesCsv({ run, summary }: ReportData): string {
  const measures = [
    "warm_after_seconds", "to_50_seconds", "to_90_seconds", "to_95_seconds", "bound_ratio", "served_until_warm",
    "nothing_served_by_then", "served", "ended_after_seconds", "device_read_bytes",
  ] as const;
  const header = ["run_id", "strategy", "trials", ...measures.flatMap((one) => [one, `${one}_min`, `${one}_max`])];
  const ends = (spread: Spread | null): Value[] => [spread?.median ?? null, spread?.min ?? null, spread?.max ?? null];
  const rows = summary.strategies.map((one) => [run.id, one.strategy, one.trials, ...measures.flatMap((measure) => ends(one[measure]))]);
  return csv(header, rows);
}
