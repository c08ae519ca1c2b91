//! A study of ways to warm one server, and what is found of it before its first trial.

use serde::{Deserialize, Serialize};
use toml::Value;

use super::axis::{Axis, check_least};
use super::point::{Axes, AxisLength};
use super::start::{LoadBegins, StartAsked};
use crate::study::record::{Disk, StudyForecast};
use crate::study::strategy::{NOTHING, Strategy};
use host::units::Bytes;

/// Words of the study file.
const WARMUP: &str = "warmup";
const FORECAST: &str = "forecast";

/// What a load reads in a day is everything.
const WANTED_SECONDS_MAX: u32 = 24 * 3600;

/// What ends a trial before its seconds are over, which are the most that it may last then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Until {
    /// The verdict over it is steady.
    Steady,
    /// What is wanted is resident. No load runs meanwhile: it is the one that made the warm state.
    Resident,
}

impl Until {
    /// The word of the study file.
    pub fn name(self) -> &'static str {
        match self {
            Until::Steady => "steady",
            Until::Resident => "resident",
        }
    }
}

/// Is it a study of ways to warm?
pub fn read_kind(kind: Option<&str>, axes: &Axes, until: Option<Until>) -> Result<bool, String> {
    match kind {
        None => Ok(false),
        Some(kind @ (WARMUP | FORECAST)) => check_warmup(kind, axes, until).map(|()| true),
        Some(other) => Err(format!("kind: {other:?} is none; write \"{WARMUP}\" or \"{FORECAST}\", or leave it out")),
    }
}

/// How the script of a study that forecasts its trial chooses rows; `None` of other studies.
pub fn read_popularity(
    popularity: Option<String>,
    kind: Option<&str>,
    axes: &Axes,
    repeats: u32,
) -> Result<Option<String>, String> {
    match kind {
        Some(FORECAST) if repeats != 1 || axes.strategy != [NOTHING] => Err(format!(
            "kind = \"{FORECAST}\" measures one cold start that nothing warms: write repeats = 1 and strategy = \"{NOTHING}\""
        )),
        Some(FORECAST) => Ok(Some(popularity.unwrap_or_else(|| "uniform".to_owned()))),
        _ if popularity.is_some() => Err(format!("popularity: it is for kind = \"{FORECAST}\" alone; remove it")),
        _ => Ok(None),
    }
}

/// What ends its trials before their seconds are over?
pub fn read_until(until: Option<&str>, axes: &Axes) -> Result<Option<Until>, String> {
    let Some(word) = until else { return Ok(None) };
    let until = [Until::Steady, Until::Resident].into_iter().find(|until| until.name() == word);
    let until = until
        .ok_or_else(|| format!("until: {word:?} is not allowed; write \"steady\" or \"resident\", or leave it out"))?;
    if !matches!(axes.length, AxisLength::Seconds(_)) {
        return Err(
            "until: give the most that a trial may last by points.seconds, and remove points.transactions or points.total_transactions".into()
        );
    }
    if axes.strategies().any(Strategy::runs_job) {
        return Err(
            "until: a trial with a job lasts its points.seconds, however soon the load is steady: remove it".into()
        );
    }
    if until == Until::Resident {
        check_resident(axes)?;
    }
    Ok(Some(until))
}

/// Without a load there is nobody who warms the server beside the warmers.
fn check_resident(axes: &Axes) -> Result<(), String> {
    let wrong = if axes.start != [StartAsked::Cold] {
        "points.start is not \"cold\"".to_owned()
    } else if let Some(name) = axes.strategy.iter().find(|name| *name == NOTHING) {
        format!("points.strategy has {name:?}, and no load runs that could warm it")
    } else if axes.rate != [None] || axes.latency_limit_ms != [None] {
        "points.rate or points.latency_limit_ms is about a load, and none runs: remove it".to_owned()
    } else {
        return Ok(());
    };
    Err(format!("until = \"resident\" measures warmers of an idle, cold server, and {wrong}"))
}

/// Hosts make a load.
pub fn check_generators(are_there: bool, until: Option<Until>) -> Result<(), String> {
    match are_there && until == Some(Until::Resident) {
        true => Err("generators: with until = \"resident\" no load runs that they could make; remove the table".into()),
        false => Ok(()),
    }
}

