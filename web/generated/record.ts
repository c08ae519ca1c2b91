// What the page is sent, by the types of src/. Not to be edited: PGTHAW_WRITE_DOCS=1 cargo nextest run record_tests writes it.

/**
 * Writers of buffers and causes of checkpoints, for one trial or as medians of several.
 */
export type BackgroundWrites = { checkpoints_timed: number, checkpoints_requested: number, buffers_checkpoint: number, buffers_clean: number, buffers_backend: number, 
/**
 * How often the background writer stopped at its limit for one round.
 */
maxwritten_clean: number, buffers_alloc: number, };

/**
 * Best possible merging, regardless of order, heat and other readers.
 */
export type Bound = { reads: number, 
/**
 * Including gaps.
 */
read_bytes: Bytes, seconds: number, };

export type Brought = { 
/**
 * Pages that the snapshot wants in the page cache, and their contiguous pieces.
 */
wanted_pages: number, wanted_pieces: number, 
/**
 * Former contents of shared_buffers, and those with a usage count of 3 or more.
 */
former_buffers_bytes: Bytes, former_hot_bytes: Bytes, 
/**
 * `None` without limits.
 */
bound: Bound | null, 
/**
 * To `RESIDENT_SHARE` of the wanted pages, each checked. `None` if not reached, or if the warmer fills no page
 * cache.
 */
resident_after_seconds: number | null, 
/**
 * Only for warmers that restore shared_buffers.
 */
buffers_after_seconds: number | null, 
/**
 * Wanted bytes resident at the end, with each page checked again.
 */
resident_bytes: Bytes, 
/**
 * Processor time without the server, which reads for the warmer.
 */
cpu_seconds: number | null, 
/**
 * By all processes under the limit; without one, of the whole machine.
 */
device_reads: number | null, 
/**
 * By fio's own account.
 */
own_bytes: Bytes | null, own_seconds: number | null, };

/**
 * Used buffers with one usage count.
 */
export type BufferUse = { 
/**
 * 0 to 5.
 */
usage_count: number, buffers: number, dirty: number, };

/**
 * Sizes use PostgreSQL's units (`256 MB` is 2²⁸ bytes), rates the vendors' (1 MB/s is 10⁶ bytes/s).
 */
export type Bytes = number;

export type CellComparison = { 
/**
 * The point's values that vary and are not compared.
 */
label: string, 
/**
 * B ÷ A over the pairs.
 */
ratio: Ratio, 
/**
 * Permutation test over the signs of the pairs.
 */
p: number, 
/**
 * Adjusted for the number of cells (Holm).
 */
p_holm: number, 
/**
 * Ratio above 1 that as many pairs detect in 80 % of studies; `None` with a single pair.
 */
smallest_detectable: number | null, 
/**
 * Least number of checkpoint cycles that pairs were cut to; 0: not cut.
 */
cycles: number, };

/**
 * A logged checkpoint. It writes for `write_seconds`, then synchronises for `sync_seconds`. `total_seconds` includes
 * other work.
 */
export type Checkpoint = { 
/**
 * Since the start of pgbench; negative if it began earlier.
 */
began_after_seconds: number, ended_after_seconds: number, 
/**
 * `time`, `wal`, `immediate force wait` …; empty if logged before the trial.
 */
reason: string, buffers: number, write_seconds: number, sync_seconds: number, total_seconds: number, sync_files: number, longest_sync_seconds: number, };

export type CheckpointBegun = { 
/**
 * Since the start of pgbench.
 */
began_after_seconds: number, reason: string, };

export type Climb = { 
/**
 * End of the preceding second.
 */
seconds: number, 
/**
 * Minimum of the second's transactions and their running median over three seconds.
 */
tps: number, };

export type CopyWay = "reflink" | "copy";

export type Curve = { panel: Panel, label: string, };

/**
 * Excludes databases left by an earlier study.
 */
export type DatabaseMaking = { database: string, scale: number, file_system: string, server: string, seconds: number, 
/**
 * pgthaw's own work in between is not included.
 */
steps: Array<MakingStep>, };

export type Device = { name: string, major_minor: string, rotational: boolean, read_ahead_bytes: Bytes, 
/**
 * Empty if unreported.
 */
model: string, 
/**
 * From the disk up to its bus. Behind a controller, the last driver is the controller's.
 */
drivers: Array<string>, 
/**
 * `write back` or `write through`; empty if unknown.
 */
write_cache: string, };

