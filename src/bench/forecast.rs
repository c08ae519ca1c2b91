//! What the model says before the trials: how long the server takes when nothing warms it but the workload.

use serde::{Deserialize, Serialize};

use crate::model::{self, Device, PageClass, Popularity, Scenario, Server, Span, Workload, compute_outlook};
use crate::units::Bytes;

/// The table that pgbench's own scripts read, and its index.
const TABLE: &str = "public.pgbench_accounts";
const INDEX: &str = "public.pgbench_accounts_pkey";

/// Of an index, the share of its blocks that are not leaves: one in some hundred. They are read in the first instant.
const LEAF_SHARE: f64 = 1.0 - 1.0 / 256.0;

/// The forecast for `nothing`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StudyForecast {
    /// Transactions per second at the start, and when warm.
    pub cold_tps: f64,
    pub steady_tps: f64,
    /// Until half of `steady_tps`, and until fewer than 1 % of transactions read from the device, with what they are when
    /// device and processor are 15 % better or worse.
    pub to_50_seconds: Option<Span>,
    pub warm_after_seconds: Option<Span>,
}

/// What a forecast is made of.
#[derive(Clone, Debug)]
pub struct ForecastInputs<'a> {
    pub device: &'a Device,
    pub cores: u32,
    pub clients: u32,
    /// Of the warm server, measured.
    pub warm_tps: f64,
    /// Names and sizes.
    pub relations: &'a [(String, Bytes)],
    pub block_size: Bytes,
}

/// Forecasts a cold start of pgbench's own scripts: each transaction reads a row of the table by its index, all rows equally
/// likely. `None` where the tables are not pgbench's.
pub fn compute_forecast(inputs: &ForecastInputs<'_>) -> Result<Option<StudyForecast>, model::Error> {
    let block_bytes = inputs.block_size.0.max(1) as f64;
    let pages = |name: &str| {
        let found = inputs.relations.iter().find(|(relation, _)| relation == name);
        found.map(|(_, bytes)| bytes.0 as f64 / block_bytes)
    };
    let (Some(table), Some(index)) = (pages(TABLE), pages(INDEX)) else { return Ok(None) };
    let class = |name: &str, pages: f64| PageClass {
        name: name.to_owned(),
        pages,
        accesses: 1.0,
        popularity: Popularity::Uniform,
        resident_share: 0.0,
    };
    let cores = f64::from(inputs.cores);
    let workload = Workload {
        clients: inputs.clients,
        classes: vec![class(TABLE, table), class(INDEX, index * LEAF_SHARE)],
        hit_seconds: cores.min(inputs.clients.into()) / inputs.warm_tps,
        copy_seconds: 0.0,
        read_seconds: 0.0,
        read_ahead_pages: 1.0,
        startup_reads: 0.0,
    };
    let (buffers_pages, os_pages) = (f64::INFINITY, f64::INFINITY);
    let server = Server { device: inputs.device.clone(), cores, buffers_pages, os_pages, block_bytes };
    let outlook = compute_outlook(&Scenario { name: "nothing".into(), workload, server, warmer: None })?;
    Ok(Some(StudyForecast {
        cold_tps: outlook.cold_tps,
        steady_tps: outlook.steady_tps,
        to_50_seconds: outlook.to_50_seconds,
        warm_after_seconds: outlook.warm_after_seconds,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs<'a>(device: &'a Device, relations: &'a [(String, Bytes)]) -> ForecastInputs<'a> {
        ForecastInputs { device, cores: 2, clients: 8, warm_tps: 65_000.0, relations, block_size: Bytes(8192) }
    }

    #[test]
    fn a_cold_start_takes_as_long_as_was_measured() {
        // Scale 100 on a disk of 3000 reads/s: half of the throughput after 53 s, measured (docs/journal).
        let relations = [(TABLE.to_owned(), Bytes(163_935 * 8192)), (INDEX.to_owned(), Bytes(27_422 * 8192))];
        let device = Device::with_limits(3000.0, 131_072_000.0, 0.5e-3);
        let forecast = compute_forecast(&inputs(&device, &relations)).unwrap().unwrap();
        let (half, warm) = (forecast.to_50_seconds.unwrap(), forecast.warm_after_seconds.unwrap());
        assert!((half.seconds / 53.0 - 1.0).abs() < 0.15 && warm.seconds > half.seconds, "{forecast:?}");
        assert!((forecast.steady_tps / 65_000.0 - 1.0).abs() < 0.01, "{forecast:?}");
    }

    #[test]
    fn other_tables_have_no_forecast() {
        let device = Device::with_limits(3000.0, 131_072_000.0, 0.5e-3);
        assert_eq!(compute_forecast(&inputs(&device, &[("public.mine".to_owned(), Bytes(8192))])).unwrap(), None);
    }
}
