// What the page is sent, by the types of src/. Not to be edited: PGTHAW_WRITE_DOCS=1 cargo nextest run record_tests writes it.

/**
 * Who wrote buffers out, and what made the checkpoints: of one trial, or the medians of several.
 */
export type BackgroundWrites = { checkpoints_timed: number, checkpoints_requested: number, buffers_checkpoint: number, buffers_clean: number, buffers_backend: number, 
/**
 * How often the background writer stopped because it had written as much as it may at once.
 */
maxwritten_clean: number, buffers_alloc: number, };

/**
 * The best merging of all: no order of reads, no heat, nobody else who reads.
 */
export type Bound = { reads: number, 
/**
 * Gaps included.
 */
read_bytes: Bytes, seconds: number, };

/**
 * How soon it was there, and at what cost.
 */
export type Brought = { 
/**
 * What the snapshot asks the page cache for, and in how many pieces it lies there.
 */
wanted_pages: number, wanted_pieces: number, 
/**
 * What was in shared_buffers, and of it with a usage count of 3 or more.
 */
former_buffers_bytes: Bytes, former_hot_bytes: Bytes, 
/**
 * The least that the disk allows; `None` on a disk without limits.
 */
bound: Bound | null, 
/**
 * Seconds until [`RESIDENT_SHARE`] of what is wanted was seen resident, every page looked at; `None`: not within the trial,
 * or the warmer leaves nothing in the page cache.
 */
resident_after_seconds: number | null, 
/**
 * Seconds until shared_buffers were back; of warmers that bring them back.
 */
buffers_after_seconds: number | null, 
/**
 * Wanted bytes that were resident when all was over, every page looked at again.
 */
resident_bytes: Bytes, 
/**
 * Processor time of the warmer's own processes (not of the server's, which read for it).
 */
cpu_seconds: number | null, 
/**
 * By all under the limit; of the whole machine without one.
 */
device_reads: number | null, 
/**
 * Of fio: the bytes that it read, and the seconds that it says it took.
 */
own_bytes: Bytes | null, own_seconds: number | null, };

/**
 * The used buffers of one usage count, of the whole cluster.
 */
export type BufferUse = { 
/**
 * 0 to 5.
 */
usage_count: number, buffers: number, dirty: number, };

/**
 * A number of bytes, or of bytes per second. Sizes are printed and read as PostgreSQL does (`256 MB` is 2²⁸ bytes),
 * rates as vendors do ([`Bytes::per_second`], [`Bytes::parse_rate`]: 1 MB/s is 10⁶ bytes/s).
 */
export type Bytes = number;

/**
 * The same point on both sides.
 */
export type CellComparison = { 
/**
 * The point by what varies and is not compared.
 */
label: string, 
/**
 * B ÷ A over the pairs, each of one block.
 */
ratio: Ratio, 
/**
 * Probability that chance alone makes a difference this large: a permutation test over the signs of the pairs.
 */
p: number, 
/**
 * The same, adjusted for the number of cells (Holm).
 */
p_holm: number, 
/**
 * The ratio, above 1, that as many such pairs find in 80 % of studies; `None` with a single pair.
 */
smallest_detectable: number | null, 
/**
 * Checkpoint cycles that both trials of a pair were cut to, of the pair with the fewest; 0: not cut.
 */
cycles: number, };

/**
 * A checkpoint, as the server logs it. It writes for `write_seconds` from its beginning on, then synchronises for
 * `sync_seconds`, and what is left of `total_seconds` is the rest.
 */
export type Checkpoint = { 
/**
 * Seconds since the start of pgbench; below 0 when it began before.
 */
began_after_seconds: number, ended_after_seconds: number, 
/**
 * `time`, `wal`, `immediate force wait` …: why it was made; empty when that was logged before the trial.
 */
reason: string, buffers: number, write_seconds: number, sync_seconds: number, total_seconds: number, sync_files: number, 
/**
 * Of one file's synchronisation.
 */
longest_sync_seconds: number, };

/**
 * A checkpoint that has not ended.
 */
export type CheckpointBegun = { 
/**
 * Seconds since the start of pgbench.
 */
began_after_seconds: number, 
/**
 * `time`, `wal`, `immediate force wait` …
 */
reason: string, };

/**
 * A new high of the throughput.
 */
export type Climb = { 
/**
 * The end of the last second before, since the start of the workload.
 */
seconds: number, 
/**
 * The lesser of the second's transactions and of their running median over three seconds.
 */
tps: number, };

/**
 * How the copy of a trial was made.
 */
export type CopyWay = "reflink" | "copy";

/**
 * A line on the page.
 */
export type Curve = { panel: Panel, label: string, };

/**
 * A database that was made for a study, and how long that took. One that an earlier study has left is not among them.
 */
export type DatabaseMaking = { 
/**
 * As the study names them: of the axes `database`, `scale`, `file_system` and `server`.
 */
database: string, scale: number, file_system: string, server: string, seconds: number, 
/**
 * In their order; what pgthaw did between them is in none.
 */
steps: Array<MakingStep>, };

/**
 * The block device that holds the data directory.
 */
export type Device = { 
/**
 * `vda`, with its major and minor number.
 */
name: string, major_minor: string, rotational: boolean, read_ahead_bytes: Bytes, 
/**
 * Its model, empty where it tells none.
 */
model: string, 
/**
 * The drivers from the disk up to its bus: of a disk behind a controller the last is the controller's.
 */
drivers: Array<string>, 
/**
 * `write back` or `write through`, as the kernel takes it; empty where it is not known.
 */
write_cache: string, };

/**
 * The limit on the device and its read-ahead, common to the server and to every strategy.
 */
