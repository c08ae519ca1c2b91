//! How often each page of a class is asked for.
//!
//! Pages of like popularity share a bin, so that a class of a million pages is some hundred numbers.

use super::zipf::{Bin, permuted_zipf_bins, zipf_bins};

/// Bins of a smooth distribution over the positions of a table.
const SMOOTH_BINS: usize = 256;

/// How a class's pages are chosen.
#[derive(Clone, Debug, PartialEq)]
pub enum Popularity {
    Uniform,
    /// pgbench's `random_zipfian(1, rows, exponent)` over the rows of a table.
    Zipfian {
        exponent: f64,
        rows_per_page: f64,
        /// Are the popular rows scattered (`permute`), or do they lie side by side?
        is_permuted: bool,
    },
    /// pgbench's `random_gaussian(1, rows, parameter)`: the middle of the table.
    Gaussian {
        parameter: f64,
    },
    /// pgbench's `random_exponential(1, rows, parameter)`: its beginning.
    Exponential {
        parameter: f64,
    },
    /// A share of the pages gets a share of the accesses, such as the newest tenth 99 %.
    Hot {
        page_share: f64,
        access_share: f64,
    },
    /// Measured: numbers of pages, and how often one of them is asked for, relative to the others.
    Measured(Vec<Bin>),
}

impl Popularity {
    /// Do pages of like popularity lie anywhere, or side by side? Of what was measured it is not known.
    pub fn is_scattered(&self) -> bool {
        matches!(self, Popularity::Zipfian { is_permuted: true, .. } | Popularity::Measured(_))
    }

    /// Bins of a class of `pages`, the most popular first; all accesses together are 1.
    pub fn bins(&self, pages: f64) -> Vec<Bin> {
        let mut bins = match self {
            Popularity::Uniform => vec![Bin { pages, weight: 1.0 }],
            Popularity::Zipfian { exponent, rows_per_page, is_permuted: false } => {
                zipf_bins(pages, *rows_per_page, *exponent)
            }
            Popularity::Zipfian { exponent, rows_per_page, is_permuted: true } => {
                permuted_zipf_bins(pages, *rows_per_page, *exponent)
            }
            Popularity::Gaussian { parameter } => {
                smooth_bins(pages, |x| (-0.5 * (2.0 * parameter * (x - 0.5)).powi(2)).exp())
            }
            Popularity::Exponential { parameter } => smooth_bins(pages, |x| (-parameter * x).exp()),
            Popularity::Hot { page_share, access_share } => vec![
                Bin { pages: pages * page_share, weight: access_share / (pages * page_share) },
                Bin { pages: pages * (1.0 - page_share), weight: (1.0 - access_share) / (pages * (1.0 - page_share)) },
            ],
            Popularity::Measured(bins) => bins.clone(),
        };
        bins.retain(|bin| bin.pages > 0.0 && bin.weight >= 0.0 && bin.weight.is_finite());
        let accesses: f64 = bins.iter().map(|bin| bin.pages * bin.weight).sum();
        bins.iter_mut().for_each(|bin| bin.weight /= accesses.max(f64::MIN_POSITIVE));
        bins.sort_by(|one, other| other.weight.total_cmp(&one.weight));
        bins
    }
}

/// Equal stretches of the table, each with the density in its middle.
fn smooth_bins(pages: f64, density: impl Fn(f64) -> f64) -> Vec<Bin> {
    let bins = SMOOTH_BINS.min(pages.ceil() as usize).max(1);
    let bin = |place| Bin { pages: pages / bins as f64, weight: density((f64::from(place) + 0.5) / bins as f64) };
    (0..bins as u32).map(bin).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_pages_and_all_accesses_are_in_bins() {
        let zipfian = |is_permuted| Popularity::Zipfian { exponent: 1.07, rows_per_page: 61.0, is_permuted };
        for popularity in [
            Popularity::Uniform,
            zipfian(false),
            zipfian(true),
            Popularity::Gaussian { parameter: 5.0 },
            Popularity::Exponential { parameter: 10.0 },
            Popularity::Hot { page_share: 0.1, access_share: 0.99 },
        ] {
            for pages in [1.0, 7.0, 1e3, 1e6] {
                let bins = popularity.bins(pages);
                let total: f64 = bins.iter().map(|bin| bin.pages).sum();
                let accesses: f64 = bins.iter().map(|bin| bin.pages * bin.weight).sum();
                assert!((total / pages - 1.0).abs() < 1e-9, "{popularity:?} {pages}: {total}");
                assert!((accesses - 1.0).abs() < 1e-9, "{popularity:?} {pages}: {accesses}");
                assert!(bins.windows(2).all(|pair| pair[0].weight >= pair[1].weight) && bins.len() < 1500);
            }
        }
    }

    /// Share of the accesses that go to the most popular `share` of the pages.
    fn head(popularity: &Popularity, share: f64) -> f64 {
        let pages = 1e5;
        let mut left = share * pages;
        let mut accesses = 0.0;
        for bin in popularity.bins(pages) {
            accesses += bin.weight * bin.pages.min(left);
            left = (left - bin.pages).max(0.0);
        }
        accesses
    }

    #[test]
    fn pgbenchs_distributions_are_what_its_manual_says() {
        // random_gaussian: 67 % of the values fall into the middle 1/parameter of the range, 95 % into 2/parameter.
        let gaussian = Popularity::Gaussian { parameter: 5.0 };
        assert!((head(&gaussian, 0.2) - 0.6827).abs() < 0.01 && (head(&gaussian, 0.4) - 0.9545).abs() < 0.01);
        // random_exponential: the first value's share is (1 - e^(-parameter/n)) / (1 - e^(-parameter)).
        let exponential = Popularity::Exponential { parameter: 3.0 };
        let expected = (1.0 - (-0.3_f64).exp()) / (1.0 - (-3.0_f64).exp());
        assert!((head(&exponential, 0.1) - expected).abs() < 1e-3);
    }
}
