// The table below the interference chart: floors, and who served more by when.

import { element, table } from "../element";
import { count, ratio, ratioText, seconds, spread } from "../format";
import type { Interference, LeastShare, Spread, Traffic } from "../../generated/record";

export function trafficTable({ deadline_seconds: deadline, warmers }: Traffic): HTMLElement {
  const titles = ["warmer", "lowest second (÷ nothing)", "least of any round (÷ nothing)", "floor (÷ nothing)", "ahead in total from", "nothing had served by its warm time (transactions)", "served in all ÷ nothing (×)"];
  const later = deadline === null ? [] : [`served by ${seconds(deadline)} (transactions)`, "÷ nothing (×)", "pgthaw's ÷ that (×)"];
  const columns = [...titles, ...later].map((title, index) => ({ title, isNumber: index > 0 }));
  const rows = warmers.map((one) => [
    one.strategy,
    share(one.lowest),
    share(one.least),
    floor(one),
    one.ahead_from_second === null ? "never" : `second ${one.ahead_from_second}`,
    median(one.nothing_served_by_then),
    ratioText(one.served_ratio),
    ...(deadline === null ? [] : [median(one.served_by_deadline), ratioText(one.deadline_ratio), ratioText(one.pgthaw_ratio)]),
  ]);
  const note = deadline === null ? "" : ` ${seconds(deadline)} are 1.25 × the bound.`;
  return element(
    "div",
    {},
    element("p", { class: "soft" }, `The floor is judged by the least of any round. “Ahead”: from the end of that second on more was served in total than with nothing, to the end of the trial.${note}`),
    table("What the traffic got meanwhile, in figures", columns, rows, "low"),
  );
}

const share = (one: LeastShare | null): string => (one === null ? "–" : `${ratio(one.share)} in second ${one.second}${one.repeat === null ? "" : ` of round ${one.repeat}`}`);

function floor(one: Interference): string {
  if (one.floor === null || one.is_floor_held === null) return "–";
  return `${ratio(one.floor)} ${one.is_floor_held ? "held" : "missed"}`;
}

const median = (value: Spread | null): string => spread(value, count, "").median;
