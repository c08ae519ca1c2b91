// What the page is sent, by the types of src/. Not to be edited: PGTHAW_WRITE_DOCS=1 cargo nextest run record_tests writes it.

export type BackgroundWrites = { checkpoints_timed: number, checkpoints_requested: number, buffers_checkpoint: number, buffers_clean: number, buffers_backend: number, 
maxwritten_clean: number, buffers_alloc: number, };

export type Bound = { reads: number, 
read_bytes: Bytes, seconds: number, };

export type Brought = { 
wanted_pages: number, 
wanted_pieces: number, 
former_buffers_bytes: Bytes, 
former_hot_bytes: Bytes, 
bound: Bound | null, 
resident_after_seconds: number | null, 
buffers_after_seconds: number | null, 
resident_bytes: Bytes, 
cpu_seconds: number | null, 
device_reads: number | null, 
own_bytes: Bytes | null, 
own_seconds: number | null, };

export type BufferUse = { 
usage_count: number, buffers: number, 
dirty: number, };

export type Bytes = number;

export type CellComparison = { 
label: string, 
ratio: Ratio, 
p: number, 
p_holm: number, 
smallest_detectable: number | null, 
cycles: number, };

export type Checkpoint = { 
began_after_seconds: number, 
ended_after_seconds: number, 
reason: string, 
buffers: number, write_seconds: number, sync_seconds: number, total_seconds: number, 
sync_files: number, 
longest_sync_seconds: number, };

export type CheckpointBegun = { 
began_after_seconds: number, reason: string, };

export type Climb = { 
seconds: number, 
tps: number, };

export type CopyWay = "reflink" | "copy";

export type Curve = { panel: Panel, label: string, };

export type DatabaseMaking = { 
database: string, scale: number, file_system: string, server: string, seconds: number, 
steps: Array<MakingStep>, };

export type Device = { name: string, 
major_minor: string, rotational: boolean, read_ahead_bytes: Bytes, 
model: string, 
drivers: Array<string>, 
write_cache: string, };

export type Disk = { 
name: string, 
riops: number | null, 
rbps: Bytes | null, 
wiops?: number | null, 
wbps?: Bytes | null, 
writes_not_enforced?: string | null, 
not_enforced: string | null, 
read_ahead: Bytes | null, 
read_ahead_not_enforced: string | null, };

export type Envelope = { mean: Array<number>, min: Array<number>, max: Array<number>, };

export type Estimate = { value: number, low: number | null, high: number | null, };

export type ExactNumbers = { seed: string, system_identifier: string, };

export type Fit = { 
cold_seconds: Estimate, 
hit_seconds: Estimate, 
pages: Estimate, 
residual_share: number, 
clients: number, };

export type FlushFigures = { 
per_second: number | null, looks: number, 
seen: number, 
others: number | null, commit_siblings: string, };

export type FreshCopy = { way: CopyWay, bytes: Bytes, 
seconds: number, };

export type Interference = { strategy: string, 
lowest: LeastShare | null, 
least: LeastShare | null, 
floor: number | null, is_floor_held: boolean | null, 
ahead_from_second: number | null, 
nothing_served_by_then: Spread | null, 
served_ratio: Ratio | null, served_by_deadline: Spread | null, 
deadline_ratio: Ratio | null, 
pgthaw_ratio: Ratio | null, };

export type Job = { transactions: number, 
warmer_seconds: number | null, 
load_seconds: number, 
whole_seconds: number, };

export type Judgement = { verdict: Verdict, 
reason: string, 
undecided: Undecided | null, 
warmth: Warmth | null, 
level_share: number | null, 
steady_from_seconds: number | null, 
level_lasts_seconds: number, 
period_seconds: number | null, 
steady_tps: number | null, 
level_error_share: number | null, 
mean_tps: number, 
mean_error_share: number | null, 
to_50_seconds: number | null, 
to_90_seconds: number | null, 
to_95_seconds: number | null, run_seconds: number, 
should_have_run_seconds: number | null, fit: Fit | null, 
no_fit: string | null, remarks: Array<string>, };

export type LatencyHistogram = { count: number, mean_us: number, stddev_us: number, p50_us: number, p90_us: number, p95_us: number, p99_us: number, p999_us: number, max_us: number, 
percentiles: Array<Percentile>, };

