//! What is said by hand of files that say it themselves: it has to fit.

use std::fmt::Display;

use super::options::ImportOptions;
use crate::pgbench::{BUILTIN_SCRIPTS, PgbenchReport};
use crate::study::error::Error;

/// Refuses what a report says otherwise. What a script of one's own is called, and the scale of its tables, is not in a report.
pub fn check_given(options: &ImportOptions, label: &str, report: &PgbenchReport) -> Result<(), Error> {
    let is_builtin = report.script.as_deref().is_some_and(|script| BUILTIN_SCRIPTS.contains(&script));
    let scale = report.scale.filter(|_| is_builtin);
    let script = report.script.clone().filter(|_| is_builtin);
    let connect = options.connect.then_some("a connection for each transaction");
    let connects = report
        .connects
        .map(|connects| if connects { "a connection for each transaction" } else { "one for each client" });
    let contradictions = [
        contradict("clients", options.clients, report.clients),
        contradict("jobs", options.jobs, report.threads),
        contradict("scale", options.scale, scale),
        contradict("script", options.script.clone(), script),
        contradict("query-mode", options.query_mode, report.query_mode),
        contradict("seconds", options.seconds, report.seconds),
        contradict("connect", connect, connects),
    ];
    let clients = options.clients.or(report.clients);
    let jobs = options.jobs.zip(clients).filter(|(jobs, clients)| jobs > clients);
    let more_jobs = jobs.map(|(jobs, clients)| {
        format!("--jobs says {jobs}, and pgbench has no more threads than its {clients} clients")
    });
    match contradictions.into_iter().flatten().chain(more_jobs).next() {
        Some(said) => Err(refuse(label, &said)),
        None => Ok(()),
    }
}

fn contradict<T: Display + PartialEq>(option: &str, given: Option<T>, said: Option<T>) -> Option<String> {
    let (given, said) = given.zip(said).filter(|(given, said)| given != said)?;
    Some(format!("--{option} says {given}, and its report {said}"))
}

fn refuse(label: &str, said: &str) -> Error {
    Error::Unfit {
        problem: format!("{label}: {said}"),
        remedy: "leave the option out, or import by itself what it is about".to_owned(),
    }
}

/// Seconds by which a log may be longer than its run was asked to last: transactions under way are finished.
const LONGER_SECONDS: f64 = 2.0;

/// A run may have stood still at its end for so many seconds and as long as its log before. What is longer was another run.
const SILENT_SECONDS: f64 = 60.0;

/// Refuses seconds that a log contradicts which no report belongs to.
pub fn check_seconds(options: &ImportOptions, label: &str, log_seconds: Option<f64>) -> Result<(), Error> {
    let Some((seconds, log)) = options.seconds.map(f64::from).zip(log_seconds) else { return Ok(()) };
    if log > seconds + LONGER_SECONDS || seconds > 2.0 * log + SILENT_SECONDS {
        return Err(refuse(label, &format!("--seconds says {seconds}, and its log lasts {log:.1} s")));
    }
    Ok(())
}

/// So much more than the rate is no chance: pgbench draws the moments at random, and their number scatters by the root of it.
const OFF_SHARE: f64 = 0.1;
const SCATTER: f64 = 3.0;

/// Of the time by which the last transactions must have been late, what the report tells of at least.
const LAG_SHARE: f64 = 0.5;

/// Refuses a rate that was not asked for: more was due, or less, and nothing was late.
pub fn check_rate(
    options: &ImportOptions,
    label: &str,
    report: &PgbenchReport,
    due: u64,
    lasted_seconds: f64,
) -> Result<(), Error> {
    let Some(rate) = options.rate.filter(|_| due > 0 && lasted_seconds > 0.0) else { return Ok(()) };
    let due_per_second = due as f64 / lasted_seconds;
    let off = OFF_SHARE.max(SCATTER / (due as f64).sqrt());
    if due_per_second > rate * (1.0 + off) {
        let said = format!("--rate says {rate} transactions per second, and about {due_per_second:.0} were due");
        return Err(refuse(label, &said));
    }
    let behind_ms = 1000.0 * lasted_seconds * (1.0 - due_per_second / rate);
    match report.lag_ms_max {
        Some(lag_ms) if due_per_second < rate * (1.0 - off) && lag_ms < LAG_SHARE * behind_ms => {
            let said = format!(
                "--rate says {rate} transactions per second, and {due_per_second:.0} were due, of which none began more than {lag_ms:.0} ms late"
            );
            Err(refuse(label, &said))
        }
        _ => Ok(()),
    }
}
