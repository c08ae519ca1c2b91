import { readAddress, remember, linkTo } from "../address";
import { cell, type Child, code, element, folded, ofPoints, type Option, paragraph, part, select, table } from "../element";
import { count, percent, ratio, ratioText } from "../format";
import { columnOf, type Metric, METRICS, metricsOf, P50, P99, rangeText, renderMedian, TPS, WORST } from "../metrics";
import { doubtOf, type StudyState } from "../pivot";
import type { BackgroundWrites, PointSummary, StudyData, SweepTrial } from "../../generated/record";
import type { Source } from "../source";

export function everyPoint(study: StudyData): HTMLElement {
  const { points, sweep: { id, varied } } = study;
  const metrics = metricsOf(study);
  // Links come first, since the table is wider than its page.
  const named = ["trials, by repeat", ...(varied.length > 0 ? varied : ["point"])];
  const linksOf = (point: PointSummary): HTMLElement => {
    const trials = study.trials.filter(({ number }) => number === point.number).sort((a, b) => a.repeat - b.repeat);
    return element("span", { class: "repeats" }, ...trials.map(({ number, repeat, failure }) =>
      element("a", { href: linkTo(["study", id, "trial", number, repeat]), title: failure ?? "Open this trial", class: failure === null ? null : "against" }, String(repeat))));
  };
  const figureOf = (metric: Metric, point: PointSummary): HTMLElement => cell(renderMedian(metric, point), rangeText(metric.of(point), metric.renderAxis));
  return ofPoints(points.length, () => table("Every point", [...named, ...metrics.map(columnOf)],
    points.map((point): Child[] => [linksOf(point), ...(varied.length > 0 ? point.values : [point.label]), ...metrics.map((metric) => figureOf(metric, point))]),
    { id: "points", className: "low", texts: named.map((_, place) => place) }));
}

const FIRST = 12;

export function fooled(state: StudyState): HTMLElement {
  const metrics = [TPS, WORST, P50, P99];
  const by = (metric: Metric) => (a: PointSummary, b: PointSummary): number => ((metric.of(b)?.median ?? 0) - (metric.of(a)?.median ?? 0)) * (metric.is_low_better ? -1 : 1);
  const points = state.study.points.filter((point) => TPS.of(point) !== null).sort(by(TPS));
  const best = metrics.map((metric) => points.filter((point) => metric.of(point) !== null && doubtOf(point) !== "refused").sort(by(metric))[0]);
  const most = metrics.map((metric) => Math.max(...points.map((point) => metric.of(point)?.median ?? 0)));
  const bar = (metric: Metric, place: number, point: PointSummary): HTMLElement => {
    const range = metric.of(point);
    if (range === null) return element("span", { class: "soft" }, "–");
    const length = element("span", { class: metric.is_low_better ? "bar-length low-better" : "bar-length", "aria-hidden": "true" });
    length.style.width = `${(100 * range.median) / (most[place] || 1)}%`;
    const isBest = best[place] === point;
    return element("span", { class: "bar-cell", title: rangeText(range, metric.render) }, element("span", { class: "bar-track" }, length),
      element("span", { class: isBest ? "bar-value best" : "bar-value" }, metric.render(range.median), isBest && element("span", { class: "unseen" }, " (the best)")));
  };
  const share = (point: PointSummary): string => {
    const [tps, worst] = [TPS.of(point), WORST.of(point)];
    return tps === null || worst === null || tps.median === 0 ? "–" : percent(worst.median / tps.median);
  };
  const row = (point: PointSummary): Child[] =>
    [element("a", { href: state.linkToPoint(point.number) }, point.label), ...metrics.map((metric, place) => bar(metric, place, point)), share(point)];
  const titles = ["point", "throughput (tps)", "worst second (tps)", "median latency", "99th percentile", "worst ÷ mean"];
  const shown = (some: PointSummary[]): HTMLElement => table("The points by throughput", titles, some.map(row), { className: "fooled", texts: [0, 1, 2, 3, 4] });
  return part("fooled", "Don’t be fooled by throughput",
    "The fastest points, with their worst second and their latency. The best value of each column is marked; the best values seldom belong to one point. Points that were not measured as requested are never marked. The worst second is that of the median trial, without its first and last second.",
    shown(points.slice(0, FIRST)),
    points.length > FIRST && folded(`All ${points.length} points`, () => shown(points)));
}

const WRITES: [keyof BackgroundWrites, string][] = [
  ["checkpoints_timed", "timed checkpoints"], ["checkpoints_requested", "requested checkpoints"], ["buffers_checkpoint", "buffers written by checkpoints"],
  ["buffers_clean", "buffers written by the background writer"], ["buffers_backend", "buffers written by backends"], ["maxwritten_clean", "background writer stopped (times)"], ["buffers_alloc", "buffers allocated"],
];

