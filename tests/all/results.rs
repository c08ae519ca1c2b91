//! The results store, and `pgthaw results`.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use pgthaw_lab::results::{Error, NEWEST, Store};
use pgthaw_lab::study::{SweepRun, SweepTrial};
use pgthaw_lab::verdict::{Metric, compute_outline_summary, outline_trials};
use tokio::runtime::Runtime;

use crate::servers::Home;
use crate::synthetic_run;
use crate::synthetic_sweep::{self, Shape};

pub fn wait<T>(work: impl Future<Output = T>) -> T {
    Runtime::new().unwrap().block_on(work)
}

fn file(home: &Home) -> PathBuf {
    home.path().join("state/pgthaw/results.sqlite")
}

pub fn keep(path: &Path, run: &SweepRun, trials: &[SweepTrial]) {
    wait(async {
        let store = Store::open(path).await.unwrap();
        store.save_whole_sweep(run, trials).await.unwrap();
        store.close().await;
    });
}

fn read(path: &Path, wanted: &str) -> Result<(SweepRun, Vec<SweepTrial>), Error> {
    wait(async {
        let store = Store::open_existing(path).await?;
        let study = store.read_study(wanted).await?;
        let trials = store.read_sweep_trials(&study.id).await?;
        store.close().await;
        Ok((study, trials))
    })
}

#[test]
fn what_was_kept_comes_back_to_the_last_digit() {
    let home = Home::new();
    let (run, trials) = synthetic_run::make(2, 20);
    keep(&file(&home), &run, &trials);
    assert_eq!(read(&file(&home), NEWEST).unwrap(), (run, trials));
}

#[test]
fn a_killed_run_keeps_the_trials_that_ended() {
    let home = Home::new();
    let (mut run, trials) = synthetic_run::make(1, 20);
    run.ended_at = None;
    let ended = trials[..1].to_vec();
    wait(async {
        let store = Store::open(&file(&home)).await.unwrap();
        store.save_whole_sweep(&run, &ended).await.unwrap();
        // Neither finished nor closed.
        std::mem::forget(store);
    });
    let (stored, kept) = read(&file(&home), NEWEST).unwrap();
    assert_eq!((stored, kept), (run, ended));
    let list = home.pgthaw(&["results"]).ok();
    assert!(list.stdout.contains("1 of 10"), "{}", list.stdout);
    let shown = home.pgthaw(&["results", "show"]).ok();
    for part in ["1 of 10 trials", "the same `pgthaw bench` command resumes the study"] {
        assert!(shown.stdout.contains(part), "{}", shown.stdout);
    }
}

#[test]
fn the_beginning_of_a_name_is_enough_when_it_is_the_only_one() {
    let home = Home::new();
    let (run, trials) = synthetic_run::make(1, 5);
    for (id, started_at) in
        [("20260101-000000-aaaa", "2026-01-01T00:00:00Z"), ("20260102-000000-bbbb", "2026-01-02T00:00:00.1Z")]
    {
        let run = SweepRun { id: id.into(), started_at: started_at.parse().unwrap(), ..run.clone() };
        let trials: Vec<SweepTrial> =
            trials.iter().map(|trial| SweepTrial { sweep_id: id.into(), ..trial.clone() }).collect();
        keep(&file(&home), &run, &trials);
    }
    assert_eq!(read(&file(&home), "20260101").unwrap().0.id, "20260101-000000-aaaa");
    assert_eq!(read(&file(&home), NEWEST).unwrap().0.id, "20260102-000000-bbbb");
    assert!(matches!(read(&file(&home), "2026010"), Err(Error::AmbiguousRun { matches, .. }) if matches.len() == 2));
    let unknown = home.pgthaw(&["results", "show", "1999"]).ends_with(2);
    assert!(unknown.stderr.contains("`pgthaw results`"), "{}", unknown.stderr);
    // A command that is printed reads where this one did.
    std::fs::copy(file(&home), home.path().join("my results")).unwrap();
    let elsewhere = home.pgthaw(&["results", "show", "1999", "--results", "my results"]).ends_with(2);
    assert!(elsewhere.stderr.contains("`pgthaw results --results 'my results'`"), "{}", elsewhere.stderr);

    home.pgthaw(&["results", "drop", "20260102"]).ok();
    let (kept, trials) = read(&file(&home), NEWEST).unwrap();
    assert_eq!((kept.id.as_str(), trials.len()), ("20260101-000000-aaaa", 10));
    home.pgthaw(&["results", "drop", "20260102"]).ends_with(2);
}

