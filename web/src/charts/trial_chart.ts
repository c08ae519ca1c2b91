import type { LineSeriesOption, ScatterSeriesOption } from "echarts";
import { type Appearance, Stage } from "../appearance";
import { middles, type Values } from "../curves";
import { element, keys, part, swatch, table } from "../element";
import { BANDWIDTHS, compact, count, COUNTS, LATENCIES, percent, type Scale, seconds, SIZES } from "../format";
import { GREY, type Hue, hueStyle, OCHRE, type SeriesStyle, seriesStyle, type Theme, WAITS } from "../palette";
import type { LoadSample, Measure, SweepTrial, TimedPoint, TrialData, TrialSeries } from "../../generated/record";
import { type ChartPlan, ruleOf, rules } from "./figure";
import { type Line, type Panel, timePlan } from "./time_chart";

export class TrialStage extends Stage {
  readonly panels: TrialPanel[];

  constructor(appearance: Appearance, readonly shown: TrialData, readonly other: TrialData | null, measures: Measure[]) {
    super(appearance);
    this.panels = makePanels(measures).filter((panel) => this.trials.some((data) => panel.curves(data).length > 0));
  }

  get trials(): TrialData[] {
    return this.other === null ? [this.shown] : [this.shown, this.other];
  }
}

export const trialChart: ChartPlan<TrialStage> = timePlan({
  id: "trial", title: "Second by second",
  explanation: "All panels share the time axis. A band spans the lowest to the highest value. Grey areas are checkpoints, darker while they synchronise files. Yellow areas are stalls, marked by triangles.",
  unit: ({ state: { shown } }) => (shown.series.width > 1 ? `each point joins ${shown.series.width} seconds; its band spans their lowest to highest value` : "each point is a second"),
  legend: ({ state: { other, trials }, theme }) => {
    if (other === null) return null;
    return keys(trials.map(({ trial }, place) => [swatch(trialStyle(place, theme)), `point ${trial.number}, repeat ${trial.repeat}`]), "", "The other trial’s lines are dashed. Areas and marks belong to this trial.");
  },
}, ({ state, theme }) => {
  const { shown, trials } = state;
  const looked = trials.map(({ trial }) => looksOf(trial).at(-1)?.seconds ?? 0);
  return {
    panels: state.panels.map((panel, index): Panel => {
      const goal = panel.goal?.(shown) ?? null;
      return {
        ...panel,
        lines: (panel.isStack ? [shown] : trials).flatMap((data, place) => linesOf(panel, data, place, theme)),
        levels: goal === null ? [] : [{ value: goal, label: `wanted ${panel.render(goal)}`, position: "insideEndBottom" }],
        more: marks(shown, theme, index),
      };
    }),
    longest: Math.max(looked.some((end) => end > 0) ? 0.1 : 1, ...looked, ...trials.map(({ series }) => series.second.at(-1) ?? 0)),
    renderInstant: (at) => `at ${seconds(at)}`,
    toldAt: (at) => marksAt(shown, at),
    instants: { title: "until", ends: shown.series.second },
  };
});

/** Dashes distinguish the second of two compared trials. */
const trialStyle = (place: number, { isDark }: Theme): SeriesStyle => ({ ...seriesStyle(place, isDark), dash: place === 1 ? [5, 3] : [], width: 1.6 });

function linesOf(panel: TrialPanel, data: TrialData, place: number, theme: Theme): Line[] {
  const curves = panel.curves(data);
  return curves.map(({ name, values, at = middles(data.series), low, high, hue }, which): Line => {
    const { dash, width } = trialStyle(place, theme);
    // A single curve has its trial's hue.
    const own = curves.length > 1 ? curves.slice(0, which).filter((one) => one.hue === undefined).length : place;
    const style = { ...(hue ? hueStyle(hue, theme.isDark) : seriesStyle(own, theme.isDark)), dash, width };
    const points = values.map((median, span) => ({ at: at[span] ?? 0, median, min: low?.[span] ?? null, max: high?.[span] ?? null }));
    return { id: `${panel.id}:${place}:${which}`, name, style, points };
  });
}

