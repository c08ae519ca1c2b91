//! `pgthaw steady`: the work is done in `src/model/`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use super::measured::read_series;
use super::{ExitStatus, OutputArguments, StoreArguments};
use crate::bench::{Trial, compute_series};
use crate::failure::{ErrorKind, Explain};
use crate::model::{self, Judgement, Series, Verdict, judge};
use crate::terminal::{self, Canvas};

/// Was a run ever warm? One verdict over a measured throughput curve
///
/// Exit status: 0 steady, 10 not reached, 11 periodic, 12 degrading; 1 to 3 when there is no verdict. Of several trials the
/// status is that of the worst, in the order not reached, degrading, periodic, steady.
#[derive(Debug, Args)]
pub struct SteadyArguments {
    /// What `pgbench --progress` printed, a pgbench log, a CSV file of time and rate, - for standard input, or a stored run
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

/// A curve and its name: the file, or `STRATEGY, repeat N`. Of a trial there may be none to judge.
type Measured = (String, Result<Series, model::Error>);

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
    let measured = if is_file { read_file(&path)? } else { read_run(&arguments).await? };
    let judge_one = |(name, series): &Measured| Judged {
        name: name.clone(),
        judgement: series.as_ref().ok().map(|series| judge(series, arguments.pages)),
        error: series.as_ref().err().map(ToString::to_string),
    };
    let judged: Vec<Judged> = measured.iter().map(judge_one).collect();
    if output.json {
        terminal::print_json(&serde_json::json!({ "source": arguments.source, "curves": judged }))?;
    } else {
        let canvas = Canvas::of_stdout(arguments.ascii);
        let texts = measured.iter().zip(&judged).map(|((_, series), one)| match (series, &one.judgement) {
            (Ok(series), Some(judgement)) => {
                let name = (judged.len() > 1).then_some(one.name.as_str());
                terminal::render_judgement(name, judgement, series, canvas)
            }
            _ => format!("{}\nno verdict: {}", one.name, one.error.as_deref().unwrap_or_default()),
        });
        terminal::print_line(&texts.collect::<Vec<_>>().join("\n\n"));
    }
    Ok(ExitStatus::Answer(worst(judged.iter().map(Judged::verdict)).exit_code()))
}

fn read_file(path: &Path) -> anyhow::Result<Vec<Measured>> {
    Ok(vec![(path.display().to_string(), Ok(read_series(path)?))])
}

async fn read_run(arguments: &SteadyArguments) -> anyhow::Result<Vec<Measured>> {
    let store = arguments.store.open_existing().await?;
    let run = store.read_run(&arguments.source).await?;
    let mut trials = store.read_trials(&run.id).await?;
    store.close().await;
    if let Some(wanted) = &arguments.strategy {
        let known: BTreeSet<String> = trials.iter().map(|trial| trial.strategy.clone()).collect();
        trials.retain(|trial| trial.strategy == *wanted);
        if trials.is_empty() {
            return Err(UnknownStrategy { wanted: wanted.clone(), known }.into());
        }
    }
    let measure = |trial: &Trial| (format!("{}, repeat {}", trial.strategy, trial.repeat), compute_series(&run, trial));
    Ok(trials.iter().map(measure).collect())
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
