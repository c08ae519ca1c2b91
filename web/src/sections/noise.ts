// What equal sides differ by: the noise that every difference of the study stands beside.

import { type Child, element, table } from "../element";
import { percent, ratio, ratioText } from "../format";
import { METRICS } from "../metrics";
import type { StudyData } from "../../generated/record";

/** `null`: no point was measured twice. */
export function noise({ noise: all }: StudyData): HTMLElement | null {
  if (all.length === 0) return null;
  const rows = all.flatMap(({ metric, cells }) => cells.map((cell): Child[] => [
    METRICS.find(({ id }) => id === metric)?.label ?? metric, cell.label === "" ? "all" : cell.label, ratioText(cell.ratio), String(cell.ratio.pairs), cell.p.toFixed(4),
    cell.floor === null ? "–" : `${ratio(cell.floor)} ×`, cell.smallest_detectable === null ? "–" : `${ratio(cell.smallest_detectable)} ×`, cell.false_share === null ? "–" : percent(cell.false_share),
  ]));
  const columns = ["figure", "point", "A’ ÷ A (×)", "pairs", "p", "noise floor", "detectable", "false alarms"].map((title, index) => ({ title, isNumber: index > 1 }));
  const made = table("What equal sides differ by", columns, rows, "low");
  made.id = "noise";
  return element("div", {}, element("h3", {}, "What equal sides differ by"),
    element("p", { class: "lead" }, "Every point was measured twice, as A and A’, which are the same: what lies below the noise floor may be nothing. False alarms is how often a study of eight of these pairs would find a difference."), made);
}
