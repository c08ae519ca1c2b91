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
 * Minimum for any warmer, with the best merging of gaps. It ignores the order of reads, hot pages and other readers.
 */
export type Bound = { reads: number, 
/**
 * Includes gaps between pages.
 */
read_bytes: Bytes, seconds: number, };

/**
 * Result of a warmer without a load.
 */
export type Brought = { 
/**
 * Pages that the snapshot wants in the page cache.
 */
wanted_pages: number, 
/**
 * Contiguous pieces of the wanted pages.
 */
wanted_pieces: number, 
/**
 * Former contents of shared_buffers.
 */
former_buffers_bytes: Bytes, 
/**
 * Former contents with a usage count of 3 or more.
 */
former_hot_bytes: Bytes, 
/**
 * `None` unless the disk is limited.
 */
bound: Bound | null, 
/**
 * Until 99 % of the wanted pages were seen in the page cache. `None` if not reached, or for `fio-direct`.
 */
resident_after_seconds: number | null, 
/**
 * Until 90 % of the former buffers were restored, and 90 % of the hot ones as hot. Only for `pgthaw`.
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
 * Bytes reported by fio.
 */
own_bytes: Bytes | null, 
/**
 * Seconds reported by fio.
 */
own_seconds: number | null, };

/**
 * Used buffers with one usage count.
 */
export type BufferUse = { 
/**
 * 0 to 5.
 */
usage_count: number, 
/**
 * Number of buffers.
 */
buffers: number, 
/**
 * Dirty ones of these.
 */
dirty: number, };

/**
 * Number of bytes.
 */
export type Bytes = number;

export type CellComparison = { 
/**
 * Values of the point that vary and are not compared.
 */
label: string, 
/**
 * b ÷ a over the pairs.
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
 * Least number of whole checkpoint cycles over the pairs; 0 if whole trials were compared.
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
began_after_seconds: number, 
/**
 * Since the start of pgbench.
 */
ended_after_seconds: number, 
/**
 * `time`, `wal`, `immediate force wait` …; empty if logged before the trial.
 */
reason: string, 
/**
 * Written buffers.
 */
buffers: number, write_seconds: number, sync_seconds: number, total_seconds: number, 
/**
 * Number of flushed files.
 */
sync_files: number, 
/**
 * Longest flush of a file.
 */
longest_sync_seconds: number, };

/**
 * A checkpoint that had not ended.
 */
export type CheckpointBegun = { 
/**
 * Since the start of pgbench.
 */
began_after_seconds: number, reason: string, };

/**
 * A new maximum of throughput.
 */
export type Climb = { 
/**
 * Begin of the second.
 */
seconds: number, 
/**
 * The lesser of the second's transactions and their running median over three seconds.
 */
tps: number, };

/**
 * How a database was copied.
 */
export type CopyWay = "reflink" | "copy";

/**
 * A curve in a report.
 */
export type Curve = { panel: Panel, label: string, };

/**
 * Creation of a database by this study.
 */
export type DatabaseMaking = { 
/**
 * Its name in the study.
 */
database: string, scale: number, file_system: string, server: string, seconds: number, 
/**
 * Steps without pgthaw's own work between them.
 */
steps: Array<MakingStep>, };

/**
 * The device of the data directory.
 */