export type LeastShare = { 
second: number, 
repeat: number | null, share: number, };

export type Limits = { at_least: number, 
at_most: number | null, };

export type LiveSecond = { 
second: number, tps: number | null, device_read_bytes: Bytes, os_resident_bytes: Bytes, };

export type LiveTrial = { sweep_id: string, question: string, began_at: string, samples: Array<LiveSecond>, 
label: string, 
repeat: number, 
position: number, trials: number, 
seconds: number | null, 
left_seconds: number, };

export type LoadSample = { seconds: number, 
resident_bytes: Bytes, is_exact: boolean, 
buffers_bytes: Bytes | null, 
hot_bytes: Bytes | null, };

export type Machine = { hostname: string, kernel: string, cpu_model: string, 
cores: number, memory_bytes: Bytes, 
file_system: string, device: Device, };

export type MakingStep = { step: string, seconds: number, };

export type Measure = { 
name: string, unit: Unit, doc: string, 
column: string | null, curve: Curve | null, };

export type MeasurementVerdict = { kind: string, sentence: string, remedy: string };

export type MedianInterval = { low: number, high: number, 
coverage: number, };

export type Metric = string;

export type MetricFacts = { 
name: string, 
key: string, label: string, caption: string, kind: MetricKind, is_low_better: boolean, };

export type MetricKind = "rate" | "per_second" | "latency" | "time" | "bytes" | "byte_rate" | "count" | "cost" | "ratio";

export type NamedStatistic = { 
name: string, 
where: string, 
part: string, detail: string, average_ns: number | null, 
p99_ns: number | null, 
count: number, total_ns: number, 
min_ns: number | null, 
max_ns: number | null, };

export type Noise = { metric: Metric, cells: Array<NoiseCell>, 
floor: number | null, };

export type NoiseCell = { 
label: string, 
ratio: Ratio, 
p: number, 
floor: number | null, 
smallest_detectable: number | null, 
false_share: number | null, };

export type PageData = { 
format: number, 
kind: string, metrics: Array<MetricFacts>, studies: Array<StudyInPage>, };

export type Panel = { id: string, title: string, 
is_stack: boolean, };

export type Percentile = { 
share: number, 
us: number, low_us: number, high_us: number, };

export type PointSummary = { 
number: number, 
label: string, 
values: Array<string>, 
trials: number, 
failures: number, 
measured_seconds: number | null, 
background: BackgroundWrites | null, verdicts: Array<PointVerdict>, 
warnings: { [key in string]: number }, } & ({ [figure in string]: Spread | null });

export type PointVerdict = { kind: string, trials: number, 
sentence: string, remedy: string, 
is_refusing: boolean, };

export type ProgramCost = { name: string, runs: number, total_ns: number, };

export type Ratio = { 
median: Limits, 
interval: Limits | null, 
coverage: number, pairs: number, };

export type RefusedSource = { source: string, reason: string, remedy: string | null, };

export type RelationResidency = { relation: string, kind: string, total_bytes: Bytes, before: ResidencyStrip, after: ResidencyStrip, course?: ResidencyCourse | null, };

export type ResidencyCourse = { 
step_seconds: number, 
shares: Array<number>, };

export type ResidencyStrip = { 
os: Array<number>, 
buffers: Array<number>, };

export type RowDelta = { 
key: { [key in string]: string }, 
added: { [key in string]: number }, };

export type ScriptLatency = { script: string, 
answered: number, failed: number, skipped: number, 
response: LatencyHistogram, 
service: LatencyHistogram | null, };

export type ServerFacts = { 
version_num: number, 
version: string, 
system_identifier: number, cluster_name: string, block_size: number, 
segment_blocks: number, shared_buffers_bytes: Bytes, 
data_directory: string | null, 
io_direct: boolean, 
io_method: string | null, in_recovery: boolean, 
lsn: string, timeline: number, role: string, is_superuser: boolean, 
postmaster_pid: number | null, };

export type Span = { seconds: number, 
low: number, 
high: number | null, };

export type Spread = { 
median: number | null, min: number | null, 
max: number | null, reached: number, repeats: number, 
interval: MedianInterval | null, };

