//! Reads a curve line by line in bounded memory, in any format.

use super::{FEWEST_INTERVALS, Facts, MOST_RATE, Series, tell_rate};
use crate::Error;
use host::units::counted;
use pgbench::{
    Beginning, PgbenchReport, Prefix, TransactionEnd, is_progress, parse_interval, parse_number, parse_progress,
    parse_transaction,
};

/// Maximum disorder of a log's times: threads' lines may interleave.
const LOG_DISORDER_SECONDS: f64 = 1.0;

/// Largest accepted time: as seconds since 1970, the year 5138.
const LATEST_EPOCH: f64 = 1e11;

const LONGEST_SECONDS: f64 = 366.0 * 24.0 * 3600.0;

/// Number of samples that show the run's start and interval.
const FIRST_SAMPLES: usize = 3;

#[derive(Debug, Default)]
pub struct Reader {
    line: u64,
    format: Format,
    prefix: Prefix,
    report: PgbenchReport,
    first: Vec<Sample>,
    /// Interval of a log; its end is unknown until the next interval begins.
    open: Option<Sample>,
    origin: f64,
    last_time: f64,
    /// Latest time in the previous logs; `None` for the first log.
    covered: Option<f64>,
    /// Highest client number of a log, plus 1.
    clients: u32,
    begins: Option<String>,
    collector: Option<Series>,
    /// Sum and number of the products of throughput and latency.
    in_flight: f64,
    latencies: u64,
    figures: u64,
    missing: u64,
    cut_short: u64,
}

#[derive(Debug, Default, PartialEq)]
enum Format {
    #[default]
    Unknown,
    Progress,
    Intervals,
    Transactions,
    Columns(Columns),
}

/// One interval. `rate` is per second, or per interval if `is_count`; NaN if missing.
#[derive(Clone, Copy, Debug)]
struct Sample {
    end: f64,
    rate: f64,
    is_count: bool,
    reads: Option<f64>,
}

impl Reader {
    pub fn push_line(&mut self, line: &str) -> Result<(), Error> {
        self.line += 1;
        let line = self.prefix.strip(line.trim()).trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        if self.format == Format::Unknown {
            self.format = detect(line);
        }
        match &self.format {
            Format::Unknown => self.report.note(line),
            Format::Progress => self.push_progress(line)?,
            Format::Intervals => {
                let bad = || Error::BadLine { line: self.line, text: line.to_owned() };
                let (start, interval) = parse_interval(line).ok_or_else(bad)?;
                self.push_interval(start as f64, interval.transactions as f64)?;
            }
            Format::Transactions => self.push_transaction(line)?,
            Format::Columns(columns) if columns.is_header(line) => {}
            Format::Columns(columns) => self.push_sample(columns.parse(line, self.line)?)?,
        }
        Ok(())
    }

    pub fn is_log(&self) -> bool {
        matches!(self.format, Format::Intervals | Format::Transactions)
    }

    pub fn next_log(&mut self) {
        self.covered = Some(self.latest());
        (self.line, self.open, self.last_time) = (0, None, f64::NEG_INFINITY);
    }

    fn latest(&self) -> f64 {
        self.covered.map_or(self.last_time, |covered| covered.max(self.last_time))
    }

