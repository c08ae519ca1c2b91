//! What a log says of itself, read through once: how much it holds, of whom, and from when to when.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;

use jiff::Timestamp;

use crate::files::open_regular;
use crate::pgbench::{LoggedTransaction, TransactionEnd, parse_interval, parse_transaction};
use crate::study::error::Error;

/// A line of a log is short.
const LINE_BYTES_MAX: u64 = 1 << 16;

/// Shows what each line of a file means. One that means nothing is told. The last one counts where it ends as a line does: one that is
/// torn may still look like another.
pub fn for_each<T>(path: &Path, parse: impl Fn(&str) -> Option<T>, mut visit: impl FnMut(T)) -> Result<(), Error> {
    let failed = |source| Error::file("read", path, source);
    let mut lines = BufReader::new(open_regular(path).map_err(failed)?);
    let (mut line, mut number) = (String::new(), 0);
    while (&mut lines).take(LINE_BYTES_MAX).read_line(&mut line).map_err(failed)? > 0 {
        number += 1;
        match parse(line.trim_end()) {
            _ if !line.ends_with('\n') => {}
            Some(meaning) => visit(meaning),
            None => {
                let text = line.trim_end().chars().take(80).collect::<String>();
                return Err(Error::Import(format!("{}, line {number} makes no sense: {text:?}", path.display())));
            }
        }
        line.clear();
    }
    Ok(())
}

const MICROSECONDS: i64 = 1_000_000;

/// A transaction that took longer, a month, is none that began when its log says.
const LATENCY_US_MAX: u64 = 31 * 24 * 3600 * 1_000_000;

/// A log, or several of one run.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// Transactions that ended well, that failed, and that were due too long ago.
    pub transactions: u64,
    pub failed: u64,
    pub skipped: u64,
    /// As many as it names.
    pub scripts: u32,
    clients: BTreeMap<u32, Numbers>,
    /// From the beginning of the first transaction to the end of the last, in microseconds since 1970; of intervals their own.
    /// `None` of a log without a line.
    pub span_us: Option<(i64, i64)>,
    /// How far back the time goes from one line to a later one at most, in microseconds.
    pub back_us: i64,
    /// Seconds that an interval lasts; `None` where it has but one.
    pub width: Option<i64>,
}

/// Of one client: how many lines there are, and from which to which number they run.
#[derive(Clone, Copy, Debug)]
struct Numbers {
    lines: u64,
    least: u64,
    most: u64,
}

impl Survey {
    /// Of a log of transactions.
    pub fn of_transactions(path: &Path) -> Result<Survey, Error> {
        let mut survey = Survey::default();
        let mut latest_us = i64::MIN;
        for_each(path, parse_transaction, |one| {
            let ended_us = one.second.saturating_mul(MICROSECONDS).saturating_add(i64::from(one.microsecond));
            survey.back_us = survey.back_us.max(latest_us.saturating_sub(ended_us));
            latest_us = latest_us.max(ended_us);
            survey.add(one, ended_us);
        })?;
        Ok(survey)
    }

    fn add(&mut self, one: LoggedTransaction, ended_us: i64) {
        let took_us = match one.ended {
            TransactionEnd::Answered { latency_us, .. } if latency_us <= LATENCY_US_MAX => latency_us,
            _ => 0,
        };
        match one.ended {
            TransactionEnd::Answered { .. } => self.transactions += 1,
            TransactionEnd::Failed => self.failed += 1,
            TransactionEnd::Skipped => self.skipped += 1,
        }
        self.scripts = self.scripts.max(one.script.saturating_add(1));
        let none = Numbers { lines: 0, least: one.number, most: one.number };
        let numbers = self.clients.entry(one.client).or_insert(none);
        numbers.lines += 1;
        (numbers.least, numbers.most) = (numbers.least.min(one.number), numbers.most.max(one.number));
        self.widen(ended_us.saturating_sub_unsigned(took_us), ended_us);
    }

    fn widen(&mut self, begun_us: i64, ended_us: i64) {
        let (begun, ended) = self.span_us.unwrap_or((begun_us, ended_us));
        self.span_us = Some((begun.min(begun_us), ended.max(ended_us)));
    }

    /// Of a log of intervals.
    pub fn of_intervals(path: &Path) -> Result<Survey, Error> {
        let mut survey = Survey::default();
        let mut latest = i64::MIN;
        for_each(path, parse_interval, |(begun_at, interval)| {
            let step = begun_at.saturating_sub(latest);
            if latest != i64::MIN && step > 0 {
                survey.width = Some(survey.width.map_or(step, |width| width.min(step)));
            }
            survey.back_us = survey.back_us.max(latest.saturating_sub(begun_at).saturating_mul(MICROSECONDS));
            latest = latest.max(begun_at);
            survey.transactions = survey.transactions.saturating_add(interval.transactions);
            let begun_us = begun_at.saturating_mul(MICROSECONDS);
            survey.widen(begun_us, begun_us);
        })?;
        // The last one begins there.
        let width_us = survey.width.unwrap_or(1).saturating_mul(MICROSECONDS);
        survey.span_us = survey.span_us.map(|(begun, last)| (begun, last.saturating_add(width_us)));
        Ok(survey)
    }