export type Disk = { 
/**
 * `gp3`, `hdd`, `custom` or `native`.
 */
name: string, 
/**
 * Reads per second; `None` is no limit.
 */
riops: number | null, 
/**
 * Read bytes per second; `None` is no limit.
 */
rbps: Bytes | null, 
/**
 * Writes and written bytes per second; `None` is no limit.
 */
wiops?: number | null, wbps?: Bytes | null, 
/**
 * Why the limit on writes is not in force, when one was asked for.
 */
writes_not_enforced?: string | null, 
/**
 * Why the limit is not in force, when one was asked for.
 */
not_enforced: string | null, 
/**
 * How far the kernel reads ahead of a reader; `None` is as the device is set on this machine.
 */
read_ahead: Bytes | null, 
/**
 * Why the read-ahead is not in force, when one was asked for.
 */
read_ahead_not_enforced: string | null, };

/**
 * A quantity over the seconds of each span.
 */
export type Envelope = { mean: Array<number>, min: Array<number>, max: Array<number>, };

/**
 * A parameter with its 95 % interval; `None` for an unknown bound.
 */
export type Estimate = { value: number, low: number | null, high: number | null, };

/**
 * Numbers that JavaScript does not keep.
 */
export type ExactNumbers = { seed: string, system_identifier: string, };

/**
 * The closed form that fits a measurement best.
 */
export type Fit = { 
/**
 * Seconds of one client's transaction with nothing cached (Td) and everything (Tc); without a known number of
 * clients, the interval between transactions.
 */
cold_seconds: Estimate, hit_seconds: Estimate, 
/**
 * Pages that the workload chooses from (P), if all were equally likely.
 */
pages: Estimate, 
/**
 * Typical deviation from the curve, as a share.
 */
residual_share: number, 
/**
 * Clients by which the times were multiplied; 1 when not known.
 */
clients: number, };

/**
 * Flushes of the log, counted by the server and seen by looks.
 */
export type FlushFigures = { 
/**
 * By everybody, as the server counts them; `None` where it does not (before PostgreSQL 14).
 */
per_second: number | null, 
/**
 * Looks, and those that saw one under way.
 */
looks: number, seen: number, 
/**
 * Other transactions under way then, in the mean: they have written, and waited for no lock. `None` where none was seen.
 */
others: number | null, commit_siblings: string, };

/**
 * The copy that a trial ran on.
 */
export type FreshCopy = { way: CopyWay, 
/**
 * Of the files that were copied.
 */
bytes: Bytes, 
/**
 * Until all of it was on the disk.
 */
seconds: number, };

/**
 * What a warmer does to the traffic: each second beside the same second of `nothing` in the same round.
 */
export type Interference = { strategy: string, 
/**
 * The second with the least share by the median of the rounds, the first of several.
 */
lowest: LeastShare | null, 
/**
 * The least share of any second in any round.
 */
least: LeastShare | null, 
/**
 * The least share that the warmer promises for every second; `None` when it promises none.
 */
floor: number | null, 
/**
 * Is no second's share below the floor, in any round?
 */
is_floor_held: boolean | null, 
/**
 * The first second from whose end on more was served in total than by `nothing`, up to the end (medians of the
 * rounds' differences); `None`: at the end it was not more.
 */
ahead_from_second: number | null, 
/**
 * Transactions that `nothing` had served by this warmer's median warm time, or by the end of the trial where it has none.
 * `None` when `nothing` was not measured for so long.
 */
nothing_served_by_then: Spread | null, 
/**
 * Those in all ÷ those of `nothing`, of the shorter one of the two.
 */
served_ratio: Ratio | null, 
/**
 * Those served by the deadline; ÷ those of `nothing`; and those of pgthaw ÷ these, but of pgthaw itself.
 */
served_by_deadline: Spread | null, deadline_ratio: Ratio | null, pgthaw_ratio: Ratio | null, };

/**
 * So many transactions that somebody waits for, from a cold start on.
 */
export type Job = { 
/**
 * That it has.
 */
transactions: number, 
/**
 * Seconds that the warmer took; `None` where there was none, or it had not ended before the load.
 */
warmer_seconds: number | null, 
/**
 * Seconds from the beginning of the load to its end.
 */
load_seconds: number, 
/**
 * Seconds from the start to the end of the load, those of a warmer before it included.
 */
whole_seconds: number, };

/**
 * The verdict with its figures. Seconds count from the run's start.
 */
export type Judgement = { verdict: Verdict, 
/**
 * Why, in one sentence.
 */
reason: string, 
/**
 * Why it is open whether it was steady; `None` where that was seen.
 */
undecided: Undecided | null, 
/**
 * Is its level that of a warm server? `None` without a level, and in records of before.
 */
warmth: Warmth | null, 
/**
 * Its level as a share of the run's common one, if different.
 */
level_share: number | null, 
/**
 * Start of the final level, never before `to_95_seconds`; only for steady and periodic.
 */
steady_from_seconds: number | null, 
/**
 * The least duration of a level, besides 15 % of the run.
 */
level_lasts_seconds: number, period_seconds: number | null, 
/**
 * Transactions per second of the steady part, or promised by the fit.
 */
steady_tps: number | null, 
/**
 * Noise of the level: 95 % of levels of this length lie within this share of `steady_tps`. `None` without a
 * measured level.
 */
level_error_share: number | null, 
/**
 * Over the whole run.
 */
mean_tps: number, 
/**
 * `mean_tps` ÷ `steady_tps` - 1: the error of the mean over the run.
 */
mean_error_share: number | null, 
/**
 * Seconds until these shares of `steady_tps`, measured or by the fit (`None`). 0: it began there or above.
 */
to_50_seconds: number | null, to_90_seconds: number | null, to_95_seconds: number | null, run_seconds: number, 
/**
 * The run length for a steady verdict, if known.
 */
should_have_run_seconds: number | null, 
/**
 * The warm-up's parameters by the closed form.
 */
fit: Fit | null, 
/**
 * Why there is no fit.
 */
no_fit: string | null, remarks: Array<string>, };

