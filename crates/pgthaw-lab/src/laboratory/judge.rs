//! `pgthaw judge`: the work is done in `crates/model/src/` and `crates/pgthaw-lab/src/verdict/judged.rs`.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use serde::Serialize;
use serde_json::json;

use super::{ExitStatus, OutputArguments, StoreArguments};
use crate::laboratory::text::{render_judged_forecasts, render_judgement, render_sweep_verdict};
use crate::study::Error;
use crate::verdict::{JudgedForecast, judge_curve, judge_sweep, outline_trials};
use host::failure::{ErrorKind, Explain};
use host::files::{open_regular_or_pipe, read_text_at_most};
use model::{Judgement, Reader, Series, Verdict, judge};
use terminal::Canvas;

/// Bytes that a forecast may have.
const FORECAST_BYTES_MAX: u64 = 64 << 20;

/// Was a run ever warm? One verdict over a measured throughput curve; or how far off forecasts were
///
/// Exit status: 0 steady, 10 not reached or not decided, 11 periodic, 12 degrading; 1 to 3 when there is no verdict. Of several trials the
/// status is that of the worst, in the order not reached, degrading, periodic, steady. Forecasts that could be judged end with 0.
#[derive(Debug, Args)]
pub struct JudgeArguments {
    /// What `pgbench --progress` printed, a pgbench log, a CSV file of time and rate, - for standard input, or a stored
    /// study; or files that `bench forecast --json` wrote, which are judged together
    #[arg(value_name = "FILE|RUN", required = true)]
    sources: Vec<String>,

    /// Of a stored run, this strategy's trials alone
    #[arg(long, value_name = "NAME")]
    strategy: Option<String>,

    /// Blocks that the workload chooses from, table and index together [default: by pgbench's scale, where it is told]
    #[arg(long, value_name = "BLOCKS")]
    pages: Option<f64>,

    /// Draw with ASCII alone
    #[arg(long)]
    ascii: bool,

    #[command(flatten)]
    store: StoreArguments,
}

/// A curve, what is said of it, and its name: the file, or `STRATEGY, repeat N`. Of a trial there may be none to judge.
type Measured = (String, Result<(Series, Judgement), model::Error>);

/// A curve that was judged, or why not, as `--json` prints it.
#[derive(Debug, Serialize)]
struct Judged {
    name: String,
    #[serde(flatten)]
    judgement: Option<Judgement>,
    error: Option<String>,
}

impl Judged {
    fn verdict(&self) -> Verdict {
        self.judgement.as_ref().map_or(Verdict::NotReached, |judgement| judgement.verdict)
    }
}

/// Runs the command.
pub async fn run(arguments: JudgeArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    if arguments.sources.iter().any(|source| is_document(Path::new(source))) {
        return judge_forecasts(&arguments.sources, output);
    }
    let [source] = arguments.sources.as_slice() else {
        let problem = "several curves are not judged together, only forecasts are".to_owned();
        return Err(Error::Unfit { problem, remedy: "judge one file or run at a time".to_owned() }.into());
    };
    let path = PathBuf::from(source);
    // A name without a slash or a dot that is no file is a run's.
    let is_file = source == "-" || path.exists() || source.contains(['/', '.']);
    let measured = if is_file { read_file(&path, arguments.pages)? } else { read_run(&arguments, source).await? };
    let tell = |(name, curve): &Measured| Judged {
        name: name.clone(),
        judgement: curve.as_ref().ok().map(|(_, judgement)| judgement.clone()),
        error: curve.as_ref().err().map(ToString::to_string),
    };
    let judged: Vec<_> = measured.iter().map(tell).collect();
    if output.json {
        terminal::print_json(&json!({ "source": source, "curves": judged }))?;
    } else {
        let texts = measured.iter().map(|(name, curve)| match curve {
            Ok((series, judgement)) => {
                let shown = (judged.len() > 1).then_some(name.as_str());
                render_judgement(shown, judgement, series, Canvas::of_stdout(arguments.ascii))
            }
            Err(error) => format!("{name}\nno verdict: {error}"),
        });
        terminal::print_line(&texts.collect::<Vec<_>>().join("\n\n"));
    }
    Ok(ExitStatus::Answer(worst(judged.iter().map(Judged::verdict)).exit_code()))
}

fn read_file(path: &Path, pages: Option<f64>) -> anyhow::Result<Vec<Measured>> {
    let series = read_series(path)?;
    let judgement = judge(&series, pages);
    Ok(vec![(path.display().to_string(), Ok((series, judgement)))])
}

/// Is it a file of JSON? A pipe, which could be read once only, is none.
fn is_document(path: &Path) -> bool {
    let mut first = [0];
    path.is_file() && File::open(path).is_ok_and(|mut file| file.read_exact(&mut first).is_ok()) && first == *b"{"
}