    pub fn finish(mut self) -> Result<Series, Error> {
        self.begin_with_first()?;
        match self.format {
            Format::Unknown if self.line == 0 => return Err(Error::Empty),
            Format::Unknown => return Err(Error::UnknownFormat),
            Format::Transactions => {
                let end = self.latest() - self.origin;
                self.collector.iter_mut().for_each(|collector| collector.cover_until(end));
            }
            _ => {}
        }
        let mut remarks = Vec::from_iter(self.begins);
        let left_out = |count: u64, what: &str, why: &str| {
            (count > 0).then(|| format!("left out: {} {why}", counted(count, what)))
        };
        remarks.extend(left_out(self.missing, "interval", "without a throughput"));
        remarks.extend(left_out(self.cut_short, "progress line", "cut short"));
        if self.missing > 0 && self.figures == 0 {
            return Err(Error::NoFigures { intervals: self.missing });
        }
        let intervals = self.first.len() + usize::from(self.open.is_some());
        let collector = self.collector.ok_or(Error::TooShort { intervals, fewest: FEWEST_INTERVALS })?;
        let mut facts = Facts::of(&self.report);
        facts.clients = facts.clients.or((self.clients > 0).then_some(self.clients));
        // Clients = throughput × latency (Little's law), unless the rate is limited.
        if facts.clients.is_none() && self.latencies > 0 && !facts.is_rate_limited {
            facts.clients = Some((self.in_flight / self.latencies as f64).round().max(1.0) as u32);
        }
        let served = collector.mean_rate();
        if let Some(asked) = self.report.missed_rate(served) {
            let lag = self.report.lag_ms_max.map(|most| most / 1e3).or(self.report.lags.map(|[_, (_, last)]| last));
            let (asked, lag) = (tell_rate(asked), lag.unwrap_or_default());
            remarks.push(format!(
                "the rate was not kept: about {asked} transactions per second were requested, {} were served, and the \
                 schedule lag grew to {lag:.1} s",
                tell_rate(served)
            ));
            // The server's capacity, not the requested rate, limited throughput.
            facts.is_rate_limited = false;
        }
        collector.finish(facts, remarks).check_length()
    }

    fn push_progress(&mut self, line: &str) -> Result<(), Error> {
        self.report.note(line);
        match parse_progress(line) {
            Some(progress) => {
                let (end, rate) = (progress.until_seconds, progress.tps);
                if let Some(milliseconds) = progress.latency_ms_mean.filter(|_| rate.is_finite()) {
                    self.in_flight += rate * milliseconds / 1e3;
                    self.latencies += 1;
                }
                self.push_sample(Sample { end, rate, is_count: false, reads: None })?;
            }
            None if is_progress(line) => self.cut_short += 1,
            None => {}
        }
        Ok(())
    }

    fn push_sample(&mut self, sample: Sample) -> Result<(), Error> {
        let (line, Sample { end: seconds, rate, .. }) = (self.line, sample);
        if !seconds.is_finite() {
            return Err(Error::BadNumber { line, text: seconds.to_string() });
        }
        if seconds.abs() > LATEST_EPOCH {
            return Err(Error::NoTime { line, seconds, why: "as seconds since 1970, it is after the year 5138" });
        }
        // NaN is a gap.
        if !rate.is_nan() && !(0.0..=MOST_RATE).contains(&rate) {
            return Err(Error::BadNumber { line, text: rate.to_string() });
        }
        if self.collector.is_some() {
            return self.add_sample(sample);
        }
        match self.first.last() {
            None => self.origin = sample.end,
            Some(last) => self.check_time(last.end, sample.end)?,
        }
        self.check_length(sample.end)?;
        self.first.push(sample);
        if self.first.len() == FIRST_SAMPLES { self.begin_with_first() } else { Ok(()) }
    }

    fn begin_with_first(&mut self) -> Result<(), Error> {
        let is_progress = self.format == Format::Progress;
        let needed = if is_progress { 1 } else { 2 };
        if self.first.len() < needed || self.collector.is_some() {
            return Ok(());
        }
        let first = std::mem::take(&mut self.first);
        let found = Beginning::of(first.iter().map(|one| (one.end, one.rate))).unwrap_or_default();
        let (mut origin, start, width) = match is_progress {
            true => (found.start_seconds, found.start_seconds, found.width_seconds),
            // The times in a CSV file may start at any value.
            false => {
                let width = first[1].end - first[0].end;
                (first[0].end - width, first[0].end - width, width)
            }
        };
        if is_progress && found.connecting_seconds + found.missing_seconds > 0.0 {
            self.begins = Some(match found.connecting_seconds > 0.0 {
                true => format!("left out: the first {start:.1} s, while pgbench connected"),
                false => format!("the file begins {start:.0} s into the run: times count from there"),
            });
            // The second sample may be early; later ones are regular.
            let second = first.get(1).map_or(start + width, |second| second.end);
            origin = second - width * ((second - start) / width - ALIGNED).ceil().max(1.0);
        }
        if width <= 0.0 {
            self.first = first;
            return Ok(());
        }
        self.begin(origin, width);
        self.last_time = start;
        first.into_iter().filter(|one| one.end > start).try_for_each(|one| self.add_sample(one))
    }

