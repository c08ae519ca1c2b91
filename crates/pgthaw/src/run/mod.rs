//! `pgthaw run`.

mod arguments;
mod beside;
mod guarded;
mod prepared;
pub mod receipt_text;

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{io, process};

use prepared::{Ended, Prepared, Unprepared};
use tokio::process::{Child, Command};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use crate::film::RecordedAs;
use crate::run::receipt_text::render_run;
use crate::{ExitStatus, OutputArguments, Target};
use cache::check_label;
use cache::trace::{Decision, RunReceipt, Wanted};
use cache::warm::Control;
use host::failure::ErrorKind;
use host::files::with_given_umask;
use host::linux::{guard, signals};

pub use arguments::{RunArguments, describe_job};
pub use guarded::guard_job;
pub use prepared::finish_left_runs;

pub async fn run(arguments: RunArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    let ended = run_or_record(arguments, output).await;
    guard::note_meant();
    ended
}

async fn run_or_record(mut arguments: RunArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    arguments.like.as_deref().map_or(Ok(()), check_label)?;
    if arguments.record_only {
        let RunArguments { connection, source, like, output: file, job, .. } = &arguments;
        let asked = RecordedAs { connection, source: *source, label: like.as_deref(), file: file.as_deref() };
        return record_job(asked, job, output).await;
    }
    arguments.resolve()?;
    let begun = Instant::now();
    // The job runs despite problems with server or cache, unless an explicitly named film is unusable.
    let mut prepared = match Prepared::new(&arguments, output.shows_progress()).await {
        Ok(prepared) => Ok(prepared),
        Err(Unprepared::Because(why)) => Err(why),
        Err(Unprepared::Refused(error)) => return Err(error.into()),
    };
    let mut receipt = RunReceipt {
        decision: Decision::nothing("neither --like NAME nor --film FILM was given"),
        ..RunReceipt::default()
    };
    let may_start = match &mut prepared {
        Ok(prepared) => prepared.bring_first().await,
        Err(_) => true,
    };
    receipt.before_seconds = begun.elapsed().as_secs_f64();
    let mut job = match may_start.then(|| Job::start(&arguments.job)) {
        Some(Ok(job)) => job,
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
    match &mut prepared {
        Ok(prepared) => prepared.help(&arguments, job.pid()).await,
        Err(why) => {
            if arguments.protects() {
                let apart = if arguments.isolates() { "the job is not isolated, and " } else { "" };
                receipt.remarks.push(format!(
                    "{apart}the cache is not restored after the job, for the same reason that prevented the preload"
                ));
            }
            receipt.decision.reason = std::mem::take(why);
        }
    }
    let status = job.wait().await?;
    receipt.seconds = job.started.elapsed().as_secs_f64();
    if let Ok(prepared) = prepared {
        let ended = if status.success() { Ended::Well } else { Ended::Failed };
        prepared.end(&arguments, ended, job.interrupts(), &mut receipt).await;
    }
    receipt.close(begun.elapsed().as_secs_f64());
    let text = match output.json {
        true => serde_json::to_string(&receipt)?,
        false => render_run(&receipt),
    };
    terminal::print_aside(&text, output.json);
    Ok(pass_on(status))
}

async fn record_job(asked: RecordedAs<'_>, job: &[OsString], output: OutputArguments) -> anyhow::Result<ExitStatus> {
    asked.check()?;
    let target = Target::open(asked.connection).await?;
    let command = Arc::new(AtomicU32::new(0));
    let recording = asked.begin(&target, Wanted::command(&command), describe_job(job)).await?;
    let status = match Job::start(job) {
        Ok(mut job) => {
            command.store(job.pid(), Ordering::Release);
            job.wait().await?
        }
        Err(error) => return Ok(refuse(job, &error, output.json)),
    };
    let is_failed = !status.success();
    let recording = if is_failed { recording.without_name() } else { recording };
    match asked.keep(recording, output).await {
        Ok(text) => terminal::print_aside(&text, output.json),
        // If the job failed, its exit status takes precedence.
        Err(error) if is_failed => terminal::print_complaint(&format!("the film was not kept: {error}")),
        Err(error) => return Err(error),
    }
    Ok(pass_on(status))
}

/// A signal to the process group arrives twice within this time: directly, and through the waiting parent.
const SAME_SIGNAL: Duration = Duration::from_millis(100);

const NOT_FOUND: u8 = 127;
const NOT_RUNNABLE: u8 = 126;

#[derive(Debug)]
pub struct Job {
    child: Child,
    signals: mpsc::UnboundedReceiver<i32>,
    started: Instant,
}

impl Job {
    pub fn start(words: &[OsString]) -> io::Result<Job> {
        let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        command.args(arguments);
        // Signals that pgthaw ignores are ignored in the job, too.
        let heeded = signals::PASSED.into_iter().filter(|number| !signals::is_ignored(*number));
        let streams: Vec<(i32, Signal)> =
            heeded.map(|number| Ok((number, signal(SignalKind::from_raw(number))?))).collect::<io::Result<_>>()?;
        guard::note_start();
        let child = with_given_umask(|| command.spawn()).inspect_err(|error| {
            if let Some(libc::EAGAIN | libc::ENOMEM | libc::EMFILE | libc::ENFILE) = error.raw_os_error() {
                guard::leave_job();
            }
        })?;
        guard::note_job(child.id().unwrap_or_default());
        let (pass, signals) = mpsc::unbounded_channel();
        for (number, mut stream) in streams {
            let pass = pass.clone();
            tokio::spawn(async move { while stream.recv().await.is_some() && pass.send(number).is_ok() {} });
        }
        Ok(Job { child, signals, started: Instant::now() })
    }

    pub fn pid(&self) -> u32 {
        self.child.id().unwrap_or_default()
    }

    /// Waits for the job. Passes signals on to the job, except those of terminal keys: the terminal sends them to both.
    pub async fn wait(&mut self) -> io::Result<process::ExitStatus> {
        let mut passed = HashMap::new();
        loop {
            tokio::select! {
                status = self.child.wait() => {
                    let status = status?;
                    guard::note_job_end(status);
                    return Ok(status);
                }
                Some(number) = self.signals.recv() => {
                    let before = passed.insert(number, Instant::now());
                    let is_again = before.is_some_and(|before| before.elapsed() < SAME_SIGNAL);
                    if let Some(pid) = self.child.id().filter(|_| !is_again && !signals::is_typed(number)) {
                        signals::send(pid, number);
                    }
                }
            }
        }
    }

    /// Interrupts the clean-up on signals in `signals::PASSED`, except SIGUSR1 and SIGUSR2.
    pub fn interrupts(mut self) -> Arc<Control> {
        let control = Arc::new(Control::default());
        let told = Arc::clone(&control);
        tokio::spawn(async move {
            while let Some(number) = self.signals.recv().await {
                if !matches!(number, libc::SIGUSR1 | libc::SIGUSR2) {
                    told.interrupt();
                }
            }
        });
        control
    }
}

pub fn pass_on(status: process::ExitStatus) -> ExitStatus {
    guard::note_meant();
    if let Some(number) = status.signal() {
        signals::end_by(number);
    }
    let by_signal = || status.signal().map(signals::status_of);
    ExitStatus::Answer(status.code().map(|code| code as u8).or_else(by_signal).unwrap_or(1))
}

pub fn refuse(words: &[OsString], error: &io::Error, as_json: bool) -> ExitStatus {
    let message = format!("cannot run {}: {error}", describe_job(&words[..1]));
    let (status, hint) = match error.kind() {
        io::ErrorKind::NotFound => {
            (NOT_FOUND, "give a program in PATH, or its path; everything after -- is the command")
        }
        _ => (NOT_RUNNABLE, "give a program that this user may execute"),
    };
    terminal::print_error(&message, host::failure::ErrorKind::Failed, Some(hint), as_json);
    ExitStatus::Answer(status)
}
