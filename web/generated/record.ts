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
 * Best possible merging of reads. Ignores their order, hot pages and other readers.
 */
export type Bound = { reads: number, 
/**
 * Includes gaps between pages.
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
 * `None` unless the disk is limited.
 */
bound: Bound | null, 
/**
 * Seconds until `RESIDENT_SHARE` of the wanted pages were resident, with each page checked. `None` if not reached,
 * or if the warmer does not fill the page cache.
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
 * Processor time of the warmer's own processes.
 */
cpu_seconds: number | null, 
/**
 * Reads of all processes under the disk limit; without a limit, of the whole machine.
 */
device_reads: number | null, 
/**
 * Figures reported by fio.
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
 * Values of the point that vary and are not compared.
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
 * Minimum number of whole checkpoint cycles over the pairs; 0 if a pair was not cut.
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
 * Creation of a database by this study.
 */
export type DatabaseMaking = { database: string, scale: number, file_system: string, server: string, seconds: number, 
/**
 * Steps without pgthaw's own work between them.
 */
steps: Array<MakingStep>, };

export type Device = { name: string, major_minor: string, rotational: boolean, read_ahead_bytes: Bytes, 
/**
 * Empty if unknown.
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
 * Why a requested write limit is not in force.
 */
writes_not_enforced?: string | null, 
/**
 * Why a requested read limit is not in force.
 */
not_enforced: string | null, 
/**
 * `None` keeps the device's own setting.
 */
read_ahead: Bytes | null, read_ahead_not_enforced: string | null, };

export type Envelope = { mean: Array<number>, min: Array<number>, max: Array<number>, };

/**
 * A value with its 95 % interval. A bound of `None` is unknown.
 */
export type Estimate = { value: number, low: number | null, high: number | null, };

/**
 * Numbers that JavaScript cannot represent.
 */
export type ExactNumbers = { seed: string, system_identifier: string, };

export type Fit = { 
/**
 * Seconds of one client's transaction, uncached (Td) and cached (Tc). If the number of clients is unknown: seconds
 * between transactions.
 */
cold_seconds: Estimate, hit_seconds: Estimate, 
/**
 * P: the number of pages, as if all were equally likely.
 */
pages: Estimate, 
/**
 * Typical relative deviation from the curve.
 */
residual_share: number, 
/**
 * Number of clients; 1 if unknown.
 */
clients: number, };

/**
 * WAL flushes, counted by the server and seen in observations.
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
 * Mean number of other transactions that had written and were not waiting for a lock.
 */
others: number | null, commit_siblings: string, };

export type FreshCopy = { way: CopyWay, bytes: Bytes, 
/**
 * Duration, including the flush to disk.
 */
seconds: number, };

/**
 * Each second is compared with the same second of `nothing` in the same round.
 */
export type Interference = { strategy: string, 
/**
 * Least share of any second: by the median over the rounds, and in a single round.
 */
lowest: LeastShare | null, least: LeastShare | null, 
/**
 * Least share that the warmer promises.
 */
floor: number | null, is_floor_held: boolean | null, 
/**
 * First second after which the total stays above that of `nothing` (medians over rounds).
 */
ahead_from_second: number | null, 
/**
 * Transactions of `nothing` within this warmer's median warm time, or within the trial. `None` if `nothing` was
 * measured for less.
 */
nothing_served_by_then: Spread | null, 
/**
 * Total ÷ the total of `nothing`, over the shorter trial.
 */
served_ratio: Ratio | null, 
/**
 * Transactions by the deadline, their ratio to those of `nothing`, and pgthaw's ratio to them.
 */
served_by_deadline: Spread | null, deadline_ratio: Ratio | null, pgthaw_ratio: Ratio | null, };