    /// Adds what another thread of the same run logged.
    pub fn merge(&mut self, other: &Survey) {
        self.transactions = self.transactions.saturating_add(other.transactions);
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.scripts = self.scripts.max(other.scripts);
        for (client, numbers) in &other.clients {
            let same = self.clients.entry(*client).or_insert(Numbers { lines: 0, ..*numbers });
            same.lines += numbers.lines;
            (same.least, same.most) = (same.least.min(numbers.least), same.most.max(numbers.most));
        }
        other.span_us.into_iter().for_each(|(begun, ended)| self.widen(begun, ended));
        self.back_us = self.back_us.max(other.back_us);
        self.width = self.width.into_iter().chain(other.width).min();
    }

    /// How long it lasted.
    pub fn lasted_seconds(&self) -> f64 {
        self.span_us.map_or(0.0, |(begun, ended)| ended.saturating_sub(begun) as f64 / MICROSECONDS as f64)
    }

    /// Microseconds of its second in which the first transaction began: whole seconds of the run begin there.
    pub fn offset_us(&self) -> i64 {
        self.span_us.map_or(0, |(begun_us, _)| begun_us.rem_euclid(MICROSECONDS))
    }

    /// When the first transaction began.
    pub fn begun_at(&self) -> Option<Timestamp> {
        Timestamp::from_microsecond(self.span_us?.0).ok()
    }

    /// From which second until which, by a clock that is [`Survey::offset_us`] behind.
    pub fn seconds(&self) -> Option<(i64, i64)> {
        let (begun_us, ended_us) = self.span_us?;
        let ended_us = ended_us.saturating_sub(self.offset_us());
        Some((begun_us.div_euclid(MICROSECONDS), ended_us.div_euclid(MICROSECONDS).saturating_add(1)))
    }

    /// As many clients as it names, and as many as there must have been; both 0 of intervals, which name none.
    pub fn clients(&self) -> (u32, u32) {
        (self.clients.len() as u32, self.clients.last_key_value().map_or(0, |(last, _)| last.saturating_add(1)))
    }

    pub fn has_first_client(&self) -> bool {
        self.clients.contains_key(&0)
    }

    /// Has it clients that the other has too?
    pub fn shares_clients(&self, other: &Survey) -> bool {
        self.clients.keys().any(|client| other.clients.contains_key(client))
    }

    /// Did one begin before the other ended? A log without a line may be of any time.
    pub fn overlaps(&self, other: &Survey) -> bool {
        let (Some((begun, ended)), Some((other_begun, other_ended))) = (self.span_us, other.span_us) else {
            return true;
        };
        begun <= other_ended && other_begun <= ended
    }

    /// As many transactions as the clients have numbered: each counts its own, without a gap. More than the lines where a part of them
    /// is not there.
    pub fn numbered(&self) -> u64 {
        let of = |numbers: &Numbers| numbers.lines.max((numbers.most - numbers.least).saturating_add(1));
        self.clients.values().map(of).fold(0, u64::saturating_add)
    }

    /// All lines, of transactions.
    pub fn lines(&self) -> u64 {
        self.clients.values().map(|numbers| numbers.lines).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Survey {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        std::fs::write(&path, text).unwrap();
        match parse_transaction(text.lines().next().unwrap()) {
            Some(_) => Survey::of_transactions(&path).unwrap(),
            None => Survey::of_intervals(&path).unwrap(),
        }
    }

    #[test]
    fn a_log_begins_with_its_first_transaction_not_with_the_end_of_it() {
        let survey = of("0 1 7500000 0 1650260558 0\n1 1 9000000 0 1650260559 500000\n0 2 failed 0 1650260560 0\n");
        assert_eq!((survey.transactions, survey.failed, survey.clients()), (2, 1, (2, 2)));
        assert_eq!((survey.lasted_seconds(), survey.back_us), (9.5, 0));
    }

    #[test]
    fn numbers_tell_of_lines_that_are_not_there() {
        let whole = of("0 1 5 0 1650260550 0\n0 2 5 0 1650260550 1\n1 7 5 0 1650260550 2\n");
        assert_eq!((whole.lines(), whole.numbered()), (3, 3));
        let sampled = of("0 1 5 0 1650260550 0\n0 12 5 0 1650260550 1\n1 7 5 0 1650260550 2\n");
        assert_eq!((sampled.lines(), sampled.numbered()), (3, 13));
    }

    #[test]
    fn time_that_goes_back_is_seen_in_both_kinds_of_log() {
        assert_eq!(of("0 1 5 0 1650260553 0\n0 2 5 0 1650260550 500000\n0 3 5 0 1650260551 0\n").back_us, 2_500_000);
        assert_eq!(of("1650260553 1 5 0 5 5\n1650260550 1 5 0 5 5\n").back_us, 3_000_000);
    }

    #[test]
    fn threads_whose_intervals_begin_apart_have_the_same_width() {
        let mut one = of("1650260550 10 50 0 5 5\n1650260560 10 50 0 5 5\n");
        one.merge(&of("1650260551 10 50 0 5 5\n"));
        assert_eq!((one.width, one.transactions, one.lasted_seconds()), (Some(10), 30, 20.0));
    }
}
