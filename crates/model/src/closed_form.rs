//! Warm-up of one client in closed form (Fabien Coelho, "Postgres Warm-up", 2013; docs/model.md).

use serde::Serialize;

use super::Error;

#[derive(Clone, Debug, PartialEq)]
pub struct WarmUp {
    hit_seconds: f64,
    /// Seconds that a miss adds to a transaction; 0 or more.
    miss_seconds: f64,
    pages: Vec<f64>,
}

/// Where throughput rises most steeply.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, crate::JsonSchema)]
pub struct Knee {
    /// Number of transactions before the knee.
    pub transaction: f64,
    /// Time until the knee.
    pub seconds: f64,
    /// Cached share of the pages, 0 to 1.
    pub cached_share: f64,
    /// Transactions per second at the knee.
    pub throughput: f64,
}

#[derive(Clone, Copy, Debug, Serialize, crate::JsonSchema)]
pub struct Steepest {
    pub by_transaction: Knee,
    pub by_second: Knee,
}

const LOOKS: usize = 4000;

/// A server is warm if a smaller share of its transactions reads from the device.
pub const WARM_SHARE: f64 = 0.01;

const END: f64 = 40.0;

impl WarmUp {
    /// A transaction lasts `read_seconds` (Td) with a miss and `hit_seconds` (Tc) without.
    pub fn simple(pages: f64, read_seconds: f64, hit_seconds: f64) -> Result<WarmUp, Error> {
        WarmUp::parallel(&[pages], read_seconds, hit_seconds)
    }

    /// A transaction reads one random page of each relation in turn. With one miss, the transaction lasts
    /// `read_seconds` (Td). Each further miss adds `read_seconds` - `hit_seconds` (Td - Tc).
    pub fn parallel(pages: &[f64], read_seconds: f64, hit_seconds: f64) -> Result<WarmUp, Error> {
        Error::check_positive("the time in seconds of a transaction that reads one page", read_seconds)?;
        if read_seconds < hit_seconds {
            return Err(Error::ColdFasterThanWarm { cold_seconds: read_seconds, hit_seconds });
        }
        Error::check_positive("the time in seconds of a cached transaction", hit_seconds)?;
        if pages.is_empty() {
            return Err(Error::NoPages);
        }
        pages.iter().try_for_each(|pages| Error::check_positive("a number of pages", *pages).map(drop))?;
        Ok(WarmUp { hit_seconds, miss_seconds: read_seconds - hit_seconds, pages: pages.to_vec() })
    }

    /// Duration of transaction `i`: d(i) of Coelho's article.
    pub fn seconds_per_transaction(&self, i: f64) -> f64 {
        self.hit_seconds + self.pages.iter().map(|pages| self.miss_seconds * (-i / pages).exp()).sum::<f64>()
    }

    pub fn throughput(&self, i: f64) -> f64 {
        1.0 / self.seconds_per_transaction(i)
    }

    pub fn steady_throughput(&self) -> f64 {
        1.0 / self.hit_seconds
    }

    /// Time until transaction `i`: t(i) of Coelho's article.
    pub fn seconds_after(&self, i: f64) -> f64 {
        let misses = |pages: &f64| pages * self.miss_seconds * -(-i / pages).exp_m1();
        self.hit_seconds * i + self.pages.iter().map(misses).sum::<f64>()
    }

    pub fn transactions_after(&self, seconds: f64) -> f64 {
        find_rise(|i| self.seconds_after(i), seconds, self.greatest_pages()).unwrap_or(f64::INFINITY)
    }

    /// Cached share of the pages after `i` transactions, 0 to 1: p(i) of Coelho's article.
    pub fn cached_share(&self, i: f64) -> f64 {
        let cached: f64 = self.pages.iter().map(|pages| pages * -(-i / pages).exp_m1()).sum();
        cached / self.pages.iter().sum::<f64>()
    }

    /// Time until throughput reaches a share of its maximum. `None` for 1.
    pub fn seconds_to_share(&self, share: f64) -> Option<f64> {
        if share >= 1.0 && self.miss_seconds > 0.0 {
            return None;
        }
        let i = find_rise(|i| self.throughput(i), share * self.steady_throughput(), self.greatest_pages())?;
        Some(self.seconds_after(i))
    }

