// The report's data, as src/report/ embeds it. Field names are those of src/study/record.rs and src/verdict/summary.rs.

/** The first run of the page, and the others. */
export interface PageData extends RunData {
  kind: "runs";
  /** Has the page others beside it? */
  is_served: boolean;
  format: number;
  further: RunData[];
}

/** What the sections of the page show. */
export type ReportData = RunData;

export interface RunData {
  headline: string;
  summary: Summary;
  comparison: Comparison;
  run: Run;
  trials: Trial[];
  /** Numbers beyond 2^53, which JSON.parse would round. */
  exact: { seed: string; system_identifier: string };
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

export interface Comparison {
  ratios: StrategyRatios[];
  deadline_seconds: number | null;
  interference: Interference[];
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
  study: Study;
  steady_tps: number | null;
  warnings: string[];
}

export interface Study {
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

export interface Trial {
  strategy: string;
  repeat: number;
  position: number;
  started_at: string;
  start_state: { os_resident_bytes: number; total_bytes: number; verdict: string };
  samples: Sample[];
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

export interface Sample {
  second: number;
  monotonic_ms: number;
  wall_ms: number;
  transactions: number;
  latency_us_mean: number | null;
  latency_us_min: number | null;
  latency_us_max: number | null;
  foreground_read_bytes: number;
  device_read_bytes: number;
  device_reads: number;
  os_resident_bytes: number;
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
