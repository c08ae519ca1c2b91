//! How long a job takes with other memory: its recorded run, split into its own time and what it waited for the device, and the requests
//! that a cache of another size would miss. docs/films.md has the formula and its limits.

use serde::Serialize;

use super::general::Device;

/// The part of a run that is not the device's is not taken for less than this, 0 to 1.
const OWN_SHARE_MIN: f64 = 0.05;

/// A run that fetched less than this part of its blocks found them cached, 0 to 1: the few reads tell nothing of many.
const COLD_SHARE_MIN: f64 = 0.05;

/// The device may deliver so many times what was missed: what the kernel reads around a block comes too. Where nobody counted what was
/// fetched again, more was that.
const AROUND_MAX: f64 = 1.5;

/// Fewer blocks that came again than this part of those that were fetched are none, 0 to 1: what was read ahead of two processes, say.
const AGAIN_MIN: f64 = 0.01;

/// A device that delivered less than this part of what was fetched is not the one where all of it lies, 0 to 1.
const DELIVERED_MIN: f64 = 0.5;

/// The kernel reads ahead in pieces of this size, its default.
const READ_AHEAD_BYTES: f64 = 131_072.0;

/// A run of a job that was recorded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecordedJob {
    /// More than 0.
    pub seconds: f64,
    /// Requests of blocks, and those of them that are a block's first.
    pub requests: f64,
    pub first_requests: f64,
    /// Blocks that were not cached when they were asked for first.
    pub fetched_blocks: f64,
    /// Blocks that came though they had come before; `None` where nobody counted.
    pub fetched_again: Option<f64>,
    /// Was so much brought for the job that the run says nothing of how it fetches?
    pub is_preloaded: bool,
    /// Neighbouring blocks that were asked for together are one stretch.
    pub stretches: f64,
    /// Reads of the device meanwhile and their bytes, whoever issued them; `None` where nobody counted.
    pub device: Option<(f64, f64)>,
    pub block_bytes: f64,
}

/// Where the price of a missed block is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PriceSource {
    /// The device's reads were counted, and each block was fetched once.
    Counted,
    /// They were counted, and blocks were fetched again: that was counted too, or they are too many.
    CountedAgain,
    /// They were not counted, or the device is not the one where all of the blocks lie.
    NotCounted,
    /// The job found its blocks cached.
    Warm,
    /// They were brought for it.
    Preloaded,
    /// The device delivered more than the job can have asked for: it worked for others.
    Others,
}

/// What a job's time and its reads are made of.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct JobCosts {
    /// In which it does not wait for the device.
    pub own_seconds: f64,
    /// That it waits for a missed block, on the mean, and reads of the device and their bytes for one.
    pub miss_seconds: f64,
    pub miss_reads: f64,
    pub miss_bytes: f64,
    /// Blocks that the recorded run missed.
    pub missed_blocks: f64,
    pub source: PriceSource,
}

/// A job with so much memory, none of its blocks being cached when it begins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JobForecast {
    pub missed_requests: f64,
    pub device_reads: f64,
    pub device_bytes: f64,
    pub seconds: f64,
}

impl RecordedJob {
    /// Where the price is from, and how many blocks were missed.
    fn misses(&self) -> (PriceSource, f64) {
        self.fetched_again.map_or_else(|| self.guess_misses(), |again| self.count_misses(again))
    }

    /// The same where it was counted how many blocks came again. What the device delivered beyond that was around them, unless it did more
    /// reads than there were misses.
    fn count_misses(&self, again: f64) -> (PriceSource, f64) {
        let fetched = self.fetched_blocks;
        let missed = fetched + again.min((self.requests - self.first_requests).max(0.0));
        let (reads, bytes) = self.device.unwrap_or_default();
        let delivered = bytes / self.block_bytes;
        let source = match () {
            () if self.is_preloaded => PriceSource::Preloaded,
            () if missed < COLD_SHARE_MIN * self.first_requests => PriceSource::Warm,
            () if delivered < DELIVERED_MIN * missed => PriceSource::NotCounted,
            () if delivered > AROUND_MAX * missed && reads > missed => PriceSource::Others,
            () if again > AGAIN_MIN * fetched => PriceSource::CountedAgain,
            () => PriceSource::Counted,
        };
        (source, missed)
    }

