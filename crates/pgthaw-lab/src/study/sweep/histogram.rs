//! Latencies of a trial's transactions, as they are kept.

use std::fmt;
use std::io::Read as _;

use flate2::read::ZlibDecoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer as _, V2DeflateSerializer};
use serde::{Deserialize, Serialize};

/// Digits of a latency that are kept: an error of at most one in a thousand.
pub const DIGITS: u8 = 3;

/// How long the transactions of a script took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct ScriptLatency {
    pub script: String,
    /// Answered, failed and skipped transactions in the log: of all, or of the share that was logged.
    pub answered: u64,
    pub failed: u64,
    pub skipped: u64,
    /// Under a rate from when a transaction was due, otherwise from when it began.
    pub response: LatencyHistogram,
    /// Under a rate from when it began; `None` without one, where it is the same.
    pub service: Option<LatencyHistogram>,
}

/// A histogram of latencies in microseconds with three significant digits, in HdrHistogram's own compressed form (V2
/// with zlib), which its libraries in every language read and merge.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct LatencyHistogram {
    pub count: u64,
    pub mean_us: f64,
    /// The standard deviation.
    pub stddev_us: f64,
    pub p50_us: u64,
    pub p90_us: u64,
    pub p95_us: u64,
    pub p99_us: u64,
    pub p999_us: u64,
    pub max_us: u64,
    /// Of the shares above those that enough transactions lie beyond, with what chance leaves open.
    pub percentiles: Vec<Percentile>,
    /// In `--json` its bytes are left out: the store has them.
    #[serde(skip)]
    encoded: Vec<u8>,
}

/// Shares of the transactions of which a percentile is told.
const SHARES: [f64; 5] = [0.5, 0.9, 0.95, 0.99, 0.999];

/// So many transactions must lie beyond a percentile: fewer leave it to a handful of them.
const BEYOND_MIN: f64 = 10.0;

/// Of a normal distribution 95 % lie within so many standard deviations.
const DEVIATIONS_95: f64 = 1.96;

/// A percentile with the interval that holds the true one in 95 % of cases, were the transactions independent: by the
/// binomial distribution of how many lie below. They are not, so what the trials differ by is the wider interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Percentile {
    /// 0 to 1.
    pub share: f64,
    pub us: u64,
    pub low_us: u64,
    pub high_us: u64,
}

impl fmt::Debug for LatencyHistogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LatencyHistogram").field("count", &self.count).field("p99_us", &self.p99_us).finish()
    }
}

/// A histogram that the store holds and that is none.
#[derive(Debug, thiserror::Error)]
#[error("the latencies are no histogram: {0}")]
pub struct UnreadableHistogram(String);

impl LatencyHistogram {
    pub fn new(histogram: &Histogram<u64>) -> LatencyHistogram {
        let quantile = |share| histogram.value_at_quantile(share);
        let mut encoded = Vec::new();
        // Writing to memory fails for counts beyond 2⁶³ alone.
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

    /// The percentile of this share of the transactions; `None` when too few lie beyond it.
    pub fn percentile(&self, share: f64) -> Option<&Percentile> {
        self.percentiles.iter().find(|percentile| percentile.share == share)
    }

    /// The histogram itself.
    pub fn encoded(&self) -> &[u8] {
        &self.encoded
    }

    /// Reads back what [`LatencyHistogram::new`] has encoded.
    ///
    /// # Errors
    /// When it is none, or one that takes more room or counts more than any of ours.
    pub fn decode(encoded: &[u8]) -> Result<LatencyHistogram, UnreadableHistogram> {
        let unpacked = unpack(encoded).map_err(UnreadableHistogram)?;
        let histogram: Result<Histogram<u64>, _> = Deserializer::new().deserialize(&mut &unpacked[..]);
        match histogram {
            // Its quantiles are sums of its counts.
            Ok(histogram) if i64::try_from(histogram.len()).is_err() => {
                Err(UnreadableHistogram("it counts more than there can be".to_owned()))
            }
            Ok(histogram) => Ok(LatencyHistogram::new(&histogram)),
            Err(error) => Err(UnreadableHistogram(error.to_string())),
        }
    }
}

/// A histogram of three digits over all numbers of 64 bits has 112,000 counts, each of at most nine bytes.
const UNPACKED_BYTES_MAX: u64 = 1 << 20;

/// In a V2 histogram and in the compressed form around one: what it is, and how many bytes follow. Then, in the histogram
/// alone, five more numbers.
const COOKIE_BYTES: usize = 8;
const HEADER_BYTES: usize = 40;

/// The plain form of a compressed histogram. HdrHistogram's own reader makes room for whatever size one announces, up to 4 GB.
fn unpack(encoded: &[u8]) -> Result<Vec<u8>, String> {
    let compressed = encoded.get(COOKIE_BYTES..).ok_or("it is cut short")?;
    let mut unpacked = Vec::new();
    let mut reader = ZlibDecoder::new(compressed).take(UNPACKED_BYTES_MAX);
    reader.read_to_end(&mut unpacked).map_err(|error| error.to_string())?;
    let number = |at: usize| unpacked.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes);
    let announced = number(4).ok_or("it is cut short")? as usize;
    if unpacked.len() < HEADER_BYTES || announced > unpacked.len() - HEADER_BYTES {
        return Err(format!("it announces {announced} bytes and has {}", unpacked.len()));
    }
    match number(12) {
        Some(digits) if digits == u32::from(DIGITS) => Ok(unpacked),
        digits => Err(format!("it has {} significant digits", digits.unwrap_or_default())),
    }
}

