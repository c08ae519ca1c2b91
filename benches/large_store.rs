//! A store of 10,000 trials of 1,000 seconds each: how long until `serve` has answered what a browser asks for to show the
//! studies, this study, and one of its trials? Goal: 2 seconds for each.
//!
//! `cargo bench --bench large_store`; with `--keep FILE` the store stays there, to look at it: `pgthaw serve --results FILE`.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use clap::Parser;
use command::http::Listener;
use pgthaw_lab::results::Store;
use pgthaw_lab::serve::serve;
use pgthaw_lab::study::{SweepRun, SweepTrial};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteSynchronous};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

#[path = "../tests/all/synthetic_host.rs"]
mod synthetic_host;
#[path = "../tests/all/synthetic_sweep.rs"]
mod synthetic_sweep;

use synthetic_sweep::Shape;

const GOAL: Duration = Duration::from_secs(2);

/// Seconds of the one trial that the others are copies of, with noise of their own.
const SECONDS: u32 = 1000;

const SCALES: [u32; 10] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];
const CLIENTS: [u32; 10] = [1, 2, 4, 8, 16, 24, 32, 48, 64, 96];
const BUFFERS: [&str; 10] = ["32MB", "64MB", "128MB", "256MB", "512MB", "1GB", "2GB", "4GB", "8GB", "16GB"];

#[derive(Debug, Parser)]
struct Arguments {
    /// Repeats of each of the 1,000 points
    #[arg(long, default_value_t = 10)]
    repeats: u32,
    /// Leave the store here
    #[arg(long)]
    keep: Option<PathBuf>,
    /// Exit with status 1 when a goal is missed
    #[arg(long)]
    check: bool,
    // cargo bench gives this.
    #[arg(long, hide = true)]
    bench: bool,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let directory = tempfile::tempdir()?;
    let path = arguments.keep.clone().unwrap_or_else(|| directory.path().join("large.sqlite"));
    if !path.exists() {
        let started = Instant::now();
        make_store(&path, arguments.repeats).await?;
        let bytes = path.metadata()?.len();
        println!("made {} of {:.1} GB in {:.0?}", path.display(), bytes as f64 / 1e9, started.elapsed());
    }
    let store = Store::open_existing(&path).await?;
    let id = store.read_sweeps().await?.first().context("the store is empty")?.id.clone();
    let server = Listener::bind(([127, 0, 0, 1], 0).into(), None).await?;
    let host = server.address()?.to_string();
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(serve(server, store, async {
        // Nobody sends: it ends when the sender is gone.
        let _ = ended.await;
    }));
    let mut slowest = Duration::ZERO;
    for what in ["/", "/api/studies", &format!("/api/studies/{id}"), &format!("/api/studies/{id}/trials/500/1")] {
        let started = Instant::now();
        let bytes = ask(&host, what).await?;
        slowest = slowest.max(started.elapsed());
        println!("{:>8.2?}  {bytes:>9} bytes  {what}", started.elapsed());
    }
    drop(end);
    running.await??;
    println!("the slowest took {slowest:.2?}; the goal is {GOAL:.0?}");
    ensure!(!arguments.check || slowest <= GOAL, "the goal was missed");
    Ok(())
}

/// Asks, and returns the length of the answer.
async fn ask(host: &str, path: &str) -> anyhow::Result<usize> {
    let mut stream = TcpStream::connect(host).await?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n").as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    ensure!(answer.starts_with(b"HTTP/1.0 200"), "{path} was answered by {}", String::from_utf8_lossy(&answer));
    Ok(answer.len())
}

async fn make_store(path: &Path, repeats: u32) -> anyhow::Result<()> {
    let shape = Shape { scales: &SCALES, clients: &CLIENTS, buffers: &BUFFERS, strategies: &[], repeats, seconds: 1 };
    let (run, trials) = synthetic_sweep::make(&shape);
    let one = Shape { scales: &[1], clients: &[8], buffers: &["1GB"], strategies: &[], repeats: 1, seconds: SECONDS };
    let template = synthetic_sweep::make(&one).1.swap_remove(0);
    let store = Store::open(path).await?;
    store.save_sweep(&run).await?;
    store.close().await;
    let options = SqliteConnectOptions::new().filename(path);
    // A store that is lost in a crash is made again.
    let options = options.journal_mode(SqliteJournalMode::Off).synchronous(SqliteSynchronous::Off);
    let mut connection = options.connect().await?;
    fill(&mut connection, &run, &template, &trials).await?;
    connection.close().await?;
    Ok(())
}

/// Copies the one whole trial to all places with SQL, which takes a minute instead of an hour.
async fn fill(
    connection: &mut SqliteConnection,
    run: &SweepRun,
    template: &SweepTrial,
    trials: &[SweepTrial],
) -> anyhow::Result<()> {
    let scratch = tempfile::NamedTempFile::new()?;
    let store = Store::open(scratch.path()).await?;
    store.save_sweep(run).await?;
    store.save_sweep_trial(template).await?;
    store.close().await;
    sqlx::query("ATTACH DATABASE $1 AS template").bind(scratch.path().to_str()).execute(&mut *connection).await?;
    sqlx::query("BEGIN").execute(&mut *connection).await?;
    for trial in trials {
        copy_trial(connection, trial).await?;
    }
    sqlx::query("COMMIT").execute(&mut *connection).await?;
    sqlx::query("DETACH DATABASE template").execute(connection).await?;
    Ok(())
}

/// Every table of the template's trial, with the place of this one, and its figures where they are drawn over points.
async fn copy_trial(connection: &mut SqliteConnection, trial: &SweepTrial) -> anyhow::Result<()> {
    let tables = "SELECT name FROM template.sqlite_schema WHERE type = 'table' AND name LIKE 'sweep\\_%' ESCAPE '\\'";
    let tables: Vec<String> = sqlx::query_scalar(tables).fetch_all(&mut *connection).await?;
    // Parents before children, which their order of creation is.
    for table in tables {
        let columns: Vec<String> = sqlx::query_scalar("SELECT name FROM pragma_table_info($1)")
            .bind(&table)
            .fetch_all(&mut *connection)
            .await?;
        let values: Vec<String> = columns.iter().map(|column| value_of(&table, column)).collect();
        let insert = format!(
            "INSERT INTO main.{table} ({}) SELECT {} FROM template.{table}",
            columns.join(", "),
            values.join(", ")
        );
        let query = sqlx::query(AssertSqlSafe(insert)).bind(i64::from(trial.number)).bind(i64::from(trial.repeat));
        let query = query.bind(i64::from(trial.position)).bind(serde_json::to_string(&trial.point)?);
        query.bind(trial.tps).bind(trial.worst_second_tps).execute(&mut *connection).await?;
    }
    Ok(())
}

/// What stands in a column of a copy.
fn value_of(table: &str, column: &str) -> String {
    match (table, column) {
        (_, "number") => "$1".into(),
        (_, "repeat") => "$2".into(),
        ("sweep_trials" | "sweep_outlines", "position") => "$3".into(),
        ("sweep_trials" | "sweep_outlines", "point") => "$4".into(),
        ("sweep_trials" | "sweep_outlines", "tps") => "$5".into(),
        ("sweep_trials" | "sweep_outlines", "worst_second_tps") => "$6".into(),
        // The same second is another in each trial.
        ("sweep_samples", "transactions") => "transactions + abs(random() % 400)".into(),
        ("sweep_samples", "latency_us_max") => "latency_us_max + abs(random() % 9000)".into(),
        (_, other) => other.into(),
    }
}
