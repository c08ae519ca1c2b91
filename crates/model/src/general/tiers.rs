//! Caches smaller than the data: Che, Tung and Wang's approximation (2002), with two tiers as Martina, Garetto and Leonardi
//! (2014) put them behind each other.
//!
//! A cache that drops what was used least recently keeps a page for about the same time T, the characteristic time, after
//! each use, whichever page it is.

use super::Bin;
use crate::closed_form::find_rise;

/// The share of each bin's accesses that miss a tier once it is in its steady state.
#[derive(Clone, Debug, PartialEq)]
pub struct SteadyMisses {
    /// Transactions after which an unused page leaves shared_buffers; infinite where all fits.
    pub buffers_time: f64,
    /// Share of each bin's accesses that go to the device, by class as in [`super::Workload::bins`].
    pub device: Vec<Vec<f64>>,
}

/// The characteristic time of a cache of `capacity` pages, in transactions; infinite when everything that is ever used fits.
fn find_characteristic_time<'a>(bins: impl Iterator<Item = &'a Bin> + Clone, capacity: f64) -> f64 {
    let used: f64 = bins.clone().filter(|bin| bin.weight > 0.0).map(|bin| bin.pages).sum();
    if capacity >= used {
        return f64::INFINITY;
    }
    let occupied = |time: f64| bins.clone().map(|bin| bin.pages * -(-bin.weight * time).exp_m1()).sum();
    find_rise(occupied, capacity, 1.0).unwrap_or(f64::INFINITY)
}

/// e^(-rate × time), also where one is 0 and the other infinite: a page that is never used is never there.
pub fn survival(rate: f64, time: f64) -> f64 {
    if rate == 0.0 { 1.0 } else { (-rate * time).exp() }
}

/// The steady state of shared_buffers before the page cache.
pub fn compute_steady_misses(bins: &[Vec<Bin>], buffers_pages: f64, os_pages: f64) -> SteadyMisses {
    let all = bins.iter().flatten();
    let buffers_time = find_characteristic_time(all.clone(), buffers_pages);
    // The page cache is asked only for what is not in shared_buffers. Where these are not told apart, it is the only tier.
    let is_single = buffers_pages.is_infinite();
    let behind = |bin: &Bin| if is_single { bin.weight } else { bin.weight * survival(bin.weight, buffers_time) };
    let asked: Vec<Bin> = all.map(|bin| Bin { weight: behind(bin), ..*bin }).collect();
    let os_time = find_characteristic_time(asked.iter(), os_pages);
    let device = |bin: &Bin| match is_single {
        true => survival(bin.weight, os_time),
        // shared_buffers hold all that is used.
        false if buffers_time.is_infinite() => survival(bin.weight, buffers_time),
        false => {
            let beyond = (os_time - buffers_time).max(0.0);
            survival(bin.weight, buffers_time) * survival(behind(bin), beyond)
        }
    };
    let device = bins.iter().map(|bins| bins.iter().map(device).collect()).collect();
    SteadyMisses { buffers_time, device }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uniform(pages: f64) -> Vec<Vec<Bin>> {
        vec![vec![Bin { pages, weight: 1.0 / pages }]]
    }

    #[test]
    fn of_equal_pages_the_share_that_does_not_fit_is_missed() {
        let misses = compute_steady_misses(&uniform(1000.0), f64::INFINITY, 600.0);
        assert!((misses.device[0][0] - 0.4).abs() < 1e-6, "{misses:?}");
        let misses = compute_steady_misses(&uniform(1000.0), f64::INFINITY, 1000.0);
        assert_eq!(misses.device[0][0], 0.0);
    }

    #[test]
    fn shared_buffers_that_hold_everything_need_no_page_cache() {
        let misses = compute_steady_misses(&uniform(1000.0), 1000.0, 1.0);
        assert_eq!(misses.device[0][0], 0.0);
        let misses = compute_steady_misses(&uniform(1000.0), 600.0, 1.0);
        assert!((misses.device[0][0] - 0.4).abs() < 1e-2, "{misses:?}");
    }

    #[test]
    fn shared_buffers_before_the_page_cache_add_little_to_it() {
        // What is in shared_buffers was read through the page cache: of equal pages both hold their share independently.
        let misses = compute_steady_misses(&uniform(1000.0), 200.0, 600.0);
        assert!(misses.device[0][0] < 0.4 && misses.device[0][0] > 0.25, "{misses:?}");
    }
}
