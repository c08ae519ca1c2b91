//! A command of the user's that runs as if it had been started without pgthaw: its input and output, its signals and its end are its own.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Instant;

use tokio::process::{Child, Command};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use host::files::with_given_umask;
use host::linux::signals;
use postgres::quote_argument;

use cache::warm::Control;

/// What shells answer for a command that there is not, and for one that cannot be run.
const NOT_FOUND: u8 = 127;
const NOT_RUNNABLE: u8 = 126;

/// A command that runs.
#[derive(Debug)]
pub struct Job {
    child: Child,
    signals: mpsc::UnboundedReceiver<i32>,
    started: Instant,
}

/// How a command ended.
#[derive(Clone, Copy, Debug)]
pub struct JobEnd {
    pub status: ExitStatus,
    pub seconds: f64,
}

/// The command's words as a shell would take them.
pub fn describe_job(words: &[OsString]) -> String {
    let words: Vec<String> = words.iter().map(|word| quote_argument(&word.to_string_lossy())).collect();
    words.join(" ")
}

impl Job {
    /// Starts a command. From now on the signals that reach pgthaw are its.
    pub fn start(words: &[OsString]) -> io::Result<Job> {
        let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        command.args(arguments);
        // Those that are ignored stay so, for the command too.
        let heeded = signals::PASSED.into_iter().filter(|number| !signals::is_ignored(*number));
        let streams: Vec<(i32, Signal)> =
            heeded.map(|number| Ok((number, signal(SignalKind::from_raw(number))?))).collect::<io::Result<_>>()?;
        let child = with_given_umask(|| command.spawn())?;
        let (pass, signals) = mpsc::unbounded_channel();
        for (number, mut stream) in streams {
            let pass = pass.clone();
            tokio::spawn(async move { while stream.recv().await.is_some() && pass.send(number).is_ok() {} });
        }
        Ok(Job { child, signals, started: Instant::now() })
    }

    /// Its process; 0 when that has ended already.
    pub fn pid(&self) -> u32 {
        self.child.id().unwrap_or_default()
    }

    /// Waits for its end, and passes on what signals come meanwhile. What is typed at the terminal reached it already.
    pub async fn wait(&mut self) -> io::Result<JobEnd> {
        loop {
            tokio::select! {
                status = self.child.wait() => {
                    return Ok(JobEnd { status: status?, seconds: self.started.elapsed().as_secs_f64() });
                }
                Some(number) = self.signals.recv() => {
                    let is_typed = matches!(number, libc::SIGINT | libc::SIGQUIT) && signals::is_in_foreground();
                    if let Some(pid) = self.child.id().filter(|_| !is_typed) {
                        signals::send(pid, number);
                    }
                }
            }
        }
    }

    /// Stops what is done after the command's end, when a signal comes that would have ended it.
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

impl JobEnd {
    /// Ends pgthaw as the command ended: by the same signal, or with its status.
    pub fn pass_on(self) -> super::ExitStatus {
        if let Some(number) = self.status.signal() {
            signals::end_by(number);
        }
        let by_signal = || self.status.signal().map(signals::status_of);
        super::ExitStatus::Answer(self.status.code().map(|code| code as u8).or_else(by_signal).unwrap_or(1))
    }
}

/// Tells that a command cannot be started, and the status that shells have for it.
pub fn refuse(words: &[OsString], error: &io::Error, as_json: bool) -> super::ExitStatus {
    let message = format!("cannot run {}: {error}", describe_job(&words[..1]));
    let (status, hint) = match error.kind() {
        io::ErrorKind::NotFound => {
            (NOT_FOUND, "name a program that is in PATH, or its path; all behind -- is the command")
        }
        _ => (NOT_RUNNABLE, "name a program that this user may run"),
    };
    terminal::print_error(&message, host::failure::ErrorKind::Failed, Some(hint), as_json);
    super::ExitStatus::Answer(status)
}