#[test]
fn readers_make_no_store() {
    let home = Home::new();
    for arguments in [&["results"][..], &["results", "show"], &["report", NEWEST]] {
        let output = home.pgthaw(arguments).ends_with(2);
        assert!(output.stderr.contains("there is no results store at"), "{}", output.stderr);
        assert!(output.stderr.contains("pgthaw bench"), "{}", output.stderr);
    }
    assert!(!file(&home).exists());
}

#[test]
fn a_new_store_may_be_opened_by_several_at_once() {
    let home = Home::new();
    let open = |path: PathBuf| {
        std::thread::spawn(move || {
            wait(async {
                let store = Store::open(&path).await.unwrap();
                assert!(store.read_sweeps().await.unwrap().is_empty());
                store.close().await;
            });
        })
    };
    let opened: Vec<_> = (0..8).map(|_| open(file(&home))).collect();
    opened.into_iter().for_each(|one| one.join().unwrap());
}

#[test]
fn an_empty_store_says_so() {
    let home = Home::new();
    wait(async { Store::open(&file(&home)).await.unwrap().close().await });
    assert!(home.pgthaw(&["results"]).ok().stderr.contains("holds no run yet"));
    assert!(home.pgthaw(&["results", "show"]).ends_with(2).stderr.contains("holds no run yet"));
    assert_eq!(home.pgthaw(&["results", "--json"]).ok().json()["studies"], serde_json::json!([]));
}

#[test]
fn a_file_that_is_no_store_is_refused_and_left_alone() {
    let home = Home::new();
    let letters = home.path().join("letters.txt");
    std::fs::write(&letters, "Dear diary, today the cache was cold again. ".repeat(50)).unwrap();
    let other = home.path().join("other.sqlite");
    sqlite(&other, "CREATE TABLE somebody_elses (thing TEXT)");
    for path in [&letters, &other] {
        let before = std::fs::read(path).unwrap();
        let output = home.pgthaw(&["results", "--results", path.to_str().unwrap()]).ends_with(2);
        assert!(output.stderr.contains("is not a results store of pgthaw"), "{}", output.stderr);
        assert!(matches!(wait(Store::open(path)), Err(Error::Foreign(_))));
        assert_eq!(std::fs::read(path).unwrap(), before);
    }
}

#[test]
fn a_damaged_store_is_told() {
    let home = Home::new();
    let (run, trials) = synthetic_run::make(1, 20);
    keep(&file(&home), &run, &trials);
    let mut bytes = std::fs::read(file(&home)).unwrap();
    let end = bytes.len();
    bytes[4096..end].fill(0xa5);
    std::fs::write(file(&home), bytes).unwrap();
    let output = home.pgthaw(&["results", "show"]).ends_with(1);
    assert!(output.stderr.contains("is damaged"), "{}", output.stderr);

    std::fs::remove_file(file(&home)).unwrap();
    keep(&file(&home), &run, &trials);
    sqlite(&file(&home), "UPDATE sweeps SET machine = '{}'");
    let output = home.pgthaw(&["results", "show"]).ends_with(1);
    assert!(output.stderr.contains("is damaged"), "{}", output.stderr);
}