export type Disk = { 
/**
 * `gp3`, `hdd`, `custom` or `native`.
 */
name: string, 
/**
 * Per second; `None` is no limit.
 */
riops: number | null, 
/**
 * Per second; `None` is no limit.
 */
rbps: Bytes | null, 
/**
 * Per second; `None` is no limit.
 */
wiops?: number | null, wbps?: Bytes | null, 
/**
 * Why a requested limit is not in force.
 */
writes_not_enforced?: string | null, 
/**
 * Why a requested limit is not in force.
 */
not_enforced: string | null, 
/**
 * `None` keeps the device's own setting.
 */
read_ahead: Bytes | null, read_ahead_not_enforced: string | null, };

export type Envelope = { mean: Array<number>, min: Array<number>, max: Array<number>, };

/**
 * With a 95 % interval; `None` is an unknown bound.
 */
export type Estimate = { value: number, low: number | null, high: number | null, };

/**
 * Numbers that JavaScript cannot represent.
 */
export type ExactNumbers = { seed: string, system_identifier: string, };

export type Fit = { 
/**
 * Seconds of one client's transaction, uncached (Td) and cached (Tc); without a known number of clients, between
 * transactions.
 */
cold_seconds: Estimate, hit_seconds: Estimate, 
/**
 * P, as if all pages were equally likely.
 */
pages: Estimate, 
/**
 * Typical relative deviation from the curve.
 */
residual_share: number, 
/**
 * 1 if unknown.
 */
clients: number, };

/**
 * WAL flushes, counted by the server and observed.
 */
export type FlushFigures = { 
/**
 * `None` before PostgreSQL 14.
 */
per_second: number | null, 
/**
 * Observations, and those that saw a flush in progress.
 */
looks: number, seen: number, 
/**
 * Mean number of other transactions that had written and waited for no lock.
 */
others: number | null, commit_siblings: string, };

export type FreshCopy = { way: CopyWay, bytes: Bytes, 
/**
 * Including the flush to disk.
 */
seconds: number, };

/**
 * Each second is compared with the same second of `nothing` in the same round.
 */
export type Interference = { strategy: string, 
/**
 * The second with the least share, by the median over the rounds.
 */
lowest: LeastShare | null, least: LeastShare | null, 
/**
 * The least share that the warmer guarantees.
 */
floor: number | null, is_floor_held: boolean | null, 
/**
 * The first second after which the total exceeds that of `nothing` to the end (medians over rounds).
 */
ahead_from_second: number | null, 
/**
 * Transactions within this warmer's median warm time, or the trial. `None` if `nothing` was measured for less.
 */
nothing_served_by_then: Spread | null, 
/**
 * Total ÷ that of `nothing`, over the shorter trial.
 */
served_ratio: Ratio | null, 
/**
 * Transactions by the deadline; their ratio to those of `nothing`; and pgthaw's ratio to them.
 */
served_by_deadline: Spread | null, deadline_ratio: Ratio | null, pgthaw_ratio: Ratio | null, };

export type Job = { transactions: number, 
/**
 * `None` without a warmer, or if it had not ended before the load.
 */
warmer_seconds: number | null, load_seconds: number, 
/**
 * Includes a warmer before the load.
 */
whole_seconds: number, };

/**
 * Seconds count from the run's start.
 */
export type Judgement = { verdict: Verdict, reason: string, 
/**
 * `None` if the answer is clear.
 */
undecided: Undecided | null, 
/**
 * `None` without a level and in old records.
 */
warmth: Warmth | null, 
/**
 * Share of the study's common level, if different.
 */
level_share: number | null, 
/**
 * Never before `to_95_seconds`; only for steady and periodic runs.
 */
steady_from_seconds: number | null, 
/**
 * Minimum duration of a level, besides 15 % of the run.
 */
level_lasts_seconds: number, period_seconds: number | null, 
/**
 * Of the steady part, or extrapolated by the fit.
 */
steady_tps: number | null, 
/**
 * 95 % of such levels are within this share of `steady_tps`.
 */
level_error_share: number | null, mean_tps: number, 
/**
 * `mean_tps` ÷ `steady_tps` - 1.
 */
mean_error_share: number | null, 
/**
 * Until these shares of `steady_tps`, measured or fitted. 0 if it began there.
 */
to_50_seconds: number | null, to_90_seconds: number | null, to_95_seconds: number | null, run_seconds: number, 
/**
 * Run length for a steady verdict, if known.
 */
should_have_run_seconds: number | null, fit: Fit | null, no_fit: string | null, remarks: Array<string>, };

