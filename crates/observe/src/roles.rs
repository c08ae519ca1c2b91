//! The roles by which the server tells who reads: the workload, or what warms it.

/// The role that pgbench connects as. It has no other use, so that its backends can be known by it.
pub const WORKLOAD_ROLE: &str = "pgthaw_workload";

/// The role that strategies connect as.
pub const STRATEGY_ROLE: &str = "pgthaw_strategy";