/// How far off forecasts were, one by one and together.
fn judge_forecasts(files: &[String], output: OutputArguments) -> anyhow::Result<ExitStatus> {
    let read = |path: &String| -> anyhow::Result<JudgedForecast> {
        let text =
            read_text_at_most(path.as_ref(), FORECAST_BYTES_MAX).with_context(|| format!("cannot read {path}"))?;
        let kept: JudgedForecast =
            serde_json::from_str(&text).with_context(|| format!("{path} is no judged forecast"))?;
        Ok(kept.judged_again())
    };
    let points = files.iter().map(read).collect::<anyhow::Result<Vec<_>>>()?;
    let verdict = judge_sweep(&points);
    if output.json {
        terminal::print_json(&json!({ "verdict": verdict, "points": points }))?;
    } else {
        terminal::print_line(&render_judged_forecasts(&points));
        terminal::print_line(&render_sweep_verdict(&verdict));
    }
    Ok(ExitStatus::Done)
}

async fn read_run(arguments: &JudgeArguments, source: &str) -> anyhow::Result<Vec<Measured>> {
    let store = arguments.store.open_existing().await.map_err(|error| error.of_file_or_run(source))?;
    let run = store.read_study(source).await.map_err(|error| error.of_file_or_run(source))?;
    let mut trials = store.read_sweep_trials(&run.id).await?;
    store.close().await;
    trials.retain(|trial| trial.failure.is_none());
    if let Some(wanted) = &arguments.strategy {
        let known: BTreeSet<String> = trials.iter().map(|trial| trial.point.strategy.clone()).collect();
        if !known.contains(wanted) {
            let problem = format!("the run has no trial of the strategy {wanted}");
            let remedy = format!("it has trials of {}", Vec::from_iter(known).join(", "));
            return Err(Error::Unfit { problem, remedy }.into());
        }
    }
    // Their common level is that of all of them.
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

/// The verdict that a script should act on.
fn worst(verdicts: impl Iterator<Item = Verdict>) -> Verdict {
    let gravity = |verdict: &Verdict| match verdict {
        Verdict::Steady => 0,
        Verdict::Periodic => 1,
        Verdict::Degrading => 2,
        Verdict::NotReached => 3,
    };
    // Of a run without trials nothing was reached.
    verdicts.max_by_key(gravity).unwrap_or(Verdict::NotReached)
}

/// No line that pgbench writes is longer.
const LONGEST_LINE: u64 = 64 << 10;

/// What is wrong with the file itself.
#[derive(Debug, thiserror::Error)]
pub enum MeasuredError {
    #[error("cannot read {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{} has a line of more than {LONGEST_LINE} bytes: it is no text that pgbench wrote", .0.display())]
    LongLine(PathBuf),
}

impl Explain for MeasuredError {
    fn kind(&self) -> ErrorKind {
        match self {
            MeasuredError::Unreadable { source, .. } => match source.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::IsADirectory => ErrorKind::Usage,
                io::ErrorKind::PermissionDenied => ErrorKind::Privilege,
                _ => ErrorKind::Failed,
            },
            MeasuredError::LongLine(_) => ErrorKind::Usage,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            MeasuredError::Unreadable { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                Some("a stored run is named without a dot or a slash; `pgthaw results` lists them".into())
            }
            MeasuredError::Unreadable { source, .. } if source.kind() == io::ErrorKind::IsADirectory => {
                Some("name a file in it: what `pgbench --progress` printed, or one of its logs, pgbench_log.*".into())
            }
            _ => None,
        }
    }
}

/// Reads a file, or standard input for `-`, line by line: of a log of any length little is held.
fn read_series(path: &Path) -> anyhow::Result<Series> {
    let unreadable = |source| MeasuredError::Unreadable { path: path.to_owned(), source };
    let series = if path == Path::new("-") {
        read_lines(io::stdin().lock(), path)
    } else {
        let file = open_regular_or_pipe(path).map_err(unreadable)?;
        read_lines(BufReader::with_capacity(1 << 20, file), path)
    };
    series.with_context(|| path.display().to_string())
}

fn read_lines(mut source: impl BufRead, path: &Path) -> anyhow::Result<Series> {
    let mut reader = Reader::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = source.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line);
        match read.map_err(|source| MeasuredError::Unreadable { path: path.to_owned(), source })? as u64 {
            0 => return Ok(reader.finish()?),
            LONGEST_LINE => return Err(MeasuredError::LongLine(path.to_owned()).into()),
            _ => reader.push_line(&String::from_utf8_lossy(&line))?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_trial_that_never_got_warm_decides() {
        use Verdict::{Degrading, NotReached, Periodic, Steady};
        assert_eq!(worst([Steady, NotReached, Degrading].into_iter()), NotReached);
        assert_eq!(worst([Steady, Periodic].into_iter()), Periodic);
        assert_eq!(worst([].into_iter()), NotReached);
    }
}