/**
 * A histogram of latencies in microseconds with three significant digits, in HdrHistogram's own compressed form (V2
 * with zlib), which its libraries in every language read and merge.
 */
export type LatencyHistogram = { count: number, mean_us: number, 
/**
 * The standard deviation.
 */
stddev_us: number, p50_us: number, p90_us: number, p95_us: number, p99_us: number, p999_us: number, max_us: number, 
/**
 * Of the shares above those that enough transactions lie beyond, with what chance leaves open.
 */
percentiles: Array<Percentile>, };

/**
 * Transactions of one second ÷ those of `nothing`.
 */
export type LeastShare = { 
/**
 * From 1.
 */
second: number, 
/**
 * From 1; `None` of the median of all rounds.
 */
repeat: number | null, share: number, };

/**
 * What is known of a quantity that is not negative: the limits that it lies within.
 */
export type Limits = { at_least: number, 
/**
 * `None`: it has no upper limit.
 */
at_most: number | null, };

/**
 * A second of a trial, for a live display: what is kept comes with the trial's end.
 */
export type LiveSecond = { 
/**
 * From 0, which is the start.
 */
second: number, 
/**
 * Transactions per second; `None` until pgbench says something.
 */
tps: number | null, 
/**
 * Read from the device in this second.
 */
device_read_bytes: Bytes, os_resident_bytes: Bytes, };

/**
 * A trial that runs, with its seconds so far.
 */
export type LiveTrial = { sweep_id: string, question: string, began_at: string, samples: Array<LiveSecond>, 
/**
 * The point, by what varies.
 */
label: string, 
/**
 * From 1, of `repeats`.
 */
repeat: number, 
/**
 * From 1, of `trials`, those that ended earlier included.
 */
position: number, trials: number, 
/**
 * Seconds that it lasts; `None` when it ends by its transactions.
 */
seconds: number | null, 
/**
 * Until the whole sweep is over, and those that follow it.
 */
left_seconds: number, };

/**
 * One look at both tiers while a warmer is at work.
 */
export type LoadSample = { seconds: number, 
/**
 * Wanted bytes that had been seen resident by then; at most, when it is not exact.
 */
resident_bytes: Bytes, is_exact: boolean, 
/**
 * Former buffers that were back, and hot ones as hot as before; of warmers that bring them back.
 */
buffers_bytes: Bytes | null, hot_bytes: Bytes | null, };

/**
 * The host.
 */
export type Machine = { hostname: string, kernel: string, cpu_model: string, cores: number, memory_bytes: Bytes, file_system: string, device: Device, };

/**
 * A step of it: one of `pgbench -i`, as pgbench calls it, or SQL and programs of the study.
 */
export type MakingStep = { step: string, seconds: number, };

/**
 * A quantity that every second has.
 */
export type Measure = { 
/**
 * In SQL and in exports. A field of `os_samples` has the same name, or is summed to it.
 */
name: string, unit: Unit, 
/**
 * What it is, for people.
 */
doc: string, 
/**
 * Its column in the curves of a trial, if it has one.
 */
column: string | null, 
/**
 * Where the page draws that column.
 */
curve: Curve | null, };

/**
 * A finding, as it was told when the trial ended.
 */
export type MeasurementVerdict = { kind: string, sentence: string, remedy: string };

/**
 * An interval around a median of trials, between two of their figures.
 */
export type MedianInterval = { low: number, high: number, 
/**
 * How often such an interval holds the true median, 0 to 1, whatever the distribution: 0.75 of three trials.
 */
coverage: number, };

/**
 * A figure of a trial.
 */
export type Metric = string;

/**
 * What a figure is, for those who show it.
 */
export type MetricFacts = { 
/**
 * For the command line and for addresses of pages.
 */
name: string, 
/**
 * Its field in `--json` (docs/formats.md).
 */
key: string, 
/**
 * For people: short, and as a caption.
 */
label: string, caption: string, kind: MetricKind, is_low_better: boolean, };

/**
 * How a figure is written.
 */
export type MetricKind = "rate" | "per_second" | "latency" | "time" | "bytes" | "byte_rate" | "count" | "cost" | "ratio";

/**
 * A statistic with its name and what is computed from it.
 */
export type NamedStatistic = { 
/**
 * `where::part::detail`.
 */
name: string, where: string, part: string, detail: string, average_ns: number | null, 
/**
 * At most twice too much: the upper bound of a bucket, or the longest.
 */
p99_ns: number | null, 
/**
 * How often. 0 where only the time is known, as from looks at an interval.
 */
count: number, total_ns: number, 
/**
 * Shortest and longest; `None` where lengths are not known.
 */
min_ns: number | null, max_ns: number | null, };

/**
 * The difference between the equal sides A' and A.
 */
export type Noise = { metric: Metric, cells: Array<NoiseCell>, 
/**
 * The largest of the cells.
 */
floor: number | null, };

/**
 * One point, measured twice.
 */
export type NoiseCell = { 
/**
 * The point by what varies beside the side.
 */
label: string, 
/**
 * A' ÷ A over the pairs, each of one block.
 */
ratio: Ratio, 
/**
 * As in [`CellComparison`].
 */
p: number, 
/**
 * The ratio, above 1, that as many pairs of equal sides may reach: the end of the interval that is farther from 1.
 * `None` of fewer than three.
 */
floor: number | null, smallest_detectable: number | null, 
/**
 * Of 1000 studies of eight of these pairs the share that finds a difference at p ≤ 0.05, though there is none; `None`
 * without more than eight.
 */
false_share: number | null, };

/**
 * What a page holds when it is opened.
 */
export type PageData = { format: number, kind: string, 
/**
 * What the figures are that points and trials have.
 */
metrics: Array<MetricFacts>, studies: Array<StudyInPage>, };