export type Job = { transactions: number, 
/**
 * `None` without a warmer, or if it outlived the load.
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
 * `None` if the verdict is clear.
 */
undecided: Undecided | null, 
/**
 * `None` if there is no level, and in old records.
 */
warmth: Warmth | null, 
/**
 * Level as a share of the study's common level, if different.
 */
level_share: number | null, 
/**
 * Never before `to_95_seconds`. `None` unless steady or periodic.
 */
steady_from_seconds: number | null, 
/**
 * Minimum duration of a level, besides 15 % of the run.
 */
level_lasts_seconds: number, period_seconds: number | null, 
/**
 * Throughput of the steady part, or the fit's extrapolation.
 */
steady_tps: number | null, 
/**
 * Half width of the level's 95 % interval, as a share of `steady_tps`.
 */
level_error_share: number | null, mean_tps: number, 
/**
 * `mean_tps` ÷ `steady_tps` - 1.
 */
mean_error_share: number | null, 
/**
 * Seconds until these shares of `steady_tps`, measured or fitted. 0 if the run began there.
 */
to_50_seconds: number | null, to_90_seconds: number | null, to_95_seconds: number | null, run_seconds: number, 
/**
 * Run length needed for a steady verdict, if known.
 */
should_have_run_seconds: number | null, fit: Fit | null, no_fit: string | null, remarks: Array<string>, };

/**
 * Latencies in microseconds, as a compressed V2 HdrHistogram with three significant digits. HdrHistogram's libraries
 * in all languages can read and merge it.
 */
export type LatencyHistogram = { count: number, mean_us: number, stddev_us: number, p50_us: number, p90_us: number, p95_us: number, p99_us: number, p999_us: number, max_us: number, 
/**
 * Percentiles with enough transactions beyond them.
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
 * From 1, of `trials`, including those of earlier invocations.
 */
position: number, trials: number, 
/**
 * `None` if the trial ends by transactions.
 */
seconds: number | null, 
/**
 * Seconds until the end of this sweep and those after it.
 */
left_seconds: number, };

export type LoadSample = { seconds: number, 
/**
 * Wanted bytes seen so far; an upper bound if not exact.
 */
resident_bytes: Bytes, is_exact: boolean, 
/**
 * Restored buffers, and former hot ones that are hot again.
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
 * Probability that the interval contains the true median, for any distribution.
 */
coverage: number, };

export type Metric = string;

export type MetricFacts = { 
/**
 * Name on the command line and in page addresses.
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
 * Values of the point that vary, except the side.
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
 * Share of 1000 simulated studies with p ≤ 0.05, although they have no true difference. Each has eight of these
 * pairs. `None` with eight pairs or fewer.
 */
false_share: number | null, };

export type PageData = { format: number, kind: string, metrics: Array<MetricFacts>, studies: Array<StudyInPage>, };

export type Panel = { id: string, title: string, 
/**
 * Whether the curves are stacked areas.
 */
is_stack: boolean, };

/**
 * A percentile with a 95 % interval from the binomial distribution. The interval assumes independent transactions, so
 * percentiles of trials vary more.
 */
export type Percentile = { 
/**
 * 0 to 1.
 */
share: number, us: number, low_us: number, high_us: number, };

export type PointSummary = { number: number, 
/**
 * Values of the point that vary.
 */
label: string, 
/**
 * In the order of `SweepRun::varied`.
 */
values: Array<string>, 
/**
 * Number of ended trials, and of those without figures.
 */
trials: number, failures: number, 
/**
 * Lower limit for times that were not reached.
 */
measured_seconds: number | null, background: BackgroundWrites | null, verdicts: Array<PointVerdict>, 
/**
 * Failures without a verdict, by text, with the number of trials.
 */
warnings: { [key in string]: number }, } & ({ [figure in string]: Spread | null });

export type PointVerdict = { kind: string, trials: number, sentence: string, remedy: string, 
/**
 * Whether the trial measured something other than requested.
 */
is_refusing: boolean, };

export type ProgramCost = { name: string, runs: number, total_ns: number, };

