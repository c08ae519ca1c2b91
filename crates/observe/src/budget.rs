//! Opens a source of process times, and keeps its cost within a budget by measuring less.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use sqlx::postgres::PgConnection;

use crate::time::{
    FileTimes, LOOKS_PER_SECOND, MemoryLooks, OwnTransactions, ProbeCost, Reading, SLOW_CALLS, SqlLooks, Tier,
    TimeSource,
};
use crate::{Error, open_time_probe};
use host::failure::Explain as _;
use host::linux::clock::{read_monotonic, read_own_cpu_time};
use host::linux::count_cores;

/// Interval after which the cost is compared with the budget.
const SPAN_NS: u64 = 1_000_000_000;

/// Interval of queries for the server's processes when the overhead budget is tight.
const SELDOM_LOOK: Duration = Duration::from_secs(2);

/// Consecutive intervals above the budget that cause a reduction: one may be chance.
const SPANS: u32 = 2;

/// Measurements that pgthaw stopped or reduced to stay within the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GivenUp {
    /// Counts of received commands.
    Receives,
    /// BPF programs, replaced by sampling of wait events.
    Programs,
    /// Half of the samples of wait events.
    Looks,
    /// Most of pgthaw's SQL queries. Only one query every 2 s is left, instead of four per second.
    Questions,
    /// The cost exceeds the budget, and no further reduction helps.
    NothingLeft,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Reduction {
    /// Time since the start of the observation.
    pub after_ns: u64,
    pub given_up: GivenUp,
    /// Overhead before the reduction, as a share of all processors, 0 to 1.
    pub share: f64,
    /// Budget, as a share of all processors, 0 to 1.
    pub budget: f64,
    /// Samples per second after the reduction. `None` if the reduction did not change that number.
    pub looks_per_second: Option<f64>,
}

pub fn looks_after(reductions: &[Reduction]) -> f64 {
    reductions.iter().rev().find_map(|one| one.looks_per_second).unwrap_or(LOOKS_PER_SECOND)
}

pub fn looks_in_words(looks_per_second: f64) -> String {
    match render_looks(looks_per_second) {
        looks if looks == "1" => "once a second".to_owned(),
        looks => format!("{looks} times a second"),
    }
}

pub fn render_looks(looks_per_second: f64) -> String {
    let text = format!("{looks_per_second:.1}");
    text.strip_suffix(".0").map_or_else(|| text.clone(), str::to_owned)
}

pub struct BudgetedSource {
    /// For its tier, words of events, failures and answers. Its readings and its cost are only part of the whole.
    pub current: Box<dyn TimeSource>,
    postmaster_pid: Option<u32>,
    budget: f64,
    begin_ns: u64,
    /// Values at the last comparison with the budget: time, and total cost of the BPF programs and of this process.
    looked_at_ns: u64,
    kernel_ns: u64,
    own_ns: u64,
    spans_above: u32,
    pub reductions: Vec<Reduction>,
    spent: Option<ProbeCost>,
    files: Vec<FileTimes>,
    asks_seldom: bool,
    begins_from: Option<Box<Reading>>,
}

host::debug_by!(BudgetedSource: budget);

impl BudgetedSource {
    /// `budget` is a share of all processors, 0 to 1.
    pub fn new(current: Box<dyn TimeSource>, postmaster_pid: Option<u32>, budget: f64) -> BudgetedSource {
        let now = read_monotonic().as_nanos() as u64;
        BudgetedSource {
            kernel_ns: current.cost().map_or(0, |cost| cost.total_ns()),
            current,
            postmaster_pid,
            budget,
            begin_ns: now,
            looked_at_ns: now,
            own_ns: read_own_cpu_time().as_nanos() as u64,
            spans_above: 0,
            reductions: Vec::new(),
            spent: None,
            files: Vec::new(),
            begins_from: None,
            asks_seldom: false,
        }
    }

    /// Replaces the source after a server restart; earlier reductions stay.
    pub fn follow(&mut self, mut source: Box<dyn TimeSource>, postmaster_pid: Option<u32>) -> Result<(), Error> {
        if self.reductions.iter().any(|reduction| reduction.given_up == GivenUp::Receives) {
            source.drop_receives();
        }
        source.look_at_most(looks_after(&self.reductions));
        self.put_aside()?;
        // The old source covers the time before this reading.
        self.begins_from = Some(Box::new(source.read()?));
        (self.current, self.postmaster_pid) = (source, postmaster_pid);
        Ok(())
    }

    fn put_aside(&mut self) -> Result<(), Error> {
        self.files = self.files()?;
        self.spent = self.cost();
        Ok(())
    }