/**
 * Curves that share an axis.
 */
export type Panel = { id: string, title: string, 
/**
 * Areas on top of each other.
 */
is_stack: boolean, };

/**
 * A percentile with the interval that holds the true one in 95 % of cases, were the transactions independent: by the
 * binomial distribution of how many lie below. They are not, so what the trials differ by is the wider interval.
 */
export type Percentile = { 
/**
 * 0 to 1.
 */
share: number, us: number, low_us: number, high_us: number, };

/**
 * One point of a sweep, with what its trials measured.
 */
export type PointSummary = { number: number, 
/**
 * The point by what varies.
 */
label: string, 
/**
 * Values of the axes that vary, in the order of [`SweepRun::varied`].
 */
values: Array<string>, 
/**
 * Trials that ended, and those of them that have no figures.
 */
trials: number, failures: number, 
/**
 * Seconds that its cold trials, or those beside a job, were measured: what a time that was not reached is longer than.
 */
measured_seconds: number | null, 
/**
 * Medians.
 */
background: BackgroundWrites | null, 
/**
 * What speaks against its trials.
 */
verdicts: Array<PointVerdict>, 
/**
 * Failures that no verdict tells, each text once, with how many trials have it.
 */
warnings: { [key in string]: number }, } & ({ [figure in string]: Spread | null });

/**
 * What speaks against trials of a point.
 */
export type PointVerdict = { kind: string, 
/**
 * Of how many trials it was told.
 */
trials: number, 
/**
 * As of the first of them.
 */
sentence: string, remedy: string, 
/**
 * Was something else measured than was asked for?
 */
is_refusing: boolean, };

/**
 * What one program in the kernel cost.
 */
export type ProgramCost = { name: string, runs: number, total_ns: number, };

/**
 * A ratio over the rounds of a run.
 */
export type Ratio = { 
/**
 * Of the ratios of all pairs. Its limits differ where times were not reached.
 */
median: Limits, 
/**
 * Where the true median is, in at least 95 % of cases; `None` with fewer than [`MIN_PAIRS`] pairs.
 */
interval: Limits | null, 
/**
 * How often such an interval holds the true median, 0 to 1: 0.97 with six pairs. Fewer than six do not allow 95 %:
 * the interval is their range then, which holds it in 0.75 of cases with three, 0.94 with five.
 */
coverage: number, pairs: number, };

/**
 * A source that could not be had.
 */
export type RefusedSource = { source: string, reason: string, 
/**
 * What would mend it.
 */
remedy: string | null, };

/**
 * Where a relation was resident, before and after a trial.
 */
export type RelationResidency = { relation: string, kind: string, total_bytes: Bytes, before: ResidencyStrip, after: ResidencyStrip, 
/**
 * Meanwhile, where somebody looked.
 */
course?: ResidencyCourse | null, };

/**
 * How a relation got into the page cache, from the start of a trial on.
 */
export type ResidencyCourse = { 
/**
 * Seconds from one look to the next; the first was so long after the start.
 */
step_seconds: number, 
/**
 * The share that was resident at each look, 0 to 1, to a thousandth.
 */
shares: Array<number>, };

/**
 * A relation cut into equal pieces from its first block to its last: the resident share of each, 0 to 1.
 */
export type ResidencyStrip = { os: Array<number>, buffers: Array<number>, };

/**
 * One row of a view.
 */
export type RowDelta = { 
/**
 * Which row: `backend_type` and the like. Nothing where the view has one row.
 */
key: { [key in string]: string }, 
/**
 * Changes of each column, in the view's units.
 */
added: { [key in string]: number }, };

/**
 * How long the transactions of a script took.
 */
export type ScriptLatency = { script: string, 
/**
 * Answered, failed and skipped transactions in the log: of all, or of the share that was logged.
 */
answered: number, failed: number, skipped: number, 
/**
 * Under a rate from when a transaction was due, otherwise from when it began.
 */
response: LatencyHistogram, 
/**
 * Under a rate from when it began; `None` without one, where it is the same.
 */
service: LatencyHistogram | null, };

/**
 * What a server says of itself.
 */
export type ServerFacts = { 
/**
 * `server_version_num`, such as 150018.
 */
version_num: number, 
/**
 * `server_version`, such as `15.18 (Debian 15.18-0+deb12u1)`.
 */
version: string, 
/**
 * `pg_control_system().system_identifier`: which cluster this is.
 */
system_identifier: number, 
/**
 * The setting `cluster_name`; empty when it is not set.
 */
cluster_name: string, 
/**
 * Bytes of a block.
 */
block_size: number, 
/**
 * Blocks of a segment file.
 */
segment_blocks: number, shared_buffers_bytes: Bytes, 
/**
 * `None` when the role may not know it.
 */
data_directory: string | null, 
/**
 * Do data files bypass the page cache (`debug_io_direct`, PostgreSQL 16 and later)?
 */
io_direct: boolean, 
/**
 * The setting `io_method`, from PostgreSQL 18 on.
 */
io_method: string | null, in_recovery: boolean, 
/**
 * The newest LSN, written or replayed; empty before a standby has replayed anything.
 */
lsn: string, timeline: number, 
/**
 * The role that pgthaw is connected as.
 */
role: string, is_superuser: boolean, 
/**
 * The server's process; `Some` if it runs on this host and its data directory can be read.
 */
postmaster_pid: number | null, };

/**
 * Seconds, and what they are when device and processor are [`UNCERTAINTY`] better or worse than told.
 */
export type Span = { seconds: number, low: number, 
/**
 * `None`: in the worse case not at all.
 */
high: number | null, };

/**
 * The middle and the ends of one quantity over the repeats. A repeat that did not get there counts as longer than
 * every one that did, so the median is `None` when half of them or more did not, and `max` when any did not.
 */
