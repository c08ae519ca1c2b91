//! `pgthaw run`: the work is done in `src/trace/`.

mod arguments;
mod clean_up;
mod prepared;

pub use arguments::RunArguments;
pub use clean_up::finish_left_runs;
use prepared::Prepared;

use super::job::{Job, refuse};
use super::{ExitStatus, OutputArguments};
use crate::cache::check_label;
use crate::terminal;
use crate::trace::{Decision, RunReceipt};

/// Runs the command.
pub async fn run(arguments: RunArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    arguments.like.as_deref().map_or(Ok(()), check_label)?;
    let begun = std::time::Instant::now();
    // Whatever is wrong with the server or the cache: the job is to run.
    let prepared = Prepared::new(&arguments).await;
    let prepared_seconds = begun.elapsed().as_secs_f64();
    let mut job = match Job::start(&arguments.job) {
        Ok(job) => job,
        Err(error) => return Ok(refuse(&arguments.job, &error, output.json)),
    };
    let (helped, why_not) = match prepared {
        Ok(prepared) => (Some(prepared.help(&arguments)), None),
        Err(why) => (None, Some(why)),
    };
    let end = job.wait().await?;
    let mut receipt = RunReceipt {
        seconds: end.seconds,
        prepared_seconds,
        film: None,
        decision: Decision::nothing(why_not.unwrap_or_else(|| "no name was given with --like".to_owned())),
        preloaded: None,
        kept: None,
        put_back: None,
        is_left_to_another: false,
        remarks: Vec::new(),
    };
    if let Some(helped) = helped {
        helped.end(&arguments, job.interrupts(), &mut receipt).await;
    }
    let text = match output.json {
        true => serde_json::to_string(&receipt)?,
        false => terminal::render_run(&receipt),
    };
    terminal::print_aside(&text, output.json);
    Ok(end.pass_on())
}