export type Stall = { 
from_second: number, until_second: number, least_tps: number, usual_tps: number, 
seen: Array<string>, };

export type StartState = { os_resident_bytes: Bytes, total_bytes: Bytes, 
verdict: string, };

export type StatisticsDelta = { [key in string]: Array<RowDelta> };

export type StrategyOutcome = { command: string, 
ended_after_seconds: number | null, 
issued_bytes: Bytes | null, failure: string | null, 
output: string, };

export type StudyData = { 
subject: string, 
headline: string, 
total_seconds: number | null, sweep: SweepRun, 
exact: ExactNumbers, points: Array<PointSummary>, trials: Array<TrialOutline>, 
noise: Array<Noise>, measures: Array<Measure>, 
timed: Array<TimedPoint>, ratios: Array<WarmerRatio>, 
traffic: Traffic, 
remarks: Array<string>, };

export type StudyForecast = { cold_tps: number, steady_tps: number, 
to_50_seconds: Span | null, 
warm_after_seconds: Span | null, };

export type StudyInPage = { study: StudyData, 
details: Array<TrialData> | null, };

export type StudyLine = { id: string, question: string, 
started_at: string | null, ended_at: string | null, host: string, server: string, 
varied: Array<string>, points: number, repeats: number, 
trials: number, failures: number, 
damaged: string | null, };

export type SweepComparison = { metric: Metric, a: string, b: string, cells: Array<CellComparison>, 
noise_floor: number | null, verdicts: Array<MeasurementVerdict>, warnings: Array<string>, };

export type SweepRun = { 
id: string, started_at: string, 
ended_at: string | null, pgthaw_version: string, 
pgbench_version: string, machine: Machine, server: ServerFacts, question: string, 
digest: string, study: unknown, 
varied: Array<string>, points: number, 
repeats: number, 
seed: number, 
databases: Array<DatabaseMaking>, verdicts: Array<MeasurementVerdict>, 
warnings: Array<string>, 
warmup?: WarmupFacts | null, 
source?: string | null, };

export type SweepTrial = { sweep_id: string, 
number: number, point: Record<string, unknown>, 
repeat: number, 
position: number, 
started_at: string, 
ended_at: string | null, 
start_state: StartState | null, 
command: string, strategy_outcome?: StrategyOutcome | null, 
warming?: Warming | null, 
generators: TrialGenerators | null, 
failure: string | null, 
lasted_seconds: number, 
transactions: number, failed: number, 
skipped: number, 
retried: number, retries: number, 
late: number, 
tps: number, 
worst_second_tps: number | null, 
latency: LatencyHistogram | null, 
time?: TrialTime | null, scripts: Array<ScriptLatency>, statistics: StatisticsDelta, 
buffers_before: Array<BufferUse>, 
buffers_after: Array<BufferUse>, 
checkpoints: Array<Checkpoint>, checkpoint_begun: CheckpointBegun | null, 
checkpoint_cycles: number, 
cycle_tps: number | null, 
settings: Array<[string, string]>, 
device_read_bytes: Bytes, 
devices?: Array<TrialDevice>, 
fresh_copy?: FreshCopy | null, server_version: string | null, verdicts: Array<MeasurementVerdict>, 
warnings: Array<string>, };

export type TimedPoint = { number: number, 
clients: number | null, 
others: string, 
tps: number | null, 
response_us: number | null, 
explained_seconds: number | null, 
reading_seconds: number, processors_used: number, 
source: string, length_seconds: number, 
explained_ratio_min: number | null, 
explained_ratio_max: number | null, 
is_cut_short: boolean, 
lived_seconds: number, 
running_seconds: number, 
ready_seconds: number | null, 
client_seconds: number, lwlock_seconds: number, 
lock_seconds: number, 
io_seconds: number, 
other_seconds: number, 
no_event_seconds: number, 
unknown_seconds: number, 
commands: number, 
handled: number, 
handled_seconds: number, lwlock_waits: number, 
statistics_waits: number, statistics_seconds: number, 
activity_reports: number | null, background_running_seconds: number, background_ready_seconds: number, 
background_waiting_seconds: number, 
switches: number, 
explained_ratio: number | null, 
cost_seconds: number, lost_processes: number, };