/**
 * Latencies in microseconds, as a compressed V2 HdrHistogram with three significant digits. HdrHistogram's libraries
 * in all languages can read and merge it.
 */
export type LatencyHistogram = { count: number, mean_us: number, stddev_us: number, p50_us: number, p90_us: number, p95_us: number, p99_us: number, p999_us: number, max_us: number, 
/**
 * Only percentiles with enough transactions beyond them.
 */
percentiles: Array<Percentile>, };

export type LeastShare = { 
/**
 * From 1.
 */
second: number, 
/**
 * From 1; `None` for the median of all rounds.
 */
repeat: number | null, share: number, };

/**
 * Known limits of a non-negative quantity.
 */
export type Limits = { at_least: number, 
/**
 * `None`: no upper limit.
 */
at_most: number | null, };

/**
 * For the live display only.
 */
export type LiveSecond = { second: number, tps: number | null, device_read_bytes: Bytes, os_resident_bytes: Bytes, };

export type LiveTrial = { sweep_id: string, question: string, began_at: string, samples: Array<LiveSecond>, label: string, 
/**
 * From 1, of `repeats`.
 */
repeat: number, 
/**
 * From 1, of `trials`, earlier ones included.
 */
position: number, trials: number, 
/**
 * `None` if it ends by transactions.
 */
seconds: number | null, 
/**
 * Until the end of this sweep and those after it.
 */
left_seconds: number, };

export type LoadSample = { seconds: number, 
/**
 * Wanted bytes seen so far; an upper bound if not exact.
 */
resident_bytes: Bytes, is_exact: boolean, 
/**
 * Restored buffers, and hot ones with their former usage count.
 */
buffers_bytes: Bytes | null, hot_bytes: Bytes | null, };

export type Machine = { hostname: string, kernel: string, cpu_model: string, cores: number, memory_bytes: Bytes, file_system: string, device: Device, };

/**
 * A step of `pgbench -i`, or the study's SQL or program.
 */
export type MakingStep = { step: string, seconds: number, };

export type Measure = { 
/**
 * Name in SQL and exports. A field of `os_samples` has this name or contributes to it.
 */
name: string, unit: Unit, doc: string, column: string | null, curve: Curve | null, };

export type MeasurementVerdict = { kind: string, sentence: string, remedy: string };

export type MedianInterval = { low: number, high: number, 
/**
 * Probability that it contains the true median, for any distribution.
 */
coverage: number, };

export type Metric = string;

export type MetricFacts = { 
/**
 * For the command line and page addresses.
 */
name: string, 
/**
 * Field in `--json` (docs/formats.md).
 */
key: string, label: string, caption: string, kind: MetricKind, is_low_better: boolean, };

export type MetricKind = "rate" | "per_second" | "latency" | "time" | "bytes" | "byte_rate" | "count" | "cost" | "ratio";

export type NamedStatistic = { name: string, where: string, part: string, detail: string, average_ns: number | null, 
/**
 * Upper bound of a bucket, or the maximum: at most twice too high.
 */
p99_ns: number | null, 
/**
 * 0 if only the time is known, as from sampling.
 */
count: number, total_ns: number, 
/**
 * `None` if lengths are unknown.
 */
min_ns: number | null, max_ns: number | null, };

/**
 * The difference between the equal sides A' and A.
 */
export type Noise = { metric: Metric, cells: Array<NoiseCell>, floor: number | null, };

export type NoiseCell = { 
/**
 * The values that vary, without the side.
 */
label: string, 
/**
 * A' ÷ A over the pairs.
 */
ratio: Ratio, p: number, 
/**
 * Ratio above 1: the farther end of the interval. `None` with fewer than three pairs.
 */
floor: number | null, smallest_detectable: number | null, 
/**
 * Share of 1000 studies of eight of these pairs with p ≤ 0.05, without a true difference. `None` with eight or
 * fewer.
 */
false_share: number | null, };

