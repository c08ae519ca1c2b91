// What is drawn of a trial, one panel above the other.

import { bandwidth, bytes, compact, count, latency, percent } from "../format";
import { GREY, type Hue, OCHRE, WAITS } from "../palette";
import { KINDS } from "../time_kinds";
import type { LoadSample, Measure, SweepTrial, TrialData, TrialSeries } from "../../generated/record";

type Values = (number | null)[];

/** A line, and where there is one the band around it. */
export interface Curve {
  name: string;
  values: Values;
  /** Their seconds; without them they are those of the trial's spans. */
  at?: number[];
  low?: Values;
  high?: Values;
  /** One that means something. */
  hue?: Hue;
}

export interface Panel {
  id: string;
  title: string;
  render: (value: number) => string;
  renderAxis: (value: number) => string;
  isLog?: boolean;
  /** An axis of sizes has their steps. */
  isSize?: boolean;
  /** Of its numbers in a table, where they have none themselves. */
  tableUnit?: string;
  /** Areas on top of each other: of the trial that is shown, for two would hide each other. */
  isStack?: boolean;
  /** The axis ends here; otherwise with what is drawn. */
  max?: number;
  /** How high it is beside the others. */
  weight: number;
  /** None: the panel is left out. */
  /** A level that is to be reached. */
  goal?: (data: TrialData) => number | null;
  curves: (data: TrialData) => Curve[];
}

/** Spans of one second have no ends but themselves. */
const ends = (series: TrialSeries, low: Values, high: Values): Pick<Curve, "low" | "high"> => (series.width > 1 ? { low, high } : {});

/** Is there anything but nothing? */
const hasAny = (values: Values): boolean => values.some((value) => value !== null && value > 0);

/** What backends wait for otherwise, in the order in which it comes. */
const OTHER_WAITS: Hue[] = [WAITS["first other"], WAITS["second other"], WAITS["third other"], WAITS["fourth other"]];

const oneDigit = (value: number): string => value.toFixed(1);
const short = (value: number): string => (value < 10 ? String(Number(value.toPrecision(2))) : compact(value));

function waitCurves({ series: { waits }, trial }: TrialData): Curve[] {
  const isIdle = looksOf(trial).length > 0;
  let others = 0;
  const curves = new Map<string, Curve>();
  for (const { kind, event, processes: values } of waits) {
    const name = nameOf(kind, event);
    const known = curves.get(name);
    // Several events are one to the reader.
    if (known) known.values = known.values.map((value, span) => (value === null ? null : value + (values[span] ?? 0)));
    else curves.set(name, { name: isIdle && kind === "Client" ? "waiting for a client" : name, values, hue: (WAITS as Record<string, Hue>)[name] ?? OTHER_WAITS[others++ % OTHER_WAITS.length] ?? WAITS["other waits"] });
  }
  return [...curves.values()];
}

function nameOf(kind: string | null, event: string | null): string {
  if (kind === null) return "on a processor";
  if (kind === "Client") return "waiting for pgbench";
  return event === null ? "other waits" : `${kind} ${event}`;
}

/** What was seen of an idle server while a warmer was at work. */
export const looksOf = ({ warming }: SweepTrial): LoadSample[] => warming?.looks ?? [];

function lookCurves(looks: LoadSample[]): Curve[] {
  const curve = (name: string, of: (look: LoadSample) => number | null): Curve => ({ name, values: looks.map(of), at: looks.map(({ seconds }) => seconds) });
  return [
    curve("in the page cache", (look) => look.resident_bytes),
    curve("back in shared_buffers", (look) => look.buffers_bytes),
    curve("of that as hot as before", (look) => look.hot_bytes),
  ].filter(({ values }) => values.some((value) => value !== null));
}

/** How numbers of a unit are told, and their axis. */
const UNITS: Record<Measure["unit"], Pick<Panel, "render" | "renderAxis" | "isLog" | "isSize" | "tableUnit" | "max">> = {
  backends: { tableUnit: "backends", render: (value) => value.toFixed(2), renderAxis: short },
  processors: { tableUnit: "processors", render: (value) => value.toFixed(2), renderAxis: short },
  bytes: { render: bytes, renderAxis: bytes, isSize: true },
  bytes_per_second: { render: bandwidth, renderAxis: bandwidth },
  per_second: { tableUnit: "per second", render: short, renderAxis: short },
  requests: { tableUnit: "requests", render: oneDigit, renderAxis: short },
  microseconds: { render: latency, renderAxis: latency, isLog: true },
  ratio: { render: percent, renderAxis: percent, max: 1 },
};