export type Device = { name: string, 
/**
 * Device number, such as `259:0`.
 */
major_minor: string, rotational: boolean, read_ahead_bytes: Bytes, 
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

/**
 * A disk and its limits.
 */
export type Disk = { 
/**
 * `gp3`, `hdd`, `custom` or `native`.
 */
name: string, 
/**
 * Reads per second. `None` is no limit.
 */
riops: number | null, 
/**
 * Bytes read per second. `None` is no limit.
 */
rbps: Bytes | null, 
/**
 * Writes per second. `None` is no limit.
 */
wiops?: number | null, 
/**
 * Bytes written per second. `None` is no limit.
 */
wbps?: Bytes | null, 
/**
 * Why a requested write limit is not in force.
 */
writes_not_enforced?: string | null, 
/**
 * Why a requested read limit is not in force.
 */
not_enforced: string | null, 
/**
 * Bytes. `None` keeps the device's own setting.
 */
read_ahead: Bytes | null, 
/**
 * Why the requested read-ahead is not in force.
 */
read_ahead_not_enforced: string | null, };

/**
 * A curve with its extremes, by span.
 */
export type Envelope = { mean: Array<number>, min: Array<number>, max: Array<number>, };

/**
 * A value with its 95 % interval. A bound of `None` is unknown.
 */
export type Estimate = { value: number, low: number | null, high: number | null, };

/**
 * Numbers that JavaScript cannot represent.
 */
export type ExactNumbers = { seed: string, system_identifier: string, };

/**
 * The fitted model (docs/model.md).
 */
export type Fit = { 
/**
 * Td: time of one client's transaction that reads from the device. If the number of clients is unknown, the time
 * between transactions.
 */
cold_seconds: Estimate, 
/**
 * Tc: time of one client's transaction with cached pages.
 */
hit_seconds: Estimate, 
/**
 * P: the number of pages, as if all were equally likely.
 */
pages: Estimate, 
/**
 * Typical relative deviation from the curve.
 */
residual_share: number, 
/**
 * Number of clients; 1 if unknown. Times are per client.
 */
clients: number, };

/**
 * Flushes of WAL, counted by the server and seen in samples.
 */
export type FlushFigures = { 
/**
 * By pg_stat_wal or pg_stat_io. `None` before PostgreSQL 14.
 */
per_second: number | null, 
/**
 * Number of samples.
 */
looks: number, 
/**
 * Samples that saw a flush in progress.
 */
seen: number, 
/**
 * Mean number of other transactions then, as counted for `commit_siblings`.
 */
others: number | null, 
/**
 * The setting.
 */
commit_siblings: string, };

/**
 * A copy of the study's databases for a trial.
 */
export type FreshCopy = { way: CopyWay, bytes: Bytes, 
/**
 * Duration, including the flush to disk.
 */
seconds: number, };

/**
 * A warmer. The share of a second is its transactions ÷ those of `nothing` in the same second of the round.
 */
export type Interference = { strategy: string, 
/**
 * Least share of any second, by the median over the rounds.
 */
lowest: LeastShare | null, 
/**
 * Least share of any second in any round.
 */
least: LeastShare | null, 
/**
 * Least share that the warmer promises: 0.3 for `pgthaw`, 0.8 for `pgthaw-gentle`.
 */
floor: number | null, 
/**
 * Whether all seconds of all rounds have that share.
 */
is_floor_held: boolean | null, 
/**
 * From this second on the total stays above that of `nothing`, by the medians over the rounds.
 */
ahead_from_second: number | null, 
/**
 * Transactions of `nothing` within this warmer's median warm time, or within the trial. `None` if `nothing` was
 * measured for less.
 */
nothing_served_by_then: Spread | null, 
/**
 * Transactions ÷ those of `nothing`, over the common seconds.
 */
served_ratio: Ratio | null, 
/**
 * Transactions until the deadline.
 */
served_by_deadline: Spread | null, 
/**
 * Transactions until the deadline ÷ those of `nothing`.
 */
deadline_ratio: Ratio | null, 
/**
 * pgthaw's transactions until the deadline ÷ those of this warmer.
 */
pgthaw_ratio: Ratio | null, };

/**
 * A load that ends by transactions.
 */
export type Job = { transactions: number, 
/**
 * `None` without a warmer, or if it outlived the load.
 */
warmer_seconds: number | null, 
/**
 * From the start of the load to its end.
 */
load_seconds: number, 
/**
 * From the cold start to the end of the load, with a warmer before it.
 */
whole_seconds: number, };

/**
 * Verdict on a curve of throughput. Seconds count from the start of the run.
 */
export type Judgement = { verdict: Verdict, 
/**
 * Reason for the verdict, as a sentence.
 */
reason: string, 
/**
 * Why no level is known. `None` if the verdict is clear.
 */
undecided: Undecided | null, 
/**
 * Whether the level is a warm server's. `None` without a level, and in old records.
 */
warmth: Warmth | null, 
/**
 * This level ÷ the common level of its study, if different.
 */
level_share: number | null, 
/**
 * Start of the level, never before `to_95_seconds`. `None` unless steady or periodic.
 */
steady_from_seconds: number | null, 
/**
 * Minimum duration of a level, besides 15 % of the run.
 */
level_lasts_seconds: number, 
/**
 * Time between dips.
 */
period_seconds: number | null, 
/**
 * Throughput of the level; if not reached, by the fit.
 */
steady_tps: number | null, 
/**
 * 95 % of such levels are this near `steady_tps`, as an error of its logarithm.
 */
level_error_share: number | null, 
/**
 * Mean of the whole run.
 */
mean_tps: number, 
/**
 * `mean_tps` ÷ `steady_tps` − 1.
 */
mean_error_share: number | null, 
/**
 * Until 50 % of `steady_tps`; 0 if the run began there.
 */
to_50_seconds: number | null, 
/**
 * Until 90 % of `steady_tps`; 0 if the run began there.
 */
to_90_seconds: number | null, 
/**
 * Until 95 % of `steady_tps`; 0 if the run began there.
 */
to_95_seconds: number | null, 
/**
 * Length of the run.
 */
run_seconds: number, 
/**
 * Length that a verdict of steady or periodic needs, if known.
 */
should_have_run_seconds: number | null, fit: Fit | null, 
/**
 * Why the model was not fitted.
 */
no_fit: string | null, remarks: Array<string>, };

/**
 * Latencies in microseconds, as a compressed V2 HdrHistogram with three significant digits. HdrHistogram's libraries
 * in all languages can read and merge it.
 */
export type LatencyHistogram = { count: number, mean_us: number, 
/**
 * Standard deviation.
 */
stddev_us: number, p50_us: number, p90_us: number, p95_us: number, p99_us: number, p999_us: number, max_us: number, 
/**
 * Percentiles with ten transactions or more beyond them.
 */
percentiles: Array<Percentile>, };

/**
 * A least share.
 */
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
 * A second of a running trial.
 */
export type LiveSecond = { 
/**
 * From 1.
 */
second: number, tps: number | null, device_read_bytes: Bytes, os_resident_bytes: Bytes, };

/**
 * A trial that runs on this machine.
 */
export type LiveTrial = { sweep_id: string, question: string, began_at: string, samples: Array<LiveSecond>, 
/**
 * Values of the point that vary.
 */
label: string, 
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
 * Seconds until the end of this study and those after it, estimated at the trial's start.
 */
left_seconds: number, };

/**
 * A look at a warmer without a load. Looks take up to a fourth of a processor.
 */
export type LoadSample = { seconds: number, 
/**
 * Wanted bytes seen in the page cache; an upper limit unless `is_exact`.
 */
resident_bytes: Bytes, is_exact: boolean, 
/**
 * Restored buffers.
 */
buffers_bytes: Bytes | null, 
/**
 * Former hot buffers that are hot again.
 */
hot_bytes: Bytes | null, };

/**
 * The machine.
 */
export type Machine = { hostname: string, kernel: string, cpu_model: string, 
/**
 * Number of processors.
 */
cores: number, memory_bytes: Bytes, 
/**
 * File system of the data directory.
 */
file_system: string, device: Device, };

/**
 * A step of `pgbench -i`, or the study's SQL or program.
 */
export type MakingStep = { step: string, seconds: number, };

/**
 * A measure of a second (docs/measures.md).
 */
export type Measure = { 
/**
 * Name in SQL and exports. A field of `os_samples` has this name or contributes to it.
 */
name: string, unit: Unit, 
/**
 * Its meaning.
 */
doc: string, 
/**
 * Its name in `machine` of a series.
 */
column: string | null, 
/**
 * Its curve in a report.
 */
curve: Curve | null, };

/**
 * A problem of a trial, study, comparison or import.
 */
export type MeasurementVerdict = { kind: string, sentence: string, remedy: string };

/**
 * Interval of a median.
 */
export type MedianInterval = { low: number, high: number, 
/**
 * Probability that the interval contains the true median, for any distribution.
 */
coverage: number, };

export type Metric = string;

/**
 * A metric (docs/measures.md).
 */
export type MetricFacts = { 
/**
 * Name on the command line and in page addresses.
 */
name: string, 
/**
 * Field in `--json`.
 */
key: string, label: string, 
/**
 * Its meaning.
 */
caption: string, kind: MetricKind, is_low_better: boolean, };

/**
 * Unit of a metric.
 */
export type MetricKind = "rate" | "per_second" | "latency" | "time" | "bytes" | "byte_rate" | "count" | "cost" | "ratio";

/**
 * Statistic of a kind of time, at one place.
 */
export type NamedStatistic = { 
/**
 * `where::part::detail`.
 */
name: string, 
/**
 * By `--by`: such as the kind of process.
 */
where: string, 
/**
 * Class of wait events, or `processor`; of commands `command`.
 */
part: string, 
/**
 * Wait event.
 */
detail: string, average_ns: number | null, 
/**
 * Upper bound of a bucket, or the maximum: at most twice too high.
 */
p99_ns: number | null, 
/**
 * 0 if only the time is known, as from sampling.
 */
count: number, 
/**
 * Sum of the times.
 */
total_ns: number, 
/**
 * Shortest. In `top` it can be a lower limit. `None` if lengths are unknown.
 */
min_ns: number | null, 
/**
 * Longest, at most `total_ns` and the length of the observation. In `top` it is a whole wait that ended in the
 * step; it may be the upper limit of a bucket, at most twice too large.
 */
max_ns: number | null, };

/**
 * Difference between the equal sides A and A'.
 */
export type Noise = { metric: Metric, cells: Array<NoiseCell>, 
/**
 * That of the largest cell.
 */
floor: number | null, };

export type NoiseCell = { 
/**
 * Values of the point that vary, except the side.
 */
label: string, 
/**
 * A' ÷ A over the pairs.
 */
ratio: Ratio, 
/**
 * Permutation test over the signs of the pairs.
 */
p: number, 
/**
 * Ratio above 1: the farther end of the interval. `None` with fewer than three pairs.
 */
floor: number | null, 
/**
 * Ratio above 1 that as many pairs detect in 80 % of studies.
 */
smallest_detectable: number | null, 
/**
 * Share of 1000 simulated studies with p ≤ 0.05, although they have no true difference. Each has eight of these
 * pairs. `None` with eight pairs or fewer.
 */
false_share: number | null, };

/**
 * Data of a report.
 */
export type PageData = { 
/**
 * Version of the format: 1.
 */
format: number, 
/**
 * `studies`.
 */
kind: string, metrics: Array<MetricFacts>, studies: Array<StudyInPage>, };

/**
 * A diagram in a report.
 */
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
share: number, 
/**
 * Latency.
 */
us: number, 
/**
 * Begin of the interval.
 */
low_us: number, 
/**
 * End of the interval.
 */
high_us: number, };