/** Writers of buffers, as in Greg Smith's slides. */
export function background({ study: { points } }: StudyState): HTMLElement {
  // The median of an even number of trials may be fractional.
  const figure = (value: number): string => (Number.isInteger(value) || value >= 100 ? count(value) : value.toFixed(1));
  const rows = points.filter((point) => point.background !== null)
    .map((point) => [point.label, renderMedian(TPS, point, count), ...WRITES.map(([name]) => figure(point.background?.[name] ?? 0))]);
  return part(null, "Checkpoints and writers of buffers",
    "Counters of the server in a trial; medians of the trials. A backend that writes a buffer itself delays its client. “Background writer stopped” counts how often it reached bgwriter_lru_maxpages.",
    ofPoints(rows.length, () => table("Checkpoints and buffers written", ["point", "throughput (tps)", ...WRITES.map(([, title]) => title)], rows, { id: "background", className: "low" })));
}

/** `null` if no point was measured twice (`bench --aa`). */
export function noise({ noise: all }: StudyData): HTMLElement | null {
  if (all.length === 0) return null;
  const times = (value: number | null): string => (value === null ? "–" : `${ratio(value)} ×`);
  const rows = all.flatMap(({ metric, cells }) => cells.map(({ label, ratio: found, p, floor, smallest_detectable: least, false_share: wrong }): Child[] => [
    METRICS.find(({ name }) => name === metric)?.label ?? metric, label || "all",
    ratioText(found), String(found.pairs), p.toFixed(4), times(floor), times(least), wrong === null ? "–" : percent(wrong),
  ]));
  return part(null, "Differences between equal sides",
    "Every point was measured twice, as the equal sides A and A’. A difference below the noise floor may be noise. “False alarms” is the probability that a study with eight pairs of A and A’ reports a difference.",
    table("Differences between equal sides", ["figure", "point", "A’ ÷ A (×)", "pairs", "p", "noise floor", "detectable", "false alarms"], rows, { id: "noise", className: "low", texts: [0, 1] }));
}

/** `null` if there is only one point. */
export function beside({ study }: StudyState, source: Source): HTMLElement | null {
  const { points, trials, sweep } = study;
  const [first, second] = points;
  if (!first || !second) return null;
  const { query } = readAddress();
  const pointOf = (number: string | null): PointSummary | undefined => points.find((point) => String(point.number) === number);
  const chosen = { a: pointOf(query.get("a")) ?? first, b: pointOf(query.get("b")) ?? second };
  const result = element("div", { "aria-live": "polite" });
  const detailOf = async ({ number }: PointSummary): Promise<SweepTrial | null> => {
    const trial = trials.find((one) => one.number === number && one.failure === null);
    return trial === undefined ? null : (await source.trial(sweep.id, trial.number, trial.repeat).catch(() => null))?.trial ?? null;
  };
  const show = async (): Promise<void> => {
    const { a, b } = chosen;
    const [ofA, ofB] = await Promise.all([detailOf(a), detailOf(b)]);
    result.replaceChildren(figuresOf(metricsOf(study), a, b), ofA && ofB ? differencesOf(ofA, ofB, ["A", "B"], "the default") : paragraph("soft", `This page has no settings of ${ofA ? b.label : a.label}.`));
  };
  void show();
  const options = points.map((point): Option => [String(point.number), point.label]);
  const side = (name: "a" | "b"): HTMLElement => select(`beside-${name}`, name.toUpperCase(), options, String(chosen[name].number), (value) => {
    chosen[name] = pointOf(value) ?? chosen[name];
    remember({ [name]: value });
    void show();
  });
  return part("beside", "Two points compared",
    "Medians, and differences between the settings that the server reported. pgthaw results compare shows whether chance explains a difference.",
    element("div", { class: "pivot" }, side("a"), side("b")),
    result);
}

const figuresOf = (metrics: Metric[], a: PointSummary, b: PointSummary): HTMLElement =>
  table("Figures of both", ["figure", "A", "B", "B ÷ A (×)"], metrics.map((metric) => {
    const quotient = (metric.of(b)?.median ?? Number.NaN) / (metric.of(a)?.median || Number.NaN);
    const isKnown = Number.isFinite(metric.of(a)?.median) && Number.isFinite(quotient);
    return [columnOf(metric), renderMedian(metric, a), renderMedian(metric, b), isKnown ? `${ratio(quotient)} ×` : "–"];
  }), { className: "pairs" });

export function differencesOf(a: SweepTrial, b: SweepTrial, sides: [string, string], missing: string): HTMLElement {
  const of = (trial: SweepTrial): Map<string, string> => new Map([
    ...Object.entries(trial.point).filter(([, value]) => value !== null && typeof value !== "object").map(([name, value]): [string, string] => [name, String(value)]),
    ...((trial.point["variables"] ?? []) as [string, string][]).map(([name, value]): [string, string] => [`-D ${name}`, value]),
    ...trial.settings,
  ]);
  const both = [of(a), of(b)];
  const names = [...new Set(both.flatMap((settings) => [...settings.keys()]))].filter((name) => both[0]?.get(name) !== both[1]?.get(name));
  const told = (value: string | undefined): HTMLElement => (value === undefined ? element("span", { class: "soft" }, missing) : code(value));
  if (names.length === 0) return paragraph("soft", "No setting differs.");
  const rows = names.map((name) => [code(name), ...both.map((settings) => told(settings.get(name)))]);
  return table("Settings that differ", ["setting", ...sides], rows, { className: "pairs", texts: [0, 1, 2] });
}
