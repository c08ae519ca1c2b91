//! The general model: clients in a closed loop, classes of pages by popularity, a device with limits, cores, two tiers of
//! cache, and a warmer beside. docs/model.md has the equations and what they leave out.

mod forecast;
mod runs;
#[cfg(test)]
mod simulation_tests;
mod tiers;
mod workload;

pub use forecast::compute_forecast;
pub use forecast::{Forecast, ForecastPoint};
pub use tiers::Device;
pub use workload::Bin;
pub use workload::Popularity;
pub use workload::{Access, AccessKind, PageClass, Server, WarmStep, Warmer, Workload};
