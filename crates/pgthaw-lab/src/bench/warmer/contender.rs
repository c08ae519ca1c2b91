//! A strategy at work: from its command behind the gate to what it did.

use std::path::Path;
use std::time::Duration;

use super::commands::{describe, parse_fio};
use crate::lab::{Ended, Error, Gated, Lab, Launch, Running};
use crate::study::{Outcome, Strategy, StrategyOutcome};
use host::linux::DiskLimit;
use observe::{BackendReads, BackendRole, apply_end_strategy_backends};

/// What autoprewarm logs when it is done.
const AUTOPREWARM_DONE: &str = "autoprewarm successfully prewarmed";

/// What a server logs first.
const SERVER_STARTING: &str = "starting PostgreSQL";

/// Polls between two looks for new backends of the strategy.
const POLLS_PER_SCAN: u32 = 10;

/// A strategy with its command, if it has one.
#[derive(Debug)]
pub struct Contender {
    pub strategy: Strategy,
    pub launch: Option<Launch>,
}

impl From<Outcome> for StrategyOutcome {
    fn from(outcome: Outcome) -> StrategyOutcome {
        StrategyOutcome {
            command: outcome.command,
            ended_after_seconds: outcome.ended_after.map(|after| after.as_secs_f64()),
            issued_bytes: outcome.issued_bytes,
            failure: outcome.failure,
            output: outcome.output,
        }
    }
}

impl Contender {
    /// Puts the command behind its gate, under the limit.
    pub fn ready(self, lab: &Lab, directory: &Path, limit: Option<&DiskLimit>) -> Result<ReadyContender, Error> {
        let gated = self.launch.as_ref().map(|launch| launch.ready("strategy", directory, limit)).transpose()?;
        let backends = BackendReads::new(lab.postmaster_pid(), io_workers_serve(self.strategy));
        Ok(ReadyContender { contender: self, gated, backends })
    }
}

/// Whom io workers read for while this strategy is at work.
pub fn io_workers_serve(strategy: Strategy) -> BackendRole {
    if strategy.scans_in_server() { BackendRole::Strategy } else { BackendRole::Workload }
}

/// A strategy behind its gate.
#[derive(Debug)]
pub struct ReadyContender {
    contender: Contender,
    gated: Option<Gated>,
    backends: BackendReads,
}

impl ReadyContender {
    /// Opens the gate at the instant `start`.
    pub fn go(self, start: Duration) -> ActiveContender {
        let ReadyContender { contender, gated, backends } = self;
        ActiveContender { contender, running: gated.map(Gated::go), backends, start, ended_at: None, polls: 0 }
    }
}

/// A strategy at work.
#[derive(Debug)]
pub struct ActiveContender {
    contender: Contender,
    running: Option<Running>,
    backends: BackendReads,
    start: Duration,
    ended_at: Option<Duration>,
    polls: u32,
}

impl ActiveContender {
    /// When it ended, since the machine booted; `None` while it is at work.
    pub fn ended_at(&self) -> Option<Duration> {
        self.ended_at
    }

    /// Looks whether it has ended, and what its backends have read: they end without leaving a count behind.
    pub fn poll(&mut self, lab: &Lab) {
        if self.ended_at.is_some() || self.contender.strategy == Strategy::Nothing {
            return;
        }
        // What the sampler reads at full seconds would miss a backend's last ones.
        let read = match self.polls % POLLS_PER_SCAN {
            0 => self.backends.read().map(drop),
            _ => {
                self.backends.read_known();
                Ok(())
            }
        };
        // Without these counts the trial is still good; the sampler fails on what it really needs.
        let _ = read;
        self.polls += 1;
        self.ended_at = match &mut self.running {
            Some(running) => running.poll().map(|ended| ended.at),
            None => has_autoprewarm_ended(&lab.log_tail()).then(host::linux::read_monotonic),
        };
    }

    /// Ends it, with its backends, and says what it did.
    pub fn finish(mut self, lab: &Lab) -> Outcome {
        self.poll(lab);
        let ended = self.running.as_mut().and_then(Running::poll);
        let own_bytes = self.running.as_ref().and_then(Running::read_bytes);
        let of_backends = self.backends.totals().strategy_read_bytes;
        let issued_bytes = match self.contender.strategy {
            Strategy::Nothing => None,
            _ => Some(own_bytes.unwrap_or_default() + of_backends),
        };
        let output = self.running.as_ref().map(Running::read_output_tail).unwrap_or_default();
        let fio = self.running.as_ref().filter(|_| self.contender.strategy.is_fio());
        let own = fio.and_then(|running| parse_fio(&running.read_stdout()));
        let outcome = Outcome {
            command: self
                .contender
                .launch
                .as_ref()
                .map_or_else(|| describe(self.contender.strategy).to_owned(), Launch::render),
            ended_after: self.ended_at.map(|at| at.saturating_sub(self.start)),
            issued_bytes,
            failure: ended.and_then(|ended| describe_failure(ended, &output)),
            cpu: ended.and_then(|ended| ended.cpu_time),
            // What it measured is not what it has to say.
            output: if own.is_some() { String::new() } else { output },
            own,
        };
        drop(self.running);
        apply_end_strategy_backends(lab.postmaster_pid());
        outcome
    }
}

/// How a command failed, in one line; `None` when it did not.
fn describe_failure(ended: Ended, output: &str) -> Option<String> {
    let last_words = output.lines().last().unwrap_or("it said nothing");
    (!ended.status.success()).then(|| format!("{}: {last_words}", ended.status))
}

/// Does the log say so since the server's last start?
fn has_autoprewarm_ended(log: &str) -> bool {
    log.rsplit(SERVER_STARTING).next().is_some_and(|since_start| since_start.contains(AUTOPREWARM_DONE))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;

    use super::*;

    #[test]
    fn autoprewarm_is_done_when_this_servers_log_says_so() {
        let done =
            "LOG:  starting PostgreSQL 15\nLOG:  autoprewarm successfully prewarmed 5 of 5 previously-loaded blocks\n";
        assert!(has_autoprewarm_ended(done));
        assert!(!has_autoprewarm_ended(&format!("{done}LOG:  starting PostgreSQL 15\n")));
        assert!(!has_autoprewarm_ended(""));
    }

    #[test]
    fn a_failure_is_told_in_its_last_words() {
        let ended = |code: i32| {
            let status = ExitStatus::from_raw(code << 8);
            Ended { at: Duration::ZERO, status, read_bytes: None, cpu_time: None }
        };
        assert_eq!(describe_failure(ended(0), "x"), None);
        let failure = describe_failure(ended(1), "CONTEXT: y\nERROR: no such table").unwrap();
        assert_eq!(failure, "exit status: 1: ERROR: no such table");
    }
}