/**
 * Figures of a point: a spread for each metric.
 */
export type PointSummary = { 
/**
 * From 0.
 */
number: number, 
/**
 * Values of the point that vary.
 */
label: string, 
/**
 * Values of the axes in `varied`.
 */
values: Array<string>, 
/**
 * Number of ended trials.
 */
trials: number, 
/**
 * Number of trials without figures.
 */
failures: number, 
/**
 * Length of the cold trials. Times that were not reached are longer.
 */
measured_seconds: number | null, 
/**
 * Medians of the trials.
 */
background: BackgroundWrites | null, verdicts: Array<PointVerdict>, 
/**
 * Failures without a verdict, by text, with the number of trials.
 */
warnings: { [key in string]: number }, } & ({ [figure in string]: Spread | null });

/**
 * A verdict on trials of a point.
 */
export type PointVerdict = { kind: string, 
/**
 * Number of trials.
 */
trials: number, 
/**
 * That of the first trial.
 */
sentence: string, remedy: string, 
/**
 * Whether the trial measured something other than requested.
 */
is_refusing: boolean, };

/**
 * A BPF program.
 */
export type ProgramCost = { name: string, 
/**
 * How often it ran.
 */
runs: number, 
/**
 * Its time.
 */
total_ns: number, };

/**
 * Ratio over the trials of the same rounds. A trial that was not warm at its end was not warm 3 s before: ratios to it
 * are `at_most`, its own are `at_least`.
 */