export type PageData = { format: number, kind: string, metrics: Array<MetricFacts>, studies: Array<StudyInPage>, };

export type Panel = { id: string, title: string, 
/**
 * Whether the curves are stacked areas.
 */
is_stack: boolean, };

/**
 * A percentile with a 95 % interval from the binomial distribution. It assumes independence, so the spread of trials
 * is wider.
 */
export type Percentile = { 
/**
 * 0 to 1.
 */
share: number, us: number, low_us: number, high_us: number, };

export type PointSummary = { number: number, 
/**
 * The values that vary.
 */
label: string, 
/**
 * In the order of `SweepRun::varied`.
 */
values: Array<string>, 
/**
 * Ended trials, and those of them without figures.
 */
trials: number, failures: number, 
/**
 * Lower limit of times that were not reached.
 */
measured_seconds: number | null, background: BackgroundWrites | null, verdicts: Array<PointVerdict>, 
/**
 * Failures without a verdict, by text, with the number of trials.
 */
warnings: { [key in string]: number }, } & ({ [figure in string]: Spread | null });

export type PointVerdict = { kind: string, trials: number, sentence: string, remedy: string, 
/**
 * Whether something other than the request was measured.
 */
is_refusing: boolean, };

export type ProgramCost = { name: string, runs: number, total_ns: number, };

export type Ratio = { 
/**
 * Its limits differ if some times were not reached.
 */
median: Limits, 
/**
 * `None` with fewer than `MIN_PAIRS` pairs.
 */
interval: Limits | null, 
/**
 * Probability that the interval contains the true median: 0.97 with six pairs. Fewer cannot reach 0.95; their
 * interval is the range, with 0.75 (three pairs) to 0.94 (five).
 */
coverage: number, pairs: number, };

export type RefusedSource = { source: string, reason: string, remedy: string | null, };

export type RelationResidency = { relation: string, kind: string, total_bytes: Bytes, before: ResidencyStrip, after: ResidencyStrip, course?: ResidencyCourse | null, };

export type ResidencyCourse = { 
/**
 * Seconds between samples, and before the first.
 */
step_seconds: number, 
/**
 * 0 to 1, rounded to a thousandth.
 */
shares: Array<number>, };

/**
 * Resident share, 0 to 1, of equal pieces from the first block to the last.
 */
export type ResidencyStrip = { os: Array<number>, buffers: Array<number>, };

export type RowDelta = { 
/**
 * Such as `backend_type`; empty for single-row views.
 */
key: { [key in string]: string }, 
/**
 * In the view's units.
 */
added: { [key in string]: number }, };

export type ScriptLatency = { script: string, 
/**
 * Logged transactions only.
 */
answered: number, failed: number, skipped: number, 
/**
 * Measured from the due time under a rate, else from the begin.
 */
response: LatencyHistogram, 
/**
 * Measured from the begin. `None` without a rate.
 */
service: LatencyHistogram | null, };

export type ServerFacts = { 
/**
 * Such as 150018.
 */
version_num: number, 
/**
 * Such as `15.18 (Debian 15.18-0+deb12u1)`.
 */
version: string, system_identifier: number, cluster_name: string, 
/**
 * In bytes.
 */
block_size: number, segment_blocks: number, shared_buffers_bytes: Bytes, 
/**
 * `None` without the privilege.
 */
data_directory: string | null, 
/**
 * `debug_io_direct` (since 16): data files bypass the page cache.
 */
io_direct: boolean, 
/**
 * Since 18.
 */
io_method: string | null, in_recovery: boolean, 
/**
 * Written or replayed; empty before the first replay.
 */
lsn: string, timeline: number, role: string, is_superuser: boolean, 
/**
 * `Some` if the server is on this host with a readable data directory.
 */
postmaster_pid: number | null, };

export type Span = { seconds: number, low: number, 
/**
 * `None`: never in the worse case.
 */
high: number | null, };

/**
 * A repeat that did not reach the event counts as the longest: the median is `None` if half of them did not, `max`
 * if any did not.
 */
export type Spread = { median: number | null, min: number | null, max: number | null, reached: number, repeats: number, 
/**
 * `None` with fewer than three repeats, or if one did not reach it.
 */
interval: MedianInterval | null, };

