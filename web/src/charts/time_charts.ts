// The charts over time.

import type { LineSeriesOption, ScatterSeriesOption } from "echarts";
import { aheadOf, type Curve, fittedCurve, overTransactions, rateCurve, servedCurve, stateCurve, tickInstants, transactionStep, valueAt } from "../curves";
import { after, bandwidth, bytes, compact, count, latency } from "../format";
import { spreadOf } from "../metrics";
import type { ChartPlan, View } from "./figure";
import { curvesTable, type TimeChart, timeOption } from "./time_chart";

const duringSecond = (at: number): string => (Number.isInteger(at + 0.5) ? `second ${at + 0.5} (${at - 0.5} s to ${at + 0.5} s)` : `around ${at} s`);
const afterSeconds = (at: number): string => `after ${at} s`;
const tall = (view: View): number => (view.isNarrow ? 300 : 420);
const low = (view: View): number => (view.isNarrow ? 240 : 300);

/** A plan whose chart and numbers come from the same curves. */
function plan(
  head: Pick<ChartPlan, "id" | "title" | "explanation" | "unit" | "height"> & Pick<Partial<ChartPlan>, "controls">,
  chart: (view: View) => TimeChart,
): ChartPlan {
  return {
    ...head,
    option: (view) => timeOption(view, chart(view)),
    numbers: (view) => curvesTable(head.title, chart(view)),
  };
}

const perStrategy = (view: View, curve: (strategy: string) => Curve): Curve[] => view.state.visible.map(curve);

const AXIS = { name: "axis", label: "Vertical axis", options: [["linear", "linear"], ["log", "log"]] as [string, string][] };
const OVER = { name: "over", label: "Horizontal axis", options: [["seconds", "seconds"], ["transactions", "transactions"]] as [string, string][] };
const LOG_AXIS = { ...AXIS, options: [["log", "log"], ["linear", "linear"]] as [string, string][] };

export const throughput: ChartPlan = plan(
  {
    id: "throughput",
    title: "Throughput",
    explanation:
      "Each line is the median of the repeats and each band reaches from the lowest to the highest. A ring marks where a strategy was warm. A thin dashed line is the closed form that fits a trial best, where nothing but the workload warmed it.",
    unit: (view) => (view.choices["over"] === "transactions" ? "transactions per second, over the transactions served" : `transactions per second; from one tick on a line to the next it served ${count(transactionStep(servedCurves(view)))} transactions`),
    height: tall,
    controls: [AXIS, OVER],
  },
  (view) => {
    const curves = perStrategy(view, (strategy) => rateCurve(view.state.trials, strategy, ({ tps }) => tps.mean));
    const isLog = view.choices["axis"] === "log";
    const { steady } = view.state;
    const served = servedCurves(view);
    const isOverTransactions = view.choices["over"] === "transactions";
    return {
      curves: isOverTransactions ? curves.map((curve, place) => overTransactions(curve, served[place] ?? curve)) : curves,
      isOverTransactions,
      isLog,
      floor: 1,
      render: count,
      renderAxis: compact,
      tableUnit: "tps",
      renderInstant: isOverTransactions ? (at) => `after ${count(at)} transactions` : duringSecond,
      levels: steady === null ? [] : [{ value: steady, label: `steady ${compact(steady)}` }],
      more: isOverTransactions ? [] : [...fits(view), ticks(curves, served, view, isLog), warmMarks(curves, view, isLog)],
    };
  },
);

const servedCurves = (view: View): Curve[] => perStrategy(view, (strategy) => servedCurve(view.state.trials, strategy));

/** Short uprights on each curve after every so many transactions: where they lie close it is fast. */
function ticks(curves: Curve[], served: Curve[], { state }: View, isLog: boolean): ScatterSeriesOption {
  const step = transactionStep(served);
  const data = curves.flatMap((curve, place) => tickInstants(served[place] ?? curve, step).flatMap((at) => {
    const value = valueAt(curve, at);
    if (value === null) return [];
    const { color } = state.style(curve.strategy);
    return [{ name: curve.strategy, value: [at, isLog ? Math.max(1, value) : value], itemStyle: { color, opacity: state.opacity(curve.strategy) } }];
  }));
  return { type: "scatter", id: "ticks", data, symbol: "rect", symbolSize: [1.5, 11], silent: true, tooltip: { show: false }, z: 4 };
}

/** The fit of each trial that has one. */
function fits({ state }: View): LineSeriesOption[] {
  const seconds = state.longest;
  const shown = state.trials.filter((trial) => state.isVisible(trial.strategy));
  return shown.flatMap((trial): LineSeriesOption[] => {
    const fit = trial.judgement?.fit ?? null;
    if (fit === null) return [];
    return [{
      type: "line",
      id: `fit:${trial.strategy}:${trial.repeat}`,
      name: trial.strategy,
      data: fittedCurve(fit, seconds).map(([at, tps]) => [at, Math.max(1, tps)]),
      silent: true,
      symbol: "none",
      lineStyle: { color: state.theme.ink, width: 1, type: [5, 4], opacity: 0.8 * state.opacity(trial.strategy) },
      emphasis: { disabled: true },
      tooltip: { show: false },
      z: 4,
    }];
  });
}