export type Ratio = { 
/**
 * Both limits are equal if all times were reached.
 */
median: Limits, 
/**
 * `None` with fewer than three pairs.
 */
interval: Limits | null, 
/**
 * Probability that the interval contains the true median, by sign test: at least 0.95 from six pairs on. Below six
 * the interval is the range, with 0.75 for three.
 */
coverage: number, 
/**
 * Number of pairs.
 */
pairs: number, };

/**
 * A better source that was not available.
 */
export type RefusedSource = { source: string, reason: string, remedy: string | null, };

/**
 * Cached shares of a relation.
 */
export type RelationResidency = { relation: string, kind: string, total_bytes: Bytes, before: ResidencyStrip, after: ResidencyStrip, 
/**
 * Shares over time.
 */
course?: ResidencyCourse | null, };

/**
 * Cached share of a relation over time.
 */
export type ResidencyCourse = { 
/**
 * Seconds between samples, and before the first.
 */
step_seconds: number, 
/**
 * Share in the page cache, 0 to 1, rounded to a thousandth.
 */
shares: Array<number>, };

/**
 * Resident shares, 0 to 1, of equal pieces of the relation, from the first block to the last.
 */
export type ResidencyStrip = { 
/**
 * In the page cache.
 */
os: Array<number>, 
/**
 * In shared_buffers.
 */
buffers: Array<number>, };

/**
 * A changed row.
 */
export type RowDelta = { 
/**
 * Identity of the row: `backend_type`, `object`, `context`, `datname`, `schemaname`, `relname`. Empty for views
 * with one row.
 */
key: { [key in string]: string }, 
/**
 * Increases by column, in the view's units. pg_stat_user_tables also has `total_bytes`, with indexes and TOAST.
 */
added: { [key in string]: number }, };

/**
 * Latency of a script.
 */
export type ScriptLatency = { script: string, 
/**
 * Number of logged transactions.
 */
answered: number, 
/**
 * Failed transactions in the log.
 */
failed: number, 
/**
 * Skipped transactions in the log.
 */
skipped: number, 
/**
 * Measured from the due time with a rate, otherwise from the begin.
 */
response: LatencyHistogram, 
/**
 * Measured from the begin. `None` without a rate.
 */
service: LatencyHistogram | null, };

/**
 * Facts about the server.
 */
export type ServerFacts = { 
/**
 * Such as 150018.
 */
version_num: number, 
/**
 * Such as `15.18 (Debian 15.18-0+deb12u1)`.
 */
version: string, 
/**
 * A 64-bit number; browsers round it.
 */
system_identifier: number, cluster_name: string, 
/**
 * Bytes of a block.
 */
block_size: number, 
/**
 * Blocks of a full segment file.
 */
segment_blocks: number, shared_buffers_bytes: Bytes, 
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
lsn: string, timeline: number, 
/**
 * Role of the connection.
 */
role: string, is_superuser: boolean, 
/**
 * Set if the server is on this host with a readable data directory.
 */
postmaster_pid: number | null, };

