//! The hosts of one trial: made ready, begun at one instant, listened to, and counted together.

use std::path::Path;
use std::time::Duration;

use super::script::{HostTask, write_script};
use super::session::{Answer, ClockOffset, Session, describe_status};
use crate::lab::error::Error;
use crate::lab::generator::{Generator, Start};
use crate::lab::launch::Stop;
use crate::study::{Generators, Latencies, TrialGenerator};
use host::linux::{MachineIdentity, clock, read_identity};
use pgbench::{PgbenchOutcome, QueryMode, parse_outcome};
use postgres::{ConnectOptions, Length, Load, TransactionLog, visit_transactions};

/// To tell the hosts when the start is takes so much, and some ways to the farthest and back.
const LEAD: Duration = Duration::from_millis(300);
const LEAD_ROUND_TRIPS: u32 = 4;

const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A host that has ended its load and sends not a byte of its logs for so long is lost: not every way to reach a host finds out by
/// itself.
const SILENCE_LIMIT: Duration = Duration::from_secs(60);

/// What a fleet is to do.
#[derive(Debug)]
pub struct FleetTask<'a> {
    pub generators: &'a Generators,
    /// Of all hosts together.
    pub load: &'a Load,
    /// How a host reaches the server.
    pub connection: ConnectOptions,
    pub password: &'a str,
    /// For what comes back.
    pub directory: &'a Path,
    pub stop: &'a Stop,
}

/// The hosts of one trial. Dropping it ends what runs there.
#[derive(Debug)]
pub struct Fleet {
    members: Vec<Member>,
    start: Option<Start>,
    stop: Stop,
}

#[derive(Debug)]
struct Member {
    session: Session,
    load: Load,
    arguments: String,
    version: String,
    is_seen: bool,
    offset: ClockOffset,
    ended: Option<MemberEnd>,
    is_done: bool,
}

#[derive(Clone, Copy, Debug)]
struct MemberEnd {
    /// When that was heard, since this machine booted.
    at: Duration,
    begun_ns: Option<i64>,
}

/// A host's part of what a fleet did.
#[derive(Debug)]
pub struct MemberFigures {
    pub generator: TrialGenerator,
    pub outcome: PgbenchOutcome,
    pub latencies: Latencies,
}

/// Tries whether every host can be reached and has a pgbench, before anything is measured. Returns what to tell of each.
pub fn check_hosts(generators: &Generators, directory: &Path, stop: &Stop) -> Result<Vec<String>, Error> {
    let directory =
        tempfile::tempdir_in(directory).map_err(|source| Error::file("create a directory in", directory, source))?;
    let load = Load {
        scripts: Vec::new(),
        variables: Vec::new(),
        query_mode: QueryMode::default(),
        clients: generators.hosts.len() as u32,
        jobs: 1,
        rate: None,
        latency_limit_ms: None,
        max_tries: 1,
        length: Length::Seconds(1),
        log: TransactionLog::Seconds,
    };
    let connection = ConnectOptions::default();
    let task = FleetTask { generators, load: &load, connection, password: "", directory: directory.path(), stop };
    let fleet = Fleet::ready(&task)?;
    let describe = |member: &Member| {
        let ClockOffset { offset_ns, uncertainty_ns } = member.offset;
        let (offset, uncertainty) = (to_ms(offset_ns), to_ms(uncertainty_ns));
        format!(
            "{}: {}, its clock is {offset:+.1} ms ahead, ± {uncertainty:.1} ms",
            member.session.host, member.version
        )
    };
    Ok(fleet.members.iter().map(describe).collect())
}

impl Fleet {
    /// Reaches the hosts, hands over their scripts, and measures their clocks.
    pub fn ready(task: &FleetTask<'_>) -> Result<Fleet, Error> {
        let shares = share_load(task.load, task.generators.hosts.len());
        let mut opened = Vec::new();
        // All at once, for each may take a while.
        for (place, (host, load)) in task.generators.hosts.iter().zip(shares).enumerate() {
            let host_task = HostTask {
                load: &load,
                connection: task.connection.clone(),
                password: task.password,
                pgbench: task.generators.pgbench(host),
            };
            let script = write_script(&host_task)?;
            let (command, directory) =
                (task.generators.command(host), task.directory.join(format!("generator-{place}")));
            let session = Session::open(host, &command, script.text, &directory)?;
            opened.push((session, load, format!("{host}: pgbench {}", script.arguments)));
        }
        let here = read_identity();
        let join = |(session, load, arguments)| Member::join(session, load, arguments, &here, task.stop);
        let members = opened.into_iter().map(join).collect::<Result<_, _>>()?;
        Ok(Fleet { members, start: None, stop: task.stop.clone() })
    }

    /// What runs on each host.
    pub fn command(&self) -> String {
        self.members.iter().map(|member| member.arguments.as_str()).collect::<Vec<_>>().join("; ")
    }

