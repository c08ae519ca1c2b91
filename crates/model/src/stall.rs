use std::collections::VecDeque;
use std::ops::Range;

use crate::compute_median;

/// A step (sampling interval) is low if its rate is below this share of the usual rate.
const STALLED: f64 = 0.5;

/// In bursty throughput, slow steps are usual: more than this share of the earlier steps was at least as slow. Then a
/// step is low only below `HARDLY_ANY` of the usual rate.
const LOWEST: f64 = 0.05;

/// Hardly any work for this many seconds is always a stall.
const STOP_SECONDS: usize = 2;

/// Minimum deficit in standard deviations, which one in 30,000 independent steps exceeds.
const DEVIATIONS: f64 = 4.0;

/// Minimum deficit in seconds of usual work.
const MISSED_SECONDS: f64 = 0.5;

/// Maximum and minimum number of preceding seconds whose median rate is usual.
const SURROUNDINGS_SECONDS: usize = 30;
const SURROUNDINGS_SECONDS_MIN: usize = 3;

/// A better rate for this many seconds does not end a stall.
const BETTER_SECONDS: usize = 1;

/// Maximum length of a stall: a longer low rate is a new usual rate. Below `HARDLY_ANY` of the usual rate,
/// `LEVEL_SECONDS_OF_HARDLY_ANY` is the maximum.
const LEVEL_SECONDS: usize = 30;
const HARDLY_ANY: f64 = 0.1;
const LEVEL_SECONDS_OF_HARDLY_ANY: usize = 600;

#[derive(Clone, Debug, PartialEq)]
pub struct StallSpan {
    pub steps: Range<usize>,
    /// Usual rate of a step, and lowest rate in the stall.
    pub usual: f64,
    pub least: f64,
    pub missing: f64,
    pub is_usual: bool,
}

#[derive(Clone, Debug)]
pub struct StallFinder {
    steps_of_second: usize,
    told: usize,
    before: VecDeque<f64>,
    low: Option<Low>,
}

#[derive(Clone, Debug)]
struct Low {
    begin: usize,
    /// Exclusive.
    end: usize,
    usual: f64,
    is_usual: bool,
    rates: Vec<f64>,
}

impl StallFinder {
    /// Requires at least one step per second.
    pub fn new(steps_of_second: usize) -> StallFinder {
        StallFinder { steps_of_second: steps_of_second.max(1), told: 0, before: VecDeque::new(), low: None }
    }

    /// Returns a stall when it has ended, after more than `BETTER_SECONDS` better seconds.
    pub fn add(&mut self, rate: f64) -> Option<StallSpan> {
        let place = self.told;
        self.told += 1;
        let Some(mut low) = self.low.take() else {
            match self.usual().filter(|usual| self.is_low(rate, *usual)) {
                Some(usual) => {
                    let (is_usual, rates) = (self.is_usual(rate), vec![rate]);
                    self.low = Some(Low { begin: place, end: place + 1, usual, is_usual, rates });
                }
                None => self.remember(&[rate]),
            }
            return None;
        };
        low.rates.push(rate);
        // If low steps are usual, any better step ends the stall.
        let (goes_on, better_seconds) = match low.is_usual {
            true => (rate < STALLED * low.usual, 0),
            false => (self.is_low(rate, low.usual), BETTER_SECONDS),
        };
        if goes_on {
            low.end = place + 1;
            if low.rates.len() <= self.longest(&low) {
                self.low = Some(low);
                return None;
            }
            let stop = self.stop_before_level(&low);
            self.remember(&low.rates[stop.as_ref().map_or(0, |stop| stop.steps.end - low.begin)..]);
            return stop;
        }
        if place + 1 - low.end <= better_seconds * self.steps_of_second {
            self.low = Some(low);
            return None;
        }
        let found = self.judge(&low);
        let is_burst = found.is_none() && low.is_usual;
        self.remember(&low.rates[if is_burst { 0 } else { low.end - low.begin }..]);
        found
    }

    pub fn open(&self) -> Option<StallSpan> {
        self.low.as_ref().and_then(|low| self.judge(low))
    }