    fn keep_within(&mut self, at_ns: u64) -> Result<(), Error> {
        let length_ns = at_ns.saturating_sub(self.looked_at_ns);
        if length_ns < SPAN_NS {
            return Ok(());
        }
        let kernel_ns = self.cost().map_or(0, |cost| cost.total_ns());
        let own_ns = read_own_cpu_time().as_nanos() as u64;
        let (kernel, own) = (kernel_ns.saturating_sub(self.kernel_ns), own_ns.saturating_sub(self.own_ns));
        let share_of = |cost_ns: u64| cost_ns as f64 / (length_ns as f64 * count_cores().max(1.0));
        let share = share_of(kernel + own);
        (self.looked_at_ns, self.kernel_ns, self.own_ns) = (at_ns, kernel_ns, own_ns);
        self.spans_above = if share > self.budget { self.spans_above + 1 } else { 0 };
        if self.spans_above < SPANS {
            return Ok(());
        }
        self.spans_above = 0;
        // Sampling may use half of the budget, so replacing BPF programs that use less than that saves nothing.
        let are_programs_dear = share_of(kernel) > self.budget / 2.0;
        let is_new = self.reductions.last().is_none_or(|last| last.given_up != GivenUp::NothingLeft);
        let nothing_left = is_new.then_some((GivenUp::NothingLeft, None));
        if let Some((given_up, looks_per_second)) = self.reduce(are_programs_dear)?.or(nothing_left) {
            let after_ns = at_ns.saturating_sub(self.begin_ns);
            self.reductions.push(Reduction { after_ns, given_up, share, budget: self.budget, looks_per_second });
        }
        Ok(())
    }

    /// Returns the reduction, and the new rate if sampling. `None` if nothing is left to reduce.
    fn reduce(&mut self, are_programs_dear: bool) -> Result<Option<(GivenUp, Option<f64>)>, Error> {
        if self.current.tier() != Tier::Bpf {
            let looks = self.current.look_less().map(|looks| (GivenUp::Looks, Some(looks)));
            return Ok(looks.or_else(|| self.ask_seldom()));
        }
        if !are_programs_dear {
            return Ok(self.ask_seldom());
        }
        if self.current.drop_receives() {
            return Ok(Some((GivenUp::Receives, None)));
        }
        let Some(postmaster_pid) = self.postmaster_pid else { return Ok(self.ask_seldom()) };
        let mut looks = Box::new(MemoryLooks::start(postmaster_pid)?);
        // With many processes, sampling costs more than the BPF programs.
        let looks_per_second = looks.look_within(self.budget / 2.0 * count_cores().max(1.0));
        self.put_aside()?;
        self.begins_from = Some(Box::new(looks.read()?));
        self.current = looks;
        Ok(Some((GivenUp::Programs, Some(looks_per_second))))
    }

    fn ask_seldom(&mut self) -> Option<(GivenUp, Option<f64>)> {
        let was_seldom = std::mem::replace(&mut self.asks_seldom, true);
        (!was_seldom).then_some((GivenUp::Questions, None))
    }

    pub fn read(&mut self) -> Result<Reading, Error> {
        let begins_from = self.begins_from.take();
        let reading = self.current.read()?;
        self.keep_within(reading.at_ns)?;
        Ok(Reading { begins_from, ..reading })
    }

    pub fn cost(&self) -> Option<ProbeCost> {
        [self.spent.clone(), self.current.cost()].into_iter().flatten().reduce(ProbeCost::and)
    }

    pub fn ask_every(&self) -> Duration {
        if self.asks_seldom { SELDOM_LOOK } else { self.current.ask_every() }
    }

    pub fn files(&mut self) -> Result<Vec<FileTimes>, Error> {
        Ok(FileTimes::merge(self.files.iter().cloned().chain(self.current.files()?).collect()))
    }
}

/// A better source that was not available.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, crate::JsonSchema, crate::TS)]
pub struct RefusedSource {
    #[ts(type = "string")]
    pub source: Tier,
    pub reason: String,
    pub remedy: Option<String>,
}

