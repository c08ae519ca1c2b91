// Who wrote the buffers, and what made the checkpoints: the table of the slides.

import { element, folded, MANY_ROWS, table } from "../element";
import { count } from "../format";
import { TPS } from "../metrics";
import type { BackgroundWrites } from "../../generated/record";
import type { StudyState } from "../state";

const COLUMNS: [keyof BackgroundWrites, string][] = [
  ["checkpoints_timed", "checkpoints timed"],
  ["checkpoints_requested", "checkpoints requested"],
  ["buffers_checkpoint", "buffers written by checkpoints"],
  ["buffers_clean", "buffers by background writer"],
  ["buffers_backend", "buffers by backends"],
  ["maxwritten_clean", "writer held back (times)"],
  ["buffers_alloc", "buffers allocated"],
];

/** A median of few trials may be a half. */
const figure = (value: number): string => (Number.isInteger(value) || value >= 100 ? count(value) : value.toFixed(1));

export function background({ study }: StudyState): HTMLElement {
  const columns = [["point", "throughput (tps)"], COLUMNS.map(([, title]) => title)].flat().map((title, index) => ({ title, isNumber: index > 0 }));
  const rows = study.points.flatMap((point) => {
    const [writes, served] = [point.background, TPS.of(point)];
    if (writes === null) return [];
    return [[point.label, served === null ? "–" : count(served.median), ...COLUMNS.map(([name]) => figure(writes[name]))]];
  });
  const make = (): HTMLElement => {
    const made = table("Checkpoints and buffers written", columns, rows, "low");
    made.id = "background";
    return made;
  };
  return element(
    "div",
    {},
    element("h3", {}, "Checkpoints, and who wrote the buffers"),
    element("p", { class: "lead" }, "Counted by the server during a trial, the median of the trials. Buffers that backends wrote themselves made a user wait; “writer held back” counts how often the background writer had to stop at bgwriter_lru_maxpages."),
    rows.length > MANY_ROWS ? folded(`All ${rows.length} points`, make) : make(),
  );
}
