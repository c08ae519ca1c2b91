//! What contradicts that a level is a warm server's: transactions too few to bring in the pages, or to tell a cold plateau.

use super::reason::{Flat, Reason};
use super::tail::Tail;
use crate::model::Series;

/// A transaction of a client that takes less waits for no device, or hardly: flash takes 0.1 ms for a read, and a lookup by an
/// index needs two.
const MEMORY_SECONDS: f64 = 0.15e-3;

/// So many clients share a core of a server without waiting much for each other.
const CLIENTS_OF_CORES: f64 = 4.0;

/// A start that is slow for less is that of connections, catalogs and bursts of a limiter, and no warm-up, where the number
/// of pages does not say how long one must be.
const SLOW_START_SECONDS: f64 = 10.0;

/// Pages that the hot part of a database of unknown size may have: 64 GiB of 8 kB. A hot part that does not fit into
/// memory never gets warm: its plateau is its steady state.
const MOST_PAGES: f64 = (64_u64 << 30) as f64 / 8192.0;

/// A rise that noise hides is no larger than what was seen and so many standard errors, but once in 160 times.
const HIDDEN_ERRORS: f64 = 2.5;

/// Noise that hides more, as a share of the level, leaves nothing to be said of how flat a run was.
const TOLD_RISE: f64 = 1.0;

/// Times the pages that are told, a plateau has to tell of.
const TOLD_PAGES: f64 = 1.5;

/// Share of the level by which a rise is measured: high enough to be past most of it, low enough to be seen in noise.
const RISEN_SHARE: f64 = 0.8;

/// Share of the transactions that a rise takes of the least possible form, below which it was another rise: read-ahead and
/// pages beside the table's leave so much.
pub(super) const OWN_RISE: f64 = 0.5;

/// Why the level at the end may not be a warm server's; `None` where nothing contradicts it.
pub(super) fn suspect_cold(series: &Series, tail: &Tail, pages: Option<f64>) -> Option<Reason> {
    let of_rest = pages.filter(|_| !series.facts.has_warmer).and_then(|pages| suspect_cold_rest(series, tail, pages));
    of_rest.or_else(|| if has_warmed(series, tail, pages) { None } else { suspect_cold_plateau(series, tail, pages) })
}

/// Was it slow at first for long enough to bring in what the workload chooses from? A cold server whose first seconds are slow
/// jumps to its plateau as if it had got warm.
fn has_warmed(series: &Series, tail: &Tail, pages: Option<f64>) -> bool {
    let seconds = tail.slow_until as f64 * tail.width;
    match pages {
        Some(pages) => series.transactions_until(seconds) >= pages,
        None => seconds >= SLOW_START_SECONDS,
    }
}

/// A rise that a workload makes by its own reads takes a number of transactions that follows from the pages. Of P pages that
/// are equally likely, throughput rises from a share r of the level to a share s in P ln(s ÷ r) transactions at least: where
/// the device's limit decides until the level is reached. One that took far fewer was that of a hot part of the pages, and
/// the rest is cold.
fn suspect_cold_rest(series: &Series, tail: &Tail, pages: f64) -> Option<Reason> {
    if !tail.has_warm_up || tail.slow_until as f64 * tail.width < SLOW_START_SECONDS || tail.has_leapt() {
        return None;
    }
    let risen = series.transactions_until(tail.find_risen(RISEN_SHARE) as f64 * tail.width);
    let needed = OWN_RISE * pages * (RISEN_SHARE / tail.first_share).ln();
    (risen < needed).then_some(Reason::RoseTooSoon { transactions: risen, pages })
}

/// A run that was flat from its start, or nearly so, may have been cold all the time: throughput of a cold server rises by
/// about i ÷ P in i transactions, which a large P hides. It is believed only when the largest rise that the noise can hide
/// since the slow start, if there was one, means a database that is larger than `pages`. Beside a warmer nothing is believed:
/// the device that it leaves to the workload may be the limit for as long as it reads.
fn suspect_cold_plateau(series: &Series, tail: &Tail, pages: Option<f64>) -> Option<Reason> {
    if series.facts.has_warmer {
        return Some(Reason::BesideWarmer);
    }
    if is_like_memory(series, tail) {
        return None;
    }
    let rise = &tail.rise_since_slow;
    let hidden_rise = (rise.change.max(0.0) + HIDDEN_ERRORS * rise.error).max(1e-3);
    let transactions = series.transactions() - series.transactions_until(tail.slow_until as f64 * tail.width);
    let least_pages = transactions / hidden_rise;
    // What is told is not exactly what is read, and a rise that is seen may be that of a cold server.
    let most_pages = pages.map_or(MOST_PAGES, |pages| TOLD_PAGES * pages);
    (least_pages < most_pages).then(|| match hidden_rise > TOLD_RISE {
        true => Reason::HidesARise { share: hidden_rise },
        false => Reason::AsFlat(Flat {
            pages,
            has_warm_up: tail.has_warm_up,
            transactions,
            rise_share: transactions / most_pages,
            hidden_share: hidden_rise,
        }),
    })
}

/// Is it faster than a device?
fn is_like_memory(series: &Series, tail: &Tail) -> bool {
    series.facts.clients.is_some_and(|clients| {
        let clients = f64::from(clients);
        clients / tail.level < MEMORY_SECONDS * (clients / CLIENTS_OF_CORES).max(1.0)
    })
}
