//! Which cases are compared.

use super::base::Base;
use super::change::Changes;
use super::restore_plan::{RESTORE_BEGINS_SECONDS, RESTORE_DEPTH, plan_warmer};
use host::units::Bytes;
use model::{Error, Outlook, Scenario, Warmer};

/// The size of its reads beside live traffic (docs/plan.md).
const RESTORE_READ_BYTES: f64 = 262_144.0;

/// A restore is later than nothing when it takes so many times as long to half of the throughput, and so many seconds more: what is less
/// is the steps of the forecast.
const LATER: f64 = 1.02;
const LATER_SECONDS: f64 = 0.05;

/// A cold restart, the same with all relations as one where there are several and the closed form applies, with a restore
/// where a bandwidth is known, and each case of `--what-if`.
pub fn make_scenarios(base: &Base, what_if: &[Changes]) -> Result<Vec<Scenario>, Error> {
    let (workload, server) = (base.workload.clone(), base.server.clone());
    let cold = Scenario { name: "cold restart".into(), workload, server, warmer: None };
    let mut scenarios = vec![cold.clone()];
    if base.knees.is_some() && base.workload.classes.len() > 1 {
        scenarios.push(as_one_relation(&cold));
    }
    if base.has_bandwidth {
        scenarios.push(with_restore(base, &cold, "with a restore"));
    }
    for changes in what_if {
        let changed = changes.apply(&cold)?;
        if base.has_bandwidth {
            scenarios.push(with_restore(base, &changed, &format!("{}, restore", changed.name)));
        }
        scenarios.push(changed);
    }
    Ok(scenarios)
}

/// The simple curve of the closed form: a transaction reads one block out of all.
fn as_one_relation(cold: &Scenario) -> Scenario {
    let mut one = Scenario { name: "as one relation".into(), ..cold.clone() };
    let classes = &mut one.workload.classes;
    classes[0].pages = classes.iter().map(|class| class.pages).sum();
    classes.truncate(1);
    one
}

/// The scenario with a restore: in the planner's own order where there is a snapshot, else the most popular pages first.
fn with_restore(base: &Base, scenario: &Scenario, name: &str) -> Scenario {
    let Scenario { workload, server, .. } = scenario;
    let planned = base
        .restore
        .as_ref()
        .and_then(|restore| plan_warmer(&workload.classes, &restore.wanted, &server.device, restore.geometry));
    let warmer = planned.unwrap_or_else(|| Warmer {
        begins_after_seconds: RESTORE_BEGINS_SECONDS,
        ..Warmer::hottest_first(workload, server.block_bytes, RESTORE_DEPTH, RESTORE_READ_BYTES)
    });
    Scenario { name: name.to_owned(), warmer: Some(warmer), ..scenario.clone() }
}

/// Of each restore beside which half of the throughput comes later than without one: why that is. `is_of_snapshot`: in a snapshot's order.
pub fn explain_later_restores(scenarios: &[Scenario], outlooks: &[Outlook], is_of_snapshot: bool) -> Vec<String> {
    let half = |outlook: &Outlook| outlook.to_50_seconds.map(|span| span.seconds);
    let explain = |(scenario, outlook): (&Scenario, &Outlook)| {
        let warmer = scenario.warmer.as_ref()?;
        let is_without =
            |one: &Scenario| one.warmer.is_none() && one.workload == scenario.workload && one.server == scenario.server;
        let without = half(&outlooks[scenarios.iter().position(is_without)?])?;
        let is_later = half(outlook)? > (LATER * without).max(without + LATER_SECONDS);
        let bytes = warmer.steps.iter().map(|step| step.reads).sum::<f64>() * warmer.read_bytes;
        is_later.then(|| {
            format!(
                "{}: half of the speed comes later than without. Of the {} that it reads, what clients ask for most comes later \
                 than they would read it themselves, and they wait for the device meanwhile{}",
                scenario.name,
                Bytes(bytes as u64),
                if is_of_snapshot { "; a snapshot that is taken while they are at work has their order" } else { "" }
            )
        })
    };
    scenarios.iter().zip(outlooks).filter_map(explain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Bin, Device, PageClass, Popularity, Server, WarmStep, Workload, compute_outlook};

    #[test]
    fn a_restore_that_brings_what_is_hot_last_is_said_to_be_later_than_nothing() {
        let bins = vec![Bin { pages: 1000.0, weight: 1000.0 }, Bin { pages: 40_000.0, weight: 0.01 }];
        let class = PageClass {
            name: "t".into(),
            pages: 41_000.0,
            accesses: 1.0,
            run_pages: 1.0,
            popularity: Popularity::Measured(bins),
            resident_share: 0.0,
        };
        let workload = Workload {
            clients: 4,
            classes: vec![class],
            hit_seconds: 0.1e-3,
            copy_seconds: 0.0,
            read_seconds: 0.0,
            read_ahead_pages: 1.0,
            startup_reads: 0.0,
        };
        let device = Device::with_limits(3000.0, 131_072_000.0, 0.5e-3);
        let server =
            Server { device, cores: 2.0, buffers_pages: f64::INFINITY, os_pages: f64::INFINITY, block_bytes: 8192.0 };
        let steps =
            [(0, 31.25), (1, 1250.0)].map(|(bin, reads)| WarmStep { class: 0, bin: Some(bin), share: 1.0, reads });
        let explain = |steps: Vec<WarmStep>| {
            let cold =
                Scenario { name: "cold".into(), workload: workload.clone(), server: server.clone(), warmer: None };
            let warmer = Warmer { steps, depth: 4, read_bytes: 262_144.0, begins_after_seconds: 0.1 };
            let restore = Scenario { name: "restore".into(), warmer: Some(warmer), ..cold.clone() };
            let scenarios = [restore, cold];
            let outlooks = scenarios.each_ref().map(|one| compute_outlook(one).unwrap());
            explain_later_restores(&scenarios, &outlooks, true)
        };
        assert_eq!(explain(steps.to_vec()), Vec::<String>::new());
        let later = explain(steps.into_iter().rev().collect());
        assert!(
            later[0].starts_with("restore: half of the speed comes later") && later[0].contains("320 MB"),
            "{later:?}"
        );
        assert_eq!(later.len(), 1);
    }
}
