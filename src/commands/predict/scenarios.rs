//! Which cases are compared.

use super::base::Base;
use super::change::Changes;
use super::restore_plan::{RESTORE_BEGINS_SECONDS, RESTORE_DEPTH, plan_warmer};
use crate::model::{Error, Scenario, Warmer};

/// The size of its reads beside live traffic (docs/plan.md).
const RESTORE_READ_BYTES: f64 = 262_144.0;

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
