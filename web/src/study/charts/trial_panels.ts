// What is drawn of a trial, one panel above the other.

import { bandwidth, bytes, compact, count, latency, percent } from "../../format";
import { GREY, type Hue, OCHRE, WAITS } from "../../palette";
import type { MachineSeries, TrialData, TrialSeries, WaitSeries } from "../record";

type Values = (number | null)[];

/** A line, and where there is one the band around it. */
export interface Curve {
  name: string;
  values: Values;
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

function machine(make: (all: MachineSeries) => Curve[]): (data: TrialData) => Curve[] {
  return ({ series }) => (series.machine === null ? [] : make(series.machine).filter(({ values }) => hasAny(values)));
}

function waitCurves(waits: WaitSeries[]): Curve[] {
  let others = 0;
  return waits.map(({ kind, event, processes: values }) => {
    if (kind === null) return { name: "on a processor", values, hue: WAITS["on a processor"] };
    if (kind === "Client") return { name: "waiting for pgbench", values, hue: WAITS["waiting for pgbench"] };
    if (event === null) return { name: "other waits", values, hue: WAITS["other waits"] };
    const name = `${kind} ${event}`;
    return { name, values, hue: (WAITS as Record<string, Hue>)[name] ?? OTHER_WAITS[others++ % OTHER_WAITS.length] ?? WAITS["other waits"] };
  });
}

export const PANELS: Panel[] = [
  {
    id: "tps", title: "Transactions per second", tableUnit: "tps", render: count, renderAxis: compact, weight: 1.5,
    curves: ({ series }) => [{ name: "transactions", values: series.tps.mean, ...ends(series, series.tps.min, series.tps.max) }],
  },
  {
    id: "latency", title: "Latency: shortest, mean and longest", render: latency, renderAxis: latency, isLog: true, weight: 1.5,
    curves: ({ series }) => [{ name: "mean latency", values: series.latency_us_mean, low: series.latency_us_min, high: series.latency_us_max }],
  },
  {
    id: "waits", title: "What the backends did (backends, in the mean)", tableUnit: "backends", render: oneDigit, renderAxis: short, isStack: true, weight: 1.4,
    curves: ({ series }) => waitCurves(series.waits),
  },
  {
    id: "processors", title: "Processors at work (processors, in the mean)", tableUnit: "processors", render: (value) => value.toFixed(2), renderAxis: short, isStack: true, weight: 1.1,
    curves: machine((all) => [
      { name: "for the server", values: all.server_cpu },
      { name: "for pgbench", values: all.generator_cpu },
      { name: "for pgthaw", values: all.pgthaw_cpu },
      { name: "for everybody else", values: all.others_cpu, hue: GREY },
      { name: "taken by the hypervisor", values: all.steal_cpu },
      { name: "idle, waiting for a disk", values: all.iowait_cpu, hue: OCHRE },
    ]),
  },
  {
    id: "resident", title: "The database in the page cache", render: bytes, renderAxis: bytes, isSize: true, weight: 1,
    curves: ({ series }) => (hasAny(series.os_resident_bytes) ? [{ name: "resident", values: series.os_resident_bytes }] : []),
  },
  {
    id: "device", title: "The device", render: bandwidth, renderAxis: bandwidth, weight: 1.2,
    curves: ({ series }) => [
      { name: "read by anybody", values: series.device_read_bytes.mean, ...ends(series, series.device_read_bytes.min, series.device_read_bytes.max) },
      { name: "read by the server’s backends", values: series.foreground_read_bytes },
      ...(series.machine === null ? [] : [{ name: "written by anybody", values: series.machine.device_written_bytes, ...ends(series, series.machine.device_written_bytes_min, series.machine.device_written_bytes_max) }]),
    ].filter(({ values }) => hasAny(values)),
  },
  {
    id: "await", title: "How long the device took, for anybody", render: latency, renderAxis: latency, isLog: true, weight: 0.9,
    curves: machine((all) => [{ name: "a read", values: all.read_await_us }, { name: "a write", values: all.write_await_us }]),
  },
  {
    id: "dirty", title: "Memory that must be written", render: bytes, renderAxis: bytes, isSize: true, weight: 0.9,
    curves: machine((all) => [{ name: "dirty", values: all.dirty_bytes }, { name: "being written", values: all.writeback_bytes }]),
  },
  {
    id: "pressure", title: "Share of time in which something waited", render: percent, renderAxis: percent, max: 1, weight: 0.8,
    curves: machine((all) => [{ name: "for a processor", values: all.cpu_pressure }, { name: "for a disk", values: all.io_pressure }, { name: "for memory", values: all.memory_pressure }]),
  },
];
