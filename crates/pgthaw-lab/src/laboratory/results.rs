use std::io::{BufWriter, stdout};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::{Value, json};
use strum::VariantNames;

use super::store::{close_written, remark_damaged};
use super::{ExitStatus, OutputArguments, StoreArguments};
use crate::bench::SweepFinished;
use crate::laboratory::text::{
    render_noise, render_study_time, render_sweep_comparison, render_sweep_head, render_sweep_line, render_sweep_points,
};
use crate::report::StudyData;
use crate::results::{Error, ExportFormat, ExportTable, ListedStudy, NEWEST, Store};
use crate::study::{self, ImportOptions, Imported, Record, SweepRun, read_import};
use crate::verdict::{
    Metric, Noise, PointSummary, Selection, Side, Traffic, TrialOutline, WarmerRatio, compute_noise,
    compute_outline_summary, compute_sweep_comparison, compute_timed_points, judge_import, render_sweep_headline,
};
use host::failure::quote_argument;
use host::units::counted;
use terminal::Canvas;

/// List, show, compare, export or import stored studies
///
/// Without a command pgthaw lists the studies, newest first.
#[derive(Debug, Args)]
pub struct ResultsArguments {
    #[command(flatten)]
    store: StoreArguments,

    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show the results of each point of a run
    Show {
        /// Run, or the beginning of its name
        #[arg(default_value = NEWEST)]
        run: String,

        /// Show where the servers' time went, for each point of the study
        ///
        /// Shows the number and time of commands, the time of waits, and how many processors the server used.
        #[arg(long)]
        time: bool,
    },
    /// Compare two sides of a sweep, with confidence intervals
    ///
    /// pgthaw divides the figures of trials that were measured in the same repeat. If no sides are named, or one sweep
    /// of `bench --aa`, both sides are the same: the ratios show the noise floor of every figure, and how often noise
    /// looks like a difference.
    Compare(CompareArguments),
    /// Export results as CSV, Parquet (by the file's name) or JSON (--json)
    Export(ExportArguments),
    /// Import pgbench's logs, progress and reports
    ///
    /// Also imports directories of pgbench-tools.
    Import {
        /// pgbench's logs or output, or directories with such files
        ///
        /// Logs of `pgbench --log` contain transactions or intervals. The directories may be those of pgbench-tools.
        ///
        /// From their contents, pgthaw recognizes the logs of one run's threads, and the report that belongs to a log.
        ///
        /// KEY=VALUE adds missing facts: question, scale, clients, jobs (pgbench -j), script, query_mode (-M), seconds (-T), rate (-R),
        /// connect=true (-C), and, only as a description, start (cold, warm, restored or as-is). pgthaw rejects values that contradict a
        /// report.
        #[arg(value_name = "PATH|KEY=VALUE", required = true)]
        what: Vec<String>,
    },
    /// Delete a run with its trials
    Drop {
        /// Run, or the beginning of its name
        run: String,
    },
}

#[derive(Debug, Args)]
struct CompareArguments {
    /// First side, such as clients=8 or SWEEP:clients=8, or a SWEEP
    ///
    /// AXIS=VALUE,… selects from the newest sweep, SWEEP:AXIS=VALUE,… from another. SWEEP selects all its trials.
    a: Option<Selection>,

    /// Second side; its figures are divided by A's
    b: Option<Selection>,

    /// Figure to compare: tps, worst-second, p99, warm-after, ...
    ///
    /// docs/measures.md lists all figures. Default: tps, or resident-after for a study without a load. For the identical
    /// sides of `bench --aa`: all figures.
    ///
    /// A percentile needs at least ten slower transactions in the trial.
    #[arg(long)]
    metric: Option<Metric>,
}

#[derive(Debug, Args)]
struct ExportArguments {
    /// Runs or sweeps, or the beginnings of their names
    #[arg(default_value = NEWEST)]
    runs: Vec<String>,

    /// View to export, as in docs/queries.md
    #[arg(long, default_value = "trials")]
    rows: ExportTable,

