//! Report of `waits` on recorded steps, which are untrusted input.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::Statistic;
use crate::stall::{DATA_DEVICE, LOG_DEVICE, Stall, StallKind, Stalls, Step, render_clock};
use crate::time::{Blocker, Culprits, NamedStatistic, StatisticName, Tier, TimeReport, TimeSecond};
use crate::top::frame::TopFrame;
use postgres::LockProcess;

const GAP_MS: i64 = 5000;
const REMARKS: usize = 10;

const LENGTHS_NS: RangeInclusive<u64> = 100_000_000..=60_000_000_000;
/// Steps may overlap by this much.
const JITTER_MS: i64 = 500;

#[derive(Debug, Default)]
pub struct LookBack {
    report: TimeReport,
    source: Option<Tier>,
    statistics: BTreeMap<StatisticName, Statistic>,
    stalls: BTreeMap<i64, Stall>,
    culprits: Culprits,
    failure: Option<String>,
    sampled: Option<Stalls>,
}

impl LookBack {
    pub fn add(&mut self, frame: TopFrame) {
        let begin_ms = frame.at_ms.saturating_sub_unsigned(frame.length_ns / 1_000_000);
        let (first_ms, last_ms) = self.report.recorded_ms.unwrap_or((begin_ms, begin_ms));
        if begin_ms.saturating_sub(last_ms) > GAP_MS {
            self.remark(format!("nothing was recorded from {} to {}", render_clock(last_ms), render_clock(begin_ms)));
        }
        self.report.recorded_ms = Some((first_ms, frame.at_ms));
        let sampled = self.sampled.get_or_insert_with(|| Stalls::new(1));
        match step_of(&frame) {
            _ if !(last_ms..last_ms.saturating_add(GAP_MS)).contains(&begin_ms.saturating_add(JITTER_MS)) => {
                sampled.end()
            }
            Some(step) => sampled.add(step),
            None => {}
        }
        if self.failure != frame.failure {
            self.remark(match &frame.failure {
                Some(why) => format!("at {} the server was gone: {why}", render_clock(frame.at_ms)),
                None => format!("at {} the server was back", render_clock(frame.at_ms)),
            });
            self.failure.clone_from(&frame.failure);
        }
        if frame.failure.is_some() {
            return;
        }
        self.source = self.source.into_iter().chain(frame.source).min();
        let report = &mut self.report;
        report.by = frame.by;
        report.length_ns = report.length_ns.saturating_add(frame.length_ns);
        report.processes = report.processes.max(frame.processes);
        report.total.add(&frame.time);
        report.clients.add(&frame.clients);
        let until_ns = frame.at_ms.saturating_sub(first_ms).max(0).cast_unsigned().saturating_mul(1_000_000);
        report.seconds.push(TimeSecond {
            until_ns,
            length_ns: frame.length_ns,
            processes: frame.processes,
            shares: frame.time,
            explained: frame.explained,
        });
        for one in frame.statistics {
            let NamedStatistic { place, part, detail, statistic, .. } = one.named;
            report.lived.add(place.clone(), statistic.total_ns, one.share.is_some());
            self.statistics.entry(StatisticName { place, part, detail }).or_default().merge(&statistic);
        }
        let is_within = |stall: &Stall| stall.end_ms.is_none_or(|end_ms| end_ms >= first_ms);
        self.stalls.extend(frame.stalls.into_iter().filter(is_within).map(|stall| (stall.begin_ms, stall)));
        self.culprits.see_recorded(frame.blockers, frame.temporary_files, frame.at_ms);
        report.imperfect.add(&frame.imperfect);
        report.cost.own_cpu_ns = report.cost.own_cpu_ns.saturating_add(frame.cost.own_cpu_ns);
        report.cost.processors = frame.cost.processors;
    }

    fn remark(&mut self, text: String) {
        if self.report.remarks.len() < REMARKS {
            self.report.remarks.push(text);
        }
    }

    pub fn finish(mut self, damaged: &[String]) -> TimeReport {
        damaged.iter().for_each(|why| self.remark(why.clone()));
        let found = self.sampled.take().map(|sampled| sampled.finish(false)).unwrap_or_default().into_iter();
        // A low load is no incident.
        let is_of_server = |stall: &Stall| !matches!(stall.kind, StallKind::ClientPause | StallKind::ClientDelay);
        let last_ms = self.report.recorded_ms.map(|(_, last_ms)| last_ms);
        self.stalls.extend(found.filter(is_of_server).map(|stall| {
            let sentence = stall.sentence.replacen("command", "transaction", 1);
            let end_ms = stall.end_ms.or(last_ms);
            (stall.begin_ms, Stall { sentence, end_ms, ..stall })
        }));
        TimeReport {
            source: self.source.unwrap_or(Tier::Sql),
            explained: self.report.total.explained(),
            statistics: NamedStatistic::all_of(self.statistics),
            stalls: self.stalls.into_values().collect(),
            blockers: self.culprits.seen_blockers,
            temporary_files: self.culprits.seen_temporary,
            ..self.report
        }
    }
}