    pub fn finish(self) -> Option<StallSpan> {
        let low = self.low.as_ref()?;
        let stop = || self.stop_before_level(low);
        let Some(open) = self.judge(low) else { return stop() };
        let level = open.usual - open.missing / open.steps.len() as f64;
        let is_short = open.steps.len() <= SURROUNDINGS_SECONDS_MIN * self.steps_of_second;
        if is_short || level < HARDLY_ANY * open.usual { Some(open) } else { stop() }
    }

    /// Finds a stop before a low rate that becomes usual: the stop was a stall.
    fn stop_before_level(&self, low: &Low) -> Option<StallSpan> {
        let is_stopped = |rate: &f64| *rate < HARDLY_ANY * low.usual;
        let (begin, end) = (low.rates.iter().position(is_stopped)?, low.rates.iter().rposition(is_stopped)? + 1);
        let rates = low.rates[begin..end].to_vec();
        let stop = Low { begin: low.begin + begin, end: low.begin + end, rates, is_usual: true, ..*low };
        // `is_usual` makes `judge` ignore stops shorter than `STOP_SECONDS`.
        let found = self.judge(&stop).filter(|_| end < low.rates.len())?;
        Some(StallSpan { is_usual: low.is_usual, ..found })
    }

    fn usual(&self) -> Option<f64> {
        let is_enough = self.before.len() >= SURROUNDINGS_SECONDS_MIN * self.steps_of_second;
        is_enough.then(|| compute_median(self.before.iter().copied().collect())).flatten()
    }

    fn is_low(&self, rate: f64, usual: f64) -> bool {
        rate < HARDLY_ANY * usual || rate < STALLED * usual && !self.is_usual(rate)
    }

    fn is_usual(&self, rate: f64) -> bool {
        let as_low = self.before.iter().filter(|before| **before <= rate).count() as f64;
        as_low > LOWEST * self.before.len() as f64
    }

    fn longest(&self, low: &Low) -> usize {
        let mean = low.rates.iter().sum::<f64>() / low.rates.len() as f64;
        let seconds = if mean < HARDLY_ANY * low.usual { LEVEL_SECONDS_OF_HARDLY_ANY } else { LEVEL_SECONDS };
        seconds * self.steps_of_second
    }

    fn remember(&mut self, rates: &[f64]) {
        self.before.extend(rates);
        let most = SURROUNDINGS_SECONDS * self.steps_of_second;
        self.before.drain(..self.before.len().saturating_sub(most));
    }

    fn judge(&self, low: &Low) -> Option<StallSpan> {
        let rates = &low.rates[..low.end - low.begin];
        let expected = low.usual * rates.len() as f64;
        let missing = expected - rates.iter().sum::<f64>();
        let a_second = low.usual * self.steps_of_second as f64;
        let is_stop = rates.len() >= STOP_SECONDS * self.steps_of_second && missing > (1.0 - HARDLY_ANY) * expected;
        let is_stall = missing > DEVIATIONS * expected.sqrt() && missing > MISSED_SECONDS * a_second;
        (is_stall && (is_stop || !low.is_usual)).then(|| StallSpan {
            steps: low.begin..low.end,
            usual: low.usual,
            least: rates.iter().copied().fold(f64::INFINITY, f64::min),
            missing,
            is_usual: low.is_usual,
        })
    }
}

