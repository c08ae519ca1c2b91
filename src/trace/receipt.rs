//! What `run` did for a job.

use std::path::PathBuf;

use serde::Serialize;

use super::attend::Attended;
use super::decision::Decision;
use super::film::{FilmHeader, Totals};
use super::preload::Preloaded;
use super::put_back::PutBack;
use super::simulation::Way;
use crate::units::Bytes;

/// What `run` did for a job.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunReceipt {
    /// From the job's start to its end.
    pub seconds: f64,
    /// Before the job's start, to look at what is cached.
    pub prepared_seconds: f64,
    /// The film that was gone by, by its name.
    pub film: Option<String>,
    pub decision: Decision,
    /// `None` where nothing was brought.
    pub preloaded: Option<Preloaded>,
    /// The forecast held against what it came to; `None` where none was made.
    pub judged: Option<Judged>,
    /// `None` where the server does not run on this host.
    pub attended: Option<Attended>,
    /// `None` where nobody asked for it to be protected, or the server does not tell.
    pub others: Option<OthersSeen>,
    pub kept: Option<KeptFilm>,
    /// `None` where that was not asked for, or could not be done.
    pub put_back: Option<PutBack>,
    /// Another run goes on: it puts back when it ends.
    pub is_left_to_another: bool,
    pub remarks: Vec<String>,
}

impl RunReceipt {
    /// Of a job that has not begun, and for which nothing was done yet.
    pub fn new(prepared_seconds: f64, decision: Decision) -> RunReceipt {
        RunReceipt {
            seconds: 0.0,
            prepared_seconds,
            film: None,
            decision,
            preloaded: None,
            judged: None,
            attended: None,
            others: None,
            kept: None,
            put_back: None,
            is_left_to_another: false,
            remarks: Vec::new(),
        }
    }
}

/// A forecast held against what it came to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// Of the way that was taken.
    pub forecast_seconds: f64,
    /// From the job's start to its end, with what was brought before it.
    pub took_seconds: f64,
    /// How far it was off: 0.1 where it took a tenth longer than forecast, negative where it took less.
    pub error_ratio: f64,
    /// What was saved against the forecast without; `None` where nothing was brought.
    pub saved_seconds: Option<f64>,
}

impl Judged {
    /// `None` where no forecast was made, or none for the way that was taken.
    pub fn new(decision: &Decision, preloaded: Option<&Preloaded>, job_seconds: f64) -> Option<Judged> {
        let forecasts = decision.forecasts?;
        let forecast_seconds = forecasts.of(decision.way)?;
        let before = preloaded.filter(|_| decision.way == Way::SetFirst).map_or(0.0, |done| done.seconds);
        let took_seconds = job_seconds + before;
        let error_ratio = took_seconds / forecast_seconds.max(f64::MIN_POSITIVE) - 1.0;
        let saved_seconds = (decision.way != Way::Nothing).then_some(forecasts.nothing - took_seconds);
        Some(Judged { forecast_seconds, took_seconds, error_ratio, saved_seconds })
    }
}

/// What the server's clients had, by pg_stat_database of all of its databases. The job's own transactions are among it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct OthersSeen {
    /// Transactions a second just before the job; `None` where nobody was at work.
    pub before_tps: Option<f64>,
    /// The same while it ran.
    pub during_tps: f64,
}

/// The film of a job, as it was kept.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KeptFilm {
    pub path: PathBuf,
    pub totals: Totals,
    /// Bytes that came meanwhile and were not preloaded, and those that were.
    pub fetched_bytes: Bytes,
    pub preloaded_bytes: Bytes,
    pub device_reads: Option<u64>,
    pub device_bytes: Option<Bytes>,
    pub lost_events: u64,
}

impl KeptFilm {
    pub fn new(path: PathBuf, header: &FilmHeader) -> KeptFilm {
        KeptFilm {
            path,
            totals: header.totals,
            fetched_bytes: header.bytes(header.totals.fetched_blocks),
            preloaded_bytes: header.bytes(header.totals.preloaded_blocks),
            device_reads: header.device_reads,
            device_bytes: header.device_bytes,
            lost_events: header.lost_events,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Forecasts;

    #[test]
    fn a_forecast_is_judged_by_the_way_that_was_taken() {
        let forecasts =
            Forecasts { nothing: 10.0, sorted: Some(4.0), region: None, set_first: Some(5.0), windowed: None };
        let decision = |way| Decision { way, forecasts: Some(forecasts), ..Decision::nothing("") };
        let judged = Judged::new(&decision(Way::Sorted), None, 5.0).unwrap();
        assert_eq!((judged.error_ratio, judged.saved_seconds), (0.25, Some(5.0)));
        let brought = Preloaded { seconds: 3.0, ..Preloaded::default() };
        let first = Judged::new(&decision(Way::SetFirst), Some(&brought), 1.0).unwrap();
        assert_eq!((first.took_seconds, first.saved_seconds), (4.0, Some(6.0)));
        let declined = Judged::new(&decision(Way::Nothing), None, 9.0).unwrap();
        assert_eq!((declined.forecast_seconds, declined.saved_seconds), (10.0, None));
        assert_eq!(Judged::new(&Decision::nothing(""), None, 9.0), None);
    }
}