export type Traffic = { 
deadline_seconds: number | null, 
warmers: Array<Interference>, };

export type TrialData = { 
trial: SweepTrial, series: TrialSeries, };

export type TrialDevice = { 
part: string, 
disk: string | null, 
device: string, reads_per_second: number, read_bytes_per_second: number, writes_per_second: number, written_bytes_per_second: number, bytes_per_write: number | null, 
busy_ratio: number, };

export type TrialGenerator = { host: string, clients: number, jobs: number, pgbench_version: string, 
clock_offset_ms: number, 
clock_uncertainty_ms: number, 
started_after_ms: number, transactions: number, tps: number, 
is_seen: boolean, };

export type TrialGenerators = { 
start_spread_ms: number, hosts: Array<TrialGenerator>, };

export type TrialOutline = { 
number: number, 
repeat: number, 
position: number, started_at: string, ended_at: string | null, 
start_verdict: string | null, failure: string | null, 
judgement: Judgement | null, no_verdict: string | null, 
steady_tps: number | null, } & ({ [figure in string]: number | null });

export type TrialSeries = { 
width: number, 
second: Array<number>, tps: Envelope, 
latency_us_mean: Array<number | null>, latency_us_min: Array<number | null>, latency_us_max: Array<number | null>, latency_us_deviation: Array<number | null>, 
foreground_read_bytes: Array<number>, 
device_read_bytes: Envelope, 
device_reads: Array<number>, 
os_resident_bytes: Array<number>, 
machine: { [key in string]: Array<number | null> } | null, 
waits: Array<WaitSeries>, stalls: Array<Stall>, flushes: FlushFigures | null, };

export type TrialTime = { refused: Array<RefusedSource>, processes: number, 
statistics: Array<NamedStatistic>, 
handled_statistic: NamedStatistic | null, 
recovered: number, 
recovered_seconds: number, 
wakes_missed: number, 
programs: Array<ProgramCost>, 
own_cpu_seconds: number, 
source: string, length_seconds: number, 
explained_ratio_min: number | null, 
explained_ratio_max: number | null, 
is_cut_short: boolean, 
lived_seconds: number, 
running_seconds: number, 
ready_seconds: number | null, 
client_seconds: number, lwlock_seconds: number, 
lock_seconds: number, 
io_seconds: number, 
other_seconds: number, 
no_event_seconds: number, 
unknown_seconds: number, 
commands: number, 
handled: number, 
handled_seconds: number, lwlock_waits: number, 
statistics_waits: number, statistics_seconds: number, 
activity_reports: number | null, background_running_seconds: number, background_ready_seconds: number, 
background_waiting_seconds: number, 
switches: number, 
explained_ratio: number | null, 
cost_seconds: number, lost_processes: number, };

export type Undecided = "too_short" | "noisy";

export type Unit = "processors" | "backends" | "bytes" | "bytes_per_second" | "per_second" | "requests" | "microseconds" | "ratio";

export type Verdict = "steady" | "not_reached" | "periodic" | "degrading";

export type WaitSeries = { 
kind: string | null, event: string | null, 
processes: Array<number | null>, };

export type WarmerRatio = { 
cell: string, dividend: string, 
divisor: string, 
of: Metric, 
to: Metric, 
median: Limits, 
interval: Limits | null, 
coverage: number, pairs: number, };

export type Warming = { 
foreground_tenths: Array<Bytes>, residency: Array<RelationResidency>, 
looks?: Array<LoadSample>, 
measured_seconds: number, 
warm_after_seconds: number | null, 
served_until_warm: number, served: number, 
warm_tps: number | null, 
climb: Array<Climb>, 
wanted_bytes: Bytes | null, 
bound_seconds: number | null, 
judgement: Judgement | null, no_verdict: string | null, brought?: Brought | null, job?: Job | null, };

export type Warmth = { 
is_warm: boolean | null, evidence: string, 
would_tell: string | null, };

export type WarmupFacts = { disk: Disk, database_bytes: Bytes, 
wanted_bytes: Bytes, 
calibration_tps: number | null, 
forecast: StudyForecast | null, };