    /// Waits until the hosts have sent all they have, and counts it, each host for itself, by this host's clock.
    pub fn finish(mut self, new: impl Fn() -> Latencies) -> Result<Vec<MemberFigures>, Error> {
        let began = clock::read_monotonic();
        while !self.members.iter().all(|member| member.is_done) {
            self.stop.check()?;
            self.members.iter_mut().try_for_each(Member::listen)?;
            let sending = self.members.iter_mut().filter(|member| !member.is_done);
            sending
                .map(|member| &mut member.session)
                .try_for_each(|session| session.check_heard(began, SILENCE_LIMIT))?;
            std::thread::sleep(POLL_INTERVAL);
        }
        let start = self.start;
        self.members.iter_mut().map(|member| member.count(start, new())).collect()
    }
}

impl Member {
    /// Waits until the host has its script, and measures its clock.
    fn join(
        mut session: Session,
        load: Load,
        arguments: String,
        here: &MachineIdentity,
        stop: &Stop,
    ) -> Result<Member, Error> {
        let (mut version, mut is_seen) = (String::new(), false);
        loop {
            match session.wait(stop)?.answer {
                Some(Answer::Version(said)) => version = said,
                Some(Answer::Machine { boot, processes }) => is_seen = *here == MachineIdentity { boot, processes },
                Some(Answer::Ready) => break,
                _ => {}
            }
        }
        session.take_pipe()?;
        let offset = session.measure_offset(stop)?;
        Ok(Member { session, load, arguments, version, is_seen, offset, ended: None, is_done: false })
    }

    /// Tells when the start is, and waits for the process that waits for it. `None`: it is another machine's.
    fn announce(&mut self, start: Start, stop: &Stop) -> Result<Option<u32>, Error> {
        self.session.say(&format!("start {}", start_ns(start) + self.offset.offset_ns))?;
        loop {
            if let Some(Answer::Process(pid)) = self.session.wait(stop)?.answer {
                return Ok(Some(pid).filter(|_| self.is_seen));
            }
        }
    }

    fn listen(&mut self) -> Result<(), Error> {
        while !self.is_done
            && let Some(heard) = self.session.poll()?
        {
            match heard.answer {
                Some(Answer::Ended { status, begun_ns }) => {
                    if let Some(why) = describe_status(status) {
                        return Err(self.session.failure(&why));
                    }
                    self.ended = Some(MemberEnd { at: heard.monotonic, begun_ns });
                }
                Some(Answer::Done) => self.is_done = true,
                _ => {}
            }
        }
        Ok(())
    }

    fn count(&mut self, start: Option<Start>, mut latencies: Latencies) -> Result<MemberFigures, Error> {
        let behind_us = self.offset.offset_ns / 1000;
        visit_transactions(self.session.logs(), |one| latencies.add(one.by_clock_behind(behind_us)))?;
        let report = self.session.read_report();
        let outcome =
            parse_outcome(&report).ok_or_else(|| self.session.failure(&format!("its report is: {report}")))?;
        let began = self.ended.and_then(|ended| ended.begun_ns).zip(start);
        let after_ns = began.map(|(begun_ns, start)| begun_ns - self.offset.offset_ns - start_ns(start));
        let generator = TrialGenerator {
            host: self.session.host.clone(),
            clients: self.load.clients,
            jobs: self.load.jobs,
            pgbench_version: self.version.clone(),
            clock_offset_ms: to_ms(self.offset.offset_ns),
            clock_uncertainty_ms: to_ms(self.offset.uncertainty_ns),
            started_after_ms: to_ms(after_ns.unwrap_or_default()),
            transactions: outcome.transactions,
            tps: outcome.tps,
            is_seen: self.is_seen,
        };
        Ok(MemberFigures { generator, outcome, latencies })
    }
}

impl Generator for Fleet {
    fn lead(&self) -> Duration {
        let farthest_ns = self.members.iter().map(|member| member.offset.uncertainty_ns).max().unwrap_or_default();
        // The uncertainty is half of the way there and back.
        LEAD + LEAD_ROUND_TRIPS * 2 * Duration::from_nanos(farthest_ns.unsigned_abs())
    }

    fn announce(&mut self, start: Start) -> Result<Vec<u32>, Error> {
        self.start = Some(start);
        let stop = &self.stop;
        let processes: Vec<Option<u32>> =
            self.members.iter_mut().map(|member| member.announce(start, stop)).collect::<Result<_, _>>()?;
        Ok(processes.into_iter().flatten().collect())
    }

    /// Every host waits for the instant by itself.
    fn go(&mut self) {}

    fn poll(&mut self) -> Result<Option<Duration>, Error> {
        self.members.iter_mut().try_for_each(Member::listen)?;
        let ends: Option<Vec<Duration>> = self.members.iter().map(|member| Some(member.ended?.at)).collect();
        Ok(ends.and_then(|ends| ends.into_iter().max()))
    }

    fn end_early(&mut self) {
        for member in self.members.iter_mut().filter(|member| member.ended.is_none()) {
            // If it is gone, that is heard soon.
            let _ = member.session.say("alarm");
        }
    }