/**
 * A forecast time.
 */
export type Span = { seconds: number, 
/**
 * With a device and a processor 15 % better.
 */
low: number, 
/**
 * With a device and a processor 15 % worse. `None` for never.
 */
high: number | null, };

/**
 * Values over the repeats. A repeat that did not reach the event counts as the longest.
 */
export type Spread = { 
/**
 * `None` if half of the repeats or more did not reach the event.
 */
median: number | null, min: number | null, 
/**
 * `None` if any repeat did not reach the event.
 */
max: number | null, 
/**
 * Repeats that reached the event.
 */
reached: number, 
/**
 * Number of repeats.
 */
repeats: number, 
/**
 * `None` with fewer than three repeats, or if one did not reach the event.
 */
interval: MedianInterval | null, };

/**
 * A stall.
 */
export type Stall = { 
/**
 * The stall begins at the end of `from_second`.
 */
from_second: number, until_second: number, 
/**
 * Transactions of the slowest second.
 */
least_tps: number, 
/**
 * Usual transactions per second.
 */
usual_tps: number, 
/**
 * The wait that grew most, and the work of a checkpoint, as texts.
 */
seen: Array<string>, };

/**
 * Cached share of the benchmark database before the clock started.
 */
export type StartState = { 
/**
 * Bytes in the page cache.
 */
os_resident_bytes: Bytes, 
/**
 * Size.
 */
total_bytes: Bytes, 
/**
 * `cold` (at most 1 % resident), `lukewarm`, `warm` (95 %) or `restored`.
 */
verdict: string, };

/**
 * Changed rows of statistics views, by view.
 */
export type StatisticsDelta = { [key in string]: Array<RowDelta> };

/**
 * Outcome of a warmer, or of a job beside the load.
 */
export type StrategyOutcome = { command: string, 
/**
 * Seconds from the start of pgbench. `None` if the command outlived the trial, or if there was none.
 */
ended_after_seconds: number | null, 
/**
 * Device reads of the strategy's own processes.
 */
issued_bytes: Bytes | null, 
/**
 * Why it failed.
 */
failure: string | null, 
/**
 * End of its output.
 */
output: string, };

/**
 * A study, as sent by `serve` or embedded in a report.
 */
