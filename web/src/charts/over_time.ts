import type { LineSeriesOption, ScatterSeriesOption } from "echarts";
import { type CurveStage, type PointsStage, WarmersStage } from "../curve_stage";
import { aheadOf, type Curve, fittedCurve, overTransactions, rateCurve, servedCurve, shareCurve, stateCurve, tickInstants, transactionStep, type Values, valueAt } from "../curves";
import type { Option } from "../element";
import { after, BANDWIDTHS, bytes, compact, count, COUNTS, LATENCIES, ratio, type Scale, SIZES } from "../format";
import { spreadOf } from "../metrics";
import type { Traffic, TrialSeries } from "../../generated/record";
import type { ChartPlan, Control, View } from "./figure";
import { type Line, onAxis, type Panel, type TimeChart, timePlan } from "./time_chart";

const duringSecond = (at: number): string => (Number.isInteger(at + 0.5) ? `second ${at + 0.5} (${at - 0.5} s to ${at + 0.5} s)` : `around ${at} s`);
const afterSeconds = (at: number): string => `after ${at} s`;
const tall = ({ isNarrow }: View): number => (isNarrow ? 300 : 420);
const low = ({ isNarrow }: View): number => (isNarrow ? 240 : 300);

const control = (name: string, label: string, ...options: Option[]): Control => ({ name, label, options });
const LINEAR: Option = ["linear", "linear"];
const LOG: Option = ["log", "log"];

const lineOf = (state: CurveStage, curve: Curve): Line => {
  const isSubject = curve.name === "pgthaw";
  return { ...curve, id: curve.name, style: state.style(curve.name), opacity: state.opacity(curve.name), isSubject, shade: state.focus === curve.name ? 0.3 : isSubject ? 0.2 : 0.1 };
};

type Drawing = Scale & Pick<Panel, "floor" | "levels" | "more">;

const chartOf = (state: CurveStage, curves: Curve[], panel: Drawing, renderInstant = duringSecond, isOverTransactions = false): TimeChart => ({
  panels: [{ ...panel, id: "all", weight: 1, lines: curves.map((curve) => lineOf(state, curve)) }],
  longest: isOverTransactions ? null : state.longest, bound: state.bound, renderInstant,
});

const curvesOf = (state: CurveStage, curve: (name: string) => Curve): Curve[] => state.visible.map(curve);
const rates = (state: CurveStage, values: (series: TrialSeries) => Values): Curve[] => curvesOf(state, (name) => rateCurve(state.trials, name, values));

const QUANTITIES: Record<string, { label: string; unit: string; scale: Scale; of: (series: TrialSeries) => Values }> = {
  throughput: { label: "transactions", unit: "transactions per second", scale: COUNTS, of: ({ tps }) => tps.mean },
  writes: { label: "writes", unit: "writes per second, all processes", scale: COUNTS, of: ({ machine }) => machine?.["device_writes"] ?? [] },
  written: { label: "written", unit: "written per second, all processes", scale: BANDWIDTHS, of: ({ machine }) => machine?.["device_written_bytes"] ?? [] },
  reads: { label: "reads", unit: "reads per second, all processes", scale: COUNTS, of: ({ device_reads: reads }) => reads },
  read: { label: "read", unit: "read per second, all processes", scale: BANDWIDTHS, of: ({ device_read_bytes: read }) => read.mean },
};

const quantityOf = ({ choices }: View) => QUANTITIES[choices["quantity"] ?? ""] ?? (QUANTITIES["throughput"] as (typeof QUANTITIES)[string]);

export const points: ChartPlan<PointsStage> = timePlan<PointsStage>({
  id: "over-time", title: "Points over time",
  explanation: "Each line is the median of a point\u2019s trials, and its band spans the lowest to the highest.",
  unit: (view) => quantityOf(view).unit, height: tall,
  controls: [control("quantity", "Quantity", ...Object.entries(QUANTITIES).map(([name, { label }]): Option => [name, label]))],
}, (view) => {
  const { of, scale } = quantityOf(view);
  return chartOf(view.state, rates(view.state, of), scale, (at) => (Number.isInteger(at + 0.5) ? `second ${at + 0.5}` : `around ${at} s`));
});

type Warmers = View<WarmersStage>;

const servedCurves = ({ state }: Warmers): Curve[] => curvesOf(state, (name) => servedCurve(state.trials, name));

