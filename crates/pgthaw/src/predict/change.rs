//! `--what-if`: the same workload on another device, with other memory or other clients.

use std::str::FromStr;

use super::values::{parse_cores, parse_hit, parse_memory, parse_reads};
use crate::restore::{positive_bytes, positive_rate};
use host::units::Bytes;
use model::{Device, Error, Scenario, Server, Workload};

/// Changes of one case.
#[derive(Clone, Debug, PartialEq)]
pub struct Changes {
    text: String,
    changes: Vec<Change>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    Riops(f64),
    Rbps(f64),
    Memory(f64),
    SharedBuffers(f64),
    Clients(u32),
    Cores(f64),
    Hit(f64),
}

impl FromStr for Changes {
    type Err = String;

    fn from_str(text: &str) -> Result<Changes, String> {
        Ok(Changes { text: text.to_owned(), changes: text.split(',').map(parse_change).collect::<Result<_, _>>()? })
    }
}

fn parse_change(text: &str) -> Result<Change, String> {
    let (name, value) = text.split_once('=').ok_or_else(|| format!("\"{text}\" is not NAME=VALUE"))?;
    let bytes = || positive_bytes(value).map(|Bytes(bytes)| bytes as f64);
    match name.trim() {
        "riops" => parse_reads(value).map(Change::Riops),
        "rbps" => positive_rate(value).map(|Bytes(bytes)| Change::Rbps(bytes as f64)),
        "memory" => parse_memory(value).map(|Bytes(bytes)| Change::Memory(bytes as f64)),
        "shared_buffers" => bytes().map(Change::SharedBuffers),
        "clients" => value
            .parse()
            .ok()
            .filter(|clients| (1..=100_000).contains(clients))
            .map(Change::Clients)
            .ok_or_else(|| format!("\"{value}\" is not a number of clients")),
        "cores" => parse_cores(value).map(Change::Cores),
        "hit" => parse_hit(value).map(Change::Hit),
        other => Err(format!(
            "\"{other}\" cannot be changed: riops, rbps, memory, shared_buffers, clients, cores and hit can"
        )),
    }
}

impl Changes {
    /// As they were typed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The memory, where it alone is changed.
    pub fn memory_alone(&self) -> Option<Bytes> {
        match self.changes[..] {
            [Change::Memory(bytes)] => Some(Bytes(bytes as u64)),
            _ => None,
        }
    }

    /// The scenario with these changes, named by them.
    ///
    /// # Errors
    /// When shared_buffers do not fit into the memory.
    pub fn apply(&self, scenario: &Scenario) -> Result<Scenario, Error> {
        let mut changed = Scenario { name: self.text.clone(), ..scenario.clone() };
        let Scenario { server, workload, .. } = &mut changed;
        let (mut memory, mut buffers) = (server.memory_pages(), server.buffers_pages);
        for change in &self.changes {
            match change {
                Change::Memory(bytes) => memory = bytes / server.block_bytes,
                Change::SharedBuffers(bytes) => buffers = bytes / server.block_bytes,
                other => other.apply(server, workload),
            }
        }
        if self.changes.iter().any(|change| matches!(change, Change::Memory(_) | Change::SharedBuffers(_))) {
            server.divide_memory(memory, buffers)?;
        }
        Ok(changed)
    }
}

impl Change {
    fn apply(self, server: &mut Server, workload: &mut Workload) {
        let Device { reads_per_second, bandwidth, .. } = &mut server.device;
        match self {
            Change::Riops(riops) => *reads_per_second = riops,
            Change::Rbps(rbps) => *bandwidth = rbps,
            // These depend on each other: `Changes::apply` divides the memory.
            Change::Memory(_) | Change::SharedBuffers(_) => {}
            Change::Clients(clients) => workload.clients = clients,
            Change::Cores(cores) => server.cores = cores,
            Change::Hit(seconds) => workload.hit_seconds = seconds,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_changes_make_one_case() {
        let changes: Changes = "riops=10000,memory=8GiB,hit=0.1ms".parse().unwrap();
        let expected = [Change::Riops(10_000.0), Change::Memory((8_u64 << 30) as f64), Change::Hit(0.1 * 1e-3)];
        assert_eq!(changes.changes, expected);
        for text in ["", "riops", "riops=0", "speed=3", "memory=much", "memory=1", "clients=0", "clients=2.5"] {
            assert!(text.parse::<Changes>().is_err(), "{text}");
        }
    }
}