/// A load that begins later is told to no other host, and lasts as long as its transactions do.
pub fn check_beginnings(axes: &Axes, has_generators: bool) -> Result<(), String> {
    if axes.load_begins == [LoadBegins::AtOnce] {
        return Ok(());
    }
    let wrong = if matches!(axes.length, AxisLength::Seconds(_)) {
        "points.seconds would count from a start that no transaction has: write transactions = 1, or as many as the job has"
    } else if axes.start != [StartAsked::Cold] {
        "points.start is not \"cold\""
    } else if has_generators {
        "load generators are told beforehand when to begin: remove [generators]"
    } else {
        return Ok(());
    };
    Err(format!("points.load_begins: with \"after-warmer\" the load waits for what warms a cold server, and {wrong}"))
}

/// Is what each script reads wanted, instead of everything?
pub fn read_wanted(wanted: Option<&str>, axes: &Axes, until: Option<Until>) -> Result<bool, String> {
    match wanted {
        None => Ok(false),
        Some("script") if until == Some(Until::Resident) => {
            Err("wanted: with until = \"resident\" write wanted_seconds, how long the script reads what is wanted"
                .into())
        }
        Some("script")
            if axes.script.len() > 1 && axes.strategy.iter().any(|name| *name == Strategy::Pgfincore.name()) =>
        {
            Err("wanted: pgfincore keeps one snapshot in a database, and each script wants its own: write one script"
                .into())
        }
        Some("script") if is_script_unused(axes) => Err(
            "wanted: nothing brings back what the script reads: name a warmer in points.strategy, or start = \"restored\", or remove it".into(),
        ),
        Some("script") => Ok(true),
        Some(other) => {
            Err(format!("wanted: {other:?} is not allowed; write \"script\", or leave it out: everything is"))
        }
    }
}

fn is_script_unused(axes: &Axes) -> bool {
    !axes.strategies().any(Strategy::warms) && !axes.start.contains(&StartAsked::Restored)
}

/// How long the script runs whose reads are wanted.
pub fn read_wanted_seconds(value: &Value, until: Option<Until>) -> Result<u32, String> {
    if until != Some(Until::Resident) {
        return Err("wanted_seconds: it is for until = \"resident\" alone; remove it".into());
    }
    Axis { key: "wanted_seconds", value: Some(value) }.whole_number(WANTED_SECONDS_MAX)
}

/// Memory for all points, which then have no axis of it.
pub fn read_memory(text: Option<&str>, is_axis: bool) -> Result<Option<Bytes>, String> {
    let Some(text) = text else { return Ok(None) };
    if is_axis {
        return Err("memory and points.memory are both there: remove one of them".into());
    }
    let memory: Bytes = text
        .parse()
        .map_err(|_| format!("memory: {text:?} is no size; write one such as \"512MB\", or leave it out"))?;
    check_least("memory", memory).map(Some)
}

/// Its page shows one workload from a cold start, warmed in one way or another.
fn check_warmup(kind: &str, axes: &Axes, until: Option<Until>) -> Result<(), String> {
    let varied = axes.varied();
    let other = varied.iter().find(|axis| *axis != "strategy");
    let wrong = match other {
        Some(axis) => format!("{axis} has several values"),
        None if axes.start != [StartAsked::Cold] => "points.start is not \"cold\"".to_owned(),
        None if axes.strategies().any(Strategy::runs_job) => "points.strategy runs a job".to_owned(),
        None if until == Some(Until::Resident) => "until is \"resident\", so that no workload runs".to_owned(),
        None if axes.point(0).seconds.is_none() => "its trials end by points.transactions".to_owned(),
        None => return Ok(()),
    };
    Err(format!(
        "kind = \"{kind}\" is a study of ways to warm one cold server, and {wrong}: leave kind out, and it is a sweep"
    ))
}