interface TrialCurve {
  name: string;
  values: Values;
  /** Time of each value in seconds; by default the middle of each of the trial's time spans. */
  at?: number[];
  low?: Values;
  high?: Values;
  /** A hue with a fixed meaning. */
  hue?: Hue;
}

interface TrialPanel extends Omit<Panel, "lines" | "levels" | "more"> {
  goal?: (data: TrialData) => number | null;
  curves: (data: TrialData) => TrialCurve[];
}

const ends = (series: TrialSeries, low: Values, high: Values): Pick<TrialCurve, "low" | "high"> => (series.width > 1 ? { low, high } : {});

const hasAny = (values: Values): boolean => values.some((value) => value !== null && value > 0);

const oneDigit = (value: number): string => value.toFixed(1);
const short = (value: number): string => (value < 10 ? String(Number(value.toPrecision(2))) : compact(value));

const BACKENDS: Scale = { tableUnit: "backends", render: (value) => value.toFixed(2), renderAxis: short };
const PER_SECOND: Scale = { tableUnit: "per second", render: short, renderAxis: short };

const SCALES: Record<Measure["unit"], Scale & Pick<Panel, "max">> = {
  backends: BACKENDS, processors: { ...BACKENDS, tableUnit: "processors" }, bytes: SIZES, bytes_per_second: BANDWIDTHS, per_second: PER_SECOND,
  requests: { tableUnit: "requests", render: oneDigit, renderAxis: short }, microseconds: LATENCIES, ratio: { render: percent, renderAxis: percent, max: 1 },
};

/** Panels that a running trial's page also shows. */
export const THROUGHPUT = { id: "tps", title: "Transactions per second", ...COUNTS, tableUnit: "tps", weight: 1.5 };
export const RESIDENT = { id: "resident", title: "The database in the page cache", ...SIZES, weight: 1 };
export const DEVICE = { id: "device", title: "The device", ...BANDWIDTHS, weight: 1.2 };

/** `column` is one of `TrialSeries.machine`. */
const kind = (name: string, label: string, hue: Hue) => ({ column: `time_${name}`, field: `${name}_seconds` as keyof TimedPoint, label, hue });

export type TimeKind = ReturnType<typeof kind>;

export const KINDS: readonly TimeKind[] = [
  kind("running", "on a processor", WAITS["on a processor"]), kind("ready", "ready for a processor", WAITS["IO DataFileRead"]), kind("lwlock", "LWLock", WAITS["LWLock WALWrite"]),
  kind("lock", "Lock", WAITS["Lock transactionid"]), kind("io", "IO", WAITS["IO WALSync"]), kind("other", "other events", WAITS["other waits"]),
  kind("no_event", "no event", WAITS["Lock tuple"]), kind("unknown", "unknown", WAITS["LWLock BufferContent"]), kind("client", "waiting for the client", GREY),
];

const HUES: Record<string, Hue> = { others_cpu: GREY, iowait_cpu: OCHRE, ...Object.fromEntries(KINDS.map(({ column, hue }) => [column, hue])) };

const OTHER_WAITS: Hue[] = [WAITS["first other"], WAITS["second other"], WAITS["third other"], WAITS["fourth other"]];

function waitCurves({ series: { waits }, trial }: TrialData): TrialCurve[] {
  const client = looksOf(trial).length > 0 ? "waiting for a client" : "waiting for pgbench";
  let others = 0;
  const curves = new Map<string, TrialCurve>();
  for (const { kind, event, processes: values } of waits) {
    const wait = kind === null ? "on a processor" : kind === "Client" ? "waiting for pgbench" : event === null ? "other waits" : `${kind} ${event}`;
    const known = curves.get(wait);
    if (known) known.values = known.values.map((value, span) => (value === null ? null : value + (values[span] ?? 0)));
    else {
      const hue = (WAITS as Record<string, Hue>)[wait] ?? OTHER_WAITS[others++ % OTHER_WAITS.length] ?? WAITS["other waits"];
      curves.set(wait, { name: kind === "Client" ? client : wait, values, hue });
    }
  }
  return [...curves.values()];
}

export const looksOf = ({ warming }: SweepTrial): LoadSample[] => warming?.looks ?? [];

