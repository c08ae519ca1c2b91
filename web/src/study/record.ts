// The data of studies, as src/report/study.rs and src/serve/ send them. Field names are those of src/study/sweep/ and src/verdict/sweep/.

import type { Ratio, Run, Spread } from "../record";

export type { Spread };

export interface StudiesPageData {
  format: number;
  kind: "studies" | "served";
  metrics: MetricFacts[];
  studies: StudyInPage[];
}

/** A study of a page that nobody serves; `details` is null when there are too many trials. */
export interface StudyInPage {
  study: StudyData;
  details: TrialData[] | null;
}

export interface StudyData {
  headline: string;
  sweep: SweepRun;
  /** Numbers beyond 2^53, which JSON.parse would round. */
  exact: { seed: string; system_identifier: string };
  points: PointSummary[];
  trials: TrialOutline[];
  /** Only of a study that measures its points twice. */
  noise: Noise[];
  measures: Measure[];
}

/** What every second of a trial has; src/study/measures.rs declares them. */
export interface Measure {
  name: string;
  unit: "processors" | "bytes" | "bytes_per_second" | "per_second" | "requests" | "microseconds" | "ratio";
  doc: string;
  /** In the curves of a trial. */
  column: string | null;
  curve: { panel: { id: string; title: string; is_stack: boolean }; label: string } | null;
}

export interface SweepRun {
  id: string;
  started_at: string;
  ended_at: string | null;
  pgthaw_version: string;
  pgbench_version: string;
  machine: Run["machine"];
  server: Run["server"];
  question: string;
  digest: string;
  study: unknown;
  /** Names of the axes with more than one value. */
  varied: string[];
  points: number;
  repeats: number;
  verdicts: MeasurementVerdict[];
  warnings: string[];
  /** What it was imported from. */
  source?: string;
}

/** What a figure is: declared by the program (src/verdict/sweep/metric.rs). */
export interface MetricFacts {
  name: string;
  key: string;
  label: string;
  caption: string;
  kind: "rate" | "per_second" | "latency" | "time" | "bytes" | "count" | "ratio";
  is_low_better: boolean;
}

export interface PointSummary {
  number: number;
  label: string;
  /** On the axes of `varied`. */
  values: string[];
  trials: number;
  failures: number;
  /** Seconds that its cold trials were measured. */
  measured_seconds: number | null;
  /** Medians. */
  background: BackgroundWrites | null;
  verdicts: PointVerdict[];
  /** Text to number of trials: failures, and what trials without verdicts said. */
  warnings: Record<string, number>;
  /** Its figures by their keys, each a `Spread`; null where no trial has one. */
  [figure: string]: unknown;
}

/** What speaks against a measurement, and what to do about it. */
export interface MeasurementVerdict {
  kind: string;
  sentence: string;
  remedy: string;
}

/** The same of some trials of a point. */
export interface PointVerdict extends MeasurementVerdict {
  trials: number;
  /** Something else was measured than was asked for. */
  is_refusing: boolean;
}

/** What equal sides differ by in a figure. */
export interface Noise {
  metric: string;
  cells: { label: string; ratio: Ratio; p: number; floor: number | null; smallest_detectable: number | null; false_share: number | null }[];
  floor: number | null;
}

export interface BackgroundWrites {
  checkpoints_timed: number;
  checkpoints_requested: number;
  buffers_checkpoint: number;
  buffers_clean: number;
  buffers_backend: number;
  maxwritten_clean: number;
  buffers_alloc: number;
}

export interface TrialOutline {
  number: number;
  repeat: number;
  position: number;
  started_at: string;
  start_verdict: string | null;
  failure: string | null;
  /** Its figures by their keys. */
  [figure: string]: unknown;
}

export interface TrialData {
  trial: SweepTrial;
  series: TrialSeries;
}

