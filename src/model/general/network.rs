//! Throughput of clients that go round between cores and device: a closed queueing network of two stations.
//!
//! With exponential times the number of clients at the device has the product form of Gordon and Newell (1967); with one
//! client, and where one station is the limit, the result does not depend on how times are distributed.

use super::{Device, Warmer};

/// What the clients ask for in one transaction, on average.
#[derive(Clone, Copy, Debug)]
pub struct Demand {
    pub cpu_seconds: f64,
    /// Reads that a client waits for.
    pub misses: f64,
    /// All reads, and their bytes: also those of what is read ahead.
    pub reads: f64,
    pub bytes: f64,
}

/// What comes of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flow {
    /// Transactions per second.
    pub tps: f64,
    /// Reads per second of the warmer.
    pub warmer_reads: f64,
}

/// Solves the network for so many clients. `warmer` keeps its reads in flight all the time.
pub fn compute_flow(clients: u32, cores: f64, demand: Demand, device: &Device, warmer: Option<&Warmer>) -> Flow {
    let clients = clients as usize;
    let read_bytes = if demand.reads > 0.0 { demand.bytes / demand.reads } else { 0.0 };
    let cycle = |depth: usize| match warmer {
        Some(warmer) => warmer.shared_cycle_seconds(device, depth as f64, read_bytes),
        None => device.latency_at(depth as f64),
    };
    // Logarithms of the unnormalised probabilities of so many clients at each station.
    let mut at_device = Vec::with_capacity(clients + 1);
    let mut at_cpu = Vec::with_capacity(clients + 1);
    let (mut device_sum, mut cpu_sum) = (0.0, 0.0);
    at_device.push(0.0);
    at_cpu.push(0.0);
    for depth in 1..=clients {
        device_sum += (demand.misses * cycle(depth) / depth as f64).ln();
        cpu_sum += (demand.cpu_seconds / (depth as f64).min(cores)).ln();
        at_device.push(device_sum);
        at_cpu.push(cpu_sum);
    }
    let normal = |clients: usize| log_sum((0..=clients).map(|depth| at_device[depth] + at_cpu[clients - depth]));
    let total = normal(clients);
    let flowing = (normal(clients - 1) - total).exp();
    // A budget of reads or bytes per second delays nobody as long as it lasts; then it is what there is.
    let tps = if warmer.is_none() { flowing.min(device.most_per_second(demand.reads, demand.bytes)) } else { flowing };
    let rate = |warmer: &Warmer| {
        let share = |depth: usize| (at_device[depth] + at_cpu[clients - depth] - total).exp();
        (0..=clients).map(|depth| share(depth) * f64::from(warmer.depth) / cycle(depth)).sum()
    };
    Flow { tps, warmer_reads: warmer.map_or(0.0, rate) }
}

/// The logarithm of a sum of exponentials.
fn log_sum(logs: impl Iterator<Item = f64> + Clone) -> f64 {
    let greatest = logs.clone().fold(f64::NEG_INFINITY, f64::max);
    greatest + logs.map(|log| (log - greatest).exp()).sum::<f64>().ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tps(clients: u32, reads: f64) -> f64 {
        let demand = Demand { cpu_seconds: 1e-3, misses: reads, reads, bytes: reads * 8192.0 };
        compute_flow(clients, 2.0, demand, &Device::with_limits(1000.0, 1e9, 2e-3), None).tps
    }

    #[test]
    fn one_client_waits_for_one_thing_after_the_other() {
        assert!((tps(1, 1.0) - 1.0 / 3e-3).abs() < 1e-9);
        assert!((tps(1, 0.0) - 1000.0).abs() < 1e-9);
    }

    #[test]
    fn many_clients_reach_the_limit_that_is_tightest() {
        assert_eq!(tps(200, 2.0), 500.0);
        assert!((tps(200, 0.0) - 2000.0).abs() < 1e-6);
        assert!((tps(200, 0.01) - 2000.0).abs() < 1.0);
        assert!(tps(4, 0.5) < tps(5, 0.5) && tps(5, 0.5) < 2000.0);
    }

    #[test]
    fn a_warmer_takes_its_share_and_no_more() {
        let warmer = Warmer { steps: Vec::new(), depth: 4, read_bytes: 262_144.0, begins_after_seconds: 0.0 };
        let demand = Demand { cpu_seconds: 1e-4, misses: 2.0, reads: 2.0, bytes: 16_384.0 };
        let device = Device::with_limits(3000.0, 131_072_000.0, 0.5e-3);
        let alone = compute_flow(8, 2.0, demand, &device, None);
        let beside = compute_flow(8, 2.0, demand, &device, Some(&warmer));
        let bytes = beside.tps * 2.0 * 8192.0 + beside.warmer_reads * 262_144.0;
        assert!((alone.tps - 1500.0).abs() < 5.0);
        assert!((bytes / 131_072_000.0 - 1.0).abs() < 0.01 && beside.tps < alone.tps, "{beside:?}");
        assert!(beside.warmer_reads > 400.0, "{beside:?}");
    }
}
