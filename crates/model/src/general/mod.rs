//! The general model: clients in a closed loop, classes of pages by popularity, a device with limits, cores, two tiers of
//! cache, and a warmer beside. docs/model.md has the equations and what they leave out.

mod forecast;
mod runs;
#[cfg(test)]
mod simulation_tests;
mod workload;

pub use forecast::{Forecast, ForecastPoint, compute_forecast};
pub use workload::{Access, AccessKind, Bin, Device, PageClass, Popularity, Server, WarmStep, Warmer, Workload};