export type Stall = { 
/**
 * The stall begins at the end of `from_second`.
 */
from_second: number, until_second: number, 
/**
 * Transactions of the slowest second, and the usual number.
 */
least_tps: number, usual_tps: number, 
/**
 * Possible causes seen only during the stall: a wait, a checkpoint.
 */
seen: Array<string>, };

export type StartState = { 
/**
 * Of the benchmark database.
 */
os_resident_bytes: Bytes, total_bytes: Bytes, 
/**
 * `cold` (at most 1 % resident), `lukewarm`, `warm` (95 %) or `restored`.
 */
verdict: string, };

/**
 * Changed rows of each view.
 */
export type StatisticsDelta = { [key in string]: Array<RowDelta> };

export type StrategyOutcome = { command: string, 
/**
 * Since the start of pgbench. `None` if it outlived the trial, or without a command.
 */
ended_after_seconds: number | null, 
/**
 * Device reads of the strategy's own processes.
 */
issued_bytes: Bytes | null, failure: string | null, output: string, };

/**
 * A study, as sent by `serve` or embedded in a report.
 */
export type StudyData = { subject: string, headline: string, 
/**
 * Total duration of its trials, if known.
 */
total_seconds: number | null, sweep: SweepRun, 
/**
 * Numbers beyond 2⁵³ as text, because a browser would round them.
 */
exact: ExactNumbers, points: Array<PointSummary>, trials: Array<TrialOutline>, 
/**
 * Noise by metric; empty unless points were measured twice.
 */
noise: Array<Noise>, measures: Array<Measure>, 
/**
 * Accounts of the servers' time, by point.
 */
timed: Array<TimedPoint>, ratios: Array<WarmerRatio>, 
/**
 * Effects of warmers on the traffic, if only the warmer varies.
 */
traffic: Traffic, 
/**
 * Objections to a study of warmers, known before its trials.
 */
remarks: Array<string>, };

export type StudyForecast = { cold_tps: number, steady_tps: number, 
/**
 * To half of `steady_tps`, and until fewer than 1 % of transactions read from the device. Spans cover a device and
 * processor 15 % better or worse.
 */
to_50_seconds: Span | null, warm_after_seconds: Span | null, };

/**
 * A study in a report, with details of its trials unless there are too many.
 */
export type StudyInPage = { study: StudyData, details: Array<TrialData> | null, };

export type StudyLine = { id: string, question: string, 
/**
 * `None` if damaged.
 */
started_at: string | null, ended_at: string | null, host: string, server: string, varied: Array<string>, points: number, repeats: number, 
/**
 * Ended trials, and those of them that failed.
 */
trials: number, failures: number, 
/**
 * Why the study is unreadable.
 */
damaged: string | null, };

export type SweepComparison = { metric: Metric, a: string, b: string, cells: Array<CellComparison>, 
/**
 * Ratio above 1 that equal sides reach; `None` unless points are measured twice.
 */
noise_floor: number | null, verdicts: Array<MeasurementVerdict>, warnings: Array<string>, };

/**
 * One run of a study, across interruptions.
 */
export type SweepRun = { 
/**
 * Sortable by time: `20261121-233005-4f2a`.
 */
id: string, started_at: string, 
/**
 * `None` while trials are missing.
 */
ended_at: string | null, pgthaw_version: string, 
/**
 * `pgbench (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)`.
 */
pgbench_version: string, machine: Machine, server: ServerFacts, question: string, 
/**
 * SHA-256 of the study's meaning, independent of its layout.
 */
digest: string, study: unknown, 
/**
 * Axes with more than one value.
 */
varied: Array<string>, points: number, repeats: number, seed: number, databases: Array<DatabaseMaking>, verdicts: Array<MeasurementVerdict>, 
/**
 * The verdicts as texts.
 */
warnings: Array<string>, 
/**
 * Only for a study of warmers.
 */
warmup?: WarmupFacts | null, 
/**
 * `None` if pgthaw measured it.
 */
source?: string | null, };

