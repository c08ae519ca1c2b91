//! A cold start on Linux as a scenario: one way for every forecast of a real server, so that none forgets what the kernel adds.

use super::{Device, PageClass, Scenario, Server, Workload};
use crate::units::Bytes;

/// What the kernel's work on a read takes of a processor, beyond copying a cached block: 33 µs on the machine of the lab
/// (docs/model.md). Of a latency that was measured it is a part.
pub const READ_CPU_SECONDS: f64 = 33e-6;

/// Reads of catalogs, one after the other, before a server that has just been started runs its first transaction: of some 160
/// blocks, many of them read ahead (docs/model.md).
const STARTUP_READS: f64 = 40.0;

/// A server that has just been started, and nothing is cached.
#[derive(Clone, Debug)]
pub struct ColdStart {
    pub clients: u32,
    pub classes: Vec<PageClass>,
    /// Seconds of a core that a transaction takes when all its pages are in shared_buffers.
    pub hit_seconds: f64,
    pub cores: f64,
    pub device: Device,
    /// How far the kernel reads ahead.
    pub read_ahead: Bytes,
    pub block_bytes: f64,
    /// Pages that fit into shared_buffers, and into the page cache; infinite where one tier holds everything.
    pub buffers_pages: f64,
    pub os_pages: f64,
    /// Reads of the clients before their first transaction.
    pub client_reads: f64,
}

impl ColdStart {
    /// The scenario of a server that nothing but its clients warms.
    pub fn scenario(self) -> Scenario {
        let workload = Workload {
            clients: self.clients,
            classes: self.classes,
            hit_seconds: self.hit_seconds,
            copy_seconds: 0.0,
            read_seconds: READ_CPU_SECONDS,
            read_ahead_pages: self.read_ahead.0 as f64 / self.block_bytes,
            startup_reads: STARTUP_READS + self.client_reads,
        };
        let server = Server {
            device: self.device,
            cores: self.cores,
            buffers_pages: self.buffers_pages,
            os_pages: self.os_pages,
            block_bytes: self.block_bytes,
        };
        Scenario { name: "cold restart".into(), workload, server, warmer: None }
    }
}

/// Seconds of a core that a transaction takes on a warm server, which is bound by its cores.
pub fn compute_hit_seconds(warm_tps: f64, clients: f64, cores: f64) -> f64 {
    clients.min(cores) / warm_tps
}