    pub fn seconds_to_warm(&self) -> f64 {
        let found = |i: f64| -> f64 { 1.0 - self.pages.iter().map(|pages| (-i / pages).exp()).sum::<f64>() };
        find_rise(found, 1.0 - WARM_SHARE, self.greatest_pages()).map_or(f64::INFINITY, |i| self.seconds_after(i))
    }

    pub fn steepest(&self) -> Steepest {
        let [by_transaction, by_second] = [(1.0, 2.0), (0.5, 3.0)].map(|(ratio, power)| {
            let transaction = self.find_steepest(ratio, power);
            Knee {
                transaction,
                seconds: self.seconds_after(transaction),
                cached_share: self.cached_share(transaction),
                throughput: self.throughput(transaction),
            }
        });
        Steepest { by_transaction, by_second }
    }

    /// Returns the i with the greatest −d′(i) ÷ d(i)^`power`. With one relation, this i solves
    /// (Td − Tc) e^(−i/P) = `ratio` · Tc; `ratio` is 1 ÷ (`power` − 1).
    fn find_steepest(&self, ratio: f64, power: f64) -> f64 {
        if let [pages] = self.pages[..] {
            return (pages * (self.miss_seconds / (ratio * self.hit_seconds)).ln()).max(0.0);
        }
        let rise = |i: f64| {
            let fall: f64 = self.pages.iter().map(|pages| self.miss_seconds / pages * (-i / pages).exp()).sum();
            fall / self.seconds_per_transaction(i).powf(power)
        };
        let step = END * self.greatest_pages() / LOOKS as f64;
        let best = (0..LOOKS).map(|look| look as f64 * step).max_by(|a, b| rise(*a).total_cmp(&rise(*b)));
        let best = best.unwrap_or(0.0);
        find_top(rise, (best - step).max(0.0), best + step)
    }

    fn greatest_pages(&self) -> f64 {
        self.pages.iter().copied().fold(0.0, f64::max)
    }
}

/// Golden-section search.
fn find_top(f: impl Fn(f64) -> f64, mut low: f64, mut high: f64) -> f64 {
    const GOLDEN: f64 = 0.618_033_988_749_895;
    for _ in 0..100 {
        let width = GOLDEN * (high - low);
        if f(high - width) >= f(low + width) { high = low + width } else { low = high - width }
    }
    f64::midpoint(low, high)
}

const HALVINGS: usize = 200;

const LARGEST: f64 = 1e300;

/// Least x ≥ 0 with `f(x) >= target` for a rising `f`. `guess`, above 0, is the scale of x.
pub fn find_rise(f: impl Fn(f64) -> f64, target: f64, guess: f64) -> Option<f64> {
    if f(0.0) >= target {
        return Some(0.0);
    }
    let (mut low, mut high) = (0.0, guess);
    while f(high) < target {
        low = high;
        high *= 2.0;
        if high > LARGEST {
            return None;
        }
    }
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if middle <= low || middle >= high {
            break;
        }
        if f(middle) >= target { high = middle } else { low = middle }
    }
    Some(high)
}

const MEGABYTE: f64 = 1_048_576.0;

/// Rows per unit of space, as in Greg Smith's pgbench slides. At scale 100, 10 million rows in 1240 MB are 8064 rows
/// per MB.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, crate::JsonSchema)]
pub struct RowDensity {
    /// Bytes of the table per row.
    pub bytes_per_row: f64,
    pub rows_per_page: f64,
    /// Rows per 2²⁰ bytes.
    pub rows_per_mb: f64,
}

impl RowDensity {
    pub fn new(rows: f64, bytes: f64, page_bytes: f64) -> Result<RowDensity, Error> {
        let rows = Error::check_positive("the number of rows", rows)?;
        let bytes_per_row = Error::check_positive("the size of a table in bytes", bytes)? / rows;
        Ok(RowDensity {
            bytes_per_row,
            rows_per_page: page_bytes / bytes_per_row,
            rows_per_mb: MEGABYTE / bytes_per_row,
        })
    }
}

