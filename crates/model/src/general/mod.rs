//! The general model (equations and limits: docs/model.md): clients in a closed loop, page classes by popularity, a
//! device with limits, cores, two cache tiers and a concurrent warmer.

mod forecast;
mod runs;
#[cfg(test)]
mod simulation_tests;
mod workload;

pub use forecast::{Forecast, ForecastPoint, compute_forecast};
pub use workload::{Access, AccessKind, Bin, Device, PageClass, Popularity, Server, WarmStep, Warmer, Workload};
