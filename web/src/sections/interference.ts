// The table below the interference chart: floors, and who served more by when.

import { element, table } from "../element";
import { count, ratio, ratioText, seconds, spread } from "../format";
import type { Interference, LeastShare, Tournament, SecondShare } from "../../generated/record";

export function interferenceTable(data: Tournament): HTMLElement {
  const { deadline_seconds: deadline, interference } = data.comparison;
  const titles = ["strategy", "lowest second (÷ nothing)", "least of any round (÷ nothing)", "floor (÷ nothing)", "ahead in total from"];
  const later = deadline === null ? [] : [`served by ${seconds(deadline)} (transactions)`, "÷ nothing (×)", "pgthaw's ÷ that (×)"];
  const columns = [...titles, ...later].map((title, index) => ({ title, isNumber: index > 0 }));
  const rows = interference.map((one) => [
    one.strategy,
    lowest(one.lowest),
    least(one.least),
    floor(one),
    one.ahead_from_second === null ? "never" : `second ${one.ahead_from_second}`,
    ...(deadline === null ? [] : [served(one), ratioText(one.served_ratio), ratioText(one.pgthaw_ratio)]),
  ]);
  const made = table("What the traffic got meanwhile, in figures", columns, rows);
  const note = deadline === null ? "" : ` ${seconds(deadline)} are 1.25 × the bound.`;
  return element(
    "div",
    {},
    element("p", { class: "soft" }, `The floor is judged by the least of any round. “Ahead”: from the end of that second on more was served in total than with nothing, to the end of the trial.${note}`),
    made,
  );
}

const lowest = (second: SecondShare | null): string =>
  second?.share == null ? "–" : `${ratio(second.share)} in second ${second.second}`;

const least = (share: LeastShare | null): string =>
  share === null ? "–" : `${ratio(share.share)} in second ${share.second} of round ${share.repeat}`;

function floor(one: Interference): string {
  if (one.floor === null || one.is_floor_held === null) return "–";
  return `${ratio(one.floor)} ${one.is_floor_held ? "held" : "missed"}`;
}

const served = (one: Interference): string => spread(one.served_by_deadline, count, "").median;