    /// The seconds that every host has told of, while one runs.
    fn read_paces(&self) -> Vec<f64> {
        let paces: Vec<Vec<f64>> = self.members.iter().map(|member| member.session.read_paces()).collect();
        let lengths = || paces.iter().map(Vec::len);
        let is_over = self.members.iter().all(|member| member.ended.is_some());
        let seconds = if is_over { lengths().max() } else { lengths().min() };
        let sum = |second: usize| paces.iter().filter_map(|paces| paces.get(second)).sum();
        (0..seconds.unwrap_or_default()).map(sum).collect()
    }

    fn failure(&self) -> Error {
        let running = self.members.iter().filter(|member| member.ended.is_none());
        let hosts: Vec<&str> = running.map(|member| member.session.host.as_str()).collect();
        Error::Generator { host: hosts.join(", "), output: "it did not end by itself".to_owned() }
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        // All first: each session then waits for its own end.
        self.members.iter_mut().for_each(|member| member.session.hang_up());
    }
}

fn start_ns(start: Start) -> i64 {
    start.unix * 1_000_000_000
}

fn to_ms(ns: i64) -> f64 {
    ns as f64 / 1e6
}

/// What pgbench would have reported, had it been one. The hosts ran side by side, so the longest of them counts.
pub fn merge_outcomes(outcomes: &[PgbenchOutcome]) -> PgbenchOutcome {
    let sum = |of: fn(&PgbenchOutcome) -> u64| outcomes.iter().map(of).sum::<u64>();
    let transactions = sum(|one| one.transactions);
    let lasted = outcomes.iter().filter(|one| one.tps > 0.0).map(|one| one.transactions as f64 / one.tps);
    let longest = lasted.fold(0.0, f64::max);
    PgbenchOutcome {
        transactions,
        failed: sum(|one| one.failed),
        skipped: sum(|one| one.skipped),
        late: sum(|one| one.late),
        retried: sum(|one| one.retried),
        retries: sum(|one| one.retries),
        tps: if longest > 0.0 { transactions as f64 / longest } else { 0.0 },
    }
}

/// The load of each of so many hosts: clients and threads as evenly as they go, the first ones have one more; the rate by
/// their clients. A host without clients has no load, and one with clients at least one thread.
pub fn share_load(load: &Load, hosts: usize) -> Vec<Load> {
    let clients = share(load.clients, hosts as u32);
    let busy = clients.iter().filter(|clients| **clients > 0).count();
    let jobs = share(load.jobs.min(load.clients), busy as u32);
    let of_host = |(clients, jobs): (u32, u32)| Load {
        clients,
        jobs: jobs.max(1),
        rate: load.rate.map(|rate| rate * f64::from(clients) / f64::from(load.clients)),
        ..load.clone()
    };
    clients.into_iter().zip(jobs).map(of_host).collect()
}

fn share(amount: u32, hosts: u32) -> Vec<u32> {
    (0..hosts).map(|host| amount / hosts + u32::from(host < amount % hosts)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgbench::QueryMode;
    use postgres::{Length, TransactionLog};

    #[test]
    fn outcomes_add_up_and_the_longest_run_divides() {
        let of = |transactions, tps| PgbenchOutcome { transactions, tps, retries: 1, ..PgbenchOutcome::default() };
        let both = merge_outcomes(&[of(1000, 100.0), of(3000, 600.0)]);
        assert_eq!((both.transactions, both.retries, both.tps), (4000, 2, 400.0));
        assert_eq!(merge_outcomes(&[of(0, 0.0), of(100, 10.0)]).tps, 10.0);
        assert_eq!(merge_outcomes(&[of(0, 0.0)]).tps, 0.0);
    }

    fn shared(clients: u32, jobs: u32, hosts: usize) -> Vec<(u32, u32, Option<f64>)> {
        let load = Load {
            scripts: Vec::new(),
            variables: Vec::new(),
            query_mode: QueryMode::default(),
            clients,
            jobs,
            rate: Some(1000.0),
            latency_limit_ms: None,
            max_tries: 1,
            length: Length::Seconds(1),
            log: TransactionLog::Seconds,
        };
        share_load(&load, hosts).iter().map(|one| (one.clients, one.jobs, one.rate)).collect()
    }

    #[test]
    fn every_client_is_somewhere_and_the_rate_goes_with_them() {
        assert_eq!(shared(4, 2, 2), [(2, 1, Some(500.0)), (2, 1, Some(500.0))]);
        assert_eq!(shared(5, 3, 2), [(3, 2, Some(600.0)), (2, 1, Some(400.0))]);
        assert_eq!(shared(2, 2, 3), [(1, 1, Some(500.0)), (1, 1, Some(500.0))]);
        // A pgbench without a thread there is not.
        assert_eq!(shared(4, 1, 2), [(2, 1, Some(500.0)), (2, 1, Some(500.0))]);
    }
}
