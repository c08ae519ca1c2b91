//! The agent's metrics for Prometheus.

use std::fmt::Write as _;

use jiff::Timestamp;
use strum::VariantArray as _;

use super::status::{AgentState, AgentStatus};

pub fn render_metrics(status: &AgentStatus) -> String {
    let mut text = String::new();
    let mut put = |name: &str, help: &str, series: Vec<(String, f64)>| {
        if series.is_empty() {
            return;
        }
        let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        for (labels, value) in series {
            let _ = writeln!(text, "{name}{labels} {value}");
        }
    };
    let one = |value: Option<f64>| value.map(|value| (String::new(), value)).into_iter().collect();
    let tiers = |os: Option<f64>, buffers: Option<f64>| {
        let tier = |name: &str, value: Option<f64>| value.map(|value| (format!("{{tier=\"{name}\"}}"), value));
        tier("os", os).into_iter().chain(tier("buffers", buffers)).collect()
    };
    // A stopped agent serves nothing.
    let states = AgentState::VARIANTS.iter().filter(|state| **state != AgentState::Stopped);
    let states = states.map(|state| (format!("{{state=\"{}\"}}", state.name()), f64::from(*state == status.state)));
    put("pgthaw_agent_state", "State of the agent: 1 for the current one.", states.collect());
    let warmth = status.warmth.unwrap_or_default();
    put(
        "pgthaw_warmth_ratio",
        "Cached share of the primary's warm set, weighted by heat.",
        tiers(warmth.os, warmth.buffers),
    );
    put(
        "pgthaw_resident_bytes",
        "Bytes of the cluster in each cache at the last look.",
        tiers(status.os_bytes.map(|bytes| bytes.0 as f64), status.buffers_bytes.map(|bytes| bytes.0 as f64)),
    );
    let bytes = |bytes: Option<host::units::Bytes>| one(bytes.map(|bytes| bytes.0 as f64));
    put("pgthaw_warm_set_bytes", "Bytes of the primary's warm set.", bytes(status.wanted_bytes));
    put(
        "pgthaw_warm_set_missing_bytes",
        "Bytes of the primary's warm set in neither cache.",
        bytes(status.missing_bytes),
    );
    let age = status.snapshot_taken_at.map(|taken_at| Timestamp::now().duration_since(taken_at).as_secs_f64().max(0.0));
    put("pgthaw_snapshot_age_seconds", "Age of the newest snapshot, or of the primary's warm set.", one(age));
    put("pgthaw_replay_lag_seconds", "Lag of the standby's replay.", one(status.replay_lag_seconds));
    put("pgthaw_restores_total", "Restores since the agent's start.", one(Some(status.restores as f64)));
    let errors = status.errors.iter().map(|(step, count)| (format!("{{step=\"{step}\"}}"), *count as f64));
    put("pgthaw_agent_errors_total", "Failures of the agent's steps.", errors.collect());
    text
}