/** A ring on each curve at the strategy's median warm time. */
function warmMarks(curves: Curve[], view: View, isLog: boolean): ScatterSeriesOption {
  const { state } = view;
  const marks = state.points.flatMap((one) => {
    const curve = curves.find((candidate) => candidate.strategy === one.label);
    const at = spreadOf(one, "warm_after_seconds")?.median ?? null;
    const value = curve && at !== null ? valueAt(curve, at) : null;
    if (at === null || value === null) return [];
    const color = state.style(one.label).color;
    const isSubject = one.label === "pgthaw";
    return [{
      name: one.label,
      value: [at, isLog ? Math.max(1, value) : value],
      symbolSize: isSubject ? 13 : 9,
      itemStyle: { color: state.theme.paper, borderColor: color, borderWidth: isSubject ? 3 : 2, opacity: state.opacity(one.label) },
      label: {
        show: isSubject,
        // At the side where there is room for it.
        position: at < state.longest * 0.45 ? ("right" as const) : ("left" as const),
        distance: 10,
        formatter: `warm ${after(at)}`,
        color: state.theme.ink,
        backgroundColor: state.theme.surround,
        padding: [1, 3],
        fontWeight: 600 as const,
      },
    }];
  });
  return { type: "scatter", id: "warm", data: marks, silent: true, tooltip: { show: false }, z: 6 };
}

export const served: ChartPlan = plan(
  {
    id: "served",
    title: "Transactions served since the start",
    explanation: "What users got. A warmer that starves the workload falls behind doing nothing before it pulls ahead.",
    unit: (view) => (view.choices["as"] === "ahead" ? "transactions more than with nothing" : "transactions"),
    height: low,
    controls: [{ name: "as", label: "Shown as", options: [["total", "total"], ["ahead", "ahead of nothing"]] }],
  },
  (view) => {
    const { trials } = view.state;
    const curves = perStrategy(view, (strategy) => servedCurve(trials, strategy));
    const isAhead = view.choices["as"] === "ahead";
    const baseline = servedCurve(trials, "nothing");
    return {
      curves: isAhead ? curves.map((curve) => aheadOf(curve, baseline)) : curves,
      render: count,
      renderAxis: compact,
      tableUnit: "transactions",
      renderInstant: afterSeconds,
    };
  },
);

export const resident: ChartPlan = plan(
  {
    id: "resident",
    title: "The database in memory",
    explanation: "Bytes of its files in the operating system's page cache, measured each second.",
    unit: () => "bytes of the database in the page cache",
    height: low,
  },
  (view) => {
    const { trials, study } = view.state;
    const total = study.sweep.warmup?.database_bytes;
    return {
      curves: perStrategy(view, (strategy) =>
        stateCurve(trials, strategy, (trial) => trial.startBytes, (series) => series.os_resident_bytes),
      ),
      render: bytes,
      renderAxis: bytes,
      isSize: true,
      renderInstant: afterSeconds,
      levels: total === undefined ? [] : [{ value: total, label: `the database, ${bytes(total)}`, isLabelRight: true }],
    };
  },
);

export const device: ChartPlan = plan(
  {
    id: "device",
    title: "Reads from the device, by anybody",
    explanation: "All that the kernel read from the device in each second, for whoever asked: the server, the strategy and everything else on this machine.",
    unit: (view) => (view.choices["of"] === "reads" ? "reads of the device per second, by anybody" : "bytes read from the device per second, by anybody"),
    height: low,
    controls: [{ name: "of", label: "Quantity", options: [["bytes", "bytes"], ["reads", "reads"]] }],
  },
  (view) => {
    const { trials, study } = view.state;
    const { rbps, riops } = study.sweep.warmup?.disk ?? { rbps: null, riops: null };
    const isReads = view.choices["of"] === "reads";
    const limit = isReads ? riops : rbps;
    const render = isReads ? count : bandwidth;
    return {
      curves: perStrategy(view, (strategy) =>
        rateCurve(trials, strategy, (series) => (isReads ? series.device_reads : series.device_read_bytes.mean)),
      ),
      render,
      renderAxis: isReads ? compact : bandwidth,
      ...(isReads ? { tableUnit: "reads/s" } : {}),
      renderInstant: duringSecond,
      levels: limit === null ? [] : [{ value: limit, label: `limit ${render(limit)}`, isLabelRight: true }],
    };
  },
);

export const latencies: ChartPlan = plan(
  {
    id: "latency",
    title: "Latency of a transaction",
    explanation: "The mean, or the longest, of each second. A second without any transaction has none: its line is drawn through.",
    unit: (view) => (view.choices["of"] === "max" ? "longest of the second" : "mean of the second"),
    height: low,
    controls: [{ name: "of", label: "Statistic", options: [["mean", "mean"], ["max", "longest"]] }, LOG_AXIS],
  },
  (view) => ({
    curves: perStrategy(view, (strategy) =>
      rateCurve(view.state.trials, strategy, (series) =>
        view.choices["of"] === "max" ? series.latency_us_max : series.latency_us_mean,
      ),
    ),
    isLog: view.choices["axis"] === "log",
    render: latency,
    renderAxis: latency,
    renderInstant: duringSecond,
  }),
);
