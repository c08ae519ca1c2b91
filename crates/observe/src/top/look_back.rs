//! Sums recorded steps up to a report of `waits`. The steps are untrusted input.

use std::collections::BTreeMap;

use crate::Statistic;
use crate::stall::{Stall, clock};
use crate::time::{
    By, Culprits, Imperfect, Lived, LookingCost, NamedStatistic, StatisticName, Tier, TimeReport, TimeSecond,
    TimeShares,
};
use crate::top::frame::TopFrame;

/// Shorter interruptions of the recording are normal.
const GAP_MS: i64 = 5000;
const REMARKS: usize = 10;

#[derive(Debug, Default)]
pub struct LookBack {
    /// Begin of the first step and end of the last, Unix time in milliseconds.
    pub within_ms: Option<(i64, i64)>,
    by: By,
    source: Option<Tier>,
    length_ns: u64,
    processes: u32,
    total: TimeShares,
    clients: TimeShares,
    lived: Lived,
    statistics: BTreeMap<StatisticName, Statistic>,
    seconds: Vec<TimeSecond>,
    stalls: BTreeMap<i64, Stall>,
    culprits: Culprits,
    imperfect: Imperfect,
    cost: LookingCost,
    remarks: Vec<String>,
    /// Why there was no server in the last step.
    failure: Option<String>,
}

impl LookBack {
    pub fn add(&mut self, frame: TopFrame) {
        let begin_ms = frame.at_ms.saturating_sub_unsigned(frame.length_ns / 1_000_000);
        let (first_ms, last_ms) = self.within_ms.unwrap_or((begin_ms, begin_ms));
        if begin_ms.saturating_sub(last_ms) > GAP_MS {
            self.remark(format!("nothing was recorded from {} to {} UTC", clock(last_ms), clock(begin_ms)));
        }
        self.within_ms = Some((first_ms, frame.at_ms));
        if self.failure != frame.failure {
            self.remark(match &frame.failure {
                Some(why) => format!("at {} UTC the server was gone: {why}", clock(frame.at_ms)),
                None => format!("at {} UTC the server was back", clock(frame.at_ms)),
            });
            self.failure.clone_from(&frame.failure);
        }
        if frame.failure.is_some() {
            return;
        }
        self.by = frame.by;
        self.source = self.source.into_iter().chain(frame.source).min();
        self.length_ns = self.length_ns.saturating_add(frame.length_ns);
        self.processes = self.processes.max(frame.processes);
        self.total.add(&frame.time);
        self.clients.add(&frame.clients);
        let until_ns = frame.at_ms.saturating_sub(first_ms).max(0).cast_unsigned().saturating_mul(1_000_000);
        self.seconds.push(TimeSecond {
            until_ns,
            length_ns: frame.length_ns,
            processes: frame.processes,
            shares: frame.time,
            explained: frame.explained,
        });
        for one in frame.statistics {
            let NamedStatistic { place, part, detail, statistic, .. } = one.named;
            self.lived.add(place.clone(), statistic.total_ns, one.share.is_some());
            self.statistics.entry(StatisticName { place, part, detail }).or_default().merge(&statistic);
        }
        let is_within = |stall: &Stall| stall.end_ms.is_none_or(|end_ms| end_ms >= first_ms);
        self.stalls.extend(frame.stalls.into_iter().filter(is_within).map(|stall| (stall.begin_ms, stall)));
        self.culprits.see_recorded(frame.blockers, frame.temporary_files, frame.at_ms);
        self.imperfect.add(&frame.imperfect);
        self.cost.own_cpu_ns = self.cost.own_cpu_ns.saturating_add(frame.cost.own_cpu_ns);
        self.cost.processors = frame.cost.processors;
    }

    fn remark(&mut self, text: String) {
        if self.remarks.len() < REMARKS {
            self.remarks.push(text);
        }
    }

    /// `damaged`: records that could not be read.
    pub fn finish(mut self, damaged: &[String]) -> TimeReport {
        damaged.iter().for_each(|why| self.remark(why.clone()));
        TimeReport {
            source: self.source.unwrap_or(Tier::Sql),
            refused: Vec::new(),
            by: self.by,
            length_ns: self.length_ns,
            processes: self.processes,
            explained: self.total.explained(),
            total: self.total,
            clients: self.clients,
            lived: self.lived,
            handled_by: Vec::new(),
            begun_before: 0,
            lasting: 0,
            statistics: NamedStatistic::all_of(self.statistics),
            seconds: self.seconds,
            stalls: self.stalls.into_values().collect(),
            files: Vec::new(),
            blockers: self.culprits.seen_blockers,
            temporary_files: self.culprits.seen_temporary,
            reductions: Vec::new(),
            imperfect: self.imperfect,
            cost: self.cost,
            remarks: self.remarks,
            recorded_ms: self.within_ms,
        }
    }
}
