//! From measured rates to a profile: pure.

use super::measurement::{DepthPoint, Fit, SizePoint, alone_seconds};
use crate::units::Bytes;
use crate::warm::device_profile::{DeviceProfile, READ_PRICE_SHARE_MAX};

/// Rates within this share of the best count as the best: measuring again would move them as much.
const AS_GOOD_AS_BEST: f64 = 0.9;
/// More in flight is worth it when it gains at least this.
const GAIN_MIN: f64 = 1.05;

/// What is made of small reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Small {
    pub reads_per_second: f64,
    /// The fewest in flight that reach it.
    pub depth: u32,
    /// Of one at a time.
    pub alone_seconds: f64,
}

/// Did the last two steps deeper bring nothing?
pub fn is_flat(points: &[DepthPoint]) -> bool {
    let [.., before, _, _] = points else { return false };
    points[points.len() - 2..].iter().all(|later| later.reads_per_second < before.reads_per_second * GAIN_MIN)
}

/// The best rate, and the first depth that is as good.
pub fn summarize_depths(points: &[DepthPoint]) -> Small {
    let best = choose_best(points.iter().map(|point| point.reads_per_second));
    let first_good = points.iter().find(|point| point.reads_per_second >= best * AS_GOOD_AS_BEST);
    let depth = first_good.map_or(1, |point| point.depth);
    Small { reads_per_second: best, depth, alone_seconds: alone_seconds(points) }
}

/// The median of the three best: the best alone would be the luckiest.
fn choose_best(rates: impl Iterator<Item = f64>) -> f64 {
    let mut rates: Vec<f64> = rates.collect();
    rates.sort_by(|one, other| other.total_cmp(one));
    rates.get(1.min(rates.len().saturating_sub(1))).copied().unwrap_or(0.0)
}

/// What a restore plans with. `by_size` begins with the small reads.
pub fn compute_profile(small: Small, by_size: &[SizePoint], sequential: Bytes) -> DeviceProfile {
    let at_random = Bytes(choose_best(by_size.iter().map(|point| point.bandwidth().0 as f64)) as u64);
    let bandwidth = sequential.max(at_random).max(Bytes(1));
    let is_enough = |point: &&SizePoint| {
        let read_price = 1.0 / small.reads_per_second;
        let is_fast = point.bandwidth().0 as f64 >= at_random.0 as f64 * AS_GOOD_AS_BEST;
        is_fast && read_price <= point.read_bytes.seconds_at(bandwidth) * READ_PRICE_SHARE_MAX
    };
    let largest = by_size.iter().find(is_enough).or(by_size.last()).map(|point| point.read_bytes);
    let added = DeviceProfile {
        reads_per_second: small.reads_per_second,
        bandwidth,
        largest_read: largest.unwrap_or(DeviceProfile::default().largest_read),
        depth: small.depth,
        overlap: 0.0,
        alone_seconds: small.alone_seconds,
    };
    DeviceProfile { overlap: fit_overlap(by_size, &added), ..added }
}

/// The part of the smaller price that the device works off while it does the larger one's work: the least squares of the
/// relative errors.
fn fit_overlap(points: &[SizePoint], added: &DeviceProfile) -> f64 {
    let (mut top, mut bottom) = (0.0, 0.0);
    for point in points {
        let smaller = (1.0 / added.reads_per_second).min(point.read_bytes.seconds_at(added.bandwidth));
        let (over, smaller) =
            (added.seconds(1, point.read_bytes) * point.reads_per_second - 1.0, smaller * point.reads_per_second);
        top += over * smaller;
        bottom += smaller * smaller;
    }
    if bottom > 0.0 { (top / bottom).clamp(0.0, 1.0) } else { 0.0 }
}

/// The least squares of the relative errors of `a + b × bytes` as the time of a read. The profile's own prices where the
/// points have no such fit with two positive prices.
pub fn fit_prices(points: &[SizePoint], profile: &DeviceProfile) -> Fit {
    // The time of a point is t. Minimised is Σ (a u + b v − 1)² with u = 1 ÷ t and v = bytes ÷ t.
    let (mut uu, mut uv, mut vv, mut u_sum, mut v_sum) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for point in points {
        let u = point.reads_per_second;
        let v = u * point.read_bytes.0 as f64;
        uu += u * u;
        uv += u * v;
        vv += v * v;
        u_sum += u;
        v_sum += v;
    }
    let determinant = uu * vv - uv * uv;
    let (a, b) = ((u_sum * vv - v_sum * uv) / determinant, (v_sum * uu - u_sum * uv) / determinant);
    let is_sound = [a, b].iter().all(|price| price.is_finite() && *price > 0.0);
    let (reads_per_second, bandwidth) =
        if is_sound { (1.0 / a, Bytes((1.0 / b) as u64)) } else { (profile.reads_per_second, profile.bandwidth) };
    let fitted = DeviceProfile { reads_per_second, bandwidth, overlap: 0.0, ..*profile };
    Fit { reads_per_second, bandwidth, error_ratio_max: compute_error_ratio(points, &fitted) }
}

