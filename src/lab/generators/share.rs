//! A load shared out over hosts.

use crate::postgres::Load;

/// The load of each of so many hosts: clients and threads as evenly as they go, the first ones have one more; the rate by
/// their clients. A host without clients has no load, and one with clients at least one thread.
pub fn share_load(load: &Load, hosts: usize) -> Vec<Load> {
    let clients = share(load.clients, hosts as u32);
    let busy = clients.iter().filter(|clients| **clients > 0).count();
    let jobs = share(load.jobs.min(load.clients), busy as u32);
    let of_host = |(clients, jobs): (u32, u32)| Load {
        clients,
        jobs: jobs.max(1),
        rate: load.rate.map(|rate| rate * f64::from(clients) / f64::from(load.clients)),
        ..load.clone()
    };
    clients.into_iter().zip(jobs).map(of_host).collect()
}

fn share(amount: u32, hosts: u32) -> Vec<u32> {
    (0..hosts).map(|host| amount / hosts + u32::from(host < amount % hosts)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pgbench::QueryMode;
    use crate::postgres::{Length, TransactionLog};

    fn shared(clients: u32, jobs: u32, hosts: usize) -> Vec<(u32, u32, Option<f64>)> {
        let load = Load {
            scripts: Vec::new(),
            variables: Vec::new(),
            query_mode: QueryMode::default(),
            clients,
            jobs,
            rate: Some(1000.0),
            latency_limit_ms: None,
            max_tries: 1,
            length: Length::Seconds(1),
            log: TransactionLog::Seconds,
        };
        share_load(&load, hosts).iter().map(|one| (one.clients, one.jobs, one.rate)).collect()
    }

    #[test]
    fn every_client_is_somewhere_and_the_rate_goes_with_them() {
        assert_eq!(shared(4, 2, 2), [(2, 1, Some(500.0)), (2, 1, Some(500.0))]);
        assert_eq!(shared(5, 3, 2), [(3, 2, Some(600.0)), (2, 1, Some(400.0))]);
        assert_eq!(shared(2, 2, 3), [(1, 1, Some(500.0)), (1, 1, Some(500.0))]);
        // A pgbench without a thread there is not.
        assert_eq!(shared(4, 1, 2), [(2, 1, Some(500.0)), (2, 1, Some(500.0))]);
    }
}
