use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, Read as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Args;
use serde::Serialize;
use serde_json::json;

use super::{ExitStatus, OutputArguments, StoreArguments};
use crate::laboratory::text::{render_judged_forecasts, render_judgement, render_sweep_verdict};
use crate::study::{Error, decode, first_thread, missing_thread, note_cut, threads_of};
use crate::verdict::{JudgedForecast, judge_curve, judge_sweep, outline_trials};
use host::failure::{ErrorKind, Explain};
use host::files::{open_regular_or_pipe, read_text_at_most};
use model::{Judgement, Reader, Series, judge};
use postgres::keep_record;
use terminal::Canvas;

const FORECAST_BYTES_MAX: u64 = 64 << 20;

/// Judge whether a throughput curve is steady and warm
///
/// A curve is warm if its throughput is that of a warm server. Also judges forecasts.
///
/// Exit status: 0 steady; 11 steady with periodic dips; 12 degrading; 10 not steady, or steady but known not to be warm; 1 to 3 on errors.
/// The worst of several curves decides, in the order 10, 12, 11, 0. Judged forecasts exit with 0.
#[derive(Debug, Args)]
pub struct JudgeArguments {
    /// pgbench's progress or log, a CSV file, -, or a stored study
    ///
    /// Progress is the output of `pgbench --progress`. A CSV file has columns for time and rate. Files may be .gz. - is standard input.
    ///
    /// The logs of one run's threads (LOG, LOG.1, ...) are one curve. pgthaw judges several files of `bench forecast --json` together.
    #[arg(value_name = "FILE|RUN", required = true)]
    sources: Vec<String>,

    /// Judge only this strategy of a stored study
    #[arg(long, value_name = "NAME")]
    strategy: Option<String>,

    /// Number of blocks that the workload reads [default: from pgbench's scale]
    ///
    /// Includes the blocks of tables and indexes. If the scale is unknown, there is no default.
    #[arg(long, value_name = "BLOCKS")]
    pages: Option<f64>,

    /// Draw with ASCII characters only
    #[arg(long, hide_short_help = true)]
    ascii: bool,

    #[command(flatten)]
    store: StoreArguments,
}

/// Name (file, or `STRATEGY, repeat N`) and judged curve.
type Measured = (String, Result<(Series, Judgement), model::Error>);

#[derive(Debug, Serialize, crate::JsonSchema)]
pub struct Judged {
    name: String,
    #[serde(flatten)]
    judgement: Option<Judgement>,
    /// Why there is no verdict.
    error: Option<String>,
}

pub async fn run(arguments: JudgeArguments, output: OutputArguments) -> Result<ExitStatus> {
    if arguments.sources.iter().any(|source| is_document(Path::new(source))) {
        return judge_forecasts(&arguments.sources, output);
    }
    // A name without a slash or dot is a run unless such a file exists.
    let is_file = |source: &String| source == "-" || Path::new(source).exists() || source.contains(['/', '.']);
    let (files, runs): (Vec<&String>, Vec<&String>) = arguments.sources.iter().partition(|source| is_file(source));
    let mut measured = Vec::new();
    for logs in join_threads(&files) {
        let series = read_series(&logs)?;
        let judgement = judge(&series, arguments.pages);
        measured.push((logs[0].display().to_string(), Ok((series, judgement))));
    }
    for run in runs {
        measured.extend(read_run(&arguments, run).await?);
    }
    let tell = |(name, curve): &Measured| Judged {
        name: name.clone(),
        judgement: curve.as_ref().ok().map(|(_, judgement)| judgement.clone()),
        error: curve.as_ref().err().map(ToString::to_string),
    };
    let judged: Vec<_> = measured.iter().map(tell).collect();
    let render = |(name, curve): &Measured| match curve {
        Ok((series, judgement)) => {
            let shown = (judged.len() > 1).then_some(name.as_str());
            render_judgement(shown, judgement, series, Canvas::of_stdout(arguments.ascii))
        }
        Err(error) => format!("{name}\nno verdict: {error}"),
    };
    let answer = json!({ "source": arguments.sources.join(" "), "curves": judged });
    terminal::print_answer(&answer, output.json, || measured.iter().map(render).collect::<Vec<_>>().join("\n\n"))?;
    let codes = judged.iter().map(|one| one.judgement.as_ref().map_or(NO_LEVEL, Judgement::exit_code));
    Ok(ExitStatus::Answer(worst(codes)))
}