export type SweepTrial = { sweep_id: string, 
/**
 * From 0.
 */
number: number, point: Record<string, unknown>, 
/**
 * From 1.
 */
repeat: number, 
/**
 * Position in the random order, from 1.
 */
position: number, started_at: string, 
/**
 * Includes the preparation of the start state.
 */
ended_at: string | null, 
/**
 * Measured right before the clock started.
 */
start_state: StartState | null, command: string, 
/**
 * Outcome of the warmer beside the load.
 */
strategy_outcome?: StrategyOutcome | null, 
/**
 * Only for trials that were asked to start cold.
 */
warming?: Warming | null, 
/**
 * `None` if pgbench ran on this host.
 */
generators: TrialGenerators | null, failure: string | null, lasted_seconds: number, 
/**
 * By pgbench's own count. Skipped transactions were due too long ago.
 */
transactions: number, failed: number, skipped: number, 
/**
 * Transactions tried more than once, and retries in total.
 */
retried: number, retries: number, late: number, 
/**
 * Per second, without the initial connection time.
 */
tps: number, worst_second_tps: number | null, latency: LatencyHistogram | null, 
/**
 * `None` if no account was kept.
 */
time?: TrialTime | null, scripts: Array<ScriptLatency>, statistics: StatisticsDelta, buffers_before: Array<BufferUse>, buffers_after: Array<BufferUse>, 
/**
 * From the server log.
 */
checkpoints: Array<Checkpoint>, checkpoint_begun: CheckpointBegun | null, 
/**
 * Whole cycles, each from one checkpoint's beginning to the next. `cycle_tps` covers only these.
 */
checkpoint_cycles: number, cycle_tps: number | null, settings: Array<[string, string]>, 
/**
 * By all processes.
 */
device_read_bytes: Bytes, 
/**
 * Devices with one part of the server each, `rest` first.
 */
devices?: Array<TrialDevice>, 
/**
 * `None` if trials share one database.
 */
fresh_copy?: FreshCopy | null, server_version: string | null, verdicts: Array<MeasurementVerdict>, 
/**
 * The verdicts as texts.
 */
warnings: Array<string>, };

export type TimedPoint = { number: number, 
/**
 * `None` for imports.
 */
clients: number | null, 
/**
 * Varying values other than clients.
 */
others: string, 
/**
 * Medians. The response of a closed loop is clients ÷ tps, in microseconds; `None` with a rate.
 */
tps: number | null, response_us: number | null, 
/**
 * Per client backend.
 */
explained_seconds: number | null, 
/**
 * Time waiting for commands and receiving them.
 */
reading_seconds: number, 
/**
 * Mean number of processors.
 */
processors_used: number, 
/**
 * `bpf`, `memory` or `sql` (docs/waits.md).
 */
source: string, length_seconds: number, 
/**
 * Lowest and highest value of any second.
 */
explained_ratio_min: number | null, explained_ratio_max: number | null, 
/**
 * Ended before the trial because it exceeded its processor budget.
 */
is_cut_short: boolean, 
/**
 * Lifetime. The kinds below add up to it.
 */
lived_seconds: number, 
/**
 * Includes time ready to run if `ready_seconds` is null.
 */
running_seconds: number, 
/**
 * Waiting for a processor. `None` if unknown.
 */
ready_seconds: number | null, 
/**
 * Waiting for the client.
 */
client_seconds: number, 
/**
 * Waiting for events of these classes, and of others.
 */
lwlock_seconds: number, lock_seconds: number, io_seconds: number, other_seconds: number, 
/**
 * Off the processor without a wait event, or with an unreadable one.
 */
no_event_seconds: number, unknown_seconds: number, 
/**
 * Commands, and their time from receipt to the wait for the next or its receipt.
 */
commands: number, handled: number, handled_seconds: number, 
/**
 * All LWLock waits, and those for shared statistics.
 */
lwlock_waits: number, statistics_waits: number, statistics_seconds: number, 
/**
 * Backend status updates (pg_stat_activity). `None` if unreadable.
 */
activity_reports: number | null, 
/**
 * Background processes: running, ready, and waiting without being idle.
 */
background_running_seconds: number, background_ready_seconds: number, background_waiting_seconds: number, switches: number, 
/**
 * Explained share of all server processes' lifetime, about 1.
 */
explained_ratio: number | null, 
/**
 * Processor time of the observation.
 */
cost_seconds: number, lost_processes: number, };