/// How far these prices are off at most, as a ratio of the measured time.
pub fn compute_error_ratio(points: &[SizePoint], profile: &DeviceProfile) -> f64 {
    let error = |point: &SizePoint| (profile.seconds(1, point.read_bytes) * point.reads_per_second - 1.0).abs();
    points.iter().map(error).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::warm::probe::{SIZES, SMALL_READ};

    const RATE: f64 = 3000.0;
    const BANDWIDTH: Bytes = Bytes(131_072_000);

    fn depth_points(rates: &[f64]) -> Vec<DepthPoint> {
        let point = |(nth, rate): (usize, &f64)| DepthPoint {
            depth: 1 << nth,
            reads_per_second: *rate,
            latency_us_p50: 1.0,
            latency_us_p99: 1.0,
        };
        rates.iter().enumerate().map(point).collect()
    }

    /// Points of a device on which a read of so many bytes takes so long.
    fn size_points(seconds: impl Fn(u64) -> f64) -> Vec<SizePoint> {
        let point = |size: &u64| SizePoint { read_bytes: Bytes(*size), reads_per_second: 1.0 / seconds(*size) };
        [SMALL_READ].iter().chain(&SIZES).map(point).collect()
    }

    #[test]
    fn the_useful_depth_is_the_first_that_is_good() {
        let points = depth_points(&[100.0, 190.0, 370.0, 690.0, 700.0, 650.0]);
        assert!(is_flat(&points) && !is_flat(&points[..5]));
        assert_eq!(summarize_depths(&points), Small { depth: 8, reads_per_second: 690.0, alone_seconds: 1e-6 });
        assert!(!is_flat(&points[..2]));
    }

    #[test]
    fn additive_prices_are_found_again() {
        let points = size_points(|bytes| 1.0 / RATE + Bytes(bytes).seconds_at(BANDWIDTH));
        let fit = fit_prices(&points, &DeviceProfile::default());
        assert!((fit.reads_per_second - RATE).abs() < 1.0, "{fit:?}");
        let exact = DeviceProfile { reads_per_second: RATE, bandwidth: BANDWIDTH, ..DeviceProfile::default() };
        assert!(fit_overlap(&points, &exact) < 1e-6);
        assert!(fit.bandwidth.0.abs_diff(BANDWIDTH.0) < 1000 && fit.error_ratio_max < 1e-6, "{fit:?}");
    }

    #[test]
    fn a_limiter_takes_the_larger_price_and_the_fit_says_how_far_off_it_is() {
        let points = size_points(|bytes| (1.0 / RATE).max(Bytes(bytes).seconds_at(BANDWIDTH)));
        let small = Small { reads_per_second: RATE, depth: 2, alone_seconds: 1.0 / RATE };
        let profile = compute_profile(small, &points, Bytes(130_000_000));
        assert_eq!((profile.reads_per_second, profile.largest_read, profile.depth), (RATE, Bytes(256 << 10), 2));
        assert!(profile.bandwidth.0.abs_diff(BANDWIDTH.0) < 10, "{profile:?}");
        let fit = fit_prices(&points, &profile);
        let own = |overlap| compute_error_ratio(&points, &DeviceProfile { overlap, ..profile });
        let added = own(0.0);
        assert!(
            fit.error_ratio_max < added && (0.1..0.5).contains(&fit.error_ratio_max) && added > 0.6,
            "{fit:?} {added}"
        );
        assert!(profile.overlap > 0.99 && own(profile.overlap) < 0.01, "{profile:?}");
    }

    #[test]
    fn what_makes_no_sense_falls_back_on_the_profile() {
        let points = size_points(|_| 0.001);
        let profile = DeviceProfile::default();
        let fit = fit_prices(&points, &profile);
        assert!(fit.reads_per_second > 0.0 && fit.bandwidth.0 > 0, "{fit:?}");
        assert_eq!(fit_prices(&[], &profile).reads_per_second, profile.reads_per_second);
    }
}