    /// File to write, ending in csv, json or parquet [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub async fn run(arguments: ResultsArguments, output: OutputArguments) -> Result<ExitStatus> {
    if let Some(Action::Import { what }) = arguments.action {
        let store = arguments.store.open().await?;
        import(&store, &what, output).await?;
        close_written(store).await?;
        return Ok(ExitStatus::Done);
    }
    let store = arguments.store.open_existing().await?;
    match arguments.action {
        None => list(&store, output).await?,
        Some(Action::Show { run, time }) => {
            let run = store.read_study(&run).await?;
            match time {
                true => show_time(&store, &run, output).await?,
                false => show_sweep(&store, &run, None, output).await?,
            }
        }
        Some(Action::Compare(arguments)) => compare(&store, &arguments, output).await?,
        Some(Action::Export(arguments)) => export(&store, &arguments, output).await?,
        Some(Action::Drop { run }) => {
            drop_run(&store, arguments.store.place()?.open_local_copy().await?, &run, output).await?;
        }
        Some(Action::Import { .. }) => {}
    }
    store.close().await;
    Ok(ExitStatus::Done)
}

async fn list(store: &Store, output: OutputArguments) -> Result<()> {
    let (studies, damaged) = store.read_listed().await?;
    let headline = |study: &SweepRun, trials: &[TrialOutline]| {
        render_sweep_headline(&study.varied, &compute_outline_summary(study, trials))
    };
    if output.json {
        let line = |(study, trials): &ListedStudy| {
            json!({
                "id": study.id, "started_at": study.started_at, "ended_at": study.ended_at, "question": study.question,
                "points": study.points, "repeats": study.repeats, "varied": study.varied, "trials": trials.len(),
                "headline": headline(study, trials),
            })
        };
        let studies: Vec<Value> = studies.iter().map(line).collect();
        let lists = json!({ "results": store.place().to_string(), "studies": studies, "damaged": damaged });
        return Ok(terminal::print_json(&lists)?);
    }
    remark_damaged(&damaged);
    for (study, trials) in &studies {
        terminal::print_line(&render_sweep_line(study, trials.len(), &headline(study, trials)));
    }
    if studies.is_empty() && damaged.is_empty() {
        terminal::print_remark(&format!("{} holds no run yet", store.place()));
    }
    Ok(())
}

/// A study and its trials.
#[derive(Debug, Serialize, crate::JsonSchema)]
pub struct Head<'a> {
    sweep: &'a SweepRun,
    /// With `--keep`: directory of the scratch cluster or lab server.
    #[serde(skip_serializing_if = "Option::is_none")]
    kept_cluster: Option<&'a Path>,
    /// Answer to the study's question in a sentence.
    headline: &'a str,
    /// Duration of all trials, with preparation. Null if the end is unknown.
    total_seconds: Option<f64>,
    /// Sorted by number, or fastest first if only the warmer varies.
    points: &'a [PointSummary],
    ratios: &'a [WarmerRatio],
    /// Effects of warmers on the load.
    traffic: &'a Traffic,
    /// In execution order.
    #[schemars(with = "Vec<crate::study::SweepTrial>")]
    trials: [(); 0],
}

/// End of a serialized `Head`, before which trials are inserted.
const END: &str = "]\n}";

async fn show_sweep(store: &Store, run: &SweepRun, kept_cluster: Option<&Path>, output: OutputArguments) -> Result<()> {
    let (trials, served) = (store.read_sweep_outlines(&run.id).await?, store.read_served_seconds(run).await?);
    let study = StudyData::new(run.clone(), trials, Vec::new(), &served);
    if output.json {
        return print_everything(store, &study, kept_cluster).await;
    }
    terminal::print_line(&format!("{}\n", render_sweep_head(&study)));
    terminal::print_line(&render_sweep_points(&study, Canvas::of_stdout(false)));
    Ok(())
}

pub async fn show_sweeps(
    store: &Store,
    finished: &[SweepFinished],
    report: Option<&Path>,
    output: OutputArguments,
) -> Result<()> {
    let is_document = output.json && finished.len() > 1;
    for (place, one) in finished.iter().enumerate() {
        if is_document {
            terminal::print_json_part(if place == 0 { "{ \"studies\": [" } else { "," });
        }
        show_sweep(store, &one.run, one.kept.as_deref(), output).await?;
    }
    if is_document {
        let interrupted = finished.iter().any(|one| one.is_interrupted);
        let rest = json!({ "interrupted": interrupted, "report": report }).to_string();
        terminal::print_json_part(&format!("], {}", rest.trim_start_matches('{')));
    }
    Ok(())
}