export type Traffic = { 
/**
 * 1.25 × the bound; `None` if unknown or longer than a trial.
 */
deadline_seconds: number | null, 
/**
 * All warmers but `nothing`; empty if that was not measured.
 */
warmers: Array<Interference>, };

export type TrialData = { trial: SweepTrial, series: TrialSeries, };

export type TrialDevice = { 
/**
 * `wal`, `slru`, `tables`, `indexes`, `rest` (the remaining data directory), or `log` (the log device of its file
 * system).
 */
part: string, disk: string | null, 
/**
 * Name in /sys/block.
 */
device: string, 
/**
 * Means over the trial, by all processes.
 */
reads_per_second: number, read_bytes_per_second: number, writes_per_second: number, written_bytes_per_second: number, bytes_per_write: number | null, 
/**
 * 0 to 1.
 */
busy_ratio: number, };

export type TrialGenerator = { host: string, clients: number, jobs: number, pgbench_version: string, 
/**
 * How far its clock is ahead of this host's, and the possible error.
 */
clock_offset_ms: number, clock_uncertainty_ms: number, 
/**
 * Start of pgbench after the agreed instant, by this host's clock.
 */
started_after_ms: number, transactions: number, tps: number, 
/**
 * Whether its processes run on this machine.
 */
is_seen: boolean, };

export type TrialGenerators = { 
/**
 * From the first start to the last.
 */
start_spread_ms: number, hosts: Array<TrialGenerator>, };

export type TrialOutline = { number: number, repeat: number, position: number, started_at: string, ended_at: string | null, start_verdict: string | null, failure: string | null, 
/**
 * The model's judgement of a cold trial, reconciled with the common steady level; `None` for the reason in
 * `no_verdict`.
 */
judgement: Judgement | null, no_verdict: string | null, 
/**
 * The level that shares refer to; `None` until a trial that decides it was warm.
 */
steady_tps: number | null, } & ({ [figure in string]: number | null });

/**
 * A trial's curves, by column. Minimum and maximum keep a stall of one second visible.
 */
export type TrialSeries = { 
/**
 * Seconds in a span.
 */
width: number, 
/**
 * The end of each span, since the start of pgbench.
 */
second: Array<number>, tps: Envelope, 
/**
 * Microseconds; `None` in a span without transactions.
 */
latency_us_mean: Array<number | null>, latency_us_min: Array<number | null>, latency_us_max: Array<number | null>, latency_us_deviation: Array<number | null>, 
/**
 * Bytes per second: the workload's own backends, and the whole device.
 */
foreground_read_bytes: Array<number>, device_read_bytes: Envelope, device_reads: Array<number>, 
/**
 * Minimum of each span.
 */
os_resident_bytes: Array<number>, 
/**
 * The columns of `MEASURES`; `None` if the machine was not gauged.
 */
machine: { [key in string]: Array<number | null> } | null, waits: Array<WaitSeries>, stalls: Array<Stall>, flushes: FlushFigures | null, };

export type TrialTime = { 
/**
 * Better sources that were unavailable.
 */
refused: Array<RefusedSource>, processes: number, 
/**
 * Sorted by total time, idle processes last.
 */
statistics: Array<NamedStatistic>, 
/**
 * Commands of client backends, from their receipt.
 */
handled_statistic: NamedStatistic | null, 
/**
 * Runs whose start was missed, and waits whose wakeup was missed.
 */
recovered: number, recovered_seconds: number, wakes_missed: number, programs: Array<ProgramCost>, 
/**
 * Processor time of the reading thread.
 */
own_cpu_seconds: number, 
/**
 * `bpf`, `memory` or `sql` (docs/waits.md).
 */
source: string, length_seconds: number, 
/**
 * Lowest and highest value of any second.
 */
explained_ratio_min: number | null, explained_ratio_max: number | null, 
/**
 * Ended before the trial because it exceeded its processor budget.
 */
is_cut_short: boolean, 
/**
 * Lifetime. The kinds below add up to it.
 */
lived_seconds: number, 
/**
 * Includes time ready to run if `ready_seconds` is null.
 */
running_seconds: number, 
/**
 * Waiting for a processor. `None` if unknown.
 */
ready_seconds: number | null, 
/**
 * Waiting for the client.
 */
client_seconds: number, 
/**
 * Waiting for events of these classes, and of others.
 */
lwlock_seconds: number, lock_seconds: number, io_seconds: number, other_seconds: number, 
/**
 * Off the processor without a wait event, or with an unreadable one.
 */
no_event_seconds: number, unknown_seconds: number, 
/**
 * Commands, and their time from receipt to the wait for the next or its receipt.
 */
commands: number, handled: number, handled_seconds: number, 
/**
 * All LWLock waits, and those for shared statistics.
 */
lwlock_waits: number, statistics_waits: number, statistics_seconds: number, 
/**
 * Backend status updates (pg_stat_activity). `None` if unreadable.
 */
activity_reports: number | null, 
/**
 * Background processes: running, ready, and waiting without being idle.
 */
background_running_seconds: number, background_ready_seconds: number, background_waiting_seconds: number, switches: number, 
/**
 * Explained share of all server processes' lifetime, about 1.
 */
explained_ratio: number | null, 
/**
 * Processor time of the observation.
 */
cost_seconds: number, lost_processes: number, };

