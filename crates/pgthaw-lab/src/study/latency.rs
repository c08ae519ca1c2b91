use std::io::Read as _;

use flate2::read::ZlibDecoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer as _, V2DeflateSerializer};
use serde::{Deserialize, Serialize};

use pgbench::{Interval, Intervals, LoggedTransaction, TransactionEnd};

#[derive(Debug)]
pub struct Latencies {
    scripts: Vec<Counted>,
    pub intervals: Intervals,
    has_rate: bool,
}

#[derive(Debug)]
struct Counted {
    name: String,
    failed: u64,
    skipped: u64,
    response: Histogram<u64>,
    service: Histogram<u64>,
}

impl Latencies {
    /// With a rate, response and service times differ.
    pub fn new(scripts: Vec<String>, has_rate: bool) -> Latencies {
        let counted = |name| {
            let (response, service) = (empty_histogram(), empty_histogram());
            Counted { name, failed: 0, skipped: 0, response, service }
        };
        Latencies { scripts: scripts.into_iter().map(counted).collect(), intervals: Intervals::new(), has_rate }
    }

    pub fn add(&mut self, one: LoggedTransaction) {
        let Some(script) = self.scripts.get_mut(one.script as usize) else { return };
        match one.ended {
            TransactionEnd::Failed => script.failed += 1,
            TransactionEnd::Skipped => script.skipped += 1,
            TransactionEnd::Answered { latency_us, lag_us } => {
                // Cannot fail, because an auto-resizing histogram accepts every latency.
                let _ = script.response.record(latency_us);
                let _ = script.service.record(latency_us.saturating_sub(lag_us));
                self.intervals.entry(one.second).or_default().merge(Interval {
                    transactions: 1,
                    latency_us_sum: latency_us as f64,
                    latency_us_squares: (latency_us as f64).powi(2),
                    latency_us_min: latency_us,
                    latency_us_max: latency_us,
                });
            }
        }
    }

    pub fn overall(&self) -> LatencyHistogram {
        let mut all = empty_histogram();
        for counted in &self.scripts {
            let _ = all.add(&counted.response);
        }
        LatencyHistogram::new(&all)
    }

    pub fn scripts(&self) -> Vec<ScriptLatency> {
        let latency = |counted: &Counted| ScriptLatency {
            script: counted.name.clone(),
            answered: counted.response.len(),
            failed: counted.failed,
            skipped: counted.skipped,
            response: LatencyHistogram::new(&counted.response),
            service: self.has_rate.then(|| LatencyHistogram::new(&counted.service)),
        };
        self.scripts.iter().map(latency).collect()
    }
}

fn empty_histogram() -> Histogram<u64> {
    Histogram::new(DIGITS).unwrap_or_else(|_| unreachable!("{DIGITS} digits are allowed"))
}

/// Limits the error to 0.1 %.
pub const DIGITS: u8 = 3;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema, crate::TS)]
pub struct ScriptLatency {
    pub script: String,
    /// Number of logged transactions.
    pub answered: u64,
    pub failed: u64,
    pub skipped: u64,
    /// Latency since the due time with a rate, otherwise since the transaction's start.
    pub response: LatencyHistogram,
    /// Latency since the transaction's start. `None` without a rate.
    pub service: Option<LatencyHistogram>,
}

/// Latencies in microseconds, as a compressed V2 HdrHistogram with three significant digits. HdrHistogram's libraries
/// in all languages can read and merge it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema, crate::TS)]
pub struct LatencyHistogram {
    pub count: u64,
    pub mean_us: f64,
    pub stddev_us: f64,
    pub p50_us: u64,
    pub p90_us: u64,
    pub p95_us: u64,
    pub p99_us: u64,
    pub p999_us: u64,
    pub max_us: u64,
    /// Percentiles with ten transactions or more beyond them.
    pub percentiles: Vec<Percentile>,
    /// Omitted in `--json`; the store has it.
    #[serde(skip)]
    pub encoded: Vec<u8>,
}

const SHARES: [f64; 5] = [0.5, 0.9, 0.95, 0.99, 0.999];

/// With fewer transactions beyond it, a percentile would depend on chance.
const BEYOND_MIN: f64 = 10.0;

const DEVIATIONS_95: f64 = 1.96;

/// A percentile with a 95 % interval from the binomial distribution. The interval assumes independent transactions.
/// Transactions of a trial are not, so percentiles of repeated trials vary more than the interval shows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema, crate::TS)]
pub struct Percentile {
    /// 0 to 1.
    pub share: f64,
    /// Latency in microseconds.
    pub us: u64,
    pub low_us: u64,
    pub high_us: u64,
}

#[derive(Debug, thiserror::Error)]
#[error("the latency histogram is unreadable: {0}")]
pub struct UnreadableHistogram(String);