    /// The same where nobody counted that: where the device delivered too much for what was fetched, it was fetched again.
    fn guess_misses(&self) -> (PriceSource, f64) {
        let fetched = self.fetched_blocks;
        let most = fetched + (self.requests - self.first_requests).max(0.0);
        let source = |delivered: f64| match () {
            () if self.is_preloaded => PriceSource::Preloaded,
            () if fetched < COLD_SHARE_MIN * self.first_requests => PriceSource::Warm,
            () if delivered < DELIVERED_MIN * fetched => PriceSource::NotCounted,
            () if delivered <= AROUND_MAX * fetched => PriceSource::Counted,
            () if delivered <= AROUND_MAX * most => PriceSource::CountedAgain,
            () => PriceSource::Others,
        };
        let delivered = self.device.map_or(0.0, |(_, bytes)| bytes / self.block_bytes);
        match source(delivered) {
            PriceSource::CountedAgain => (PriceSource::CountedAgain, delivered.min(most)),
            source => (source, fetched),
        }
    }
}

impl JobCosts {
    /// Splits a run by what a read takes that waits alone for the device.
    pub fn new(run: &RecordedJob, device: &Device) -> JobCosts {
        let (source, missed_blocks) = run.misses();
        let counted = run.device.filter(|_| matches!(source, PriceSource::Counted | PriceSource::CountedAgain));
        let (miss_reads, miss_bytes) = match counted {
            Some((reads, bytes)) => (reads / missed_blocks, bytes / missed_blocks),
            None => {
                let ahead = run.first_requests * run.block_bytes / READ_AHEAD_BYTES;
                let reads = run.stretches.max(ahead) / run.first_requests.max(1.0);
                // The job's reads are no more than those of all.
                let all = run.device.filter(|_| source == PriceSource::Others);
                let most = all.map_or(1.0, |(reads, _)| reads / missed_blocks);
                (reads.min(most).min(1.0), run.block_bytes)
            }
        };
        // A read within the limits takes its latency, beyond them they are all there is.
        let least = device.most_per_second(miss_reads, miss_bytes).recip();
        let miss_seconds = (miss_reads * device.latency_at(1.0)).max(least);
        let waited = missed_blocks * miss_seconds;
        let most = run.seconds * (1.0 - OWN_SHARE_MIN);
        // What was faster than the device's figures allow proves a faster device.
        let miss_seconds = if waited > most { most / missed_blocks } else { miss_seconds };
        let own_seconds = run.seconds - waited.min(most);
        JobCosts { own_seconds, miss_seconds, miss_reads, miss_bytes, missed_blocks, source }
    }

