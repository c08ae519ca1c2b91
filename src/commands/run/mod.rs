//! `pgthaw run`: the work is done in `src/trace/`.

mod clean_up;
mod prepared;

use std::ffi::OsString;

use clap::Args;

pub use clean_up::finish_left_runs;
use prepared::Prepared;

use super::job::{Job, describe_job, refuse};
use super::restore::DeviceArguments;
use super::{ConnectionArguments, ExitStatus, OutputArguments};
use crate::cache::check_label;
use crate::terminal;
use crate::trace::{Assisted, Decision, RunReceipt};

/// Run a job, bring what it needs while it starts, and leave the cache as it was
///
/// With --like NAME what the last films under this name say that the job will touch is read while it runs, in large reads and a few at
/// a time, if the forecast gains at least 10 %; and the job's new film is kept under the name. The first run only records. With --protect
/// what the job brought into the page cache is dropped afterwards, and what it pushed out comes back.
///
/// The command's input, output, signals and exit status are its own. What pgthaw did and why is one paragraph on standard error; where it
/// cannot help, the command just runs. Runs at once do not undo each other, and what one leaves that is killed, the next run or restore
/// puts back.
#[derive(Debug, Args)]
pub struct RunArguments {
    #[command(flatten)]
    pub connection: ConnectionArguments,

    /// The job's name: its films are kept under it, and say what it will touch
    #[arg(long, value_name = "NAME", help_heading = "Run")]
    like: Option<String>,

    /// Afterwards drop what the job brought in, and bring back what it pushed out
    #[arg(long, help_heading = "Run")]
    protect: bool,

    #[command(flatten)]
    device: DeviceArguments,

    /// The command, behind `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    job: Vec<OsString>,
}

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

impl RunArguments {
    /// The command in words.
    fn job_text(&self) -> String {
        describe_job(&self.job)
    }
}

/// Puts into the receipt what the job was helped with.
fn add_assisted(receipt: &mut RunReceipt, assisted: Assisted) {
    let Assisted { film, decision, preloaded, remarks } = assisted;
    (receipt.film, receipt.decision, receipt.preloaded) = (film, decision, preloaded);
    receipt.remarks.extend(remarks);
}