impl LatencyHistogram {
    pub fn new(histogram: &Histogram<u64>) -> LatencyHistogram {
        let quantile = |share| histogram.value_at_quantile(share);
        let mut encoded = Vec::new();
        // Fails only for counts beyond 2⁶³.
        if V2DeflateSerializer::new().serialize(histogram, &mut encoded).is_err() {
            encoded.clear();
        }
        LatencyHistogram {
            count: histogram.len(),
            mean_us: histogram.mean(),
            stddev_us: histogram.stdev(),
            p50_us: quantile(0.5),
            p90_us: quantile(0.9),
            p95_us: quantile(0.95),
            p99_us: quantile(0.99),
            p999_us: quantile(0.999),
            max_us: histogram.max(),
            percentiles: SHARES.into_iter().filter_map(|share| compute_percentile(histogram, share)).collect(),
            encoded,
        }
    }

    pub fn percentile(&self, share: f64) -> Option<&Percentile> {
        self.percentiles.iter().find(|percentile| percentile.share == share)
    }

    /// # Errors
    /// For invalid or oversized data.
    pub fn decode(encoded: &[u8]) -> Result<LatencyHistogram, UnreadableHistogram> {
        let unpacked = unpack(encoded).map_err(UnreadableHistogram)?;
        let histogram: Result<Histogram<u64>, _> = Deserializer::new().deserialize(&mut &unpacked[..]);
        let histogram = histogram.map_err(|error| UnreadableHistogram(error.to_string()))?;
        let fits = i64::try_from(histogram.len()).is_ok();
        fits.then(|| LatencyHistogram::new(&histogram)).ok_or(UnreadableHistogram("its counts overflow".to_owned()))
    }
}

/// A histogram of 64-bit values with three significant digits has 112,000 counts of at most nine bytes each.
const UNPACKED_BYTES_MAX: u64 = 1 << 20;

/// The V2 format and its compressed wrapper each begin with a cookie and a length. The V2 header has five more numbers.
const COOKIE_BYTES: usize = 8;
const HEADER_BYTES: usize = 40;

/// Encoding of the smallest 64-bit number.
const LEAST_NUMBER: [u8; 9] = [0xff; 9];

/// HdrHistogram's own reader would allocate any announced size, up to 4 GB.
fn unpack(encoded: &[u8]) -> Result<Vec<u8>, String> {
    let compressed = encoded.get(COOKIE_BYTES..).ok_or("it is truncated")?;
    let mut unpacked = Vec::new();
    let mut reader = ZlibDecoder::new(compressed).take(UNPACKED_BYTES_MAX);
    reader.read_to_end(&mut unpacked).map_err(|error| error.to_string())?;
    let number = |at: usize| unpacked.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes);
    let announced = number(4).ok_or("it is truncated")? as usize;
    if unpacked.len() < HEADER_BYTES || announced > unpacked.len() - HEADER_BYTES {
        return Err(format!("its header announces {announced} more bytes, but it has only {} in all", unpacked.len()));
    }
    // HdrHistogram's reader negates the number of omitted counts, and the smallest number has no negation.
    if unpacked[HEADER_BYTES..].windows(LEAST_NUMBER.len()).any(|bytes| bytes == LEAST_NUMBER) {
        return Err("it skips more counts than possible".to_owned());
    }
    match number(12) {
        Some(digits) if digits == u32::from(DIGITS) => Ok(unpacked),
        digits => Err(format!("it has {} significant digits", digits.unwrap_or_default())),
    }
}