function lookCurves({ trial }: TrialData): TrialCurve[] {
  const looks = looksOf(trial);
  const curve = (name: string, of: (look: LoadSample) => number | null): TrialCurve => ({ name, values: looks.map(of), at: looks.map((look) => look.seconds) });
  return [
    curve("in the page cache", (look) => look.resident_bytes), curve("restored to shared_buffers", (look) => look.buffers_bytes), curve("hot before, and hot again", (look) => look.hot_bytes),
  ].filter(({ values }) => values.some((value) => value !== null));
}

function measured(measures: Measure[], panel: string): (data: TrialData) => TrialCurve[] {
  const drawn = measures.flatMap(({ column, curve }) => (column === null || curve?.panel.id !== panel ? [] : [{ column, name: curve.label, hue: HUES[column] }]));
  return ({ series }) => drawn.flatMap(({ column, name, hue }): TrialCurve[] => {
    const [values, low, high] = [column, `${column}_min`, `${column}_max`].map((one) => series.machine?.[one]);
    return values === undefined || !hasAny(values) ? [] : [{ name, values, ...(low && high ? ends(series, low, high) : {}), ...(hue ? { hue } : {}) }];
  });
}

function makePanels(measures: Measure[]): TrialPanel[] {
  const ofLoad = (curves: (series: TrialSeries) => TrialCurve[]) => ({ series, trial }: TrialData): TrialCurve[] => (looksOf(trial).length > 0 ? [] : curves(series));
  const own: TrialPanel[] = [
    { id: "looks", title: "Wanted data and its resident part", ...SIZES, weight: 1.5, goal: ({ trial }) => trial.warming?.wanted_bytes ?? null, curves: lookCurves },
    { ...THROUGHPUT, curves: ofLoad((series) => [{ name: "transactions", values: series.tps.mean, ...ends(series, series.tps.min, series.tps.max) }]) },
    { id: "time", title: "Activity of the client backends (mean number of backends)", ...BACKENDS, isStack: true, weight: 1.6, curves: measured(measures, "time") },
    {
      id: "latency", title: "Latency: shortest, mean and longest", ...LATENCIES, weight: 1.5,
      curves: ofLoad((series) => [
        { name: "mean latency", values: series.latency_us_mean, low: series.latency_us_min, high: series.latency_us_max },
        ...(hasAny(series.latency_us_deviation) ? [{ name: "standard deviation", values: series.latency_us_deviation }] : []),
      ]),
    },
    { id: "waits", title: "Backends by state (mean number of backends)", ...BACKENDS, render: oneDigit, isStack: true, weight: 1.4, curves: waitCurves },
    { ...RESIDENT, curves: ({ series }) => (hasAny(series.os_resident_bytes) ? [{ name: "resident", values: series.os_resident_bytes }] : []) },
    {
      ...DEVICE,
      curves: (data) => [
        { name: "read by all processes", values: data.series.device_read_bytes.mean, ...ends(data.series, data.series.device_read_bytes.min, data.series.device_read_bytes.max) },
        { name: "read by the server’s backends", values: data.series.foreground_read_bytes },
        ...measured(measures, "device")(data),
      ].filter(({ values }) => hasAny(values)),
    },
    {
      id: "requests", title: "Device requests (per second)", ...PER_SECOND, weight: 0.9,
      curves: (data) => [{ name: "reads by all processes", values: data.series.device_reads }, ...measured(measures, "requests")(data)].filter(({ values }) => hasAny(values)),
    },
  ];
  const declared = new Map(measures.flatMap(({ unit, curve }) => (curve === null ? [] : [[curve.panel.id, { unit, ...curve.panel }] as const])));
  const more = [...declared.values()].filter(({ id }) => own.every((panel) => panel.id !== id)).map(({ id, title, unit, is_stack: isStack }): TrialPanel => (
    { id, title, isStack, weight: isStack ? 1.1 : 0.9, ...SCALES[unit], curves: measured(measures, id) }
  ));
  return [...own.slice(0, 5), ...more.filter((one) => one.isStack), ...own.slice(5), ...more.filter((one) => !one.isStack)];
}

interface Phase {
  from: number;
  until: number;
  isSync: boolean;
  name: string;
  told: string;
}