export type Ratio = { 
/**
 * The two limits differ if some times were not reached.
 */
median: Limits, 
/**
 * `None` with fewer than `MIN_PAIRS` pairs.
 */
interval: Limits | null, 
/**
 * Probability that the interval contains the true median: 0.97 with six pairs. Fewer pairs cannot reach 0.95.
 * Their interval is the range, with 0.75 (three pairs) to 0.94 (five).
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
 * Resident shares, 0 to 1, of equal pieces of the relation, from the first block to the last.
 */
export type ResidencyStrip = { os: Array<number>, buffers: Array<number>, };

export type RowDelta = { 
/**
 * Such as `backend_type`; empty for single-row views.
 */
key: { [key in string]: string }, 
/**
 * Increases in the view's units.
 */
added: { [key in string]: number }, };

export type ScriptLatency = { script: string, 
/**
 * Number of logged transactions.
 */
answered: number, failed: number, skipped: number, 
/**
 * Measured from the due time with a rate, otherwise from the begin.
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
 * A repeat that did not reach the event counts as the longest. So `median` is `None` if half of the repeats did not
 * reach it, and `max` if any did not.
 */
export type Spread = { median: number | null, min: number | null, max: number | null, reached: number, repeats: number, 
/**
 * `None` with fewer than three repeats, or if one did not reach the event.
 */
interval: MedianInterval | null, };

export type Stall = { 
/**
 * The stall begins at the end of `from_second`.
 */
from_second: number, until_second: number, 
/**
 * Transactions of the slowest second, and the usual number per second.
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
 * Seconds from the start of pgbench. `None` if the command outlived the trial, or if there was none.
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
 * Forecast seconds until half of `steady_tps`, and until fewer than 1 % of transactions read from the device.
 * Spans cover a device and processor 15 % better or worse.
 */
to_50_seconds: Span | null, warm_after_seconds: Span | null, };

/**
 * A study in a report, with details of its trials unless there are too many.
 */
export type StudyInPage = { study: StudyData, details: Array<TrialData> | null, };

export type StudyLine = { id: string, question: string, 
/**
 * `None` if the study is damaged.
 */
started_at: string | null, ended_at: string | null, host: string, server: string, varied: Array<string>, points: number, repeats: number, 
/**
 * Number of ended trials, and of those that failed.
 */
trials: number, failures: number, 
/**
 * Why the study is unreadable.
 */
damaged: string | null, };

export type SweepComparison = { metric: Metric, a: string, b: string, cells: Array<CellComparison>, 
/**
 * Ratio above 1 by which equal sides differ; `None` unless points are measured twice.
 */
noise_floor: number | null, verdicts: Array<MeasurementVerdict>, warnings: Array<string>, };

/**
 * One run of a study, including its continuations after interruptions.
 */
export type SweepRun = { 
/**
 * Sorts by start time: `20261121-233005-4f2a`.
 */
id: string, started_at: string, 
/**
 * `None` while trials are missing.
 */
ended_at: string | null, pgthaw_version: string, 
/**
 * Example: `pgbench (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)`.
 */
pgbench_version: string, machine: Machine, server: ServerFacts, question: string, 
/**
 * SHA-256 of the parsed study, independent of its file's layout.
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
 * Source of an import; `None` if pgthaw measured the run.
 */
source?: string | null, };

export type SweepTrial = { sweep_id: string, 
/**
 * Number of the point, from 0.
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
 * The start state was prepared after `started_at`.
 */
ended_at: string | null, 
/**
 * Measured before the load started.
 */
start_state: StartState | null, command: string, strategy_outcome?: StrategyOutcome | null, 
/**
 * Only for trials with `start = "cold"`.
 */
warming?: Warming | null, 
/**
 * `None` if pgbench ran on this host.
 */
generators: TrialGenerators | null, failure: string | null, lasted_seconds: number, 
/**
 * pgbench's counts. It skips transactions already later than the latency limit.
 */
transactions: number, failed: number, skipped: number, 
/**
 * `retried` counts transactions tried more than once; `retries` counts all retries.
 */
retried: number, retries: number, late: number, 
/**
 * Per second, without the initial connection time.
 */
tps: number, worst_second_tps: number | null, latency: LatencyHistogram | null, 
/**
 * `None` without a time account.
 */
time?: TrialTime | null, scripts: Array<ScriptLatency>, statistics: StatisticsDelta, buffers_before: Array<BufferUse>, buffers_after: Array<BufferUse>, 
/**
 * From the server log.
 */
checkpoints: Array<Checkpoint>, checkpoint_begun: CheckpointBegun | null, 
/**
 * Whole checkpoint cycles, each from one checkpoint's start to the next. `cycle_tps` covers only these.
 */
checkpoint_cycles: number, cycle_tps: number | null, settings: Array<[string, string]>, 
/**
 * Reads of all processes.
 */
device_read_bytes: Bytes, 
/**
 * Devices that each hold one part of the server, `rest` first.
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
 * Varying values except clients.
 */
others: string, 
/**
 * Medians. The response time of a closed loop is clients ÷ tps, in microseconds; `None` with a rate.
 */
tps: number | null, response_us: number | null, 
/**
 * Seconds per client backend.
 */
explained_seconds: number | null, 
/**
 * Time in which backends wait for commands and receive them.
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
 * 1.25 × the bound; `None` if the bound is unknown or this exceeds a trial.
 */
deadline_seconds: number | null, 
/**
 * All warmers except `nothing`; empty if `nothing` was not measured.
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
 * Lead of the host's clock over this host's, and its uncertainty.
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
 * Steady level of the trial's group; `None` until one of its trials was warm.
 */
steady_tps: number | null, } & ({ [figure in string]: number | null });

/**
 * A trial's curves, by column. Minima and maxima keep a stall of one second visible.
 */
export type TrialSeries = { 
/**
 * Number of seconds in a span.
 */
width: number, 
/**
 * End of each span in seconds since the start of pgbench.
 */
second: Array<number>, tps: Envelope, 
/**
 * Microseconds; `None` in a span without transactions.
 */
latency_us_mean: Array<number | null>, latency_us_min: Array<number | null>, latency_us_max: Array<number | null>, latency_us_deviation: Array<number | null>, 
/**
 * Bytes per second, read by the workload's own backends and from the whole device.
 */
foreground_read_bytes: Array<number>, device_read_bytes: Envelope, device_reads: Array<number>, 
/**
 * Minimum in each span.
 */
os_resident_bytes: Array<number>, 
/**
 * The columns of `MEASURES`; `None` without measurements of the machine.
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
 * Type of the wait, such as `IO`. `None`: running or ready to run. `Others` is the sum of the remaining waits.
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
 * Metrics of the dividend and the divisor.
 */
of: Metric, to: Metric, 
/**
 * The two limits differ if some times were not reached.
 */
median: Limits, 
/**
 * `None` with fewer than `MIN_PAIRS` pairs.
 */
interval: Limits | null, 
/**
 * Probability that the interval contains the true median: 0.97 with six pairs. Fewer pairs cannot reach 0.95.
 * Their interval is the range, with 0.75 (three pairs) to 0.94 (five).
 */
coverage: number, pairs: number, };

export type Warming = { 
/**
 * Device reads of the workload's backends per tenth of a second. They determine the tenths of
 * `warm_after_seconds`.
 */
foreground_tenths: Array<Bytes>, residency: Array<RelationResidency>, 
/**
 * Only for trials that ended when the wanted pages were resident.
 */
looks?: Array<LoadSample>, 
/**
 * Seconds measured, or the maximum wait. An event that was not reached would take longer.
 */
measured_seconds: number, 
/**
 * Seconds until fewer than 1 % of transactions read from the device, until the end of the trial. Rounded to a
 * tenth.
 */
warm_after_seconds: number | null, 
/**
 * Counted over the whole trial if the server never became warm.
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
 * Lower bound for the time of any warmer: `wanted_bytes ÷ bandwidth`, or `Bound::seconds` if reads are limited.
 * `None` if unknown, or if the user's own script may need fewer bytes.
 */
bound_seconds: number | null, 
/**
 * If `None`, `no_verdict` has the reason.
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
 * Data that would show whether the level is warm.
 */
would_tell: string | null, };

export type WarmupFacts = { disk: Disk, 
/**
 * Database size, and its cached part when warm.
 */
database_bytes: Bytes, wanted_bytes: Bytes, 
/**
 * Throughput of the warm server without a limit.
 */
calibration_tps: number | null, 
/**
 * Forecast without a warmer. `None` if the device figures are unknown or the script is the user's own.
 */
forecast: StudyForecast | null, };