/// Reads one trial at a time: a large sweep does not fit into memory.
async fn print_everything(store: &Store, study: &StudyData, kept_cluster: Option<&Path>) -> Result<()> {
    let StudyData { sweep, headline, total_seconds, points, ratios, traffic, .. } = study;
    let total_seconds = *total_seconds;
    let head = Head { sweep, kept_cluster, headline, total_seconds, points, ratios, traffic, trials: [] };
    let mut before = serde_json::to_string_pretty(&head)?.trim_end_matches(END).to_owned();
    for outline in &study.trials {
        let trial = store.read_sweep_trial(&sweep.id, outline.number, outline.repeat).await?;
        // The trial may have been dropped meanwhile.
        let Some(mut trial) = trial.filter(|_| terminal::is_output_open()) else { break };
        trial.warming.iter_mut().for_each(|warming| warming.figures.judgement.clone_from(&outline.judgement));
        let indented = serde_json::to_string_pretty(&trial)?.replace('\n', "\n    ");
        terminal::print_json_part(&before);
        before = format!("    {indented},");
    }
    let has_any = before.ends_with(',');
    let last = before.trim_end_matches(',');
    terminal::print_json_part(&if has_any { format!("{last}\n  {END}") } else { format!("{last}{END}") });
    Ok(())
}

async fn show_time(store: &Store, run: &SweepRun, output: OutputArguments) -> Result<()> {
    let trials = store.read_sweep_outlines(&run.id).await?;
    let (points, processors) = (compute_timed_points(run, &compute_outline_summary(run, &trials)), run.machine.cores);
    let time = json!({ "sweep": run.id, "processors": processors, "points": points });
    let text = || render_study_time(&points, processors, Canvas::of_stdout(false).width);
    Ok(terminal::print_answer(&time, output.json, text)?)
}

/// Compares two sides. If only one is given, compares the two identical measurements of each point of an A/A sweep
/// (`--aa`), by default in every metric.
async fn compare(store: &Store, arguments: &CompareArguments, output: OutputArguments) -> Result<()> {
    let newest = Selection::default();
    let selection = arguments.a.as_ref().unwrap_or(&newest);
    let (run_a, trials_a) = store.read_side(selection).await?;
    let width = Canvas::of_stdout(false).width;
    let Some(other) = &arguments.b else {
        if !selection.values.is_empty() {
            bail!("give both sides to compare, or only a sweep of `bench --aa`, which measured each point twice");
        }
        let metrics = arguments.metric.as_ref().map_or(Metric::ALL, std::slice::from_ref);
        let noises = metrics.iter().map(|metric| compute_noise(&run_a, &trials_a, *metric));
        let noises: Vec<Noise> = noises.collect::<Result<_, _>>()?;
        let answer = json!({ "sweep": run_a.id, "noise": noises });
        return Ok(terminal::print_answer(&answer, output.json, || render_noise(&run_a.id, &noises, width))?);
    };
    let (run_b, trials_b) = store.read_side(other).await?;
    let a = Side { selection, run: &run_a, trials: &trials_a };
    let b = Side { selection: other, run: &run_b, trials: &trials_b };
    let usual = if run_a.is_idle() { Metric::ResidentAfter } else { Metric::Tps };
    let comparison = compute_sweep_comparison(a, b, arguments.metric.unwrap_or(usual))?;
    Ok(terminal::print_answer(&comparison, output.json, || render_sweep_comparison(&comparison, width))?)
}

