// "Don't be fooled": the points by throughput, with their worst second and their slowest hundredth beside it.

import { element, folded, table } from "../element";
import { percent } from "../format";
import { type Metric, P50, P99, rangeText, TPS, WORST } from "../metrics";
import { doubtOf } from "../pivot";
import type { PointSummary } from "../../generated/record";
import type { StudyState } from "../state";

/** Rows of the table before it is opened whole. */
const FIRST = 12;

export function fooled(state: StudyState): HTMLElement {
  const { study } = state;
  const served = (point: PointSummary): number => TPS.of(point)?.median ?? 0;
  const points = study.points.filter((point) => TPS.of(point) !== null).sort((a, b) => served(b) - served(a));
  const best = [TPS, WORST, P50, P99].map((metric) => bestOf(metric, points));
  const shown = (some: PointSummary[]): HTMLElement => {
    const rows = some.map((point) => [
      element("a", { href: state.linkToPoint(point.number) }, point.label),
      ...[TPS, WORST, P50, P99].map((metric, index) => bar(metric, point, points, best[index] === point)),
      share(point),
    ]);
    const columns = ["point", "throughput (tps)", "worst second (tps)", "median latency", "99th percentile", "worst ÷ mean"].map((title, index) => ({ title, isNumber: index === 5 }));
    return table("The points by throughput", columns, rows, "fooled");
  };
  return element(
    "div",
    { id: "fooled" },
    element("h3", {}, "Don’t be fooled by throughput"),
    element("p", { class: "lead" }, "The fastest points, and what their users got in the worst second and in the slowest hundredth of transactions. The best of each column is marked; it is seldom the same point, and none that measured something else than was asked for. The worst second is that of the median trial, whose first and last are left out."),
    shown(points.slice(0, FIRST)),
    points.length > FIRST && folded(`All ${points.length} points`, () => shown(points)),
  );
}

function bestOf(metric: Metric, points: PointSummary[]): PointSummary | undefined {
  const value = (point: PointSummary): number => (metric.of(point)?.median ?? Number.NaN) * (metric.isLowBetter ? -1 : 1);
  return points.filter((point) => metric.of(point) !== null && doubtOf(point) !== "refused").sort((a, b) => value(b) - value(a))[0];
}

function bar(metric: Metric, point: PointSummary, points: PointSummary[], isBest: boolean): HTMLElement {
  const range = metric.of(point);
  if (range === null) return element("span", { class: "soft" }, "–");
  const most = Math.max(...points.map((one) => metric.of(one)?.median ?? 0));
  const length = element("span", { class: metric.isLowBetter ? "bar-length low-better" : "bar-length", "aria-hidden": "true" });
  length.style.width = `${most > 0 ? (100 * range.median) / most : 0}%`;
  return element("span", { class: "bar-cell", title: rangeText(range, metric.render) },
    element("span", { class: "bar-track" }, length), element("span", { class: isBest ? "bar-value best" : "bar-value" }, metric.render(range.median), isBest && element("span", { class: "unseen" }, " (the best)")));
}

function share(point: PointSummary): string {
  const [tps, worst] = [TPS.of(point), WORST.of(point)];
  return tps === null || worst === null || tps.median === 0 ? "–" : percent(worst.median / tps.median);
}