    /// The job when so many of its requests are missed.
    pub fn forecast(&self, missed_requests: f64) -> JobForecast {
        JobForecast {
            missed_requests,
            device_reads: missed_requests * self.miss_reads,
            device_bytes: missed_requests * self.miss_bytes,
            seconds: self.own_seconds + missed_requests * self.miss_seconds,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A read takes 1 ms, whatever its size.
    fn device() -> Device {
        Device::with_limits(f64::INFINITY, f64::INFINITY, 1e-3)
    }

    /// 1000 blocks, each asked for five times: single reads of 1 s, and 2 s of its own.
    fn looped() -> RecordedJob {
        RecordedJob {
            seconds: 3.0,
            requests: 5000.0,
            first_requests: 1000.0,
            fetched_blocks: 1000.0,
            fetched_again: None,
            is_preloaded: false,
            stretches: 1000.0,
            device: Some((1000.0, 1000.0 * 8192.0)),
            block_bytes: 8192.0,
        }
    }

    fn is_near(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 1e-9, "{found} is not {expected}");
    }

    #[test]
    fn a_cold_run_takes_what_it_took_and_less_memory_costs_a_read_each_time() {
        let costs = JobCosts::new(&looped(), &device());
        assert_eq!(costs.source, PriceSource::Counted);
        let enough = costs.forecast(1000.0);
        is_near(enough.seconds, 3.0);
        is_near(enough.device_reads, 1000.0);
        let little = costs.forecast(5000.0);
        is_near(little.seconds, 7.0);
        is_near(little.device_bytes, 5000.0 * 8192.0);
    }

    #[test]
    fn a_run_that_lacked_memory_gains_by_more_of_it() {
        let lacking = RecordedJob { seconds: 7.0, device: Some((5000.0, 5000.0 * 8192.0)), ..looped() };
        let costs = JobCosts::new(&lacking, &device());
        assert_eq!((costs.source, costs.missed_blocks), (PriceSource::CountedAgain, 5000.0));
        is_near(costs.own_seconds, 2.0);
        is_near(costs.forecast(1000.0).seconds, 3.0);
        is_near(costs.forecast(5000.0).seconds, 7.0);
    }

    #[test]
    fn what_was_read_around_a_block_was_not_fetched_again() {
        // For each block two: single reads of both, and nothing came twice.
        let around = RecordedJob { fetched_again: Some(2.0), device: Some((1000.0, 2000.0 * 8192.0)), ..looped() };
        let costs = JobCosts::new(&around, &device());
        assert_eq!(costs.source, PriceSource::Counted);
        let enough = costs.forecast(1000.0);
        assert!((enough.seconds / 3.0 - 1.0).abs() < 0.01 && (enough.device_reads / 1000.0 - 1.0).abs() < 0.01);
        let guessed = JobCosts::new(&RecordedJob { fetched_again: None, ..around }, &device());
        assert_eq!(guessed.source, PriceSource::CountedAgain, "nobody counted");
        let again = RecordedJob {
            seconds: 5.0,
            fetched_again: Some(2000.0),
            device: Some((3000.0, 3000.0 * 8192.0)),
            ..around
        };
        let costs = JobCosts::new(&again, &device());
        assert_eq!((costs.source, costs.missed_blocks), (PriceSource::CountedAgain, 3000.0));
        is_near(costs.forecast(3000.0).seconds, 5.0);
        is_near(costs.forecast(1000.0).seconds, 3.0);
    }

    #[test]
    fn no_more_reads_are_told_of_a_job_than_the_device_did() {
        for fetched_again in [None, Some(0.0)] {
            let beside = RecordedJob { fetched_again, requests: 1000.0, ..looped() };
            // Large reads of others: some of the job's own were larger too than its stretches tell.
            let few = RecordedJob { device: Some((700.0, 9000.0 * 8192.0)), ..beside };
            let costs = JobCosts::new(&few, &device());
            is_near(costs.forecast(1000.0).device_reads, 700.0);
            is_near(costs.forecast(1000.0).seconds, 3.0);
            let many = RecordedJob { device: Some((9000.0, 9000.0 * 8192.0)), ..beside };
            let costs = JobCosts::new(&many, &device());
            assert_eq!(costs.source, PriceSource::Others);
            is_near(costs.forecast(1000.0).device_reads, 1000.0);
        }
    }

    #[test]
    fn a_warm_run_tells_the_jobs_own_time_and_its_stretches_the_reads() {
        let warm = RecordedJob { seconds: 2.0, fetched_blocks: 0.0, device: Some((3.0, 24_576.0)), ..looped() };
        let costs = JobCosts::new(&warm, &device());
        assert_eq!((costs.source, costs.own_seconds), (PriceSource::Warm, 2.0));
        is_near(costs.forecast(1000.0).seconds, 3.0);
        // A scan is read ahead: 16 blocks of a read.
        let scan = JobCosts::new(&RecordedJob { stretches: 10.0, ..warm }, &device());
        is_near(scan.forecast(1000.0).device_reads, 62.5);
        is_near(scan.forecast(1000.0).seconds, 2.0625);
    }

    #[test]
    fn what_the_device_did_for_others_is_not_the_jobs() {
        let source = |change: &dyn Fn(&mut RecordedJob)| {
            let mut run = looped();
            change(&mut run);
            JobCosts::new(&run, &device()).source
        };
        assert_eq!(source(&|run| run.device = None), PriceSource::NotCounted);
        assert_eq!(source(&|run| run.device = Some((9.0, 9.0 * 8192.0))), PriceSource::NotCounted);
        assert_eq!(source(&|run| run.device = Some((9000.0, 9000.0 * 8192.0))), PriceSource::Others);
        assert_eq!(source(&|run| run.is_preloaded = true), PriceSource::Preloaded);
        assert_eq!(source(&|run| run.device = Some((700.0, 1400.0 * 8192.0))), PriceSource::Counted);
    }

    #[test]
    fn limits_hold_and_a_faster_run_proves_a_faster_device() {
        let slow = Device::with_limits(500.0, f64::INFINITY, 1e-3);
        is_near(JobCosts::new(&looped(), &slow).miss_seconds, 2e-3);
        let fast = JobCosts::new(&RecordedJob { seconds: 0.5, ..looped() }, &device());
        is_near(fast.own_seconds, 0.025);
        is_near(fast.forecast(1000.0).seconds, 0.5);
    }
}