export type Spread = { median: number | null, min: number | null, max: number | null, 
/**
 * Repeats that got there.
 */
reached: number, repeats: number, 
/**
 * Of the median; `None` of fewer than three repeats, and where one did not get there.
 */
interval: MedianInterval | null, };

/**
 * Seconds in which throughput fell far below its surroundings.
 */
export type Stall = { 
/**
 * It begins at the end of this second of the trial, and ends with that one.
 */
from_second: number, until_second: number, 
/**
 * Transactions of its slowest second, and what was usual around it.
 */
least_tps: number, usual_tps: number, 
/**
 * What was seen meanwhile and not before: a wait of the backends, a checkpoint; empty when nothing was.
 */
seen: Array<string>, };

/**
 * How cold it was when the clock started: measured, not intended.
 */
export type StartState = { 
/**
 * Of the benchmark database's files, in the page cache.
 */
os_resident_bytes: Bytes, total_bytes: Bytes, 
/**
 * `cold` (at most 1 % resident), `lukewarm`, `warm` (95 %) or `restored`.
 */
verdict: string, };

/**
 * What was added: of each view the rows in which anything changed.
 */
export type StatisticsDelta = { [key in string]: Array<RowDelta> };

/**
 * What a strategy did.
 */
export type StrategyOutcome = { 
/**
 * What was run, for people.
 */
command: string, 
/**
 * Seconds from the start of pgbench to the command's end; `None` when it was still running at the end of the trial, or there is none.
 */
ended_after_seconds: number | null, 
/**
 * Read from the device by the strategy's own processes, where that is known.
 */
issued_bytes: Bytes | null, 
/**
 * `None` when it went well.
 */
failure: string | null, 
/**
 * The end of what it printed.
 */
output: string, };

/**
 * A study as it is looked at: `serve` sends this, and the page of a report holds it.
 */
export type StudyData = { 
/**
 * What it asks, or what it is about.
 */
subject: string, 
/**
 * The answer in one sentence.
 */
headline: string, 
/**
 * That its trials took together; `None` where no end of one is known.
 */
total_seconds: number | null, sweep: SweepRun, 
/**
 * Numbers beyond 2⁵³ as text: a browser would round them.
 */
exact: ExactNumbers, points: Array<PointSummary>, trials: Array<TrialOutline>, 
/**
 * What equal sides differ by, figure by figure; nothing when no point was measured twice.
 */
noise: Array<Noise>, 
/**
 * What the curves of its trials stand for.
 */
measures: Array<Measure>, 
/**
 * Where the time of the servers went, of each point of which somebody looked.
 */
timed: Array<TimedPoint>, 
/**
 * Of warmers within the rounds.
 */
ratios: Array<WarmerRatio>, 
/**
 * What the traffic got beside each of them, where they are all that varies.
 */
traffic: Traffic, 
/**
 * What speaks against a study of ways to warm, by what was found before its trials.
 */
remarks: Array<string>, };

/**
 * The forecast for `nothing`.
 */
export type StudyForecast = { 
/**
 * Transactions per second at the start, and when warm.
 */
cold_tps: number, steady_tps: number, 
/**
 * Until half of `steady_tps`, and until fewer than 1 % of transactions read from the device, with what they are when
 * device and processor are 15 % better or worse.
 */
to_50_seconds: Span | null, warm_after_seconds: Span | null, };

/**
 * A study for a page that nobody serves: all of its trials with it, unless they are too many.
 */
export type StudyInPage = { study: StudyData, details: Array<TrialData> | null, };

/**
 * A study, with how far it came.
 */
export type StudyLine = { id: string, question: string, 
/**
 * `None` of a damaged one.
 */
started_at: string | null, ended_at: string | null, host: string, server: string, 
/**
 * Axes with more than one value.
 */
varied: Array<string>, points: number, repeats: number, 
/**
 * That have ended, and those of them that failed.
 */
trials: number, failures: number, 
/**
 * Why nothing else can be read of it; `None` of one that is whole.
 */
damaged: string | null, };

/**
 * Side B compared with side A.
 */
export type SweepComparison = { metric: Metric, a: string, b: string, cells: Array<CellComparison>, 
/**
 * The ratio, above 1, that equal sides of the same sweep reach: of a study that measures every point twice.
 */
noise_floor: number | null, 
/**
 * Verdicts against the comparison, and their texts.
 */
verdicts: Array<MeasurementVerdict>, warnings: Array<string>, };

/**
 * A run of a study, with the invocations that went on where it was interrupted.
 */
export type SweepRun = { 
/**
 * Unique, sortable by time: `20261121-233005-4f2a`.
 */
id: string, started_at: string, 
/**
 * `None` until every trial has ended.
 */
ended_at: string | null, pgthaw_version: string, 
/**
 * `pgbench (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)`.
 */
pgbench_version: string, machine: Machine, server: ServerFacts, 
/**
 * What the study asks, for people.
 */
question: string, 
/**
 * SHA-256 of what the study file means: the same study has the same.
 */
digest: string, 
/**
 * The study as it was understood.
 */
study: unknown, 
/**
 * Names of the axes with more than one value.
 */
varied: Array<string>, points: number, repeats: number, 
/**
 * Seed of the random order.
 */
seed: number, 
/**
 * How long its databases took to make.
 */
databases: Array<DatabaseMaking>, 
/**
 * What speaks against the whole sweep.
 */
verdicts: Array<MeasurementVerdict>, 
/**
 * The same as texts.
 */
warnings: Array<string>, 
/**
 * What was found of a study of ways to warm before its trials; `None` of others.
 */
warmup?: WarmupFacts | null, 
/**
 * What it was imported from; `None`: pgthaw measured it.
 */
source?: string | null, };

/**
 * One repetition of one point.
 */
