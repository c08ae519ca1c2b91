// The numbers of a study, made into files by the page.

import { element } from "../../element";
import { fold } from "../../fold";
import { csv, download } from "../../sections/downloads";
import { METRICS } from "../metrics";
import type { StudyData, TrialOutline } from "../record";

const FIELDS: (keyof TrialOutline)[] = [
  "number", "repeat", "position", "started_at", "start_verdict", "failure", "tps", "worst_second_tps", "latency_us_p50", "latency_us_p95", "latency_us_p99", "latency_us_p999",
  "device_read_bytes", "device_writes_per_second", "device_written_bytes", "checkpoints",
];

export function downloads(study: StudyData): HTMLElement {
  const { sweep, points, trials } = study;
  const name = `pgthaw-${sweep.id}`;
  const valuesOf = new Map(points.map((point) => [point.number, point.values]));
  const everyTrial = (): string => csv([...sweep.varied, ...FIELDS], trials.map((trial) => [...(valuesOf.get(trial.number) ?? []), ...FIELDS.map((field) => trial[field])]));
  const everyPoint = (): string => csv(
    [...sweep.varied, ...METRICS.flatMap(({ id }) => [id, `${id}_min`, `${id}_max`]), "trials", "failures"],
    points.map((point) => [...point.values, ...METRICS.flatMap((metric) => { const range = metric.of(point); return [range?.median ?? null, range?.min ?? null, range?.max ?? null]; }), point.trials, point.failures]),
  );
  return fold(
    "downloads",
    "The numbers",
    element("p", {}, "pgthaw results show --json prints everything that was stored, every second with it."),
    element("div", { class: "buttons" },
      download("The study (JSON)", `${name}.json`, "application/json", () => JSON.stringify(study)),
      download("Every point (CSV)", `${name}-points.csv`, "text/csv", everyPoint),
      download("Every trial (CSV)", `${name}-trials.csv`, "text/csv", everyTrial)),
  );
}