export type StudyData = { 
/**
 * Question, or topic of a study of warmers.
 */
subject: string, 
/**
 * The answer in a sentence.
 */
headline: string, 
/**
 * Total duration of its trials, if known.
 */
total_seconds: number | null, sweep: SweepRun, 
/**
 * Numbers beyond 2⁵³ as text, because a browser would round them.
 */
exact: ExactNumbers, points: Array<PointSummary>, trials: Array<TrialOutline>, 
/**
 * Differences between equal sides, by metric; empty unless points were measured twice.
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

/**
 * Forecast of a cold trial without a warmer. Its spans have a device and a processor that are 15 % better or worse.
 */
export type StudyForecast = { 
/**
 * Transactions per second at first.
 */
cold_tps: number, 
/**
 * Transactions per second when warm.
 */
steady_tps: number, 
/**
 * Until half of `steady_tps`. `None` for never.
 */
to_50_seconds: Span | null, 
/**
 * Until fewer than 1 % of the transactions read from the device. `None` for never.
 */
warm_after_seconds: Span | null, };

/**
 * A study in a report, with details of its trials unless there are too many.
 */
export type StudyInPage = { study: StudyData, 
/**
 * Trials, unless there are more than 1,000.
 */
details: Array<TrialData> | null, };

/**
 * A stored study.
 */
export type StudyLine = { id: string, question: string, 
/**
 * `None` if the study is damaged.
 */
started_at: string | null, ended_at: string | null, host: string, server: string, 
/**
 * Axes with several values.
 */
varied: Array<string>, 
/**
 * Number of points.
 */
points: number, repeats: number, 
/**
 * Number of ended trials.
 */
trials: number, 
/**
 * Number of failed trials.
 */
failures: number, 
/**
 * Why the study is unreadable. Only `id`, `trials` and `failures` are then set.
 */
damaged: string | null, };

/**
 * Comparison of two sides.
 */
export type SweepComparison = { metric: Metric, 
/**
 * The first side.
 */
a: string, 
/**
 * The second side.
 */
b: string, cells: Array<CellComparison>, 
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
pgbench_version: string, machine: Machine, server: ServerFacts, 
/**
 * The study's question.
 */
question: string, 
/**
 * SHA-256 of the parsed study, independent of its file's layout.
 */
digest: string, 
/**
 * The study as parsed.
 */
study: unknown, 
/**
 * Axes with more than one value.
 */
varied: Array<string>, 
/**
 * Number of points.
 */
points: number, 
/**
 * Trials of each point.
 */
repeats: number, 
/**
 * A 64-bit number; browsers round it.
 */
seed: number, 
/**
 * Databases that this study made.
 */
databases: Array<DatabaseMaking>, verdicts: Array<MeasurementVerdict>, 
/**
 * The texts of the verdicts.
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

/**
 * A trial: a repetition of a point. `tps` and counts are by pgbench.
 */
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
position: number, 
/**
 * With the preparation of the start state.
 */
started_at: string, 
/**
 * `None` if unknown.
 */
ended_at: string | null, 
/**
 * Measured before the load started.
 */
start_state: StartState | null, 
/**
 * pgbench's command line.
 */
command: string, strategy_outcome?: StrategyOutcome | null, 
/**
 * Only for trials with `start = "cold"`.
 */
warming?: Warming | null, 
/**
 * `None` if pgbench ran on this host.
 */
generators: TrialGenerators | null, 
/**
 * Why figures are missing or, of an import, do not count.
 */
failure: string | null, 
/**
 * Length of the load.
 */
lasted_seconds: number, 
/**
 * Transactions that were not skipped and did not fail.
 */
transactions: number, 
/**
 * Transactions that failed.
 */
failed: number, 
/**
 * Transactions that pgbench skipped, because they were already later than the latency limit.
 */
skipped: number, 
/**
 * Transactions that were tried more than once.
 */
retried: number, 
/**
 * All retries.
 */
retries: number, 
/**
 * Transactions above the latency limit.
 */
late: number, 
/**
 * Transactions per second, without initial connections. For several hosts it is all transactions by the longest
 * run.
 */
tps: number, 
/**
 * Without the first and the last second. It needs five whole seconds, not all above `tps`.
 */
worst_second_tps: number | null, 
/**
 * Latency of all scripts.
 */
latency: LatencyHistogram | null, 
/**
 * `None` without a time account.
 */
time?: TrialTime | null, scripts: Array<ScriptLatency>, statistics: StatisticsDelta, 
/**
 * shared_buffers of the whole cluster before the load.
 */
buffers_before: Array<BufferUse>, 
/**
 * shared_buffers of the whole cluster after the load.
 */
buffers_after: Array<BufferUse>, 
/**
 * Checkpoints that ended in the trial, from the log.
 */
checkpoints: Array<Checkpoint>, 
/**
 * A checkpoint that had not ended.
 */
checkpoint_begun: CheckpointBegun | null, 
/**
 * Whole checkpoint cycles, each from one begin to the next.
 */
checkpoint_cycles: number, 
/**
 * Transactions per second in these cycles.
 */
cycle_tps: number | null, 
/**
 * Settings in force.
 */
settings: Array<[string, string]>, 
/**
 * Bytes read from the device, by all processes.
 */
device_read_bytes: Bytes, 
/**
 * Devices that each hold one part of the server, `rest` first.
 */
devices?: Array<TrialDevice>, 
/**
 * `None` if trials share one database.
 */
fresh_copy?: FreshCopy | null, 
/**
 * The server's own text.
 */
server_version: string | null, verdicts: Array<MeasurementVerdict>, 
/**
 * The texts of the verdicts.
 */
warnings: Array<string>, };

/**
 * Account of the servers' time at a point. The fields of the account are means over the trials.
 */
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
 * Median transactions per second.
 */
tps: number | null, 
/**
 * Response time of a closed loop: clients ÷ `tps`. `None` with a rate.
 */
response_us: number | null, 
/**
 * Explained time per client.
 */
explained_seconds: number | null, 
/**
 * Explained time per client outside the handling of commands.
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
 * Least explained share of any second.
 */
explained_ratio_min: number | null, 
/**
 * Highest explained share of any second.
 */
explained_ratio_max: number | null, 
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
 * Waiting for lightweight locks.
 */
lwlock_seconds: number, 
/**
 * Waiting for locks.
 */
lock_seconds: number, 
/**
 * Waiting for reads and writes.
 */
io_seconds: number, 
/**
 * Waiting for any other event.
 */
other_seconds: number, 
/**
 * Off the processor without a wait event.
 */
no_event_seconds: number, 
/**
 * Off the processor, and the event could not be read.
 */
unknown_seconds: number, 
/**
 * Received commands.
 */
commands: number, 
/**
 * Ended commands.
 */
handled: number, 
/**
 * Time of ended commands, from receipt until the wait for the next one.
 */
handled_seconds: number, 
/**
 * Number of waits for lightweight locks.
 */
lwlock_waits: number, 
/**
 * Of these, for locks of shared statistics.
 */
statistics_waits: number, 
/**
 * Waiting for locks of shared statistics.
 */
statistics_seconds: number, 
/**
 * Backend status updates (pg_stat_activity). `None` if unreadable.
 */
activity_reports: number | null, 
/**
 * Background processes on a processor.
 */
background_running_seconds: number, 
/**
 * Background processes ready for a processor.
 */
background_ready_seconds: number, 
/**
 * Background processes that waited for anything but new work.
 */
background_waiting_seconds: number, 
/**
 * Switches of processors to processes of the server.
 */
switches: number, 
/**
 * Explained share of all server processes' lifetime, about 1.
 */
explained_ratio: number | null, 
/**
 * Overhead of this account: BPF programs and pgthaw's own processor time.
 */
cost_seconds: number, 
/**
 * Processes that could not be followed.
 */
lost_processes: number, };