fn compute_percentile(histogram: &Histogram<u64>, share: f64) -> Option<Percentile> {
    let count = histogram.len() as f64;
    // 1 - 0.999 is a little more than a thousandth.
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

    /// The compressed form around `plain`, as HdrHistogram writes it.
    fn pack(plain: &[u8]) -> Vec<u8> {
        let mut packed = vec![0x1c, 0x84, 0x93, 0x14, 0, 0, 0, 0];
        let mut writer = flate2::write::ZlibEncoder::new(&mut packed, flate2::Compression::fast());
        std::io::Write::write_all(&mut writer, plain).unwrap();
        writer.finish().unwrap();
        let bytes = packed.len() - COOKIE_BYTES;
        packed[4..8].copy_from_slice(&(bytes as u32).to_be_bytes());
        packed
    }

    /// The head of a plain histogram that announces so many bytes and has so many digits.
    fn head(announced: u32, digits: u32, max: u64) -> Vec<u8> {
        let numbers = [0x1c84_9313, announced, 0, digits];
        let numbers = numbers.iter().flat_map(|number| number.to_be_bytes());
        numbers.chain(1_u64.to_be_bytes()).chain(max.to_be_bytes()).chain(1.0_f64.to_be_bytes()).collect()
    }

    #[test]
    fn what_a_histogram_of_somebody_else_may_cost_is_bounded() {
        let refused = |plain: &[u8]| LatencyHistogram::decode(&pack(plain)).unwrap_err().to_string();
        // Much that packs to little, and announces four gigabytes.
        assert!(
            refused(&[head(u32::MAX, 3, u64::MAX), vec![0; 16 << 20]].concat()).contains("announces 4294967295 bytes")
        );
        assert!(refused(&head(1 << 19, 3, u64::MAX)).contains("announces 524288 bytes and has 40"));
        // Five digits take a hundred times the memory of three.
        assert!(refused(&head(0, 5, u64::MAX)).contains("5 significant digits"));
        assert!(refused(&[]).contains("cut short"));
        // The largest that there can be is read.
        let widest = LatencyHistogram::decode(&pack(&head(0, 3, u64::MAX))).unwrap();
        assert_eq!(widest.count, 0);
        let mut counted = Histogram::<u64>::new(3).unwrap();
        for latency in [1, 1 << 40, u64::MAX] {
            counted.record_n(latency, 1 << 61).unwrap();
        }
        assert_eq!(LatencyHistogram::decode(&LatencyHistogram::new(&counted).encoded).unwrap().count, 3 << 61);
        counted.record_n(7, 1 << 62).unwrap();
        let more = LatencyHistogram::new(&counted);
        assert!(LatencyHistogram::decode(&more.encoded).unwrap_err().to_string().contains("counts more"));
    }
}
