// What is drawn of a trial, one panel above the other.

import { bandwidth, bytes, compact, count, latency, percent } from "../../format";
import type { MachineSeries, TrialData, TrialSeries, WaitSeries } from "../record";

type Values = (number | null)[];

/** A line, and where there is one the band around it. */
export interface Curve {
  name: string;
  values: Values;
  low?: Values;
  high?: Values;
  /** A colour that means something, on light and on dark paper. */
  colors?: [light: string, dark: string];
}

export interface Panel {
  id: string;
  title: string;
  render: (value: number) => string;
  renderAxis: (value: number) => string;
  isLog?: boolean;
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

const GREEN: [string, string] = ["#00805e", "#2fcc9f"];
const GREY: [string, string] = ["#6a737b", "#a6afb7"];
const BROWN: [string, string] = ["#7a5c3e", "#c9a27a"];

/** What backends wait for most has a colour of its own, the same in every trial. */
const WAITS: Record<string, [light: string, dark: string]> = {
  "Lock transactionid": ["#a3418f", "#e596d4"],
  "Lock tuple": ["#5d3a9b", "#b79bee"],
  "LWLock WALWrite": ["#d04a02", "#ff8b45"],
  "LWLock BufferContent": ["#b0214a", "#ff86a3"],
  "IO WALSync": ["#0067a5", "#4fb0f0"],
  "IO WALWrite": ["#0095a8", "#6fe0ee"],
  "IO DataFileRead": ["#a88400", "#e8cc5a"],
};

/** Of the others, in the order in which they come. */
const OTHER_WAITS: [light: string, dark: string][] = [["#5b7a00", "#b4d850"], ["#2b3a8c", "#97a6f5"], ["#8a3a00", "#e0a070"], ["#c05fa0", "#f5b5dd"]];

const oneDigit = (value: number): string => value.toFixed(1);
const short = (value: number): string => (value < 10 ? String(Number(value.toPrecision(2))) : compact(value));

function machine(make: (all: MachineSeries) => Curve[]): (data: TrialData) => Curve[] {
  return ({ series }) => (series.machine === null ? [] : make(series.machine).filter(({ values }) => hasAny(values)));
}

function waitCurves(waits: WaitSeries[]): Curve[] {
  let others = 0;
  return waits.map(({ kind, event, processes: values }) => {
    if (kind === null) return { name: "on a processor", values, colors: GREEN };
    if (kind === "Client") return { name: "waiting for pgbench", values, colors: GREY };
    if (event === null) return { name: "other waits", values, colors: BROWN };
    const name = `${kind} ${event}`;
    return { name, values, colors: WAITS[name] ?? OTHER_WAITS[others++ % OTHER_WAITS.length] ?? BROWN };
  });
}

export const PANELS: Panel[] = [
  {
    id: "tps", title: "Transactions per second", render: count, renderAxis: compact, weight: 1.5,
    curves: ({ series }) => [{ name: "transactions", values: series.tps.mean, ...ends(series, series.tps.min, series.tps.max) }],
  },
  {
    id: "latency", title: "Latency: shortest, mean and longest", render: latency, renderAxis: latency, isLog: true, weight: 1.5,
    curves: ({ series }) => [{ name: "mean latency", values: series.latency_us_mean, low: series.latency_us_min, high: series.latency_us_max }],
  },
  {
    id: "waits", title: "What the backends did", render: oneDigit, renderAxis: short, isStack: true, weight: 1.4,
    curves: ({ series }) => waitCurves(series.waits),
  },
  {
    id: "processors", title: "Processors at work", render: (value) => value.toFixed(2), renderAxis: short, isStack: true, weight: 1.1,
    curves: machine((all) => [
      { name: "for the server", values: all.server_cpu },
      { name: "for pgbench", values: all.generator_cpu },
      { name: "for pgthaw", values: all.pgthaw_cpu },
      { name: "for everybody else", values: all.others_cpu, colors: GREY },
      { name: "taken by the hypervisor", values: all.steal_cpu },
      { name: "idle, waiting for a disk", values: all.iowait_cpu, colors: BROWN },
    ]),
  },
  {
    id: "resident", title: "The database in the page cache", render: bytes, renderAxis: bytes, weight: 1,
    curves: ({ series }) => (hasAny(series.os_resident_bytes) ? [{ name: "resident", values: series.os_resident_bytes }] : []),
  },
  {
    id: "device", title: "The device, per second", render: bandwidth, renderAxis: bandwidth, weight: 1.2,
    curves: ({ series }) => [
      { name: "read by anybody", values: series.device_read_bytes.mean, ...ends(series, series.device_read_bytes.min, series.device_read_bytes.max) },
      { name: "read by the workload", values: series.foreground_read_bytes },
      ...(series.machine === null ? [] : [{ name: "written by anybody", values: series.machine.device_written_bytes, ...ends(series, series.machine.device_written_bytes_min, series.machine.device_written_bytes_max) }]),
    ].filter(({ values }) => hasAny(values)),
  },
  {
    id: "await", title: "How long the device took", render: latency, renderAxis: latency, isLog: true, weight: 0.9,
    curves: machine((all) => [{ name: "a read", values: all.read_await_us }, { name: "a write", values: all.write_await_us }]),
  },
  {
    id: "dirty", title: "Memory that must be written", render: bytes, renderAxis: bytes, weight: 0.9,
    curves: machine((all) => [{ name: "dirty", values: all.dirty_bytes }, { name: "being written", values: all.writeback_bytes }]),
  },
  {
    id: "pressure", title: "Share of time in which something waited", render: percent, renderAxis: percent, max: 1, weight: 0.8,
    curves: machine((all) => [{ name: "for a processor", values: all.cpu_pressure }, { name: "for a disk", values: all.io_pressure }, { name: "for memory", values: all.memory_pressure }]),
  },
];
