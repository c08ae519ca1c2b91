//! `pgthaw run`: the work is done in `crates/cache/src/trace/`.

mod arguments;
mod beside;
mod clean_up;
mod prepared;
pub mod receipt_text;

use std::sync::Arc;

pub use arguments::RunArguments;
pub use clean_up::finish_left_runs;
use prepared::{Ended, Prepared, Unprepared};

use super::film::{RecordedAs, record_job};
use super::job::{Job, refuse};
use super::{ExitStatus, OutputArguments};
use crate::run::receipt_text::render_run;
use cache::check_label;
use host::failure::ErrorKind;

use cache::trace::{Decision, RunReceipt};
use cache::warm::Control;

/// Runs the command.
pub async fn run(mut arguments: RunArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    arguments.like.as_deref().map_or(Ok(()), check_label)?;
    if arguments.record_only {
        let RunArguments { connection, source, like, output: file, job, .. } = &arguments;
        let asked = RecordedAs { connection, source: *source, label: like.as_deref(), file: file.as_deref() };
        return record_job(asked, job, output).await;
    }
    arguments.resolve()?;
    let begun = std::time::Instant::now();
    // Whatever is wrong with the server or the cache: the job is to run. Only for a film that was named itself nothing else will do.
    let mut prepared = match Prepared::new(&arguments, output.shows_progress()).await {
        Ok(prepared) => Ok(prepared),
        Err(Unprepared::Because(why)) => Err(why),
        Err(Unprepared::Refused(error)) => return Err(error.into()),
    };
    let undecided = Decision::nothing("neither --like NAME nor --film FILM was given");
    let mut receipt = RunReceipt::new(begun.elapsed().as_secs_f64(), undecided);
    let may_start = match &mut prepared {
        Ok(prepared) => prepared.bring_first().await,
        Err(_) => true,
    };
    let job = if may_start { Some(Job::start(&arguments.job)) } else { None };
    let mut job = match job {
        Some(Ok(job)) => job,
        // There is no job: what was brought for it goes again.
        none => {
            if let Ok(prepared) = prepared {
                prepared.end(&arguments, Ended::Never, Arc::new(Control::default()), &mut receipt).await;
            }
            return Ok(match none {
                Some(Err(error)) => refuse(&arguments.job, &error, output.json),
                _ => ExitStatus::Because(ErrorKind::Interrupted),
            });
        }
    };
    let helped = match prepared {
        Ok(prepared) => Some(prepared.help(&arguments, job.pid()).await),
        Err(why) => {
            if arguments.protects() {
                let apart = if arguments.isolates() { "the job is not set apart, and " } else { "" };
                receipt.remarks.push(format!("{apart}the cache is not put back afterwards, for the same reason"));
            }
            receipt.decision.reason = why;
            None
        }
    };
    let end = job.wait().await?;
    receipt.seconds = end.seconds;
    if let Some(helped) = helped {
        let ended = if end.status.success() { Ended::Well } else { Ended::Failed };
        helped.end(&arguments, ended, job.interrupts(), &mut receipt).await;
    }
    let text = match output.json {
        true => serde_json::to_string(&receipt)?,
        false => render_run(&receipt),
    };
    terminal::print_aside(&text, output.json);
    Ok(end.pass_on())
}