/// Nor does one whose name cannot be read, nor one with a damaged trial.
#[test]
fn a_damaged_study_stands_in_no_others_way() {
    let home = Home::new();
    let (run, trials) = synthetic_run::make(1, 20);
    keep(&file(&home), &run, &trials);
    let (sweep, sweep_trials) = a_sweep();
    let named = |id: &str| SweepRun { id: id.into(), ended_at: None, ..sweep.clone() };
    wait(async {
        let store = Store::open(&file(&home)).await.unwrap();
        store.save_whole_sweep(&sweep, &sweep_trials).await.unwrap();
        for id in ["damaged", "of-damaged-trials", "nameless"] {
            let of = SweepTrial { sweep_id: id.into(), ..sweep_trials[0].clone() };
            let measured = if id == "of-damaged-trials" { vec![of] } else { Vec::new() };
            store.save_whole_sweep(&named(id), &measured).await.unwrap();
        }
        store.close().await;
    });
    sqlite(&file(&home), "UPDATE sweeps SET machine = '{}', started_at = 'z' WHERE id = 'damaged'");
    sqlite(&file(&home), "UPDATE sweeps SET id = x'ff', started_at = 'y' WHERE id = 'nameless'");
    for table in ["sweep_trials", "sweep_outlines"] {
        let of_trials = format!("UPDATE {table} SET number = -1 WHERE sweep_id = 'of-damaged-trials'");
        sqlite(&file(&home), &format!("PRAGMA foreign_keys = OFF; {of_trials}"));
    }
    let unfinished = wait(async {
        let store = Store::open(&file(&home)).await.unwrap();
        store.find_unfinished_sweep("of another", &sweep.machine.hostname).await.unwrap();
        let unfinished = store.read_unfinished_sweeps().await.unwrap();
        store.close().await;
        unfinished
    });
    assert!(unfinished.contains("damaged"), "its cluster is left alone: {unfinished:?}");
    for command in [["report", &run.id], ["judge", &run.id], ["report", &sweep.id]] {
        let output = home.pgthaw(&command);
        assert!(!output.stderr.contains("damaged"), "{command:?}: {}", output.stderr);
    }
    home.pgthaw(&["results", "export", &sweep.id]).ok();
    home.pgthaw(&["results", "compare", &sweep.id, &sweep.id]).ok();

    let listed = home.pgthaw(&["results"]).ok();
    assert!(listed.stdout.contains(&run.id) && listed.stdout.contains(&sweep.id), "{}", listed.stdout);
    assert!(listed.stderr.contains("results: damaged, an unnamed study, of-damaged-trials;"), "{}", listed.stderr);
    let json = home.pgthaw(&["results", "--json"]).ok().json();
    assert_eq!(json["studies"].as_array().unwrap().len(), 2);
    assert_eq!((&json["damaged"][0]["id"], &json["damaged"][1]["id"]), (&"damaged".into(), &serde_json::Value::Null));
    assert!(json["damaged"][0]["reason"].as_str().unwrap().contains("column started_at"), "{json:#}");

    let shown = home.pgthaw(&["results", "show", "damaged"]).ends_with(1).stderr;
    assert!(shown.contains("the study damaged in") && shown.contains("results drop damaged"), "{shown}");
    for command in [&["results", "show"][..], &["report"]] {
        let told = home.pgthaw(&[command, &["of-damaged-trials"]].concat()).ends_with(1).stderr;
        assert!(
            told.contains("the study of-damaged-trials in") && !told.contains("move it away"),
            "{command:?}: {told}"
        );
    }
    home.pgthaw(&["results", "drop", "damaged"]).ok();
    assert!(!home.pgthaw(&["results"]).ok().stderr.contains("results: damaged"));
}

/// PostgreSQL keeps NaN and infinities, SQLite the latter.
#[test]
fn what_is_no_number_is_no_figure() {
    let home = Home::new();
    let (run, trials) = synthetic_run::make(1, 20);
    keep(&file(&home), &run, &trials);
    sqlite(&file(&home), "UPDATE sweep_samples SET latency_us_mean = 9e999");
    let shown = home.pgthaw(&["results", "show", "--json"]).ok().json();
    assert!(shown["trials"][0]["samples"][0]["latency_us_mean"].is_null(), "{shown:#}");
    sqlite(&file(&home), "UPDATE sweep_trials SET tps = 9e999");
    let output = home.pgthaw(&["results", "show", "--json"]).ends_with(1);
    assert!(output.stderr.contains("is damaged") && output.stderr.contains("column tps"), "{}", output.stderr);
}

/// Neither one with a migration that this pgthaw does not know, nor one whose tables another first migration made.
#[test]
fn a_store_of_another_version_is_not_touched() {
    for change in [
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
         VALUES (999, 'from the future', 1, x'00', 1)",
        "UPDATE _sqlx_migrations SET checksum = x'00'",
    ] {
        let home = Home::new();
        let (run, trials) = synthetic_run::make(1, 5);
        keep(&file(&home), &run, &trials);
        sqlite(&file(&home), change);
        let before = std::fs::read(file(&home)).unwrap();
        let output = home.pgthaw(&["results"]).ends_with(1);
        for part in ["has tables of another version of pgthaw", "the version of pgthaw that created it", "--results"] {
            assert!(output.stderr.contains(part), "{}", output.stderr);
        }
        assert_eq!(std::fs::read(file(&home)).unwrap(), before);
    }
}

#[test]
fn a_run_that_is_being_written_can_be_listed() {
    let home = Home::new();
    let (run, trials) = synthetic_run::make(1, 5);
    wait(async {
        let writer = Store::open(&file(&home)).await.unwrap();
        writer.save_sweep(&run).await.unwrap();
        let mut readers = Vec::new();
        for trial in &trials {
            writer.save_sweep_trial(trial).await.unwrap();
            readers.push(home.command(&["results"]).stdout(Stdio::null()).spawn().unwrap());
        }
        for mut reader in readers {
            assert!(reader.wait().unwrap().success());
        }
    });
}