/**
 * Effects of warmers on the load, if only the warmer varies.
 */
export type Traffic = { 
/**
 * 1.25 × the bound; `None` if the bound is unknown or this exceeds a trial.
 */
deadline_seconds: number | null, 
/**
 * All warmers except `nothing`; empty if `nothing` was not measured.
 */
warmers: Array<Interference>, };

/**
 * A trial and its curves.
 */
export type TrialData = { 
/**
 * Without seconds, samples and tenths.
 */
trial: SweepTrial, series: TrialSeries, };

/**
 * A device with a part of the server. Figures are means over the trial, by all processes.
 */
export type TrialDevice = { 
/**
 * `wal`, `slru`, `tables`, `indexes`, `rest` (the remaining data directory), or a log device of its file system:
 * `log`, `wal-log`, ….
 */
part: string, 
/**
 * Its name in the study.
 */
disk: string | null, 
/**
 * Name in /sys/block.
 */
device: string, reads_per_second: number, read_bytes_per_second: number, writes_per_second: number, written_bytes_per_second: number, bytes_per_write: number | null, 
/**
 * Share of time with a request in progress, 0 to 1.
 */
busy_ratio: number, };

export type TrialGenerator = { host: string, clients: number, jobs: number, pgbench_version: string, 
/**
 * Lead of its clock over this host's.
 */
clock_offset_ms: number, 
/**
 * Uncertainty of the lead, either way.
 */
clock_uncertainty_ms: number, 
/**
 * Start of pgbench after the agreed instant, by this host's clock.
 */
started_after_ms: number, transactions: number, tps: number, 
/**
 * Whether its processes run on this machine.
 */
is_seen: boolean, };

/**
 * Hosts that ran pgbench.
 */
export type TrialGenerators = { 
/**
 * From the first start to the last.
 */
start_spread_ms: number, hosts: Array<TrialGenerator>, };

/**
 * Figures of a trial.
 */
export type TrialOutline = { 
/**
 * Number of the point, from 0.
 */
number: number, 
/**
 * From 1.
 */
repeat: number, 
/**
 * Position in the random order, from 1.
 */
position: number, started_at: string, ended_at: string | null, 
/**
 * `cold`, `lukewarm`, `warm` or `restored`.
 */
start_verdict: string | null, failure: string | null, 
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
 * Microseconds. `None` in a span without transactions.
 */
latency_us_mean: Array<number | null>, latency_us_min: Array<number | null>, latency_us_max: Array<number | null>, latency_us_deviation: Array<number | null>, 
/**
 * Bytes per second that the workload's own backends read from the device.
 */
foreground_read_bytes: Array<number>, 
/**
 * Bytes per second that all processes read from the device.
 */
device_read_bytes: Envelope, 
/**
 * Reads per second, by all processes.
 */
device_reads: Array<number>, 
/**
 * Bytes of the benchmark database in the page cache: the minimum of each span.
 */
os_resident_bytes: Array<number>, 
/**
 * Means of the columns in docs/measures.md. `read_await_us`, `write_await_us`, `dirty_bytes` and `writeback_bytes`
 * are maxima. `device_writes`, `device_written_bytes` and `server_involuntary_switches` also exist with `_min` and
 * `_max`. `None` without measurements of the machine.
 */
machine: { [key in string]: Array<number | null> } | null, 
/**
 * Most frequent first.
 */
waits: Array<WaitSeries>, stalls: Array<Stall>, 
/**
 * Flushes of WAL.
 */
flushes: FlushFigures | null, };

/**
 * A trial's account of the server's time (docs/waits.md).
 */
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
 * Times on a processor whose start was missed.
 */
recovered: number, 
/**
 * Length of these times.
 */
recovered_seconds: number, 
/**
 * Waits whose wakeup was missed. They include the wait for a processor.
 */
wakes_missed: number, 
/**
 * BPF programs, by the kernel's count.
 */
programs: Array<ProgramCost>, 
/**
 * Processor time of the reading thread.
 */
own_cpu_seconds: number, 
/**
 * `bpf`, `memory` or `sql` (docs/waits.md).
 */
source: string, length_seconds: number, 
/**
 * Least explained share of any second.
 */
explained_ratio_min: number | null, 
/**
 * Highest explained share of any second.
 */
