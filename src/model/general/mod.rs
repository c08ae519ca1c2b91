//! The general model: clients in a closed loop, classes of pages by popularity, a device with limits, cores, two tiers of
//! cache, and a warmer beside. docs/model.md has the equations and what they leave out.

mod curve;
mod device;
mod forecast;
mod network;
mod popularity;
mod read_ahead;
mod runs;
#[cfg(test)]
mod simulation_tests;
mod tiers;
mod workload;
mod zipf;

pub use curve::{Forecast, ForecastPoint};
pub use device::Device;
pub use forecast::compute_forecast;
pub use popularity::Popularity;
pub use workload::{Access, AccessKind, PageClass, Server, WarmStep, Warmer, Workload};
pub use zipf::Bin;