async fn export(store: &Store, arguments: &ExportArguments, output: OutputArguments) -> Result<()> {
    let mut ids: Vec<String> = Vec::new();
    for wanted in &arguments.runs {
        ids.push(store.read_study(wanted).await?.id);
    }
    let usual = if output.json { ExportFormat::Json } else { ExportFormat::Csv };
    let Some(path) = &arguments.output else {
        store.export(arguments.rows, &ids, usual, BufWriter::new(stdout())).await?;
        return Ok(());
    };
    let ending = path.extension().and_then(|ending| ending.to_str()?.parse().ok());
    let rows = store.export_to_file(arguments.rows, &ids, ending.unwrap_or(usual), path).await?;
    if output.shows_progress() {
        terminal::print_remark(&format!("{} in {}", counted(rows, "row"), path.display()));
    }
    Ok(())
}

async fn import(store: &Store, what: &[String], output: OutputArguments) -> Result<()> {
    let mut imported = read_import(&parse_import(what)?)?;
    judge_import(&mut imported);
    let Imported { mut run, mut trials, .. } = imported;
    run.hide_secrets();
    trials.iter_mut().for_each(Record::hide_secrets);
    remark_damaged(&store.read_damaged_sweeps().await?);
    if let Some(known) = store.read_sweeps().await?.iter().find(|known| known.digest == run.digest) {
        let id = quote_argument(&known.id);
        bail!("these results were already imported as the study {id}; `pgthaw results drop {id}` removes this study");
    }
    store.save_whole_sweep(&run, &trials).await?;
    show_sweep(store, &run, None, output).await
}

/// Treats a word with an unknown key as a path. `./scale=1` is always a path.
fn parse_import(what: &[String]) -> Result<ImportOptions, study::Error> {
    let mut options = ImportOptions::default();
    for word in what {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        match key {
            "question" => options.question = Some(value.to_owned()),
            "script" => options.script = Some(value.to_owned()),
            "scale" => options.scale = Some(parse_count(word, value)?),
            "clients" => options.clients = Some(parse_count(word, value)?),
            "jobs" => options.jobs = Some(parse_count(word, value)?),
            "seconds" => options.seconds = Some(parse_count(word, value)?),
            "query_mode" => options.query_mode = Some(parse_word(word, value)?),
            "start" => options.start = Some(parse_word(word, value)?),
            "connect" => options.connect = parse(word, value)?,
            "rate" => match parse::<f64>(word, value)? {
                rate if rate.is_finite() && rate > 0.0 => options.rate = Some(rate),
                _ => return Err(refuse(word, "write a number above 0")),
            },
            _ => options.paths.push(word.into()),
        }
    }
    if options.paths.is_empty() { Err(refuse(&what.join(" "), "no file is given")) } else { Ok(options) }
}

fn parse_word<T: FromStr + VariantNames>(word: &str, value: &str) -> Result<T, study::Error> {
    value.parse().map_err(|_| refuse(word, &format!("write one of {}", T::VARIANTS.join(", "))))
}

fn parse<T: FromStr<Err: std::fmt::Display>>(word: &str, value: &str) -> Result<T, study::Error> {
    value.parse().map_err(|error: T::Err| refuse(word, &error.to_string()))
}

fn parse_count(word: &str, value: &str) -> Result<u32, study::Error> {
    value.parse().map(NonZeroU32::get).map_err(|_| refuse(word, "write a whole number of at least 1"))
}

fn refuse(word: &str, problem: &str) -> study::Error {
    study::Error::Unfit {
        problem: format!("{word}: {problem}"),
        remedy: "give files, and KEY=VALUE for facts that the files lack: `pgthaw results import --help`".to_owned(),
    }
}

/// Drops a study from `store` and from the local `copy`, where it could be resumed and sent again.
async fn drop_run(store: &Store, copy: Option<Store>, wanted: &str, output: OutputArguments) -> Result<()> {
    let id = match (store.read_study_id(wanted).await, &copy) {
        // A damaged study never reached the server.
        (Err(Error::UnknownRun(_)), Some(copy)) => copy.read_study_id(wanted).await?,
        (id, _) => id?,
    };
    // Drops the copy first: if the server then fails, the command can be repeated.
    if let Some(copy) = copy {
        copy.drop_sweep(&id).await?;
        copy.close().await;
    }
    store.drop_sweep(&id).await?;
    Ok(terminal::print_answer(&json!({ "dropped": id }), output.json, || format!("dropped {id}"))?)
}