explained_ratio_max: number | null, 
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
 * Waiting for lightweight locks.
 */
lwlock_seconds: number, 
/**
 * Waiting for locks.
 */
lock_seconds: number, 
/**
 * Waiting for reads and writes.
 */
io_seconds: number, 
/**
 * Waiting for any other event.
 */
other_seconds: number, 
/**
 * Off the processor without a wait event.
 */
no_event_seconds: number, 
/**
 * Off the processor, and the event could not be read.
 */
unknown_seconds: number, 
/**
 * Received commands.
 */
commands: number, 
/**
 * Ended commands.
 */
handled: number, 
/**
 * Time of ended commands, from receipt until the wait for the next one.
 */
handled_seconds: number, 
/**
 * Number of waits for lightweight locks.
 */
lwlock_waits: number, 
/**
 * Of these, for locks of shared statistics.
 */
statistics_waits: number, 
/**
 * Waiting for locks of shared statistics.
 */
statistics_seconds: number, 
/**
 * Backend status updates (pg_stat_activity). `None` if unreadable.
 */
activity_reports: number | null, 
/**
 * Background processes on a processor.
 */
background_running_seconds: number, 
/**
 * Background processes ready for a processor.
 */
background_ready_seconds: number, 
/**
 * Background processes that waited for anything but new work.
 */
background_waiting_seconds: number, 
/**
 * Switches of processors to processes of the server.
 */
switches: number, 
/**
 * Explained share of all server processes' lifetime, about 1.
 */
explained_ratio: number | null, 
/**
 * Overhead of this account: BPF programs and pgthaw's own processor time.
 */
cost_seconds: number, 
/**
 * Processes that could not be followed.
 */
lost_processes: number, };

/**
 * Why no level is known.
 */
export type Undecided = "too_short" | "noisy";

/**
 * Unit of a measure.
 */
export type Unit = "processors" | "backends" | "bytes" | "bytes_per_second" | "per_second" | "requests" | "microseconds" | "ratio";

/**
 * Verdict on a curve.
 */
export type Verdict = "steady" | "not_reached" | "periodic" | "degrading";

/**
 * A wait by span.
 */
export type WaitSeries = { 
/**
 * Class of wait events, such as `IO`. `None` is on a processor, or ready for one. `Others` is the sum of the rest.
 */
kind: string | null, event: string | null, 
/**
 * Mean number of backends.
 */
processes: Array<number | null>, };

/**
 * Ratio of a warmer's time to that of `nothing`, `cat`, pgthaw or the bound, from trials of the same round.
 */
export type WarmerRatio = { 
/**
 * Values of the other axes that vary.
 */
cell: string, 
/**
 * A warmer.
 */
dividend: string, 
/**
 * A warmer, or `bound`.
 */
divisor: string, 
/**
 * Metric of the dividend.
 */
of: Metric, 
/**
 * Metric of the divisor.
 */
to: Metric, 
/**
 * Both limits are equal if all times were reached.
 */
median: Limits, 
/**
 * `None` with fewer than three pairs.
 */
interval: Limits | null, 
/**
 * Probability that the interval contains the true median, by sign test: at least 0.95 from six pairs on. Below six
 * the interval is the range, with 0.75 for three.
 */
coverage: number, 
/**
 * Number of pairs.
 */
pairs: number, };

/**
 * Warm-up of a trial that starts cold. Durations and instants are seconds since the load began.
 */
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
 * Transactions until warm; all of the trial if the server never became warm.
 */
served_until_warm: number, 
/**
 * Transactions of the trial.
 */
served: number, 
/**
 * Median of the warm seconds.
 */
warm_tps: number | null, 
/**
 * Each new maximum of throughput.
 */
climb: Array<Climb>, 
/**
 * Page cache when warm. `None` if no snapshot was needed.
 */
wanted_bytes: Bytes | null, 
/**
 * Minimum for any warmer: `wanted_bytes` ÷ the disk's bandwidth limit, or `bound.seconds` if reads are limited.
 * `None` if unknown, or if the user's own script may need fewer bytes.
 */
bound_seconds: number | null, 
/**
 * Verdict on the curve. `None` for the reason in `no_verdict`.
 */
judgement: Judgement | null, no_verdict: string | null, 
/**
 * Result of a warmer without a load.
 */
brought?: Brought | null, 
/**
 * The load, if transactions end the trial.
 */
job?: Job | null, };

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

/**
 * Facts about a study of warmers.
 */
export type WarmupFacts = { disk: Disk, 
/**
 * Size of the database.
 */
database_bytes: Bytes, 
/**
 * Page cache when warm.
 */
wanted_bytes: Bytes, 
/**
 * Throughput of the warm server without a limit.
 */
calibration_tps: number | null, 
/**
 * Forecast without a warmer. `None` if the device figures are unknown or the script is the user's own.
 */
forecast: StudyForecast | null, };