/// Opens the wanted source of process times, or the most exact one, and returns the refused ones. All but SQL need a
/// local server; SQL needs `connection`. `own` counts pgthaw's SQL queries.
pub async fn open_time_source(
    wanted: Option<Tier>,
    postmaster_pid: Option<u32>,
    connection: impl Future<Output = Result<PgConnection, Error>>,
    own: Option<OwnTransactions>,
) -> Result<(Box<dyn TimeSource>, Vec<RefusedSource>), Error> {
    let mut refused = Vec::new();
    for tier in [Tier::Bpf, Tier::Memory].into_iter().filter(|tier| wanted.is_none_or(|wanted| wanted == *tier)) {
        let opened = postmaster_pid.ok_or(Error::NotHere).and_then(|postmaster_pid| match tier {
            Tier::Bpf => open_time_probe(postmaster_pid, SLOW_CALLS),
            _ => Ok(Box::new(MemoryLooks::start(postmaster_pid)?)),
        });
        match opened {
            Ok(source) => return Ok((source, refused)),
            Err(error) if wanted.is_some() => return Err(error),
            Err(error) => {
                refused.push(RefusedSource { source: tier, reason: error.to_string(), remedy: error.hint() });
            }
        }
    }
    Ok((Box::new(SqlLooks::start(connection.await?, own).await?), refused))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use super::*;
    use crate::time::ProgramCost;

    #[test]
    fn a_rate_is_said_in_words() {
        assert_eq!(
            [1.0, 1.04, 1.6, 50.0].map(looks_in_words),
            ["once a second", "once a second", "1.6 times a second", "50 times a second"]
        );
    }

    struct Cheap {
        counts_receives: bool,
        each_ns: u64,
        cost_ns: Cell<u64>,
    }

    impl TimeSource for Cheap {
        fn tier(&self) -> Tier {
            Tier::Bpf
        }

        fn read(&mut self) -> Result<Reading, Error> {
            Ok(Reading { at_ns: read_monotonic().as_nanos() as u64, ..Reading::default() })
        }

        fn cost(&self) -> Option<ProbeCost> {
            self.cost_ns.set(self.cost_ns.get() + self.each_ns);
            let program = ProgramCost { name: "switch".into(), runs: 1, total_ns: self.cost_ns.get() };
            Some(ProbeCost { programs: vec![program] })
        }

        fn drop_receives(&mut self) -> bool {
            std::mem::replace(&mut self.counts_receives, false)
        }
    }

    struct Looking(Arc<Mutex<f64>>);

    impl TimeSource for Looking {
        fn tier(&self) -> Tier {
            Tier::Memory
        }

        fn read(&mut self) -> Result<Reading, Error> {
            Ok(Reading::default())
        }

        fn look_at_most(&mut self, looks_per_second: f64) {
            *self.0.lock().unwrap() = looks_per_second;
        }
    }

    #[test]
    fn the_source_of_a_server_that_was_restarted_looks_as_seldom_as_the_one_before() {
        for (given_up, looks_per_second, expected) in
            [(GivenUp::Programs, Some(1.6), 1.6), (GivenUp::Receives, None, LOOKS_PER_SECOND)]
        {
            let mut source = after_spans(1.0, 0, 0);
            source.reductions.push(Reduction { after_ns: 0, given_up, share: 0.1, budget: 0.0, looks_per_second });
            let asked = Arc::new(Mutex::new(0.0));
            source.follow(Box::new(Looking(Arc::clone(&asked))), None).unwrap();
            assert_eq!(*asked.lock().unwrap(), expected);
        }
    }

    fn after_spans(budget: f64, each_ns: u64, spans: u64) -> BudgetedSource {
        let cheap = Cheap { counts_receives: true, each_ns, cost_ns: Cell::new(0) };
        let mut source = BudgetedSource::new(Box::new(cheap), None, budget);
        for span in 1..=spans {
            // This test's processor time counts too.
            let until = read_own_cpu_time() + Duration::from_millis(2);
            while read_own_cpu_time() < until {}
            source.keep_within(source.begin_ns + span * SPAN_NS).unwrap();
        }
        source
    }

    #[test]
    fn above_the_budget_receives_go_first_and_once_is_an_accident() {
        let dear_ns = 1000 * SPAN_NS;
        assert!(after_spans(0.0, dear_ns, 1).reductions.is_empty());
        let reduced = after_spans(0.0, dear_ns, 2);
        let reductions = &reduced.reductions;
        assert_eq!((reductions.len(), reductions[0].given_up), (1, GivenUp::Receives));
        assert_eq!(reductions[0].after_ns, 2 * SPAN_NS);
        assert!(reductions[0].share > 0.0 && reductions[0].budget == 0.0);
        // Without a local server there is no other source.
        let given_up: Vec<GivenUp> = after_spans(0.0, dear_ns, 9).reductions.iter().map(|one| one.given_up).collect();
        assert_eq!(given_up, [GivenUp::Receives, GivenUp::Questions, GivenUp::NothingLeft]);
        assert!(after_spans(1e9, dear_ns, 4).reductions.is_empty());
    }

    #[test]
    fn what_costs_little_is_not_given_up_for_what_else_costs_much() {
        let given_up: Vec<GivenUp> = after_spans(0.0, 0, 6).reductions.iter().map(|one| one.given_up).collect();
        assert_eq!(given_up, [GivenUp::Questions, GivenUp::NothingLeft]);
    }
}