/// Time to read a table.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, crate::JsonSchema)]
pub struct FillTime {
    /// Rows that random reads deliver.
    pub rows_per_second: f64,
    /// `rows` ÷ `rows_per_second`.
    pub fill_seconds: f64,
    /// Time until warm, by the model: one client reads random rows by an index.
    pub warm_after_seconds: f64,
}

impl FillTime {
    pub fn new(
        rows: f64,
        density: RowDensity,
        pages: &[f64],
        page_bytes: f64,
        reads_per_second: f64,
        hit_seconds: f64,
    ) -> Result<FillTime, Error> {
        let reads_per_second = Error::check_positive("the number of random reads per second", reads_per_second)?;
        let rows_per_second = density.rows_per_mb * reads_per_second * page_bytes / MEGABYTE;
        let curve = WarmUp::parallel(pages, hit_seconds + reads_per_second.recip(), hit_seconds)?;
        Ok(FillTime {
            rows_per_second,
            fill_seconds: rows / rows_per_second,
            warm_after_seconds: curve.seconds_to_warm(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGES: f64 = 191_360.0;
    const COLD: f64 = 4.7e-3;
    const HIT: f64 = 0.22e-3;

    fn source() -> WarmUp {
        WarmUp::simple(PAGES, COLD, HIT).unwrap()
    }

    #[test]
    fn the_knee_of_the_source_by_its_formula() {
        let knee = source().steepest().by_transaction;
        assert_eq!(knee.transaction.round(), 576_711.0);
        assert_eq!(knee.seconds.round(), 942.0);
        assert_eq!((knee.cached_share * 1000.0).round(), 951.0);
        // The article prints P ln(Td/Tc), without subtracting Tc.
        let printed = PAGES * (COLD / HIT).ln();
        assert_eq!((printed / 1000.0).round(), 586.0);
        assert_eq!((source().cached_share(printed) * 1000.0).round(), 953.0);
    }

    #[test]
    fn the_knee_by_the_second_is_where_misses_cost_half_a_hit() {
        let knee = source().steepest().by_second;
        let misses = (COLD - HIT) * (-knee.transaction / PAGES).exp();
        assert!((misses / (HIT / 2.0) - 1.0).abs() < 1e-12);
        let rise = |seconds: f64| {
            let after = |seconds| source().throughput(source().transactions_after(seconds));
            after(seconds + 0.5) - after(seconds - 0.5)
        };
        assert!(rise(knee.seconds) > rise(knee.seconds - 20.0) && rise(knee.seconds) > rise(knee.seconds + 20.0));
    }

    #[test]
    fn it_begins_cold_and_ends_warm() {
        let source = source();
        assert_eq!(source.throughput(0.0), 1.0 / COLD);
        assert!((source.throughput(1e8) * HIT - 1.0).abs() < 1e-12);
        assert_eq!((source.cached_share(0.0), source.seconds_after(0.0)), (0.0, 0.0));
    }

    #[test]
    fn time_is_the_sum_of_the_transactions() {
        let source = WarmUp::parallel(&[1640.0, 274.0], COLD, HIT).unwrap();
        let sum: f64 = (0..5000).map(|i| source.seconds_per_transaction(f64::from(i) + 0.5)).sum();
        assert!((source.seconds_after(5000.0) / sum - 1.0).abs() < 1e-6);
        assert!((source.transactions_after(sum) / 5000.0 - 1.0).abs() < 1e-6);
    }

    #[test]
    fn shares_of_the_steady_throughput_come_in_order() {
        let source = source();
        let [half, nine_tenths] = [0.5, 0.9].map(|share| source.seconds_to_share(share).unwrap());
        assert!((half - source.steepest().by_transaction.seconds).abs() < 1e-6);
        assert!(half < nine_tenths);
        assert_eq!(source.seconds_to_share(1.0), None);
        assert_eq!(source.seconds_to_share(0.01), Some(0.0));
    }

    #[test]
    fn two_components_are_the_blue_curve() {
        let both = WarmUp::parallel(&[163_968.0, 27_392.0], COLD, HIT).unwrap();
        assert_eq!(both.throughput(0.0).round(), 109.0);
        assert_eq!(source().throughput(0.0).round(), 213.0);
        let at = |curve: &WarmUp, seconds| curve.throughput(curve.transactions_after(seconds));
        assert!([60.0, 300.0, 600.0, 800.0].iter().all(|seconds| at(&both, *seconds) < at(&source(), *seconds)));
        let rise = |curve: &WarmUp| [0.5, 0.9].map(|share| curve.seconds_to_share(share).unwrap().round());
        assert_eq!((rise(&both), rise(&source())), ([930.0, 1041.0], [942.0, 1072.0]));
        let knee = both.steepest().by_transaction;
        assert!((knee.transaction / 494_000.0 - 1.0).abs() < 0.002, "{knee:?}");
        assert!((both.steepest().by_second.transaction / 608_000.0 - 1.0).abs() < 0.002);
    }

    #[test]
    fn components_are_told_apart_by_their_pages_alone() {
        let again = WarmUp::parallel(&[PAGES, PAGES], COLD, HIT).unwrap();
        let one = WarmUp::simple(PAGES, 2.0 * COLD - HIT, HIT).unwrap();
        assert!(
            (again.steepest().by_transaction.transaction / one.steepest().by_transaction.transaction - 1.0).abs()
                < 1e-6
        );
    }

    #[test]
    fn a_fast_device_has_no_knee() {
        let knee = WarmUp::simple(1000.0, 1.5e-3, 1e-3).unwrap().steepest().by_transaction;
        assert_eq!((knee.transaction, knee.seconds), (0.0, 0.0));
    }

    #[test]
    fn what_no_server_can_have_is_refused() {
        assert_eq!(WarmUp::parallel(&[], COLD, HIT), Err(Error::NoPages));
        assert!(matches!(WarmUp::simple(10.0, 0.1, 0.2), Err(Error::ColdFasterThanWarm { .. })));
        for (pages, cold, hit) in [(0.0, COLD, HIT), (f64::NAN, COLD, HIT), (1.0, f64::INFINITY, HIT), (1.0, COLD, 0.0)]
        {
            assert!(matches!(WarmUp::simple(pages, cold, hit), Err(Error::NotPositive { .. })), "{pages} {cold} {hit}");
        }
    }
}

#[cfg(test)]
mod root_tests {
    use super::*;

    #[test]
    fn finds_where_a_function_passes() {
        assert!((find_rise(|x| x * x, 2.0, 1e-3).unwrap() - 2.0_f64.sqrt()).abs() < 1e-12);
        assert_eq!(find_rise(|x| x + 5.0, 5.0, 1.0), Some(0.0));
        assert_eq!(find_rise(|x| 1.0 - (-x).exp(), 2.0, 1.0), None);
    }
}

#[cfg(test)]
mod fill_tests {
    use super::*;

    const ROWS: f64 = 10e6;
    const PAGE: f64 = 8192.0;

    fn fill(rows: f64, reads_per_second: f64) -> Result<FillTime, Error> {
        let density = RowDensity::new(ROWS, 1240.0 * MEGABYTE, PAGE)?;
        FillTime::new(rows, density, &[1240.0 * 128.0, 171.0 * 128.0], PAGE, reads_per_second, 0.238e-3)
    }

    #[test]
    fn the_row_query_and_the_fill_time_of_the_slides() {
        let density = RowDensity::new(ROWS, 1240.0 * MEGABYTE, PAGE).unwrap();
        assert_eq!((density.bytes_per_row.round(), density.rows_per_page.round()), (130.0, 63.0));
        assert_eq!(density.rows_per_mb.round(), 8065.0);
        let fill = fill(ROWS, 1.1 * 128.0).unwrap();
        assert_eq!((fill.rows_per_second.round(), fill.fill_seconds.round()), (8871.0, 1127.0));
        // The slides measured 1408 s.
        assert!((1300.0..1600.0).contains(&fill.warm_after_seconds), "{fill:?}");
    }

    #[test]
    fn what_no_table_can_have_is_refused() {
        assert!(RowDensity::new(0.0, 1.0, PAGE).is_err() && RowDensity::new(f64::NAN, 1.0, PAGE).is_err());
        assert!(RowDensity::new(1.0, 0.0, PAGE).is_err());
        assert!(fill(ROWS, 0.0).is_err());
    }
}