export type SweepTrial = { sweep_id: string, 
/**
 * The point's number, from 0, and what it is.
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
 * With all that belongs to it, from the making of its start state on.
 */
ended_at: string | null, 
/**
 * Measured right before the clock started; `None` when it did not come to that.
 */
start_state: StartState | null, 
/**
 * pgbench's command.
 */
command: string, 
/**
 * What warmed the server beside the load did; `None` where nothing did.
 */
strategy_outcome?: StrategyOutcome | null, 
/**
 * How it got warm, of a trial that was asked to start cold; `None` of others.
 */
warming?: Warming | null, 
/**
 * The hosts that made the load; `None`: pgbench ran on this one.
 */
generators: TrialGenerators | null, 
/**
 * Why there are no figures; `None` when it went well.
 */
failure: string | null, 
/**
 * Seconds from the start of pgbench to its end.
 */
lasted_seconds: number, 
/**
 * By pgbench's own count: those that ended well, that failed, that were due too long ago.
 */
transactions: number, failed: number, skipped: number, 
/**
 * Those that were tried more than once, and how often in all.
 */
retried: number, retries: number, 
/**
 * Of those that ended well, above the latency limit.
 */
late: number, 
/**
 * Transactions per second, without the time that the first connections took.
 */
tps: number, 
/**
 * Transactions of the slowest whole second.
 */
worst_second_tps: number | null, 
/**
 * Of the transactions of all scripts, as [`ScriptLatency::response`]; `None` when there are no figures.
 */
latency: LatencyHistogram | null, 
/**
 * Where the time of the server's processes went; `None` where nobody looked.
 */
time?: TrialTime | null, scripts: Array<ScriptLatency>, 
/**
 * What grew in the server's statistics views.
 */
statistics: StatisticsDelta, buffers_before: Array<BufferUse>, buffers_after: Array<BufferUse>, 
/**
 * Those that ended within the trial, as the server logged them.
 */
checkpoints: Array<Checkpoint>, 
/**
 * The one that began within the trial and did not end in it.
 */
checkpoint_begun: CheckpointBegun | null, 
/**
 * Whole cycles of checkpoints within the trial, from the beginning of one to that of the next, and transactions per
 * second within them; `None` without a whole one.
 */
checkpoint_cycles: number, cycle_tps: number | null, 
/**
 * Settings of the server that are not the default, name and value.
 */
settings: Array<[string, string]>, 
/**
 * Read from the device by anybody.
 */
device_read_bytes: Bytes, 
/**
 * Each device that a part of the server had to itself, the rest first; none where all was on one.
 */
devices?: Array<TrialDevice>, 
/**
 * The copy of the databases that it ran on; `None` where trials follow each other in one.
 */
fresh_copy?: FreshCopy | null, 
/**
 * As the server says it; `None` when it did not come to that.
 */
server_version: string | null, 
/**
 * What speaks against the trial.
 */
verdicts: Array<MeasurementVerdict>, 
/**
 * The same as texts.
 */
warnings: Array<string>, };

/**
 * A point with the account of its trials.
 */
export type TimedPoint = { number: number, 
/**
 * `None` of what was imported.
 */
clients: number | null, 
/**
 * What varies beside the clients, or nothing.
 */
others: string, 
/**
 * Medians: transactions per second, and the mean response of a closed loop by that (clients ÷ tps), in microseconds; `None` under
 * a rate.
 */
tps: number | null, response_us: number | null, 
/**
 * Of each client backend, by the sums of the source.
 */
explained_seconds: number | null, 
/**
 * Waiting for commands and receiving them.
 */
reading_seconds: number, 
/**
 * Processors that the server used in the mean.
 */
processors_used: number, 
/**
 * Where it is from: `bpf`, `memory` or `sql` (docs/waits.md).
 */
source: string, 
/**
 * How long was looked.
 */
length_seconds: number, 
/**
 * The second that was explained least, and the one that was explained most.
 */
explained_ratio_min: number | null, explained_ratio_max: number | null, 
/**
 * It was ended before the trial was over, for it took more of the processors than it may.
 */
is_cut_short: boolean, 
/**
 * That client backends lived, by a clock outside. The kinds below add up to it.
 */
lived_seconds: number, 
/**
 * On a processor. Where `ready_seconds` is null, also ready for one.
 */
running_seconds: number, 
/**
 * Ready, and waiting for a processor; `None` where the source cannot tell that.
 */
ready_seconds: number | null, 
/**
 * Waiting for the client to say something, or to take what it is sent.
 */
client_seconds: number, 
/**
 * Waiting for events of these classes, and of all others.
 */
lwlock_seconds: number, lock_seconds: number, io_seconds: number, other_seconds: number, 
/**
 * Off the processor without a wait event; and where the event could not be read.
 */
no_event_seconds: number, unknown_seconds: number, 
/**
 * Received from clients; those that were handled, and how long from their receipt until the next was waited for, or received.
 */
commands: number, handled: number, handled_seconds: number, 
/**
 * Waits for lightweight locks; those for locks of the shared statistics alone, and how long.
 */
lwlock_waits: number, statistics_waits: number, statistics_seconds: number, 
/**
 * How often client backends wrote into shared memory what they do (pg_stat_activity); `None` where that could not be read.
 */
activity_reports: number | null, 
/**
 * Of background processes: on a processor, ready for one, and waiting for anything but for something to do.
 */
background_running_seconds: number, background_ready_seconds: number, background_waiting_seconds: number, 
/**
 * How often processes of the server came on a processor.
 */
switches: number, 
/**
 * Share of the lives of all processes of the server that is explained: about 1; `None` when nobody lived.
 */
explained_ratio: number | null, 
/**
 * Processor time that the looking took: the kernel's own count of its programs, and the thread that reads.
 */
cost_seconds: number, 
/**
 * Processes that could not be followed.
 */
lost_processes: number, };