/// What is found of a study of ways to warm before its first trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct WarmupFacts {
    /// As far as it is in force, or why not.
    pub disk: Disk,
    /// Of the benchmark's database, and what the page cache held of it when it was warm.
    pub database_bytes: Bytes,
    pub wanted_bytes: Bytes,
    /// Transactions per second of the warm server, without a limit; `None` when it served nothing.
    pub calibration_tps: Option<f64>,
    /// What the model says of a server that nothing warms. `None` when the device's figures are not known, or the workload
    /// is not pgbench's own.
    pub forecast: Option<StudyForecast>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::sweep::spec::tests::{assert_refused, sweep};

    #[test]
    fn a_study_of_ways_to_warm_has_one_workload_and_starts_cold() {
        assert_refused("kind = 'warmup'\n[points]\nstart = 'cold'\nscale = [1, 2]\n", &["kind", "scale has several"]);
        assert_refused("kind = 'warmup'\n", &["points.start is not \"cold\""]);
        assert_refused("kind = 'warmup'\n[points]\nstart = 'cold'\ntransactions = 5\n", &["points.transactions"]);
        assert_refused("kind = 'other'\n", &["kind", "\"warmup\""]);
        assert_refused("popularity = 'uniform'\n", &["popularity", "\"forecast\""]);
        let forecast = "kind = 'forecast'\n[points]\nstart = 'cold'\n";
        assert_refused(forecast, &["kind", "repeats = 1"]);
        assert_eq!(sweep(&format!("repeats = 1\n{forecast}")).unwrap().popularity.as_deref(), Some("uniform"));
        assert_refused("until = 'warm'\n", &["until", "\"steady\"", "\"resident\""]);
        assert_refused("until = 'steady'\n[points]\ntransactions = 5\n", &["until", "points.seconds"]);
        assert_refused("memory = 'much'\n", &["memory", "512MB"]);
        for little in ["1kB", "0", "39.9MB"] {
            assert_refused(&format!("memory = '{little}'\n"), &["memory", "too little", "40 MB"]);
            assert_refused(&format!("[points]\nmemory = ['{little}', 'none']\n"), &["points.memory", "40 MB"]);
        }
    }

    #[test]
    fn a_load_that_waits_is_a_job_from_cold() {
        let job =
            "[points]\ntransactions = 1\nstart = 'cold'\nstrategy = ['nothing', 'cat']\nload_begins = 'after-warmer'\n";
        let study = sweep(&format!("wanted = 'script'\n{job}")).unwrap();
        assert!(study.is_script_wanted && study.point(0).load_begins == LoadBegins::AfterWarmer);
        assert_eq!(study.point(0).value("load_begins").as_deref(), Some("after-warmer"));
        assert_refused(
            "[points]\nstart = 'cold'\nload_begins = 'after-warmer'\n",
            &["points.load_begins", "transactions = 1"],
        );
        assert_refused(
            "[points]\ntransactions = 1\nload_begins = 'after-warmer'\n",
            &["points.load_begins", "\"cold\""],
        );
        assert_refused("[points]\nload_begins = 'later'\n", &["points.load_begins", "at-once, after-warmer"]);
        assert_refused(
            &format!("{job}[generators]\nhosts = ['a']\naddress = '10.0.0.1'\n"),
            &["points.load_begins", "[generators]"],
        );
        assert_refused("wanted = 'all'\n", &["wanted", "\"script\""]);
        assert_refused("wanted = 'script'\n[points]\nstart = 'cold'\n", &["wanted", "points.strategy"]);
    }

    #[test]
    fn a_study_of_warmers_of_an_idle_server_has_no_load_that_warms_it() {
        let cold = "[points]\nstart = 'cold'\nstrategy = 'cat'\n";
        assert!(sweep(&format!("until = 'resident'\n{cold}")).unwrap().wanted_seconds.is_none());
        assert_refused("until = 'resident'\n", &["until", "points.start is not \"cold\""]);
        assert_refused("until = 'resident'\n[points]\nstart = 'cold'\n", &["points.strategy", "nothing"]);
        assert_refused(&format!("until = 'resident'\nkind = 'warmup'\n{cold}"), &["kind", "no workload runs"]);
        assert_refused(&format!("until = 'resident'\n{cold}rate = 500\n"), &["points.rate", "remove it"]);
        let hosts = "[generators]\nhosts = ['a']\naddress = '127.0.0.1'\n";
        assert_refused(&format!("until = 'resident'\n{cold}{hosts}"), &["generators", "no load runs"]);
        assert_refused(&format!("wanted_seconds = 3\n{cold}"), &["wanted_seconds", "until = \"resident\""]);
        assert_refused(&format!("until = 'resident'\nwanted_seconds = 0\n{cold}"), &["wanted_seconds", "86400"]);
    }
}