fn join_threads(files: &[&String]) -> Vec<Vec<PathBuf>> {
    let mut runs: Vec<(PathBuf, BTreeSet<PathBuf>)> = Vec::new();
    let names = BTreeSet::from_iter(files.iter().map(PathBuf::from));
    for file in files.iter().map(PathBuf::from) {
        let first = first_thread(&file).filter(|first| names.contains(first)).unwrap_or_else(|| file.clone());
        match runs.iter_mut().find(|(one, _)| *one == first) {
            Some((_, run)) => _ = run.insert(file),
            None => runs.push((first, BTreeSet::from([file]))),
        }
    }
    runs.into_iter().map(|(_, run)| run.into_iter().collect()).collect()
}

/// False for a pipe, which can be read only once.
fn is_document(path: &Path) -> bool {
    let mut first = [0];
    path.is_file() && File::open(path).is_ok_and(|mut file| file.read_exact(&mut first).is_ok()) && first == *b"{"
}

fn judge_forecasts(files: &[String], output: OutputArguments) -> Result<ExitStatus> {
    let read = |path: &String| -> Result<JudgedForecast> {
        let text =
            read_text_at_most(path.as_ref(), FORECAST_BYTES_MAX).with_context(|| format!("cannot read {path}"))?;
        let mut kept: JudgedForecast =
            serde_json::from_str(&text).with_context(|| format!("{path} is not a file of `bench forecast --json`"))?;
        keep_record(&mut kept);
        Ok(kept.judged_again())
    };
    let points = files.iter().map(read).collect::<Result<Vec<_>>>()?;
    let verdict = judge_sweep(&points);
    let answer = json!({ "verdict": verdict, "points": points });
    let text = || format!("{}\n{}", render_judged_forecasts(&points), render_sweep_verdict(&verdict));
    terminal::print_answer(&answer, output.json, text)?;
    Ok(ExitStatus::Done)
}

async fn read_run(arguments: &JudgeArguments, source: &str) -> Result<Vec<Measured>> {
    let store = arguments.store.open_existing().await.map_err(|error| error.of_file_or_run(source))?;
    let run = store.read_study(source).await.map_err(|error| error.of_file_or_run(source))?;
    let mut trials = store.read_sweep_trials(&run.id).await?;
    store.close().await;
    trials.retain(|trial| trial.failure.is_none());
    if let Some(wanted) = &arguments.strategy {
        let known: BTreeSet<String> = trials.iter().map(|trial| trial.point.strategy.clone()).collect();
        if !known.contains(wanted) {
            let problem = format!("the run has no trial of the strategy {wanted}");
            let remedy = format!("its strategies are {}", Vec::from_iter(known).join(", "));
            return Err(Error::Unfit { problem, remedy }.into());
        }
    }
    // The steady level depends on all trials.
    let outlines = outline_trials(&trials);
    let shown = trials
        .iter()
        .zip(&outlines)
        .filter(|(trial, _)| arguments.strategy.as_ref().is_none_or(|wanted| trial.point.strategy == *wanted));
    let judged = shown.map(|(trial, outline)| {
        let name = format!("{}, repeat {}", trial.point.render(&run.varied), trial.repeat);
        (name, judge_curve(&run, trial, outline, arguments.pages))
    });
    Ok(judged.collect())
}

const NO_LEVEL: u8 = 10;