/**
 * What the traffic got beside the warmers of a study.
 */
export type Traffic = { 
/**
 * 1.25 × the bound; `None` where that is not known, or longer than a trial.
 */
deadline_seconds: number | null, 
/**
 * Of every warmer but `nothing`; none where `nothing` was not measured.
 */
warmers: Array<Interference>, };

/**
 * A trial as it is looked at: what it left behind, and its curves.
 */
export type TrialData = { trial: SweepTrial, series: TrialSeries, };

/**
 * What a device of a trial was, and what it did from its start to its end.
 */
export type TrialDevice = { 
/**
 * `wal`, `slru`, `tables`, `indexes`; `rest` is the data directory without them, `log` what its file system has its log on.
 */
part: string, 
/**
 * The name of its limits; `None` without any.
 */
disk: string | null, 
/**
 * The device's name in /sys/block.
 */
device: string, 
/**
 * Means over the seconds: requests and bytes per second, by anybody.
 */
reads_per_second: number, read_bytes_per_second: number, writes_per_second: number, written_bytes_per_second: number, 
/**
 * `None` without a write.
 */
bytes_per_write: number | null, 
/**
 * Share of the time in which a request was under way.
 */
busy_ratio: number, };

/**
 * One of them.
 */
export type TrialGenerator = { host: string, clients: number, 
/**
 * Threads.
 */
jobs: number, pgbench_version: string, 
/**
 * By how much its clock was ahead of this host's, and by how much that may be wrong, in milliseconds.
 */
clock_offset_ms: number, clock_uncertainty_ms: number, 
/**
 * When pgbench was begun after the instant that was agreed upon, in milliseconds by this host's clock.
 */
started_after_ms: number, 
/**
 * By its pgbench's count.
 */
transactions: number, tps: number, 
/**
 * Are its processes this machine's own? Otherwise nobody sees what its threads did.
 */
is_seen: boolean, };

/**
 * The hosts that made a trial's load.
 */
export type TrialGenerators = { 
/**
 * From the first start to the last, in milliseconds.
 */
start_spread_ms: number, hosts: Array<TrialGenerator>, };

/**
 * What is told of a trial beside the others.
 */
export type TrialOutline = { number: number, repeat: number, position: number, started_at: string, ended_at: string | null, start_verdict: string | null, failure: string | null, 
/**
 * What the model says of the curve of a trial that began cold, as far as the common steady level bears it out; `None` when it
 * cannot be judged, for the reason in `no_verdict`.
 */
judgement: Judgement | null, no_verdict: string | null, 
/**
 * What its shares of the steady throughput are of; `None` while no trial that decides it got warm.
 */
steady_tps: number | null, } & ({ [figure in string]: number | null });

/**
 * A trial's curves, column by column. Spans keep their minimum and maximum beside the mean, so that a stall of one second stays
 * visible.
 */
export type TrialSeries = { 
/**
 * Seconds that a span joins.
 */
width: number, 
/**
 * The end of each span, since the start of pgbench.
 */
second: Array<number>, 
/**
 * Transactions per second.
 */
tps: Envelope, 
/**
 * Microseconds; nothing in a span without any transaction.
 */
latency_us_mean: Array<number | null>, latency_us_min: Array<number | null>, latency_us_max: Array<number | null>, latency_us_deviation: Array<number | null>, 
/**
 * Bytes per second, by the workload's own backends and by anybody.
 */
foreground_read_bytes: Array<number>, device_read_bytes: Envelope, device_reads: Array<number>, 
/**
 * At its least, because it is what has gone that matters.
 */
os_resident_bytes: Array<number>, 
/**
 * The columns of [`crate::study::MEASURES`]; `None` when the machine was not gauged.
 */
machine: { [key in string]: Array<number | null> } | null, 
/**
 * What the workload's backends did; nothing when nobody looked.
 */
waits: Array<WaitSeries>, stalls: Array<Stall>, 
/**
 * Of the log, over the whole trial.
 */
flushes: FlushFigures | null, };

/**
 * Where the time of the server went in a trial.
 */
export type TrialTime = { 
/**
 * Better sources that could not be had, and why.
 */
refused: Array<RefusedSource>, 
/**
 * Of the server, that were there at some time.
 */
processes: number, 
/**
 * All names: those with the most time first, and who had nothing to do behind all others.
 */
statistics: Array<NamedStatistic>, 
/**
 * Of commands of client backends, from their receipt on.
 */
handled_statistic: NamedStatistic | null, 
/**
 * Times on a processor whose beginning was not told, and their length; waits whose end was not told.
 */
recovered: number, recovered_seconds: number, wakes_missed: number, 
/**
 * Of the programs in the kernel, by its own count.
 */
programs: Array<ProgramCost>, 
/**
 * Processor time of the thread that reads.
 */
own_cpu_seconds: number, 
/**
 * Where it is from: `bpf`, `memory` or `sql` (docs/waits.md).
 */
source: string, 
/**
 * How long was looked.
 */
length_seconds: number, 
/**
 * The second that was explained least, and the one that was explained most.
 */
explained_ratio_min: number | null, explained_ratio_max: number | null, 
/**
 * It was ended before the trial was over, for it took more of the processors than it may.
 */
is_cut_short: boolean, 
/**
 * That client backends lived, by a clock outside. The kinds below add up to it.
 */
lived_seconds: number, 
/**
 * On a processor. Where `ready_seconds` is null, also ready for one.
 */
running_seconds: number, 
/**
 * Ready, and waiting for a processor; `None` where the source cannot tell that.
 */
ready_seconds: number | null, 
/**
 * Waiting for the client to say something, or to take what it is sent.
 */
client_seconds: number, 
/**
 * Waiting for events of these classes, and of all others.
 */
lwlock_seconds: number, lock_seconds: number, io_seconds: number, other_seconds: number, 
/**
 * Off the processor without a wait event; and where the event could not be read.
 */
no_event_seconds: number, unknown_seconds: number, 
/**
 * Received from clients; those that were handled, and how long from their receipt until the next was waited for, or received.
 */
commands: number, handled: number, handled_seconds: number, 
/**
 * Waits for lightweight locks; those for locks of the shared statistics alone, and how long.
 */
lwlock_waits: number, statistics_waits: number, statistics_seconds: number, 
/**
 * How often client backends wrote into shared memory what they do (pg_stat_activity); `None` where that could not be read.
 */
activity_reports: number | null, 
/**
 * Of background processes: on a processor, ready for one, and waiting for anything but for something to do.
 */
background_running_seconds: number, background_ready_seconds: number, background_waiting_seconds: number, 
/**
 * How often processes of the server came on a processor.
 */
switches: number, 
/**
 * Share of the lives of all processes of the server that is explained: about 1; `None` when nobody lived.
 */
explained_ratio: number | null, 
/**
 * Processor time that the looking took: the kernel's own count of its programs, and the thread that reads.
 */
cost_seconds: number, 
/**
 * Processes that could not be followed.
 */
lost_processes: number, };