fn compute_percentile(histogram: &Histogram<u64>, share: f64) -> Option<Percentile> {
    let count = histogram.len() as f64;
    // Tolerates rounding errors: in floating point, 1 - 0.999 is slightly above 0.001.
    if count * (1.0 - share) < BEYOND_MIN * (1.0 - 1e-9) {
        return None;
    }
    let deviation = DEVIATIONS_95 * (share * (1.0 - share) / count).sqrt();
    Some(Percentile {
        share,
        us: histogram.value_at_quantile(share),
        low_us: histogram.value_at_quantile((share - deviation).max(0.0)),
        high_us: histogram.value_at_quantile((share + deviation).min(1.0)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn under_a_rate_waiting_belongs_to_the_response_alone() {
        let mut latencies = Latencies::new(vec!["a".into(), "b".into()], true);
        let line =
            |script, second, ended| LoggedTransaction { client: 0, number: 1, script, second, microsecond: 0, ended };
        latencies.add(line(0, 7, TransactionEnd::Answered { latency_us: 900, lag_us: 500 }));
        latencies.add(line(0, 7, TransactionEnd::Answered { latency_us: 100, lag_us: 0 }));
        latencies.add(line(1, 8, TransactionEnd::Failed));
        latencies.add(line(1, 8, TransactionEnd::Skipped));
        latencies.add(line(2, 8, TransactionEnd::Skipped));
        let scripts = latencies.scripts();
        assert_eq!((scripts[0].answered, scripts[1].answered, scripts[1].failed, scripts[1].skipped), (2, 0, 1, 1));
        assert_eq!((scripts[0].response.max_us, scripts[0].service.as_ref().unwrap().max_us), (900, 400));
        assert_eq!((latencies.overall().count, latencies.overall().max_us), (2, 900));
        assert_eq!(latencies.intervals.len(), 1);
        assert_eq!(latencies.intervals[&7].latency_us_mean(), Some(500.0));
    }

    #[test]
    fn without_a_rate_there_is_one_histogram() {
        let latencies = Latencies::new(vec!["a".into()], false);
        assert_eq!(latencies.scripts()[0].service, None);
    }
}

#[cfg(test)]
mod histogram_tests {
    use super::*;

    #[test]
    fn a_histogram_comes_back_with_its_counts() {
        let mut histogram = Histogram::new(3).unwrap();
        for latency in [100, 200, 300, 40_000] {
            histogram.record(latency).unwrap();
        }
        let kept = LatencyHistogram::new(&histogram);
        assert_eq!((kept.count, kept.p50_us, kept.max_us), (4, 200, 40_031));
        assert_eq!(LatencyHistogram::decode(&kept.encoded).unwrap(), kept);
        assert!(LatencyHistogram::decode(b"no histogram").is_err());
    }

    #[test]
    fn a_percentile_needs_ten_beyond_it_and_has_an_interval() {
        let of = |count: u64| {
            let mut histogram = Histogram::new(3).unwrap();
            (1..=count).for_each(|latency| histogram.record(latency).unwrap());
            LatencyHistogram::new(&histogram)
        };
        let shares = |count| of(count).percentiles.iter().map(|one| one.share).collect::<Vec<_>>();
        assert_eq!(shares(19), [0.0; 0]);
        assert_eq!(shares(20), [0.5]);
        assert_eq!(shares(999), [0.5, 0.9, 0.95]);
        assert_eq!(shares(10_000), SHARES);
        let p99 = *of(1000).percentile(0.99).unwrap();
        // 990 ± 1.96 × √(1000 × 0.99 × 0.01).
        assert_eq!((p99.us, p99.low_us, p99.high_us), (990, 984, 997));
    }

    fn pack(plain: &[u8]) -> Vec<u8> {
        let mut packed = vec![0x1c, 0x84, 0x93, 0x14, 0, 0, 0, 0];
        let mut writer = flate2::write::ZlibEncoder::new(&mut packed, flate2::Compression::fast());
        std::io::Write::write_all(&mut writer, plain).unwrap();
        writer.finish().unwrap();
        let bytes = packed.len() - COOKIE_BYTES;
        packed[4..8].copy_from_slice(&(bytes as u32).to_be_bytes());
        packed
    }

    fn head(announced: u32, digits: u32, max: u64) -> Vec<u8> {
        let numbers = [0x1c84_9313, announced, 0, digits];
        let numbers = numbers.iter().flat_map(|number| number.to_be_bytes());
        numbers.chain(1_u64.to_be_bytes()).chain(max.to_be_bytes()).chain(1.0_f64.to_be_bytes()).collect()
    }

    #[test]
    fn what_a_histogram_of_somebody_else_may_cost_is_bounded() {
        let refused = |plain: &[u8]| LatencyHistogram::decode(&pack(plain)).unwrap_err().to_string();
        assert!(
            refused(&[head(u32::MAX, 3, u64::MAX), vec![0; 16 << 20]].concat())
                .contains("announces 4294967295 more bytes")
        );
        assert!(refused(&head(1 << 19, 3, u64::MAX)).contains("announces 524288 more bytes, but it has only 40"));
        // Five digits need a hundred times the memory.
        assert!(refused(&head(0, 5, u64::MAX)).contains("5 significant digits"));
        assert!(refused(&[]).contains("truncated"));
        assert!(refused(&[head(9, 3, u64::MAX), LEAST_NUMBER.to_vec()].concat()).contains("skips more"));
        let widest = LatencyHistogram::decode(&pack(&head(0, 3, u64::MAX))).unwrap();
        assert_eq!(widest.count, 0);
        let mut counted = Histogram::<u64>::new(3).unwrap();
        for latency in [1, 1 << 40, u64::MAX] {
            counted.record_n(latency, 1 << 61).unwrap();
        }
        assert_eq!(LatencyHistogram::decode(&LatencyHistogram::new(&counted).encoded).unwrap().count, 3 << 61);
        counted.record_n(7, 1 << 62).unwrap();
        let more = LatencyHistogram::new(&counted);
        assert!(LatencyHistogram::decode(&more.encoded).unwrap_err().to_string().contains("counts overflow"));
    }
}