export const throughput: ChartPlan<WarmersStage> = timePlan<WarmersStage>({
  id: "throughput", title: "Throughput",
  explanation: "Each line is the median of the repeats, and each band spans the lowest to the highest. A ring marks when the server became warm. A thin dashed line is the model’s warm-up curve, fitted to a trial that only the workload warmed.",
  unit: (view) => `transactions per second${view.choices["over"] === "transactions" ? ", over the transactions served" : `; a tick on a line for every ${count(transactionStep(servedCurves(view)))} transactions`}`,
  height: tall,
  controls: [control("axis", "Vertical axis", LINEAR, LOG), control("over", "Horizontal axis", ["seconds", "seconds"], ["transactions", "transactions"])],
}, (view) => {
  const { state, choices } = view;
  const [curves, served, isOver] = [rates(state, ({ tps }) => tps.mean), servedCurves(view), choices["over"] === "transactions"];
  const scale: Drawing = { ...COUNTS, tableUnit: "tps", isLog: choices["axis"] === "log", floor: 1 };
  return chartOf(state, isOver ? curves.map((curve, place) => overTransactions(curve, served[place] ?? curve)) : curves, {
    ...scale,
    levels: state.steady === null ? [] : [{ value: state.steady, label: `steady ${compact(state.steady)}`, position: "insideStartTop" }],
    more: isOver ? [] : [...fits(state), ticks(curves, served, state, scale), warmMarks(curves, state, scale)],
  }, isOver ? (at) => `after ${count(at)} transactions` : duringSecond, isOver);
});

const marksOf = (id: string, z: number, data: ScatterSeriesOption["data"] & object, more: Partial<ScatterSeriesOption>): ScatterSeriesOption =>
  ({ type: "scatter", id, data, silent: true, tooltip: { show: false }, z, ...more });

/** Ticks after equal numbers of transactions; close ticks mean high throughput. */
function ticks(curves: Curve[], served: Curve[], state: WarmersStage, scale: Drawing): ScatterSeriesOption {
  const step = transactionStep(served);
  const data = curves.flatMap((curve, place) => tickInstants(served[place] ?? curve, step).map((at) => ({
    name: curve.name, value: [at, onAxis(scale, valueAt(curve, at) ?? 0)], itemStyle: { color: state.style(curve.name).color, opacity: state.opacity(curve.name) },
  })));
  return marksOf("ticks", 4, data, { symbol: "rect", symbolSize: [1.5, 11] });
}

const fits = (state: WarmersStage): LineSeriesOption[] => state.trials.flatMap(({ name, repeat, judgement }): LineSeriesOption[] => !state.isVisible(name) || !judgement?.fit ? [] : [{
  type: "line", id: `fit:${name}:${repeat}`, name, data: fittedCurve(judgement.fit, state.longest).map(([at, tps]) => [at, Math.max(1, tps)]),
  lineStyle: { color: state.theme.ink, width: 1, type: [5, 4], opacity: 0.8 * state.opacity(name) },
  silent: true, symbol: "none", emphasis: { disabled: true }, tooltip: { show: false }, z: 4,
}]);

function warmMarks(curves: Curve[], state: WarmersStage, scale: Drawing): ScatterSeriesOption {
  const data = state.points.flatMap((point) => {
    const curve = curves.find(({ name }) => name === point.label);
    const at = spreadOf(point, "warm_after_seconds")?.median ?? null;
    const value = curve && at !== null ? valueAt(curve, at) : null;
    if (curve === undefined || at === null || value === null) return [];
    const { style, opacity, isSubject } = lineOf(state, curve);
    return [{
      name: curve.name, value: [at, onAxis(scale, value)], symbolSize: isSubject ? 13 : 9,
      itemStyle: { color: state.theme.paper, borderColor: style.color, borderWidth: isSubject ? 3 : 2, opacity: opacity ?? 1 },
      label: {
        show: isSubject ?? false, distance: 10, formatter: `warm ${after(at)}`, color: state.theme.ink, backgroundColor: state.theme.surround, padding: [1, 3], fontWeight: 600 as const,
        position: at < state.longest * 0.45 ? ("right" as const) : ("left" as const),
      },
    }];
  });
  return marksOf("warm", 6, data, {});
}

const LOWEST_SHARE = 0.01;