/** Columns with a meaning that their hue says. */
const HUES: Record<string, Hue> = { others_cpu: GREY, iowait_cpu: OCHRE, ...Object.fromEntries(KINDS.map(({ column, hue }) => [column, hue])) };

/** The curves of the measures that are drawn in this panel. */
function measured(measures: Measure[], panel: string): (data: TrialData) => Curve[] {
  const drawn = measures.flatMap(({ column, curve }) => (column === null || curve?.panel.id !== panel ? [] : [{ column, name: curve.label, hue: HUES[column] }]));
  return ({ series }) => drawn.flatMap(({ column, name, hue }): Curve[] => {
    const [values, low, high] = [column, `${column}_min`, `${column}_max`].map((one) => series.machine?.[one]);
    if (values === undefined || !hasAny(values)) return [];
    return [{ name, values, ...(low && high ? ends(series, low, high) : {}), ...(hue ? { hue } : {}) }];
  });
}

/** Panels of what every trial has, and those of the measures. */
export function makePanels(measures: Measure[]): Panel[] {
  const own: Panel[] = [
    {
      id: "looks", title: "What is wanted, and is there", render: bytes, renderAxis: bytes, isSize: true, weight: 1.5,
      goal: ({ trial }) => trial.warming?.wanted_bytes ?? null,
      curves: ({ trial }) => lookCurves(looksOf(trial)),
    },
    {
      id: "tps", title: "Transactions per second", tableUnit: "tps", render: count, renderAxis: compact, weight: 1.5,
      // Nobody asks an idle server.
      curves: ({ series, trial }) => looksOf(trial).length > 0 ? [] : [{ name: "transactions", values: series.tps.mean, ...ends(series, series.tps.min, series.tps.max) }],
    },
    {
      id: "time", title: "Where the time of the client backends went (backends, in the mean)", ...UNITS.backends, isStack: true, weight: 1.6,
      curves: measured(measures, "time"),
    },
    {
      id: "latency", title: "Latency: shortest, mean and longest", render: latency, renderAxis: latency, isLog: true, weight: 1.5,
      curves: ({ series, trial }) => looksOf(trial).length > 0 ? [] : [{ name: "mean latency", values: series.latency_us_mean, low: series.latency_us_min, high: series.latency_us_max }, ...(hasAny(series.latency_us_deviation) ? [{ name: "standard deviation", values: series.latency_us_deviation }] : [])],
    },
    {
      id: "waits", title: "What the backends did (backends, in the mean)", tableUnit: "backends", render: oneDigit, renderAxis: short, isStack: true, weight: 1.4,
      curves: waitCurves,
    },
    {
      id: "resident", title: "The database in the page cache", render: bytes, renderAxis: bytes, isSize: true, weight: 1,
      curves: ({ series }) => (hasAny(series.os_resident_bytes) ? [{ name: "resident", values: series.os_resident_bytes }] : []),
    },
    {
      id: "device", title: "The device", render: bandwidth, renderAxis: bandwidth, weight: 1.2,
      curves: (data) => [
        { name: "read by anybody", values: data.series.device_read_bytes.mean, ...ends(data.series, data.series.device_read_bytes.min, data.series.device_read_bytes.max) },
        { name: "read by the server’s backends", values: data.series.foreground_read_bytes },
        ...measured(measures, "device")(data),
      ].filter(({ values }) => hasAny(values)),
    },
    {
      id: "requests", title: "Requests of the device (per second)", ...UNITS.per_second, weight: 0.9,
      curves: (data) => [{ name: "reads by anybody", values: data.series.device_reads }, ...measured(measures, "requests")(data)].filter(({ values }) => hasAny(values)),
    },
  ];
  const declared = new Map(measures.flatMap(({ unit, curve }) => (curve === null ? [] : [[curve.panel.id, { unit, ...curve.panel }] as const])));
  const more = [...declared.values()].filter(({ id }) => own.every((panel) => panel.id !== id)).map(({ id, title, unit, is_stack: isStack }): Panel => (
    { id, title, isStack, weight: isStack ? 1.1 : 0.9, ...UNITS[unit], curves: measured(measures, id) }
  ));
  // What is stacked belongs beside each other.
  return [...own.slice(0, 5), ...more.filter((one) => one.isStack), ...own.slice(5), ...more.filter((one) => !one.isStack)];
}