function phasesOf({ checkpoints, checkpoint_begun: begun, lasted_seconds: lasted }: SweepTrial): Phase[] {
  const ended = checkpoints.flatMap(({ ended_after_seconds: end, total_seconds: total, write_seconds: writing, reason, buffers }): Phase[] => {
    const told = `checkpoint${reason === "" ? "" : ` (${reason})`}, ${count(buffers)} buffers`;
    const [from, written] = [Math.max(0, end - total), Math.max(0, end - total + writing)];
    return [{ from, until: written, isSync: false, name: reason, told: `${told}: writing` }, { from: written, until: end, isSync: true, name: "", told: `${told}: synchronising` }];
  });
  if (!begun) return ended;
  return [...ended, { from: begun.began_after_seconds, until: lasted, isSync: false, name: begun.reason, told: `checkpoint (${begun.reason}) that did not end within the trial` }];
}

const stallsOf = ({ stalls }: TrialSeries): Phase[] => stalls.map(({ from_second: from, until_second: until }) => ({ from, until, isSync: false, name: "", told: "stall" }));

/** More labels would overlap. */
const LABELLED = 12;

function marks({ trial, series }: TrialData, theme: Theme, index: number): (LineSeriesOption | ScatterSeriesOption)[] {
  const phases = phasesOf(trial);
  const area = (id: string, opacity: number, color: string, areas: Phase[]): LineSeriesOption => ({
    type: "line", id: `${id}:${index}`, data: [], silent: true, z: 1,
    markArea: {
      silent: true, animation: false, itemStyle: { color, opacity },
      label: { show: index === 0 && areas.length <= LABELLED, position: "insideTop", color: theme.soft, fontSize: 10, formatter: ({ name }) => name },
      data: areas.map(({ from, until, name }) => [{ xAxis: from, name }, { xAxis: until }]),
    },
  });
  const end = trial.strategy_outcome?.ended_after_seconds ?? null;
  const label = { show: index === 0, color: theme.soft, fontSize: 10, position: "insideEndTop" };
  const ended = end === null ? [] : [ruleOf(theme, true, { xAxis: end }, `${String(trial.point["strategy"])} ended`, label)];
  const upright: LineSeriesOption = { type: "line", id: `warmer-end:${index}`, data: [], silent: true, z: 2, markLine: rules(ended) };
  // Colour alone is not enough, so triangles also mark stalls, at the usual throughput.
  const triangles: ScatterSeriesOption = {
    type: "scatter", id: "stall-marks", silent: true, z: 6, tooltip: { show: false },
    symbol: "triangle", symbolRotate: 180, symbolSize: [10, 8], itemStyle: { color: theme.warn, opacity: 1 },
    data: series.stalls.map((stall) => [(stall.from_second + stall.until_second) / 2, stall.usual_tps]),
  };
  return [
    area("checkpoints", 0.13, theme.soft, phases.filter(({ isSync }) => !isSync)), area("synchronising", 0.3, theme.soft, phases.filter(({ isSync }) => isSync)), upright,
    area("stalls", 0.16, theme.warn, stallsOf(series)), ...(index === 0 ? [triangles] : []),
  ];
}

const marksAt = ({ trial, series }: TrialData, at: number): string[] =>
  [...stallsOf(series), ...phasesOf(trial)].filter(({ from, until }) => at >= from && at <= until).map(({ told }) => told);

export function stalls({ series: { second, stalls: all } }: TrialData): HTMLElement | null {
  if (second.length === 0) return null;
  if (all.length === 0) return element("p", { class: "soft", id: "stalls" }, "No stall: in no second was throughput significantly below half of the usual rate.");
  const rows = all.map(({ from_second: from, until_second: until, least_tps: least, usual_tps: usual, seen }) => [`${from}–${until} s`, count(least), count(usual), seen.join("; ") || "nothing"]);
  return part(null, all.length === 1 ? "One stall" : `${all.length} stalls`,
    "Seconds in which throughput was significantly below half of the usual rate. The chart marks them.",
    table("Stalls", ["stall", "slowest second (tps)", "usual rate (tps)", "observed at the same time"], rows, { id: "stalls", className: "low stalls", texts: [0, 3] }));
}