/// Uses transactions instead of unknown commands.
fn step_of(frame: &TopFrame) -> Option<Step> {
    let server = frame.server.filter(|_| frame.source == Some(Tier::Sql))?;
    let length_ns = Some(server.length_ns).filter(|length_ns| LENGTHS_NS.contains(length_ns))?;
    let end_ns = u64::try_from(frame.at_ms).ok()?.checked_mul(1_000_000).filter(|end_ns| *end_ns > length_ns)?;
    let share = |ns: u64| ns as f64 / frame.length_ns.max(1) as f64;
    let (mut running, mut waits) = (0.0, BTreeMap::<(String, String), f64>::new());
    for one in frame.statistics.iter().filter(|one| one.share.is_some()) {
        let count = share(one.named.statistic.total_ns);
        match one.named.part.as_str() {
            "processor" => running += count,
            _ => *waits.entry((one.named.part.clone(), one.named.detail.clone())).or_default() += count,
        }
    }
    let mut machine = frame.machine.as_ref().map(|machine| machine.gauges.clone()).unwrap_or_default();
    let part = |(name, used)| (if name == "wal" { LOG_DEVICE } else { DATA_DEVICE }.to_owned(), used);
    let alone = machine.device.filter(|_| machine.parts.is_empty()).map(|used| ("data".to_owned(), used));
    machine.parts = std::mem::take(&mut machine.parts).into_iter().chain(alone).map(part).collect();
    let mut holders = Vec::new();
    frame.blockers.iter().for_each(|blocker| add_holders(blocker, &mut holders));
    Some(Step {
        end_ns,
        wall_ms: frame.at_ms,
        length_ns,
        commands: server.commits.saturating_add(server.rollbacks).min(1 << 32),
        backends: share(frame.clients.lived_ns),
        waits,
        server_processors: running,
        checkpoint: frame.checkpoint.map(|checkpoint| checkpoint.phase).filter(|phase| phase.is_running()),
        holders,
        processors: frame.machine.as_ref().map_or(0.0, |_| frame.cost.processors),
        machine,
        ..Step::default()
    })
}

fn add_holders(blocker: &Blocker, holders: &mut Vec<LockProcess>) {
    if !blocker.behind.is_empty() {
        holders.push(blocker.process.clone());
    }
    blocker.behind.iter().for_each(|one| add_holders(one, holders));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::TimeShares;
    use crate::top::frame::tests::{SECOND, name};
    use crate::top::{ServerStep, TopStatistic};
    use postgres::Session;

    fn frame(second: i64, commits: u64, wait: (&str, &str)) -> TopFrame {
        let named = NamedStatistic::new(name("UPDATE t", wait.0, wait.1), Statistic::of_time(0, 8 * SECOND));
        TopFrame {
            at_ms: 1_700_000_000_000 + 1000 * second,
            length_ns: SECOND,
            source: Some(Tier::Sql),
            clients: TimeShares { lived_ns: 8 * SECOND, ..TimeShares::default() },
            server: Some(ServerStep { length_ns: SECOND, commits, ..ServerStep::default() }),
            statistics: vec![TopStatistic { named, share: Some(1.0), open: 0, open_ns: 0 }],
            ..TopFrame::default()
        }
    }

    fn stalls_of(incident: impl Fn(i64) -> TopFrame) -> Vec<Stall> {
        let mut sum = LookBack::default();
        for second in 0..100 {
            let usual = || frame(second, 300 + second as u64 % 7, ("IO", "DataFileRead"));
            sum.add(if (60..68).contains(&second) { incident(second) } else { usual() });
        }
        sum.finish(&[]).stalls
    }

    #[test]
    fn a_drop_of_throughput_is_a_stall_with_its_cause() {
        let session = |pid, event: &str| Session {
            pid,
            backend: Some("client backend".into()),
            event_type: Some(event.into()),
            event: Some(event.into()),
            query: Some(format!("UPDATE {pid}")),
            ..Session::default()
        };
        let process =
            |pid, event: &str| LockProcess { session: session(pid, event), waiters: 7, ..LockProcess::default() };
        let behind = vec![Blocker { process: process(8, "Lock"), ..Blocker::default() }];
        let holder = Blocker { process: process(7, "Client"), behind, ..Blocker::default() };
        let held = stalls_of(|second| TopFrame {
            blockers: vec![holder.clone()],
            ..frame(second, 0, ("Lock", "transactionid"))
        });
        let [stall] = &held[..] else { panic!("{held:?}") };
        assert_eq!((stall.kind, stall.length_ns), (StallKind::Lock, 8 * SECOND));
        assert!(
            stall.sentence.starts_with("no transaction for 8.0 s. client backend 7 (“UPDATE 7”) holds a lock"),
            "{stall}"
        );
        let synced = stalls_of(|second| frame(second, 0, ("IO", "WALSync")));
        assert!(synced.len() == 1 && synced[0].sentence.contains("8 of 8 backends were in IO:WALSync"), "{synced:?}");
        assert!(stalls_of(|second| frame(second, 0, ("Client", "ClientRead"))).is_empty(), "no load");
        let of_lone = |second| {
            let mut lone = frame(second, 0, ("Lock", "tuple"));
            lone.statistics[0].named.statistic.total_ns = SECOND;
            lone
        };
        assert!(stalls_of(of_lone).is_empty(), "one waits");
    }
}
