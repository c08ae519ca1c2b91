//! What `run` did for a job.

use std::path::PathBuf;

use serde::Serialize;

use super::attend::{Attended, LOOK};
use super::decision::Decision;
use super::film::{FilmHeader, Totals};
use super::preload::Preloaded;
use super::put_back::PutBack;
use super::simulation::Way;
use super::source::JobSeen;
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

/// What is to be said of the job's sessions. `counted`: those that were found while it ran, where they were looked for. `seen`: whether the
/// recorder saw server processes of it, and whom it took for its own without that. `is_kept`: its film is.
pub fn describe_sessions(counted: Option<usize>, seen: JobSeen, guessed: Vec<String>, is_kept: bool) -> Vec<String> {
    let short = LOOK.as_millis();
    let of_all = "has what all of the cluster asked for";
    let told = match (counted, seen) {
        (Some(0), JobSeen::Yes) if guessed.is_empty() => Some(format!(
            "its sessions were too short to be counted: it is looked for them each {short} ms; what they asked for is seen all the same"
        )),
        (Some(0), JobSeen::Yes) => None,
        (Some(0), _) => {
            let film =
                if is_kept && seen == JobSeen::Everybody { format!("; its film {of_all}") } else { String::new() };
            Some(format!(
                "no session of the job was seen on this server: it asks none, or another one, or through a pooler or another host (pgthaw run --application-name NAME finds sessions by their name), or by a process that has left the job's, or its sessions last less than {short} ms{film}"
            ))
        }
        (_, JobSeen::Everybody) if is_kept => Some(format!("its film {of_all}: whose each request was is not known")),
        _ => None,
    };
    told.into_iter().chain(guessed).collect()
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
    /// What was saved against the forecast without, by all that pgthaw took before the job too; `None` where nothing was brought, or the
    /// forecast is of another job.
    pub saved_seconds: Option<f64>,
}

impl Judged {
    /// `None` where no forecast was made, or none for the way that was taken. `prepared_seconds` were taken before anything was brought.
    pub fn new(
        decision: &Decision,
        preloaded: Option<&Preloaded>,
        job_seconds: f64,
        prepared_seconds: f64,
    ) -> Option<Judged> {
        let forecasts = decision.forecasts?;
        let forecast_seconds = forecasts.of(decision.way)?;
        let before = preloaded.filter(|_| decision.way == Way::SetFirst).map_or(0.0, |done| done.seconds);
        let took_seconds = job_seconds + before;
        let error_ratio = took_seconds / forecast_seconds.max(f64::MIN_POSITIVE) - 1.0;
        let saved_seconds =
            (decision.way != Way::Nothing).then_some(forecasts.nothing - took_seconds - prepared_seconds);
        Some(Judged { forecast_seconds, took_seconds, error_ratio, saved_seconds })
    }
}

/// What the server's clients had, by pg_stat_database of all of its databases. Transactions of pgthaw itself are not among it; the job's own
/// are, for the server does not count by session.
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
    fn a_job_whose_sessions_nobody_saw_is_told_so() {
        let told = |counted, seen, is_kept| describe_sessions(counted, seen, Vec::new(), is_kept).join("; ");
        for (seen, is_kept) in [(JobSeen::Unknown, true), (JobSeen::No, true), (JobSeen::Everybody, false)] {
            let told = told(Some(0), seen, is_kept);
            assert!(told.contains("no session of the job was seen") && told.ends_with("less than 25 ms"), "{told}");
            assert!(told.contains("another one") && told.contains("--application-name"), "{told}");
        }
        let of_all = "film has what all of the cluster asked for";
        assert!(told(Some(0), JobSeen::Everybody, true).ends_with(of_all));
        assert!(told(Some(1), JobSeen::Everybody, true).contains(of_all), "another asked, and it did not");
        assert!(told(Some(0), JobSeen::Yes, true).contains("too short to be counted"));
        for (counted, seen) in [(Some(1), JobSeen::Yes), (Some(1), JobSeen::No), (None, JobSeen::Unknown)] {
            assert_eq!(told(counted, seen, true), "");
        }
        let guessed = vec!["2 processes ended".to_owned()];
        assert_eq!(describe_sessions(Some(0), JobSeen::Yes, guessed.clone(), true), guessed);
    }

    #[test]
    fn a_forecast_is_judged_by_the_way_that_was_taken() {
        let forecasts =
            Forecasts { nothing: 10.0, sorted: Some(4.0), region: None, set_first: Some(5.0), windowed: None };
        let decision = |way| Decision { way, forecasts: Some(forecasts), ..Decision::nothing("") };
        let judged = Judged::new(&decision(Way::Sorted), None, 5.0, 0.0).unwrap();
        assert_eq!((judged.error_ratio, judged.saved_seconds), (0.25, Some(5.0)));
        let brought = Preloaded { seconds: 3.0, ..Preloaded::default() };
        let first = Judged::new(&decision(Way::SetFirst), Some(&brought), 1.0, 0.5).unwrap();
        assert_eq!((first.took_seconds, first.saved_seconds), (4.0, Some(5.5)));
        let declined = Judged::new(&decision(Way::Nothing), None, 9.0, 0.5).unwrap();
        assert_eq!((declined.forecast_seconds, declined.saved_seconds), (10.0, None));
        assert_eq!(Judged::new(&Decision::nothing(""), None, 9.0, 0.5), None);
    }
}
