// The data of studies, as src/report/ and src/serve/ send them. Field names are those of src/study/ and src/verdict/.

export interface PageData {
  format: number;
  kind: "studies" | "served" | "missing";
  metrics: MetricFacts[];
  studies: StudyInPage[];
}

/** A study of a page that nobody serves; `details` is null when there are too many trials. */
export interface StudyInPage {
  study: StudyData;
  details: TrialData[] | null;
}

export interface StudyData {
  /** What it asks, or what it is about. */
  subject: string;
  headline: string;
  /** That its trials took together, with all that belongs to each. */
  total_seconds: number | null;
  sweep: SweepRun;
  /** Numbers beyond 2^53, which JSON.parse would round. */
  exact: { seed: string; system_identifier: string };
  points: PointSummary[];
  trials: TrialOutline[];
  /** Only of a study that measures its points twice. */
  noise: Noise[];
  measures: Measure[];
  /** Of a study of ways to warm. */
  tournament: Tournament | null;
  /** Of warmers within the rounds, where the study is not one of ways to warm. */
  ratios: WarmerRatio[];
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
  kind: "rate" | "per_second" | "latency" | "time" | "bytes" | "byte_rate" | "count" | "cost" | "ratio";
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
  /** Absent where nothing warmed the server. */
  strategy_outcome?: Contender["outcome"];
  /** Of a trial that began cold. */
  warming?: { residency: RelationResidency[]; wanted_bytes: number | null; bound_seconds: number | null; brought?: Brought; looks?: Look[] };
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

/** What a warmer of an idle server brought back. */
export interface Brought {
  wanted_pages: number;
  wanted_pieces: number;
  former_buffers_bytes: number;
  bound: { reads: number; read_bytes: number; seconds: number } | null;
  resident_bytes: number;
  cpu_seconds: number | null;
  device_reads: number | null;
}

/** One look at what is there while a warmer is at work. */
export interface Look {
  seconds: number;
  resident_bytes: number;
  is_exact: boolean;
  buffers_bytes: number | null;
  hot_bytes: number | null;
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

/** What can be opened. */
export interface StudyLine {
  id: string;
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
  sweep_id: string;
  question: string;
  label: string;
  repeat: number;
  position: number;
  trials: number;
  /** That it lasts; null: it ends by its transactions. */
  seconds: number | null;
  /** Until the whole study is over, when the trial began. */
  left_seconds: number;
  began_at: string;
  samples: { second: number; tps: number | null; device_read_bytes: number; os_resident_bytes: number }[];
}

export interface Spread {
  median: number | null;
  min: number | null;
  max: number | null;
  reached: number;
  repeats: number;
  /** Of the median; null with fewer than three that got there. */
  interval: { low: number; high: number; coverage: number } | null;
}

export interface StrategySummary {
  strategy: string;
  trials: number;
  warm_after_seconds: Spread;
  to_50_seconds: Spread | null;
  to_90_seconds: Spread | null;
  to_95_seconds: Spread | null;
  bound_ratio: Spread | null;
  served_until_warm: Spread;
  nothing_served_by_then: Spread | null;
  served: Spread;
  ended_after_seconds: Spread | null;
  device_read_bytes: Spread;
  caveats: string[];
}

export interface Summary {
  bound_seconds: number | null;
  trial_seconds: number;
  strategies: StrategySummary[];
}

/** What is known of a number: `at_most` is null when it has no upper limit. */
export interface Limits {
  at_least: number;
  at_most: number | null;
}

export interface Ratio {
  median: Limits;
  interval: Limits | null;
  /** How often such an interval holds the true median, 0 to 1. */
  coverage: number;
  pairs: number;
}

export interface WarmerRatio extends Ratio {
  /** What else varies, by its values. */
  cell: string;
  dividend: string;
  /** A warmer, or the bound. */
  divisor: string;
  /** Names of figures. */
  of: string;
  to: string;
}

export interface StrategyRatios {
  strategy: string;
  /** "bound", "nothing" or "cat". */
  to: string;
  warm_after_seconds: Ratio | null;
  to_50_seconds: Ratio | null;
  served: Ratio | null;
}

export interface SecondShare {
  second: number;
  share: number | null;
  least: number | null;
}

export interface LeastShare {
  second: number;
  repeat: number;
  share: number;
}

export interface Interference {
  strategy: string;
  seconds: SecondShare[];
  lowest: SecondShare | null;
  least: LeastShare | null;
  floor: number | null;
  is_floor_held: boolean | null;
  served_by_deadline: Spread | null;
  served_ratio: Ratio | null;
  pgthaw_ratio: Ratio | null;
  ahead_from_second: number | null;
}

export interface TournamentComparison {
  ratios: StrategyRatios[];
  deadline_seconds: number | null;
  interference: Interference[];
}

/** Ways to warm a server, held against each other. */
export interface Tournament {
  run: Run;
  summary: Summary;
  comparison: TournamentComparison;
  trials: Contender[];
}

export interface Run {
  id: string;
  started_at: string;
  ended_at: string | null;
  pgthaw_version: string;
  machine: {
    hostname: string;
    kernel: string;
    cpu_model: string;
    cores: number;
    memory_bytes: number;
    file_system: string;
    device: { name: string; major_minor: string; rotational: boolean; read_ahead_bytes: number };
  };
  server: {
    version: string;
    block_size: number;
    segment_blocks: number;
    shared_buffers_bytes: number;
    data_directory: string | null;
  };
  settings: [string, string][];
  study: WarmupStudy;
  steady_tps: number | null;
  warnings: string[];
}

export interface WarmupStudy {
  title: string | null;
  scale: number;
  clients: number;
  jobs: number;
  script: string;
  seconds: number;
  repeats: number;
  strategies: string[];
  skipped_strategies: [string, string][];
  disk: { name: string; riops: number | null; rbps: number | null; not_enforced: string | null; read_ahead: number | null; read_ahead_not_enforced: string | null };
  database_bytes: number;
  wanted_bytes: number;
  bound_seconds: number | null;
  start_state: string;
  /** Does a trial end when it is steady? `seconds` is then the longest that one lasts. */
  until_steady: boolean;
  /** What the model said before the trials of a server that nothing warms. */
  forecast: { steady_tps: number; to_50_seconds: Span | null; warm_after_seconds: Span | null } | null;
}

export interface Span {
  seconds: number;
  low: number;
  /** null: never. */
  high: number | null;
}

/** A trial of a tournament. */
export interface Contender {
  /** Of its point. */
  number: number;
  strategy: string;
  repeat: number;
  position: number;
  started_at: string;
  start_state: { os_resident_bytes: number; total_bytes: number; verdict: string };
  outcome: {
    command: string;
    ended_after_seconds: number | null;
    issued_bytes: number | null;
    failure: string | null;
    /** The end of what it printed. */
    output: string;
  };
  warm_after_seconds: number | null;
  to_50_seconds: number | null;
  to_90_seconds: number | null;
  to_95_seconds: number | null;
  served_until_warm: number;
  served: number;
  device_read_bytes: number;
  residency: RelationResidency[];
  /** Without what the machine did; null where the trial's own series stands beside it. */
  series: TrialSeries | null;
  warnings: string[];
  /** What the model says of its curve; null when it cannot be judged, and `no_verdict` says why. */
  judgement: Judgement | null;
  no_verdict: string | null;
}

export interface Judgement {
  verdict: "steady" | "not_reached" | "periodic" | "degrading";
  reason: string;
  steady_from_seconds: number | null;
  period_seconds: number | null;
  steady_tps: number | null;
  fit: Fit | null;
  no_fit: string | null;
}

/** The closed form of the warm-up: seconds of a client's transaction when nothing and when all is cached, and the pages. */
export interface Fit {
  cold_seconds: Estimate;
  hit_seconds: Estimate;
  pages: Estimate;
  residual_share: number;
  clients: number;
}

export interface Estimate {
  value: number;
  /** The 95 % interval; null: not known. */
  low: number | null;
  high: number | null;
}

export interface RelationResidency {
  relation: string;
  kind: string;
  total_bytes: number;
  before: ResidencyStrip;
  after: ResidencyStrip;
}

export interface ResidencyStrip {
  os: number[];
  buffers: number[];
}
