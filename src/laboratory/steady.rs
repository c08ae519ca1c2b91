//! `pgthaw steady`: the work is done in `src/model/`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use super::measured::read_series;
use super::{ExitStatus, OutputArguments, StoreArguments};
use crate::failure::{ErrorKind, Explain};
use crate::laboratory::text::render_judgement;
use crate::model::{self, Judgement, Series, Verdict, judge};
use crate::terminal::{self, Canvas};
use crate::verdict::{judge_curve, outline_trials};

/// Was a run ever warm? One verdict over a measured throughput curve
///
/// Exit status: 0 steady, 10 not reached or not decided, 11 periodic, 12 degrading; 1 to 3 when there is no verdict. Of several trials the
/// status is that of the worst, in the order not reached, degrading, periodic, steady.
#[derive(Debug, Args)]
pub struct SteadyArguments {
    /// What `pgbench --progress` printed, a pgbench log, a CSV file of time and rate, - for standard input, or a stored study
    #[arg(value_name = "FILE|RUN")]
    source: String,

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

/// The run has no such trial.
#[derive(Debug, thiserror::Error)]
#[error("the run has no trial of the strategy {wanted}")]
pub struct UnknownStrategy {
    wanted: String,
    known: BTreeSet<String>,
}

impl Explain for UnknownStrategy {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Usage
    }

    fn hint(&self) -> Option<String> {
        Some(format!("it has trials of {}", Vec::from_iter(self.known.iter().map(String::as_str)).join(", ")))
    }
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
pub async fn run(arguments: SteadyArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    let path = PathBuf::from(&arguments.source);
    // A name without a slash or a dot that is no file is a run's.
    let is_file = arguments.source == "-" || path.exists() || arguments.source.contains(['/', '.']);
    let measured = if is_file { read_file(&path, arguments.pages)? } else { read_run(&arguments).await? };
    let tell = |(name, curve): &Measured| Judged {
        name: name.clone(),
        judgement: curve.as_ref().ok().map(|(_, judgement)| judgement.clone()),
        error: curve.as_ref().err().map(ToString::to_string),
    };
    let judged: Vec<_> = measured.iter().map(tell).collect();
    if output.json {
        terminal::print_json(&serde_json::json!({ "source": arguments.source, "curves": judged }))?;
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

async fn read_run(arguments: &SteadyArguments) -> anyhow::Result<Vec<Measured>> {
    let store = arguments.store.open_existing().await.map_err(|error| error.of_file_or_run(&arguments.source))?;
    let read = store.read_study(&arguments.source).await;
    let run = read.map_err(|error| error.of_file_or_run(&arguments.source))?;
    let mut trials = store.read_sweep_trials(&run.id).await?;
    store.close().await;
    trials.retain(|trial| trial.failure.is_none());
    if let Some(wanted) = &arguments.strategy {
        let known: BTreeSet<String> = trials.iter().map(|trial| trial.point.strategy.clone()).collect();
        if !known.contains(wanted) {
            return Err(UnknownStrategy { wanted: wanted.clone(), known }.into());
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