/**
 * Why it is open whether a run was steady.
 */
export type Undecided = "too_short" | "noisy";

export type Unit = "processors" | "backends" | "bytes" | "bytes_per_second" | "per_second" | "requests" | "microseconds" | "ratio";

/**
 * The answer in one word.
 */
export type Verdict = "steady" | "not_reached" | "periodic" | "degrading";

/**
 * Backends of the workload that did the same.
 */
export type WaitSeries = { 
/**
 * `IO` and `DataFileRead`; `None`: on a processor, or ready to be. `Others` is what has no curve of its own.
 */
kind: string | null, event: string | null, 
/**
 * How many of them, in the mean; `None` in a span in which nobody looked.
 */
processes: Array<number | null>, };

/**
 * `dividend ÷ divisor`, of the trials of the same round.
 */
export type WarmerRatio = { 
/**
 * What else varies in the study, by its values; empty where nothing does.
 */
cell: string, dividend: string, 
/**
 * A warmer, or `bound`.
 */
divisor: string, 
/**
 * The figure of the dividend, and of the divisor.
 */
of: Metric, to: Metric, 
/**
 * Of the ratios of all pairs. Its limits differ where times were not reached.
 */
median: Limits, 
/**
 * Where the true median is, in at least 95 % of cases; `None` with fewer than [`MIN_PAIRS`] pairs.
 */
interval: Limits | null, 
/**
 * How often such an interval holds the true median, 0 to 1: 0.97 with six pairs. Fewer than six do not allow 95 %:
 * the interval is their range then, which holds it in 0.75 of cases with three, 0.94 with five.
 */
coverage: number, pairs: number, };

/**
 * The way of a cold server to its full speed.
 */
export type Warming = { 
/**
 * Read from the device by the workload's own backends in each tenth of a second from the start on: by these
 * `warm_after_seconds` is dated within its second.
 */
foreground_tenths: Array<Bytes>, 
/**
 * Where the largest relations were resident, before and after.
 */
residency: Array<RelationResidency>, 
/**
 * Of a trial that ended when what is wanted was resident: what was seen of it meanwhile.
 */
looks?: Array<LoadSample>, 
/**
 * Seconds that were measured, or waited for at most: what a time that was not reached is longer than.
 */
measured_seconds: number, 
/**
 * Seconds until fewer than 1 % of transactions read from the device, sustained to the end, to a tenth; `None`: not
 * within the trial.
 */
warm_after_seconds: number | null, 
/**
 * Transactions served until it was warm; over the whole trial when it never was.
 */
served_until_warm: number, 
/**
 * Transactions served in the whole trial.
 */
served: number, 
/**
 * Transactions per second once it was warm: the median of its warm seconds. `None` when it never was.
 */
warm_tps: number | null, 
/**
 * Each second in which the throughput reached a level that it had not had before.
 */
climb: Array<Climb>, 
/**
 * What the page cache held of the database when it was warm. `None` where nobody looked: no snapshot was needed.
 */
wanted_bytes: Bytes | null, 
/**
 * `wanted_bytes ÷ bandwidth`, or the best merging's seconds where reads are limited too: no warmer can be faster. `None` where
 * one of them is not known, and of a script of one's own that may need a part of these bytes.
 */
bound_seconds: number | null, 
/**
 * What the model says of the curve; `None` when it cannot be judged, for the reason in `no_verdict`.
 */
judgement: Judgement | null, no_verdict: string | null, 
/**
 * What came back, of a trial without a load.
 */
brought?: Brought | null, 
/**
 * How long its job took, of a trial that ended with its transactions.
 */
job?: Job | null, };

/**
 * Whether a level is that of a warm server, and how that is known.
 */
export type Warmth = { 
/**
 * `None`: not known.
 */
is_warm: boolean | null, 
/**
 * The evidence, in one sentence.
 */
evidence: string, 
/**
 * What would decide it, where it is not known.
 */
would_tell: string | null, };

/**
 * What is found of a study of ways to warm before its first trial.
 */
export type WarmupFacts = { 
/**
 * As far as it is in force, or why not.
 */
disk: Disk, 
/**
 * Of the benchmark's database, and what the page cache held of it when it was warm.
 */
database_bytes: Bytes, wanted_bytes: Bytes, 
/**
 * Transactions per second of the warm server, without a limit; `None` when it served nothing.
 */
calibration_tps: number | null, 
/**
 * What the model says of a server that nothing warms. `None` when the device's figures are not known, or the workload
 * is not pgbench's own.
 */
forecast: StudyForecast | null, };