/// For longer than a reader waits.
#[test]
fn a_trial_is_kept_however_long_somebody_reads() {
    use sqlx::Connection as _;
    let home = Home::new();
    let (run, trials) = synthetic_run::make(1, 5);
    wait(async {
        let store = Store::open(&file(&home)).await.unwrap();
        store.save_sweep(&run).await.unwrap();
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(file(&home));
        let mut reader = sqlx::SqliteConnection::connect_with(&options).await.unwrap();
        let mut reading = reader.begin().await.unwrap();
        sqlx::query("SELECT count(*) FROM sweeps").fetch_one(&mut *reading).await.unwrap();
        let ends = async {
            tokio::time::sleep(Duration::from_secs(12)).await;
            reading.rollback().await.unwrap();
        };
        let (kept, ()) = tokio::join!(store.save_sweep_trial(&trials[0]), ends);
        kept.unwrap();
        assert_eq!(store.read_sweep_trials(&run.id).await.unwrap(), trials[..1]);
    });
}

/// Two points, each measured once.
fn a_sweep() -> (SweepRun, Vec<SweepTrial>) {
    synthetic_sweep::make(&Shape {
        scales: &[1],
        clients: &[1, 8],
        buffers: &["1GB"],
        strategies: &[],
        repeats: 1,
        seconds: 5,
    })
}

#[test]
fn a_sweep_that_was_begun_anew_is_gone_on_with_and_no_older_one() {
    let home = Home::new();
    let begun = |day: u32| SweepRun {
        id: format!("2026010{day}-000000-aaaa"),
        started_at: format!("2026-01-0{day}T00:00:00Z").parse().unwrap(),
        ended_at: None,
        ..a_sweep().0
    };
    let (old, anew) = (begun(1), begun(2));
    wait(async {
        let store = Store::open(&file(&home)).await.unwrap();
        let unfinished = async || store.find_unfinished_sweep(&anew.digest, &anew.machine.hostname).await.unwrap();
        store.save_sweep(&old).await.unwrap();
        assert_eq!(unfinished().await.as_ref(), Some(&old));
        store.save_sweep(&anew).await.unwrap();
        assert_eq!(unfinished().await.as_ref(), Some(&anew));
        store.save_sweep(&SweepRun { ended_at: Some(anew.started_at), ..anew.clone() }).await.unwrap();
        assert_eq!(unfinished().await, None);
    });
}

#[test]
fn a_whole_sweep_is_kept_or_nothing_of_it() {
    let home = Home::new();
    let (run, mut trials) = a_sweep();
    wait(async {
        let store = Store::open(&file(&home)).await.unwrap();
        // The same repetition of the same point.
        trials.push(trials[0].clone());
        store.save_whole_sweep(&run, &trials).await.unwrap_err();
        assert!(store.read_sweeps().await.unwrap().is_empty());
        trials.pop();
        store.save_whole_sweep(&run, &trials).await.unwrap();
        assert_eq!(store.read_sweep_trials(&run.id).await.unwrap(), trials);
    });
}

#[test]
fn points_are_shown_without_reading_every_second() {
    let home = Home::new();
    let (run, trials) = a_sweep();
    wait(async { Store::open(&file(&home)).await.unwrap().save_whole_sweep(&run, &trials).await.unwrap() });
    let json = home.pgthaw(&["results", "show", "--json"]).ok().json();
    assert!(json["trials"] == as_printed(&trials) && json["points"][1]["number"] == 1, "{json:#}");
    // Such a second cannot be read.
    sqlite(&file(&home), "UPDATE sweep_samples SET transactions = -1");
    home.pgthaw(&["results", "show", "--json"]).ends_with(1);
    let shown = home.pgthaw(&["results", "show"]).ok().stdout;
    assert!(shown.contains("2 points"), "{shown}");
    // A sweep whose first trial has not ended.
    sqlite(&file(&home), "DELETE FROM sweep_trials");
    sqlite(&file(&home), "DELETE FROM sweep_outlines");
    assert_eq!(home.pgthaw(&["results", "show", "--json"]).ok().json()["trials"], serde_json::json!([]));
}