fn worst(codes: impl Iterator<Item = u8>) -> u8 {
    let gravity = |code: &u8| [0, 11, 12, NO_LEVEL].iter().position(|one| one == code);
    // A run without trials reached no level.
    codes.max_by_key(gravity).unwrap_or(NO_LEVEL)
}

const LONGEST_LINE: u64 = 64 << 10;
const LONG_LINE: &str = "it has a line of more than 65536 bytes, which pgbench never writes";

#[derive(Debug, thiserror::Error)]
#[error("cannot read {}: {source}", path.display())]
pub struct Unreadable {
    path: PathBuf,
    source: io::Error,
}

impl Explain for Unreadable {
    fn kind(&self) -> ErrorKind {
        match self.source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::IsADirectory | io::ErrorKind::FileTooLarge => ErrorKind::Usage,
            io::ErrorKind::PermissionDenied => ErrorKind::Privilege,
            _ => ErrorKind::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        let hint = match self.source.kind() {
            io::ErrorKind::NotFound => "`pgthaw results` lists stored runs; a name with a dot or slash must be a file",
            io::ErrorKind::IsADirectory => {
                "give a file in the directory: the output of `pgbench --progress`, or a log of pgbench, pgbench_log.*"
            }
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

/// Reads one curve line by line (`-`: standard input). If only one log is named, adds the other threads' logs.
fn read_series(paths: &[PathBuf]) -> Result<Series> {
    let mut reader = Reader::default();
    let (mut paths, mut remarks) = (paths.to_vec(), Vec::new());
    remarks.extend(read_lines(&paths[0], &mut reader)?);
    if reader.is_log() && paths.len() == 1 {
        paths = threads_of(&paths[0]);
    }
    for path in &paths[1..] {
        if !reader.is_log() {
            return Err(Error::Unfit {
                problem: format!("{} and {} are not logs of one run", paths[0].display(), path.display()),
                remedy: "judge them one at a time".to_owned(),
            }
            .into());
        }
        reader.next_log();
        remarks.extend(read_lines(path, &mut reader)?);
    }
    let mut series = reader.finish().with_context(|| paths[0].display().to_string())?;
    series.remarks.extend(remarks.into_iter().chain(missing_thread(&paths)));
    Ok(series)
}

fn read_lines(path: &Path, reader: &mut Reader) -> Result<Option<String>> {
    let unreadable = |source| Unreadable { path: path.to_owned(), source };
    let mut source = match path == Path::new("-") {
        true => decode(io::stdin().lock()),
        false => open_regular_or_pipe(path).and_then(decode),
    }
    .map_err(unreadable)?;
    let (mut line, mut is_cut) = (Vec::new(), false);
    loop {
        line.clear();
        let read = source.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line);
        match note_cut(read, &mut is_cut).map_err(unreadable)? as u64 {
            0 => return Ok(is_cut.then(|| format!("{} is truncated: only the existing part was read", path.display()))),
            LONGEST_LINE => return Err(unreadable(io::Error::new(io::ErrorKind::FileTooLarge, LONG_LINE)).into()),
            _ => reader.push_line(&String::from_utf8_lossy(&line)).with_context(|| path.display().to_string())?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_curve_that_never_got_warm_decides() {
        assert_eq!(worst([0, 10, 12].into_iter()), 10);
        assert_eq!(worst([0, 12, 11].into_iter()), 12);
        assert_eq!(worst([0, 11].into_iter()), 11);
        assert_eq!(worst([].into_iter()), 10);
    }

    #[test]
    fn logs_of_threads_are_one_run_in_any_order() {
        let files = ["a.1", "log.7.1", "log.7", "log.8", "log.7.2", "log.9.1"].map(str::to_owned);
        let runs = join_threads(&files.iter().collect::<Vec<_>>());
        let names: Vec<String> = runs
            .iter()
            .map(|run| run.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(names, ["a.1", "log.7 log.7.1 log.7.2", "log.8", "log.9.1"]);
    }
}