export const interference = ({ warmers }: Traffic): ChartPlan<WarmersStage> | null => warmers.length === 0 ? null : timePlan<WarmersStage>({
  id: "interference", title: "Throughput beside the warmer",
  explanation: "Transactions in each second of a trial ÷ those in the same second of the trial with “nothing” in the same round. The line is the median of the rounds, and the band spans the lowest to the highest. Below 1 the warmer slows the clients down; above 1 it pays off.",
  unit: () => "transactions ÷ transactions with nothing", height: ({ isNarrow }) => (isNarrow ? 280 : 360), controls: [control("axis", "Vertical axis", LOG, LINEAR)],
}, ({ state, choices }) => {
  const curves = state.visible.filter((name) => name !== "nothing").map((name) => shareCurve(state.trials, name, "nothing"));
  const floors = warmers.flatMap(({ strategy, floor }) => (floor === null ? [] : [{ value: floor, label: `floor of ${strategy}: ${floor}`, position: "insideStartTop" as const }]));
  return chartOf(state, curves, {
    render: ratio, renderAxis: (value) => String(Number(value.toPrecision(2))), isLog: choices["axis"] !== "linear", floor: LOWEST_SHARE,
    levels: [{ value: 1, label: "same as nothing", position: "insideEndTop" }, ...floors],
  }, (at) => `second ${at + 0.5}`);
});

export const served: ChartPlan<WarmersStage> = timePlan<WarmersStage>({
  id: "served", title: "Transactions served since the start",
  explanation: "Completed transactions. If a warmer takes much of the disk from the workload, its line is at first below that of “nothing”, the trial without a warmer.",
  unit: ({ choices }) => (choices["as"] === "ahead" ? "more transactions than with nothing" : "transactions"), height: low,
  controls: [control("as", "Shown as", ["total", "total"], ["ahead", "ahead of nothing"])],
}, (view) => {
  const [curves, baseline] = [servedCurves(view), servedCurve(view.state.trials, "nothing")];
  return chartOf(view.state, view.choices["as"] === "ahead" ? curves.map((curve) => aheadOf(curve, baseline)) : curves, { ...COUNTS, tableUnit: "transactions" }, afterSeconds);
});

export const resident: ChartPlan<WarmersStage> = timePlan<WarmersStage>({
  id: "resident", title: "The database in memory",
  explanation: "Bytes of the database’s files in the operating system’s page cache, measured every second.",
  unit: () => "bytes of the database in the page cache", height: low,
}, ({ state }) => {
  const total = state.study.sweep.warmup?.database_bytes;
  const curves = curvesOf(state, (name) => stateCurve(state.trials, name, ({ startBytes }) => startBytes, (series) => series.os_resident_bytes));
  const levels = total === undefined ? [] : [{ value: total, label: `the database, ${bytes(total)}`, position: "insideEndTop" as const }];
  return chartOf(state, curves, { ...SIZES, levels }, afterSeconds);
});

export const device: ChartPlan<WarmersStage> = timePlan<WarmersStage>({
  id: "device", title: "Reads from the device, all processes",
  explanation: "Reads from the device in each second by all processes of this machine: the server, the strategy and others.",
  unit: ({ choices }) => (choices["of"] === "reads" ? "reads from the device per second, all processes" : "bytes read from the device per second, all processes"), height: low,
  controls: [control("of", "Quantity", ["bytes", "bytes"], ["reads", "reads"])],
}, ({ state, choices }) => {
  const { rbps, riops } = state.study.sweep.warmup?.disk ?? { rbps: null, riops: null };
  const isReads = choices["of"] === "reads";
  const [limit, scale] = isReads ? [riops, { ...COUNTS, tableUnit: "reads/s" }] : [rbps, BANDWIDTHS];
  const curves = rates(state, (series) => (isReads ? series.device_reads : series.device_read_bytes.mean));
  return chartOf(state, curves, { ...scale, levels: limit === null ? [] : [{ value: limit, label: `limit ${scale.render(limit)}`, position: "insideEndTop" }] });
});

export const latencies: ChartPlan<WarmersStage> = timePlan<WarmersStage>({
  id: "latency", title: "Latency of a transaction",
  explanation: "Mean or longest latency of each second. The line skips seconds without transactions.",
  unit: ({ choices }) => (choices["of"] === "max" ? "longest of the second" : "mean of the second"), height: low,
  controls: [control("of", "Statistic", ["mean", "mean"], ["max", "longest"]), control("axis", "Vertical axis", LOG, LINEAR)],
}, ({ state, choices }) => chartOf(state, rates(state, (series) => (choices["of"] === "max" ? series.latency_us_max : series.latency_us_mean)), { ...LATENCIES, isLog: choices["axis"] === "log" }));
