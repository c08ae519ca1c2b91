// The numbers of a study, made into files by the page.

import { element } from "../../element";
import { fold } from "../../fold";
import { csv, download } from "../../sections/downloads";
import { metricsOf } from "../metrics";
import type { StudyData } from "../record";

const FIELDS = ["number", "repeat", "position", "started_at", "start_verdict", "failure"];

export function downloads(study: StudyData): HTMLElement {
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
      download("Every trial (CSV)", `${name}-trials.csv`, "text/csv", everyTrial)),
  );
}