pub fn find_stalls(rates: &[f64], steps_of_second: usize) -> Vec<StallSpan> {
    let mut finder = StallFinder::new(steps_of_second);
    let mut found: Vec<StallSpan> = rates.iter().filter_map(|rate| finder.add(*rate)).collect();
    found.extend(finder.finish());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flat(rate: f64, seconds: usize) -> Vec<f64> {
        vec![rate; seconds]
    }

    fn spans(rates: &[f64]) -> Vec<(Range<usize>, f64)> {
        find_stalls(rates, 1).into_iter().map(|one| (one.steps, one.usual)).collect()
    }

    #[test]
    fn a_fall_that_recovers_is_a_stall_and_a_change_of_level_is_none() {
        let mut rates = flat(1000.0, 60);
        rates[20..23].fill(100.0);
        assert_eq!(spans(&rates), [(20..23, 1000.0)]);
        let warm_up: Vec<f64> = (0..60).map(|second| 50.0 * f64::from(second)).collect();
        assert!(spans(&warm_up).is_empty());
        assert!(spans(&[flat(1000.0, 40), flat(300.0, 40)].concat()).is_empty());
        assert!(spans(&[flat(1000.0, 40), flat(300.0, 10)].concat()).is_empty());
        assert_eq!(spans(&[flat(1000.0, 40), flat(0.0, 2)].concat()), [(40..42, 1000.0)]);
    }

    #[test]
    fn a_stop_before_a_lower_level_is_a_stall() {
        for seconds in [3, 10, 29, 60] {
            let rates = [flat(1000.0, 40), flat(0.0, 5), flat(400.0, seconds)].concat();
            assert_eq!(spans(&rates), [(40..45, 1000.0)], "{seconds}");
        }
        let falling = [flat(1000.0, 40), flat(400.0, 3), flat(0.0, 2), flat(400.0, 30)].concat();
        assert_eq!(spans(&falling), [(43..45, 1000.0)]);
        assert!(spans(&[flat(1000.0, 40), flat(0.0, 1), flat(400.0, 30)].concat()).is_empty());
        let recovered =
            [flat(1000.0, 40), flat(0.0, 5), flat(400.0, 40), flat(1000.0, 9), flat(0.0, 3), flat(900.0, 5)];
        assert_eq!(spans(&recovered.concat()).len(), 2);
    }

    #[test]
    fn a_slow_workload_has_slow_seconds_by_chance() {
        let mut rates = flat(10.0, 40);
        rates[20] = 2.0;
        assert!(spans(&rates).is_empty());
        rates[20..25].fill(2.0);
        assert_eq!(spans(&rates), [(20..25, 10.0)]);
    }

    #[test]
    fn a_second_that_is_better_does_not_end_it() {
        let mut rates = flat(1000.0, 60);
        rates[20..25].fill(100.0);
        rates[22] = 800.0;
        assert_eq!(spans(&rates).len(), 1);
    }

    #[test]
    fn a_long_stop_is_one_stall_and_what_comes_behind_is_judged_by_what_was_before() {
        let rates = [flat(1000.0, 40), flat(0.0, 50), flat(900.0, 10), flat(20.0, 2), flat(900.0, 5)].concat();
        assert_eq!(spans(&rates), [(40..90, 1000.0), (100..102, 1000.0)]);
    }

    #[test]
    fn steps_may_be_finer_than_a_second() {
        let mut rates = flat(250.0, 80);
        rates[40..42].fill(0.0);
        assert!(find_stalls(&rates, 4).is_empty(), "less than half a second's work is missing");
        rates[40..44].fill(0.0);
        let found = find_stalls(&rates, 4);
        assert_eq!((found.len(), found[0].steps.clone(), found[0].least, found[0].missing), (1, 40..44, 0.0, 1000.0));
        let mut finder = StallFinder::new(4);
        rates[..44].iter().for_each(|rate| assert_eq!(finder.add(*rate), None));
        assert_eq!(finder.open().unwrap().steps, 40..44);
    }

    /// A checkpoint every eleven seconds; the recording started within one.
    #[test]
    fn a_stop_that_comes_again_is_a_stall_each_time() {
        let rates: Vec<f64> = (0..44 * 4).map(|step| if step % 44 < 16 { 5.0 } else { 300.0 }).collect();
        let found = find_stalls(&rates, 4);
        let steps: Vec<_> = found.iter().map(|one| one.steps.clone()).collect();
        assert_eq!(steps, [44..60, 88..104, 132..148]);
        assert!(found[0].is_usual, "the first was never taken out of what was before");
        assert!(found.iter().all(|one| one.usual == 300.0), "{found:?}");
    }

    #[test]
    fn a_stop_in_uneven_work_is_found_and_ends() {
        let uneven = [250.0, 250.0, 100.0].repeat(20);
        let found = find_stalls(&[uneven.clone(), vec![0.0; 12], uneven.clone(), vec![0.0; 12], uneven].concat(), 4);
        let steps: Vec<_> = found.iter().map(|one| one.steps.clone()).collect();
        assert_eq!(steps, [60..72, 132..144]);
    }

    #[test]
    fn bursts_are_no_stalls() {
        let rates: Vec<f64> = (0..200).map(|step| if step % 10 < 4 { 0.0 } else { 500.0 }).collect();
        assert!(find_stalls(&rates, 4).is_empty());
    }
}
