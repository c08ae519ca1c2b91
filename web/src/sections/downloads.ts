// The numbers of a study, made into files by the page.

import { element } from "../element";
import { fold } from "../fold";
import { metricsOf } from "../metrics";
import type { StudyData } from "../../generated/record";
import type { Source } from "../source";

type Value = string | number | null;

const FIELDS = ["number", "repeat", "position", "started_at", "start_verdict", "failure"];

export function downloads(study: StudyData, source: Source, hasSeconds: boolean): HTMLElement {
  const { sweep, points, trials } = study;
  const name = `pgthaw-${sweep.id}`;
  const metrics = metricsOf(study);
  const fields = [...FIELDS, ...metrics.map(({ key }) => key)];
  const valuesOf = new Map(points.map((point) => [point.number, point.values]));
  const everyTrial = (): string => csv([...sweep.varied, ...fields], trials.map((trial) => [...(valuesOf.get(trial.number) ?? []), ...fields.map((field) => (trial[field] ?? null) as string | number | null)]));
  const everyPoint = (): string => csv(
    [...sweep.varied, ...metrics.flatMap(({ id }) => [id, `${id}_min`, `${id}_max`]), "trials", "failures"],
    points.map((point) => [...point.values, ...metrics.flatMap((metric) => { const range = metric.of(point); return [range?.median, range?.min, range?.max].map((end) => (end !== undefined && Number.isFinite(end) ? end : null)); }), point.trials, point.failures]),
  );
  return fold(
    "downloads",
    "The numbers",
    element("p", {}, "pgthaw results show --json prints everything that was stored, every second with it."),
    element("div", { class: "buttons" },
      download("The study (JSON)", `${name}.json`, "application/json", () => JSON.stringify(study)),
      download("Every point (CSV)", `${name}-points.csv`, "text/csv", everyPoint),
      download("Every trial (CSV)", `${name}-trials.csv`, "text/csv", everyTrial),
      hasSeconds && download("Every second of every trial (CSV)", `${name}-samples.csv`, "text/csv", () => samplesCsv(study, source))),
  );
}

/** Spans of a second, unless there are many. */
async function samplesCsv({ sweep, points, trials }: StudyData, source: Source): Promise<string> {
  const fields = ["second", "tps", "latency_us_mean", "latency_us_min", "latency_us_max", "latency_us_deviation", "foreground_read_bytes", "device_read_bytes", "device_reads", "os_resident_bytes"] as const;
  const valuesOf = new Map(points.map((point) => [point.number, point.values]));
  const rows: Value[][] = [];
  for (const { number, repeat, position } of trials) {
    const series = (await source.trial(sweep.id, number, repeat))?.series;
    series?.second.forEach((_, span) => rows.push([...(valuesOf.get(number) ?? []), repeat, position, ...fields.map((field) => {
      const column = series[field];
      return ("mean" in column ? column.mean : column)[span] ?? null;
    })]));
  }
  return csv([...sweep.varied, "repeat", "position", ...fields], rows);
}

function download(label: string, file: string, type: string, content: () => string | Promise<string>): HTMLElement {
  const save = async (): Promise<void> => {
    const address = URL.createObjectURL(new Blob([await content()], { type }));
    element("a", { href: address, download: file }).click();
    setTimeout(() => URL.revokeObjectURL(address), 60_000);
  };
  return element("button", { type: "button", "data-file": file, click: () => void save() }, label);
}

/** RFC 4180, for programs: field names as stored, a missing value is empty. */
function csv(header: string[], rows: Value[][]): string {
  const field = (value: Value): string => {
    const text = value === null ? "" : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [header, ...rows].map((row) => `${row.map(field).join(",")}\r\n`).join("");
}
