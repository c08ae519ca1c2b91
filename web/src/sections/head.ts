import { element, figures, heading, paragraph } from "../element";
import { bytes, count, ratio, seconds, instant, spread, time, unbroken } from "../format";
import { isWarmUp } from "../curve_stage";
import { metricOf, P99, rangeText, spreadOf, TPS, WORST } from "../metrics";
import { type Axis, axesOf, doubtOf } from "../pivot";
import type { PointSummary, StudyData } from "../../generated/record";
import { disk } from "./facts";
import { beforeLoad, isOfJobs, isOfWarmers, nameOf, strategiesOf } from "./warmers";

export function head(study: StudyData): HTMLElement {
  const { sweep } = study;
  return element("header", { class: "head" },
    ...heading(study.subject === "" ? `Study ${sweep.id}` : study.subject),
    paragraph("answer", unbroken(study.headline)),
    isOfJobs(study) ? jobFigures(study) : isOfWarmers(study) || isWarmUp(study) ? warmersFigures(study) : servedFigures(study),
    paragraph("study", [
      `study ${sweep.id}`,
      time(sweep.started_at),
      `PostgreSQL ${sweep.server.version.split(" ")[0] ?? ""} on ${sweep.machine.hostname}`,
      `${count(sweep.points)} points × ${sweep.repeats} repeats`,
      ...axesOf(study).map(axisText),
      ...(sweep.warmup ? [`a database of ${bytes(sweep.warmup.database_bytes)}`, disk(sweep.warmup.disk)] : []),
    ].join(" · ")));
}

const axisText = ({ name, values }: Axis): string => (values.length <= 6 ? `${name} ${values.join(", ")}` : `${name} ${values[0] ?? ""} to ${values.at(-1) ?? ""} (${values.length} values)`);

const joined = (separator: string, ...parts: string[]): string => parts.filter((part) => part !== "").join(separator);

function servedFigures({ points }: StudyData): HTMLElement | null {
  const served = (point: PointSummary): number => TPS.of(point)?.median ?? 0;
  const measured = points.filter((point) => TPS.of(point) !== null && doubtOf(point) !== "refused").sort((a, b) => served(b) - served(a));
  const [best, last] = [measured[0], measured.at(-1)];
  if (!best || !last) return null;
  const told = (label: string, point: PointSummary): [string, string, string] =>
    [`${label}, transactions per second`, count(served(point)), joined("; ", point.label, rangeText(TPS.of(point), TPS.render))];
  const [p99, worst] = [P99.of(best), WORST.of(best)];
  const quotient = served(last) > 0 ? `${ratio(served(best) / served(last))} ×` : "–";
  return figures("The study in figures", [
    told("fastest point", best),
    ...(last === best ? [] : [told("slowest point", last), ["fastest ÷ slowest", quotient, `of ${count(measured.length)} points, medians of their trials`] satisfies [string, string, string]]),
    ["99th percentile of the fastest point", p99 === null ? "–" : P99.render(p99.median), worst === null ? "" : `worst second ${count(worst.median)} transactions`],
  ]);
}

function jobFigures({ points }: StudyData): HTMLElement | null {
  const all = points.map((point) => ({ point, at: spreadOf(point, "whole_seconds")?.median ?? Number.NaN }));
  const done = all.filter(({ at }) => !Number.isNaN(at)).sort((a, b) => a.at - b.at);
  const ends = [...new Set([done[0], done.at(-1)])].filter((one) => one !== undefined);
  return ends.length === 0 ? null : figures("The study in figures", ends.map(({ point, at }, place) => {
    const before = beforeLoad(point);
    const note = joined("; ", point.values.join(", ") || point.label, before > 0 ? `${seconds(before)} of it before the job` : "");
    return [place === 0 ? "fastest job" : "slowest job", seconds(at), note];
  }));
}

function warmersFigures(study: StudyData): HTMLElement | null {
  const names = strategiesOf(study);
  const reached = (point: PointSummary) => spreadOf(point, isWarmUp(study) ? "warm_after_seconds" : "resident_after_seconds");
  const soonest = (point: PointSummary): number => reached(point)?.median ?? Number.POSITIVE_INFINITY;
  const sorted = study.points.filter((point) => reached(point) !== null).sort((a, b) => soonest(a) - soonest(b));
  const subject = study.points.find((_, place) => names[place] === "pgthaw") ?? sorted[0];
  if (!subject) return null;
  // Compares the subject with doing nothing and the fastest other warmer.
  const others = sorted.filter((one) => one !== subject);
  const compared = [others.find(({ label }) => label === "nothing"), others.find(({ label }) => label !== "nothing" && !label.startsWith("pgthaw"))];
  const beside = compared.flatMap((one) => (one === undefined ? [] : [`${nameOf(study, one)} ${spread(reached(one), instant, `${one.measured_seconds ?? 0} s`).median}`]));
  const steady = study.trials.find(({ steady_tps: tps }) => tps !== null)?.steady_tps ?? null;
  const ids = ["resident-after", "warm-after", "bound-ratio", "served-until-warm", "buffers-after", "load-rate", "cpu-per-gb"];
  const found = ids.map(metricOf).flatMap((metric, place): [string, string, string][] => {
    const range = metric.of(subject);
    if (range === null) return [];
    if (place > 1) return [[metric.label, metric.render(range.median), metric.caption]];
    const value = Number.isFinite(range.median) ? metric.render(range.median) : `> ${subject.measured_seconds ?? 0} s`;
    return [[`${nameOf(study, subject)} ${metric.label}`, value, joined("; ", rangeText(range, metric.render), ...beside) || metric.caption]];
  });
  if (steady !== null) found.push(["steady throughput", metricOf("tps").render(steady), "transactions per second"]);
  return figures(`Figures of ${nameOf(study, subject)}`, found.slice(0, 4));
}