export type Undecided = "too_short" | "noisy";

export type Unit = "processors" | "backends" | "bytes" | "bytes_per_second" | "per_second" | "requests" | "microseconds" | "ratio";

export type Verdict = "steady" | "not_reached" | "periodic" | "degrading";

export type WaitSeries = { 
/**
 * `IO`, for example; `None`: running or ready to run. `Others` is the sum of the rest.
 */
kind: string | null, event: string | null, 
/**
 * Mean number of backends.
 */
processes: Array<number | null>, };

/**
 * `dividend ÷ divisor`, from trials of the same round.
 */
export type WarmerRatio = { 
/**
 * Values of the other axes that vary.
 */
cell: string, dividend: string, 
/**
 * A warmer, or `bound`.
 */
divisor: string, 
/**
 * Metrics of dividend and divisor.
 */
of: Metric, to: Metric, 
/**
 * Its limits differ if some times were not reached.
 */
median: Limits, 
/**
 * `None` with fewer than `MIN_PAIRS` pairs.
 */
interval: Limits | null, 
/**
 * Probability that the interval contains the true median: 0.97 with six pairs. Fewer cannot reach 0.95; their
 * interval is the range, with 0.75 (three pairs) to 0.94 (five).
 */
coverage: number, pairs: number, };

export type Warming = { 
/**
 * Device reads of the workload's backends per tenth of a second. They date `warm_after_seconds` within its second.
 */
foreground_tenths: Array<Bytes>, residency: Array<RelationResidency>, 
/**
 * Only for trials that ended when the wanted pages were resident.
 */
looks?: Array<LoadSample>, 
/**
 * Seconds measured, or the maximum waited for. A time that was not reached is longer.
 */
measured_seconds: number, 
/**
 * Until fewer than 1 % of transactions read from the device, sustained to the end, to a tenth.
 */
warm_after_seconds: number | null, 
/**
 * Over the whole trial if it never was warm.
 */
served_until_warm: number, served: number, 
/**
 * Median of the warm seconds.
 */
warm_tps: number | null, climb: Array<Climb>, 
/**
 * Cached part of the database when warm. `None` if no snapshot was needed.
 */
wanted_bytes: Bytes | null, 
/**
 * Lower bound for warmers: `wanted_bytes ÷ bandwidth`, or the best merging's seconds if reads are limited. `None`
 * if unknown, or if an own script may need fewer bytes.
 */
bound_seconds: number | null, 
/**
 * `None` for the reason in `no_verdict`.
 */
judgement: Judgement | null, no_verdict: string | null, 
/**
 * Result of a warmer without a load.
 */
brought?: Brought | null, job?: Job | null, };

/**
 * Whether a level is a warm server's, with evidence.
 */
export type Warmth = { 
/**
 * `None` if unknown.
 */
is_warm: boolean | null, evidence: string, 
/**
 * Data that would decide it.
 */
would_tell: string | null, };

export type WarmupFacts = { disk: Disk, 
/**
 * Database size, and its cached part when warm.
 */
database_bytes: Bytes, wanted_bytes: Bytes, 
/**
 * Without a limit.
 */
calibration_tps: number | null, 
/**
 * For a server that nothing warms. `None` with unknown device figures or own scripts.
 */
forecast: StudyForecast | null, };
