//! Zipfian rows, and the pages that hold them.

use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{Rng as _, SeedableRng as _};

/// Pages of like popularity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bin {
    pub pages: f64,
    /// Share of the accesses that each single page gets.
    pub weight: f64,
}

/// Neighbouring ranks of side-by-side rows share a bin when they differ by less than this factor.
const RATIO: f64 = 1.05;

/// The most popular rows that get a page of their own when rows are scattered.
const HEAD_ROWS: f64 = 1024.0;

/// Pages that stand for all others when rows are scattered, the rows of a page that are drawn, and bins made of them.
const SAMPLED_PAGES: usize = 2048;
const SAMPLED_ROWS: usize = 64;
const SAMPLED_BINS: usize = 64;

/// Terms of the generalised harmonic number that are summed one by one.
const EXACT_TERMS: u32 = 64;

/// Σ k^-s for k from 1 to `n`, n any number above 0: Euler and Maclaurin's formula behind the first terms.
fn harmonic(n: f64, s: f64) -> f64 {
    if n < 1.0 {
        return n.max(0.0);
    }
    let exact = n.min(f64::from(EXACT_TERMS)).floor();
    let sum: f64 = (1..=exact as u32).map(|k| f64::from(k).powf(-s)).sum();
    let integral = |a: f64, b: f64| {
        if (s - 1.0).abs() < 1e-12 { (b / a).ln() } else { (b.powf(1.0 - s) - a.powf(1.0 - s)) / (1.0 - s) }
    };
    // From half a term below to half a term above: the midpoint rule.
    if n > exact { sum + integral(exact + 0.5, n + 0.5) } else { sum }
}

/// Rows in the order of their popularity on the pages of a table.
pub fn zipf_bins(pages: f64, rows_per_page: f64, exponent: f64) -> Vec<Bin> {
    let accesses = |page: f64| harmonic(page * rows_per_page, exponent);
    let mut bins = Vec::new();
    let mut from = 0.0;
    while from < pages {
        let to = (from * RATIO).floor().max(from + 1.0).min(pages);
        bins.push(Bin { pages: to - from, weight: (accesses(to) - accesses(from)) / (to - from) });
        from = to;
    }
    bins
}

/// Rows anywhere: each of the most popular ones is alone on its page with rows that hardly count; of the other pages a
/// sample is filled with rows drawn evenly from the rest, and stands for all.
pub fn permuted_zipf_bins(pages: f64, rows_per_page: f64, exponent: f64) -> Vec<Bin> {
    let rows = (pages * rows_per_page).max(1.0);
    let head = HEAD_ROWS.min((pages / 4.0).floor());
    let weight = |rank: f64| rank.powf(-exponent);
    let rest_mean = (harmonic(rows, exponent) - harmonic(head, exponent)) / (rows - head).max(1.0);
    let mut bins: Vec<Bin> = (1..=head as u32)
        .map(|rank| Bin { pages: 1.0, weight: weight(f64::from(rank)) + (rows_per_page - 1.0) * rest_mean })
        .collect();
    let mut sample = sample_pages(rows_per_page, |share| weight(head + share * (rows - head)));
    sample.sort_by(|one, other| other.total_cmp(one));
    let pages_each = (pages - head) / SAMPLED_BINS as f64;
    for group in sample.chunks(SAMPLED_PAGES / SAMPLED_BINS) {
        bins.push(Bin { pages: pages_each, weight: group.iter().sum::<f64>() / group.len() as f64 });
    }
    bins
}

/// Weights of pages whose rows are drawn evenly: `weight` is that of the row at a share of all ranks. Each place on a page
/// takes its rows from all strata once, so little is left to chance.
fn sample_pages(rows_per_page: f64, weight: impl Fn(f64) -> f64) -> Vec<f64> {
    // The same forecast for the same question.
    let mut random = StdRng::seed_from_u64(0x7468_6177);
    let drawn = (rows_per_page.round() as usize).clamp(1, SAMPLED_ROWS);
    let mut pages = vec![0.0; SAMPLED_PAGES];
    let mut order: Vec<usize> = (0..SAMPLED_PAGES).collect();
    for _ in 0..drawn {
        order.shuffle(&mut random);
        for (stratum, page) in order.iter().enumerate() {
            let share = (stratum as f64 + random.random::<f64>()) / SAMPLED_PAGES as f64;
            pages[*page] += weight(share) * rows_per_page / drawn as f64;
        }
    }
    pages
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::general::Popularity;

    #[test]
    fn harmonic_numbers_are_the_sums() {
        for s in [0.5, 0.9, 1.0, 1.07, 2.0] {
            let sum: f64 = (1..=100_000_u32).map(|k| f64::from(k).powf(-s)).sum();
            assert!((harmonic(1e5, s) / sum - 1.0).abs() < 1e-5, "{s}");
        }
    }

    #[test]
    fn scattered_rows_make_the_pages_that_theory_expects() {
        // Of pages with r rows each, drawn independently, a share φ(i)^r is untouched after i accesses, where φ is the
        // mean of e^(-i q) over the rows.
        let (pages, rows_per_page, exponent) = (20_000.0, 61.0, 1.07);
        let bins = Popularity::Zipfian { exponent, rows_per_page, is_permuted: true }.bins(pages);
        let rows = (pages * rows_per_page) as u32;
        let total = harmonic(rows.into(), exponent);
        for accesses in [1e4, 1e5, 1e6] {
            let untouched: f64 = bins.iter().map(|bin| bin.pages * (-accesses * bin.weight).exp()).sum::<f64>() / pages;
            let mean = (1..=rows).map(|k| (-accesses * f64::from(k).powf(-exponent) / total).exp()).sum::<f64>();
            let expected = (mean / f64::from(rows)).powf(rows_per_page);
            assert!((untouched - expected).abs() < 0.01, "{accesses}: {untouched} {expected}");
        }
    }
}