    fn begin(&mut self, origin: f64, width: f64) {
        self.origin = origin;
        self.last_time = origin;
        self.collector = Some(Series::new(width));
    }

    fn add_sample(&mut self, sample: Sample) -> Result<(), Error> {
        self.check_time(self.last_time, sample.end)?;
        self.check_length(sample.end)?;
        let (start, end) = (self.last_time - self.origin, sample.end - self.origin);
        self.last_time = sample.end;
        if sample.rate.is_nan() {
            self.missing += 1;
            return Ok(());
        }
        self.figures += 1;
        let seconds = if sample.is_count { 1.0 } else { end - start };
        let reads = sample.reads.filter(|reads| reads.is_finite()).map(|reads| reads * seconds);
        if let Some(collector) = &mut self.collector {
            let transactions = sample.rate * seconds;
            collector.spread(start.max(0.0), end, transactions, reads, self.covered.is_none());
        }
        Ok(())
    }

    /// An interval ends where the next begins; the last is dropped.
    fn push_interval(&mut self, start: f64, transactions: f64) -> Result<(), Error> {
        let next = Sample { end: start, rate: transactions, is_count: true, reads: None };
        let Some(whole) = self.open.replace(next) else { return Ok(()) };
        // Merged, sorted logs repeat each interval for every thread.
        if whole.end == start {
            self.open = Some(Sample { rate: whole.rate + transactions, ..whole });
            return Ok(());
        }
        self.check_time(whole.end, start)?;
        if self.collector.is_none() {
            self.begin(whole.end, start - whole.end);
        }
        self.last_time = whole.end;
        self.add_sample(Sample { end: start, ..whole })
    }

    fn push_transaction(&mut self, line: &str) -> Result<(), Error> {
        let bad = || Error::BadLine { line: self.line, text: line.to_owned() };
        let logged = parse_transaction(line).ok_or_else(bad)?;
        let end = logged.second as f64 + f64::from(logged.microsecond) / 1e6;
        if self.collector.is_none() {
            self.begin(end, 1.0);
        }
        if end < self.last_time - LOG_DISORDER_SECONDS {
            return Err(Error::TimeBackwards { line: self.line, before: self.last_time, after: end });
        }
        self.check_length(end)?;
        self.last_time = self.last_time.max(end);
        self.clients = self.clients.max(logged.client.saturating_add(1));
        // Failed and skipped transactions only show that the log covers their time.
        if let (Some(collector), TransactionEnd::Answered { .. }) = (&mut self.collector, logged.ended) {
            collector.count((end - self.origin).max(0.0));
        }
        Ok(())
    }

    fn check_time(&self, before: f64, after: f64) -> Result<(), Error> {
        if after > before { Ok(()) } else { Err(Error::TimeBackwards { line: self.line, before, after }) }
    }

    fn check_length(&self, end: f64) -> Result<(), Error> {
        if end - self.origin <= LONGEST_SECONDS {
            return Ok(());
        }
        Err(Error::NoTime { line: self.line, seconds: end, why: "it is more than a year after the run's start" })
    }
}

/// A remainder up to this share of an interval is ignored when intervals are counted.
const ALIGNED: f64 = 0.1;