#[test]
fn the_table_and_json_show_the_summary_of_what_is_stored() {
    let home = Home::new();
    let (run, trials) = synthetic_run::make(3, 20);
    keep(&file(&home), &run, &trials);
    let points = compute_outline_summary(&run, &outline_trials(&trials));
    let shown = home.pgthaw(&["results", "show"]).ok().stdout;
    let tables = shown.lines().skip_while(|line| !line.starts_with("strategy"));
    let rows: Vec<&str> = tables.filter(|line| points.iter().any(|point| line.starts_with(&point.label))).collect();
    for (point, row) in points.iter().zip(&rows) {
        let warm = point.median(Metric::WarmAfter).map_or("> 20".to_owned(), |warm| format!("{warm:.1}"));
        assert!(row.starts_with(&point.label) && row.contains(&warm), "{row}: {warm}");
    }
    // Times, ratios within the rounds, the traffic and the verdicts, in the order of the table.
    assert_eq!(rows.len(), 3 * points.len() - 1, "{shown}");
    for part in ["÷ bound", "÷ nothing", "75 % interval", "lowest ÷ nothing", "floor", "served by 7.1 s", "verdicts on"]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let json = home.pgthaw(&["results", "show", "--json"]).ok().json();
    assert!(json["points"] == as_printed(&points) && json["sweep"] == as_printed(&run), "{json:#}");
    assert_eq!(json["traffic"]["warmers"].as_array().unwrap().len(), points.len() - 1);
    assert_eq!(json["trials"].as_array().unwrap().len(), trials.len());
}

#[test]
fn the_views_can_be_asked() {
    let home = Home::new();
    let (run, trials) = synthetic_run::make(1, 20);
    keep(&file(&home), &run, &trials);
    let thawed = trials.iter().find(|trial| trial.point.strategy == "pgthaw").unwrap();
    let answer = sqlite(
        &file(&home),
        "SELECT hostname, scale, disk, warm_after_seconds, round(bound_ratio, 6) FROM sweep_summary WHERE strategy = 'pgthaw'",
    );
    let figures = &thawed.warming.as_ref().unwrap().figures;
    let (warm, bound) = (figures.warm_after_seconds.unwrap(), figures.bound_seconds.unwrap());
    assert_eq!(answer, format!("lab-7|50|gp3|{warm:?}|{:?}", (warm / bound * 1e6).round() / 1e6));
    let answer = sqlite(&file(&home), "SELECT sum(transactions) FROM sweep_seconds WHERE strategy = 'pgthaw'");
    assert_eq!(answer, thawed.transactions.to_string());
    assert_eq!(sqlite(&file(&home), SHARES), shares_of(&trials));
}

/// A line for each trial of all studies, as [`shares_of`] has it.
pub const SHARES: &str = "SELECT strategy || ' ' || CAST(round(steady_tps) AS INTEGER) || coalesce(' ' || CAST(to_50_seconds AS INTEGER), '') \
                          || coalesce(' ' || CAST(to_90_seconds AS INTEGER), '') || coalesce(' ' || CAST(to_95_seconds AS INTEGER), '') \
                          FROM sweep_summary ORDER BY position";

/// The steady throughput and the times to shares of it, of each trial.
pub fn shares_of(trials: &[SweepTrial]) -> String {
    let line = |outline: &pgthaw_lab::verdict::TrialOutline| {
        let times = [Metric::To50, Metric::To90, Metric::To95].map(|metric| outline.figures.get(metric));
        let told = [outline.steady_tps].into_iter().chain(times).flatten().map(|figure| format!(" {figure:.0}"));
        outline.point.strategy.clone() + &told.collect::<String>()
    };
    outline_trials(trials).iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Through text, because a 32-bit number has fewer digits there than as a 64-bit value.
fn as_printed(value: &impl serde::Serialize) -> serde_json::Value {
    serde_json::from_str(&serde_json::to_string(value).unwrap()).unwrap()
}

/// Asks SQLite itself, as a user would. Fields are separated by `|`.
pub fn sqlite(path: &Path, sql: &str) -> String {
    use sqlx::{Column as _, Connection as _, Row as _, TypeInfo as _, ValueRef as _};
    wait(async {
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path).create_if_missing(true);
        let mut connection = sqlx::SqliteConnection::connect_with(&options).await.unwrap();
        let rows = sqlx::query(sqlx::AssertSqlSafe(sql)).fetch_all(&mut connection).await.unwrap();
        let field = |row: &sqlx::sqlite::SqliteRow, at: usize| match row.try_get_raw(at).unwrap().type_info().name() {
            "INTEGER" => row.get::<i64, _>(at).to_string(),
            "REAL" => format!("{:?}", row.get::<f64, _>(at)),
            _ => row.get::<String, _>(at),
        };
        let line = |row| {
            let row: &sqlx::sqlite::SqliteRow = row;
            row.columns().iter().map(|column| field(row, column.ordinal())).collect::<Vec<_>>().join("|")
        };
        let lines = rows.iter().map(line).collect::<Vec<_>>().join("\n");
        connection.close().await.unwrap();
        lines
    })
}