export interface SweepTrial {
  sweep_id: string;
  number: number;
  point: Record<string, unknown>;
  repeat: number;
  position: number;
  started_at: string;
  start_state: { os_resident_bytes: number; total_bytes: number; verdict: string } | null;
  command: string;
  failure: string | null;
  lasted_seconds: number;
  transactions: number;
  failed: number;
  skipped: number;
  retried: number;
  retries: number;
  tps: number;
  worst_second_tps: number | null;
  latency: Latency | null;
  scripts: { script: string; answered: number; failed: number; skipped: number; response: Latency; service: Latency | null }[];
  /** Absent where pgbench ran here alone. */
  generators?: { start_spread_ms: number; hosts: TrialGenerator[] } | null;
  statistics: Record<string, { key: Record<string, string>; added: Record<string, number> }[]>;
  buffers_before: BufferUse[];
  buffers_after: BufferUse[];
  checkpoints: Checkpoint[];
  checkpoint_begun: { began_after_seconds: number; reason: string } | null;
  checkpoint_cycles: number;
  cycle_tps: number | null;
  settings: [string, string][];
  device_read_bytes: number;
  verdicts: MeasurementVerdict[];
  warnings: string[];
}

export interface TrialGenerator {
  host: string;
  clients: number;
  jobs: number;
  pgbench_version: string;
  clock_offset_ms: number;
  clock_uncertainty_ms: number;
  started_after_ms: number;
  transactions: number;
  tps: number;
  is_seen: boolean;
}

export interface Latency {
  count: number;
  mean_us: number;
  p50_us: number;
  p90_us: number;
  p95_us: number;
  p99_us: number;
  p999_us: number;
  max_us: number;
  /** Of the shares that enough transactions lie beyond. */
  percentiles: { share: number; us: number; low_us: number; high_us: number }[];
}

export interface BufferUse {
  usage_count: number;
  buffers: number;
  dirty: number;
}

export interface Checkpoint {
  ended_after_seconds: number;
  reason: string;
  buffers: number;
  write_seconds: number;
  sync_seconds: number;
  total_seconds: number;
  longest_sync_seconds: number;
}

export interface Envelope {
  mean: number[];
  min: number[];
  max: number[];
}

/** Columns; each span joins `width` seconds and is dated by its end. */
export interface TrialSeries {
  width: number;
  second: number[];
  tps: Envelope;
  latency_us_mean: (number | null)[];
  latency_us_min: (number | null)[];
  latency_us_max: (number | null)[];
  foreground_read_bytes: number[];
  device_read_bytes: Envelope;
  device_reads: number[];
  os_resident_bytes: number[];
  /** The columns of the measures. */
  machine: Record<string, Column> | null;
  waits: WaitSeries[];
  stalls: Stall[];
}

type Column = (number | null)[];

/** Backends that did the same; without a kind they were on a processor. */
export interface WaitSeries {
  kind: string | null;
  event: string | null;
  processes: Column;
}

export interface Stall {
  from_second: number;
  until_second: number;
  least_tps: number;
  usual_tps: number;
  seen: string[];
}

/** What can be opened: a study, or a run of another kind with a page of its own. */
export interface StudyLine {
  id: string;
  kind: "sweep" | "run" | "loading";
  question: string;
  started_at: string;
  ended_at: string | null;
  host: string;
  server: string;
  varied: string[];
  points: number;
  repeats: number;
  trials: number;
  failures: number;
}

export interface Comparison {
  metric: string;
  a: string;
  b: string;
  cells: { label: string; ratio: Ratio; p: number; p_holm: number; smallest_detectable: number | null; cycles: number }[];
  /** The ratio that equal sides reach; null: no point was measured twice. */
  noise_floor: number | null;
  verdicts: MeasurementVerdict[];
}

/** Trials that run now, on the machine that serves. */
export interface LiveTrial {
  kind: StudyLine["kind"];
  /** Of the sweep, or of the run. */
  sweep_id: string;
  question: string;
  label: string;
  repeat: number;
  position: number;
  trials: number;
  /** That it lasts; null: it ends by its transactions. */
  seconds: number | null;
  /** Until the whole sweep or run is over, when the trial began; null: not known. */
  left_seconds: number | null;
  began_at: string;
  samples: { second: number; tps: number | null; device_read_bytes: number; os_resident_bytes: number }[];
}