fn detect(line: &str) -> Format {
    if parse_progress(line).is_some() {
        Format::Progress
    } else if parse_interval(line).is_some() {
        Format::Intervals
    } else if parse_transaction(line).is_some() {
        Format::Transactions
    } else {
        Columns::detect(line).map_or(Format::Unknown, Format::Columns)
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Columns {
    separator: char,
    count: usize,
    time: usize,
    rate: usize,
    /// Transactions per interval rather than per second.
    is_count: bool,
    reads: Option<usize>,
}

const TIMES: [&str; 10] =
    ["time", "t", "second", "seconds", "elapsed", "timestamp", "ts", "time_s", "seconds_elapsed", "elapsed_seconds"];
const RATES: [&str; 6] = ["rate", "tps", "throughput", "qps", "transactions_per_second", "rate_per_second"];
const COUNTS: [&str; 2] = ["transactions", "count"];
const READS: [&str; 4] = ["reads", "device_reads", "reads_per_second", "foreground_reads"];

impl Columns {
    /// Finds the columns by a header, or takes the first two if numeric.
    fn detect(line: &str) -> Option<Columns> {
        let separator = [';', '\t', ','].into_iter().find(|separator| line.contains(*separator))?;
        let cells: Vec<String> = line.split(separator).map(normalise).collect();
        let place = |names: &[&str]| cells.iter().position(|cell| names.contains(&cell.as_str()));
        let count = cells.len();
        if let (Some(time), Some(rate)) = (place(&TIMES), place(&RATES).or_else(|| place(&COUNTS))) {
            let is_count = place(&RATES).is_none();
            return Some(Columns { separator, count, time, rate, is_count, reads: place(&READS) });
        }
        // Four comma-separated numbers may be two with decimal commas.
        let is_plain = count == 2 || (count == 3 && separator != ',');
        let are_numbers = is_plain && parse_time(&cells[0]).is_some() && parse_number(&cells[1]).is_some();
        are_numbers.then_some(Columns { separator, count, time: 0, rate: 1, is_count: false, reads: None })
    }

    fn is_header(&self, line: &str) -> bool {
        line.split(self.separator).nth(self.time).is_some_and(|cell| TIMES.contains(&normalise(cell).as_str()))
    }

    fn parse(&self, line: &str, number: u64) -> Result<Sample, Error> {
        let cells: Vec<&str> = line.split(self.separator).map(|cell| cell.trim().trim_matches('"')).collect();
        if cells.len() == 2 * self.count && self.separator == ',' {
            return Err(Error::DecimalCommas { line: number });
        }
        if cells.len() != self.count {
            return Err(Error::BadLine { line: number, text: line.to_owned() });
        }
        let bad = |text: &str| Error::BadNumber { line: number, text: text.to_owned() };
        let cell_number = |text: &str| match text {
            "" => Ok(f64::NAN),
            text => parse_number(text).ok_or_else(|| bad(text)),
        };
        Ok(Sample {
            end: parse_time(cells[self.time]).ok_or_else(|| bad(cells[self.time]))?,
            rate: cell_number(cells[self.rate])?,
            is_count: self.is_count,
            reads: self.reads.map(|place| cell_number(cells[place])).transpose()?,
        })
    }
}

fn normalise(cell: &str) -> String {
    cell.trim().trim_start_matches('\u{feff}').trim_matches('"').to_ascii_lowercase().replace(' ', "_")
}

/// Parses a number, or converts a timestamp to seconds since 1970.
pub fn parse_time(text: &str) -> Option<f64> {
    let text = text.trim();
    let of_day = || {
        let at = text.parse::<jiff::Timestamp>().ok().or_else(|| {
            let local: jiff::civil::DateTime = text.parse().ok()?;
            local.to_zoned(jiff::tz::TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
        })?;
        Some(at.as_millisecond() as f64 / 1000.0)
    };
    parse_number(text).or_else(of_day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Series, Error> {
        let mut reader = Reader::default();
        text.lines().try_for_each(|line| reader.push_line(line))?;
        reader.finish()
    }

    fn lines(count: u32, line: impl Fn(u32) -> String) -> String {
        (1..=count).map(|number| line(number) + "\n").collect()
    }

    fn assert_steady_rate(series: &Series, count: usize, rate: f64) {
        assert_eq!(series.buckets.len(), count);
        for bucket in &series.buckets {
            assert!((bucket.rate().unwrap() - rate).abs() < 1e-6 * rate, "{bucket:?}");
        }
    }

    #[test]
    fn reads_what_pgbench_prints() {
        let text = format!(
            "pgbench (18.1, server 15.3)\nstarting vacuum...end.\n{}progress: 21.0 s, 99\nscaling factor: 10\nnumber of clients: 4\n",
            lines(20, |second| format!("progress: {second}.0 s, 500.0 tps, lat 0.2 ms stddev 0.1, 0 failed"))
        );
        let series = read(&text).unwrap();
        assert_steady_rate(&series, 20, 500.0);
        assert_eq!(series.facts, Facts { clients: Some(4), scale: Some(10), ..Facts::default() });
        assert_eq!(series.remarks, ["left out: 1 progress line cut short"]);
    }

    #[test]
    fn reads_timestamps_of_the_epoch() {
        let line = |second| format!("progress: {}.5 s, 500.0 tps, lat 0.2 ms stddev 0.1", 1_700_000_000 + second * 10);
        let series = read(&lines(12, line)).unwrap();
        assert_eq!(series.width_seconds, 10.0);
        assert_steady_rate(&series, 12, 500.0);
    }

    #[test]
    fn reads_logs() {
        let aggregated = lines(21, |second| format!("{} 500 1 1 1 1", 1_700_000_000 + second));
        assert_steady_rate(&read(&aggregated).unwrap(), 20, 500.0);
        let joined = lines(42, |half| format!("{} 250 1 1 1 1", 1_700_000_000 + half.div_ceil(2)));
        assert_steady_rate(&read(&joined).unwrap(), 20, 500.0);
        let single =
            lines(2001, |tenth| format!("0 {tenth} 99 0 {} {}", 1_700_000_000 + tenth / 100, tenth % 100 * 10_000));
        let series = read(&single).unwrap();
        assert!((series.transactions() - 2000.0).abs() < 2.0 && series.buckets.len() == 20, "{series:?}");
    }

    #[test]
    fn logs_of_threads_add_up() {
        let interval = |thread: u32| {
            lines(21, |second| format!("{} {} 1 1 1 1", 1_700_000_000 + second, [500, 300, 200][thread as usize]))
        };
        let transaction = |thread: u32| {
            lines(2001, |tenth| {
                format!("{thread} {tenth} 99 0 {} {}", 1_700_000_000 + tenth / 100, tenth % 100 * 10_000)
            })
        };
        for (logs, rate, clients) in
            [([0, 1, 2].map(interval), 1000.0, None), ([0, 1, 2].map(transaction), 300.0, Some(3))]
        {
            let mut reader = Reader::default();
            for (thread, log) in logs.iter().enumerate() {
                if thread > 0 {
                    assert!(reader.is_log());
                    reader.next_log();
                }
                log.lines().for_each(|line| reader.push_line(line).unwrap());
            }
            let series = reader.finish().unwrap();
            assert!((series.mean_rate() / rate - 1.0).abs() < 0.01, "{series:?}");
            assert_eq!((series.buckets.len(), series.facts.clients), (20, clients));
        }
    }

    #[test]
    fn a_late_first_line_is_no_interval_of_the_others() {
        let line = |second: u32| format!("progress: {second}.0 s, 500.0 tps, lat 0.2 ms stddev 0.1, 0 failed");
        let connecting = "progress: 2.5 s, 0.0 tps, lat 0.000 ms stddev 0.000, 0 failed\n";
        let series = read(&format!("{connecting}{}", lines(11, |second| line(second + 2)))).unwrap();
        assert_eq!((series.width_seconds, series.buckets.len()), (1.0, 11));
        assert_eq!(series.buckets[0].covered_seconds, 0.5);
        assert_eq!(series.remarks, ["left out: the first 2.5 s, while pgbench connected"]);
        let series = read(&lines(20, |second| line(500 + second))).unwrap();
        assert_steady_rate(&series, 20, 500.0);
        assert_eq!(series.remarks, ["the file begins 500 s into the run: times count from there"]);
    }

    #[test]
    fn a_rate_that_was_not_kept_does_not_limit_the_server() {
        let run = |lag: fn(u32) -> u32| {
            let line = |second| {
                format!("progress: {second}.0 s, 500.0 tps, lat 9.0 ms stddev 0.1, 0 failed, lag {}.5 ms", lag(second))
            };
            read(&lines(20, line)).unwrap()
        };
        let missed = run(|second| second * 500);
        assert!(!missed.facts.is_rate_limited);
        assert!(
            missed.remarks[0].starts_with("the rate was not kept: about 1000 transactions per second were requested")
        );
        assert!(run(|_| 3).facts.is_rate_limited);
    }

    #[test]
    fn a_prefix_hides_neither_progress_nor_summary() {
        let text = lines(20, |second| format!("[web1] out: progress: {second}.0 s, 500.0 tps, lat 0.2 ms stddev 0.1"));
        let series = read(&format!("{text}[web1] out: number of clients: 7\n[web1] out: scaling factor: 3\n")).unwrap();
        assert_eq!((series.facts.clients, series.facts.scale), (Some(7), Some(3)));
    }

    #[test]
    fn reads_columns_in_every_dress() {
        assert_steady_rate(&read(&lines(20, |second| format!("{second},500"))).unwrap(), 20, 500.0);
        let german = format!("Zeit;x\n{}", lines(20, |second| format!("{second},5;500,0")));
        assert_steady_rate(&read(&german).unwrap(), 20, 500.0);
        let counted = format!("second,transactions,reads\n{}", lines(20, |two| format!("{},1000,50", two * 2)));
        let series = read(&counted).unwrap();
        assert_steady_rate(&series, 20, 500.0);
        assert!(series.has_reads && (series.buckets[3].reads - 50.0).abs() < 1e-9);
    }

    #[test]
    fn a_missing_figure_is_a_gap() {
        let text = format!(
            "time,tps\n{}",
            lines(20, |second| match second {
                5 => "5,NaN".into(),
                6 => "6,".into(),
                _ => format!("{second},500"),
            })
        );
        let series = read(&text).unwrap();
        assert_eq!(series.buckets.iter().filter(|bucket| bucket.rate().is_none()).count(), 2);
        assert_eq!(series.remarks.len(), 1);
    }

    #[test]
    fn bad_input_is_refused_by_name() {
        let progress = |second: u32, rate: &str| format!("progress: {second}.0 s, {rate} tps, lat 1 ms stddev 1\n");
        assert_eq!(read(""), Err(Error::Empty));
        assert_eq!(read("hello\nworld\n"), Err(Error::UnknownFormat));
        let two = progress(1, "5.0") + &progress(2, "5.0");
        assert_eq!(read(&two), Err(Error::TooShort { intervals: 2, fewest: FEWEST_INTERVALS }));
        assert_eq!(read("1,5\n"), Err(Error::TooShort { intervals: 1, fewest: FEWEST_INTERVALS }));
        let zero: String = (1..20).map(|second| progress(second, "0.0")).collect();
        let silent = read(&zero).unwrap();
        assert_eq!((silent.transactions(), silent.clone().check()), (0.0, Err(Error::NoTransactions)));
        let milliseconds = lines(12, |second| format!("{},500", 1_700_000_000_000_u64 + u64::from(second) * 1000));
        let told = read(&milliseconds).unwrap_err();
        assert!(matches!(told, Error::NoTime { line: 1, .. }), "{told}");
        let years = lines(12, |year| format!("{},500", u64::from(year) * 40_000_000));
        let told = read(&years).unwrap_err();
        assert!(matches!(told, Error::NoTime { line: 2, .. }), "{told}");
        let log = format!(
            "{}0 9 99 0 4700000000 0\n",
            lines(20, |second| format!("0 {second} 99 0 {} 0", 1_700_000_000 + second))
        );
        assert!(matches!(read(&log), Err(Error::NoTime { line: 21, .. })), "{:?}", read(&log));
        let back = two.clone() + &progress(1, "5.0");
        assert_eq!(read(&back), Err(Error::TimeBackwards { line: 3, before: 2.0, after: 1.0 }));
        assert!(matches!(read("1,5\n2,-7\n"), Err(Error::BadNumber { line: 2, .. })));
        assert!(matches!(read("1,5\n2,inf\n"), Err(Error::BadNumber { .. })));
        assert!(matches!(read("time,tps\nnan,5\n"), Err(Error::BadNumber { .. })));
        assert_eq!(read("time,tps\n1,0,5,0\n"), Err(Error::DecimalCommas { line: 2 }));
        let only_nan = format!("time,tps\n{}", lines(20, |second| format!("{second},nan")));
        assert_eq!(read(&only_nan), Err(Error::NoFigures { intervals: 20 }));
        assert!(matches!(read("1,1e300\n2,1e300\n"), Err(Error::BadNumber { .. })));
        for absurd in ["1700000005 5e999 1 1 1 1", "1e999 5 1 1 1 1", "0 1 2 0 1e999 7"] {
            assert!(read(&format!("{absurd}\n{absurd}\n")).is_err(), "{absurd}");
        }
        let logs = "1700000005 5 1 1 1 1\n1700000006 5 1 1 1 1\n1700000001 5 1 1 1 1\n";
        assert!(matches!(read(logs), Err(Error::TimeBackwards { line: 3, .. })));
    }

    #[test]
    fn clients_are_told_by_their_latency_where_the_summary_is_missing() {
        let text = lines(20, |second| format!("progress: {second}.0 s, 500.0 tps, lat 7.9 ms stddev 0.1, 0 failed"));
        assert_eq!(read(&text).unwrap().facts.clients, Some(4));
        let waiting =
            lines(20, |second| format!("progress: {second}.0 s, 500.0 tps, lat 7.9 ms stddev 0.1, lag 0.1 ms"));
        assert_eq!(read(&waiting).unwrap().facts.clients, None);
    }

    #[test]
    fn the_scale_of_a_script_of_ones_own_is_believed_where_somebody_told_it() {
        let own = |scale: u32| {
            let progress = lines(20, |second| format!("progress: {second}.0 s, 500.0 tps"));
            read(&format!("{progress}transaction type: hot.sql\nscaling factor: {scale}\n")).unwrap().facts.pages()
        };
        assert!(own(1).is_none() && own(10).is_some());
    }
}

#[cfg(test)]
mod csv_tests {
    use super::*;

    fn read(header: &str, line: &str) -> Result<(f64, f64), Error> {
        Columns::detect(header).unwrap().parse(line, 2).map(|sample| (sample.end, sample.rate))
    }

    #[test]
    fn a_header_names_the_columns() {
        assert_eq!(read("time,latency,tps", "1,0.2,4711.5"), Ok((1.0, 4711.5)));
        assert_eq!(read("\u{feff}\"Seconds\";\"TPS\"", "1,5;4711,5"), Ok((1.5, 4711.5)));
        assert_eq!(read("timestamp\trate", "1970-01-01T00:00:10Z\t7"), Ok((10.0, 7.0)));
        let counts = Columns::detect("second,transactions,device_reads").unwrap();
        let figures = counts.parse("3,500,12", 4).unwrap();
        assert!(figures.is_count && figures.reads == Some(12.0));
    }

    #[test]
    fn without_a_header_there_are_two_columns() {
        assert_eq!(read("1,4711.5", "2,4712.5"), Ok((2.0, 4712.5)));
        for line in ["1,0,4711,3", "pgbench (18.1, server 15.3)", "starting vacuum...end.", "a;b"] {
            assert_eq!(Columns::detect(line), None, "{line}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert_eq!(read("time,tps", "1,0,4711,3"), Err(Error::DecimalCommas { line: 2 }));
        assert!(matches!(read("time,tps", "1"), Err(Error::BadLine { .. })));
        assert!(matches!(read("time,tps", "1,many"), Err(Error::BadNumber { .. })));
        assert!(read("time,tps", "1,").unwrap().1.is_nan());
    }
}

#[cfg(test)]
mod time_tests {
    use super::*;

    #[test]
    fn reads_times_of_day() {
        assert_eq!(parse_time("1970-01-01T00:01:00Z"), Some(60.0));
        assert_eq!(parse_time("1970-01-01 00:01:00.5"), Some(60.5));
        assert_eq!(parse_time("soon"), None);
    }
}
