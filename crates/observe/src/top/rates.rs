//! Rates over the last steps. No clock and no process here.

use std::collections::VecDeque;

use super::frame::{MachineStep, Rates, ServerStep};
use crate::time::TimeSpan;

/// A server's sessions tell their counters about once a second, each when it pleases: over ten seconds that evens out.
const WINDOW_NS: u64 = 10_000_000_000;

/// Where pgthaw's own are told late, its connections are told in the first two steps, which are more than its questions: later steps do without
/// them.
const OWN_BEGIN: u32 = 2;

/// What was counted within the last seconds.
#[derive(Clone, Debug, Default)]
pub(super) struct RateWindow {
    server: VecDeque<ServerStep>,
    /// Are pgthaw's own transactions told late?
    is_late: bool,
    /// How many were told.
    told: u32,
    /// Lengths, and what was fetched.
    fetched: VecDeque<(u64, u64)>,
}

impl RateWindow {
    /// `is_late`: the server counts pgthaw's own transactions up to a second after they were asked.
    pub fn new(is_late: bool) -> RateWindow {
        RateWindow { is_late, ..RateWindow::default() }
    }

    /// Takes a step, and tells the rates up to its end.
    pub fn take(&mut self, span: &TimeSpan, server: Option<&ServerStep>, machine: Option<&MachineStep>) -> Rates {
        self.server.extend(server.copied());
        self.told += u32::from(server.is_some());
        if self.is_late && self.told == OWN_BEGIN + 1 {
            self.server.drain(..self.server.len() - 1);
        }
        trim(&mut self.server, |step| step.length_ns);
        self.fetched.extend(machine.and_then(|step| Some((step.length_ns, step.fetched_bytes?.0))));
        trim(&mut self.fetched, |step| step.0);
        let rates = self.compute();
        let seconds = span.second.length_ns as f64 / 1e9;
        if span.second.shares.commands.is_none() || seconds <= 0.0 {
            return rates;
        }
        let clients = &span.clients;
        // Where they are counted, and no client is there, there are none.
        let commands = clients.commands.unwrap_or(0) as f64;
        let handled = clients.lived_ns.saturating_sub(clients.client_ns) as f64;
        Rates {
            commands_per_second: Some(commands / seconds),
            command_ns: (commands > 0.0).then(|| handled / commands),
            ..rates
        }
    }

    fn compute(&self) -> Rates {
        let sum = |of: fn(&ServerStep) -> u64| self.server.iter().map(|step| of(step) as f64).sum::<f64>();
        // Over several steps it matters little that a server may count pgthaw's own a moment later.
        let transactions = self.server.iter().map(ServerStep::transactions).sum::<f64>().max(0.0);
        let ratio = |part: f64, whole: f64| (whole > 0.0).then(|| part / whole);
        let seconds = sum(|step| step.length_ns) / 1e9;
        let (hit, read) = (sum(|step| step.blocks_hit), sum(|step| step.blocks_read));
        let active: Option<f64> = self.server.iter().map(|step| step.active_ns.map(|ns| ns as f64)).sum();
        let read_bytes = sum(|step| step.blocks_read.saturating_mul(step.block_size.into()));
        let fetched: f64 = self.fetched.iter().map(|step| step.1 as f64).sum();
        let fetched_seconds = self.fetched.iter().map(|step| step.0 as f64).sum::<f64>() / 1e9;
        let fetched_per_second = ratio(fetched, fetched_seconds);
        let missed = ratio(fetched_per_second.unwrap_or_default(), ratio(read_bytes, seconds).unwrap_or_default());
        Rates {
            over_ns: (seconds * 1e9) as u64,
            transactions_per_second: ratio(transactions, seconds),
            transaction_ns: active.and_then(|active| ratio(active, transactions)),
            buffers_hit_ratio: ratio(hit, hit + read),
            page_cache_hit_ratio: fetched_per_second.and(missed).map(|missed| (1.0 - missed).max(0.0)),
            fetched_bytes_per_second: fetched_per_second,
            ..Rates::default()
        }
    }
}

/// Leaves out what is older, but keeps the last.
fn trim<T>(steps: &mut VecDeque<T>, length: impl Fn(&T) -> u64) {
    let mut sum: u64 = steps.iter().map(&length).fold(0, u64::saturating_add);
    while sum > WINDOW_NS && steps.len() > 1 {
        sum -= steps.pop_front().as_ref().map_or(0, &length);
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::tests::{SECOND, span};
    use super::*;
    use host::units::Bytes;

    #[test]
    fn rates_are_those_of_the_last_ten_seconds() {
        let mut window = RateWindow::default();
        let machine = MachineStep { length_ns: SECOND, fetched_bytes: Some(Bytes(2 << 13)), ..MachineStep::default() };
        let mut rates = Rates::default();
        for second in 0..30 {
            // Told every other second.
            let told = if second % 2 == 0 { 2 } else { 0 };
            let server = ServerStep {
                length_ns: SECOND,
                commits: 100 * told,
                blocks_hit: 36 * told,
                blocks_read: 4 * told,
                block_size: 8192,
                active_ns: Some(50_000_000 * told),
                ..ServerStep::default()
            };
            rates = window.take(&span(), Some(&server), Some(&machine));
        }
        assert_eq!((rates.over_ns, rates.transactions_per_second), (10 * SECOND, Some(100.0)));
        assert_eq!((rates.buffers_hit_ratio, rates.page_cache_hit_ratio), (Some(0.9), Some(0.5)));
        assert_eq!((rates.commands_per_second, rates.command_ns), (Some(500.0), Some(4_000_000.0)));
        assert_eq!(rates.transaction_ns, Some(500_000.0));
    }

    #[test]
    fn what_was_served_in_the_first_steps_counts_where_ours_are_told_at_once() {
        let served = ServerStep { length_ns: SECOND, commits: 12, own_transactions: 4, ..ServerStep::default() };
        let idle = ServerStep { commits: 4, ..served };
        let [at_once, late] = [false, true].map(|is_late| {
            let mut window = RateWindow::new(is_late);
            let rates = [served, idle, idle, idle].map(|server| window.take(&span(), Some(&server), None));
            rates[3].transactions_per_second
        });
        assert_eq!((at_once, late), (Some(2.0), Some(0.0)));
    }

    #[test]
    fn of_a_server_that_idles_pgthaws_own_transactions_are_none() {
        let mut window = RateWindow::new(true);
        let mut rates = Rates::default();
        // The server tells them a second later.
        for (told, asked) in [(0, 6), (6, 6), (7, 6), (5, 6), (6, 6)] {
            let server =
                ServerStep { length_ns: SECOND, commits: told, own_transactions: asked, ..ServerStep::default() };
            rates = window.take(&span(), Some(&server), None);
        }
        assert_eq!(rates.transactions_per_second, Some(0.0));
    }

    #[test]
    fn what_was_not_seen_has_no_rate() {
        let mut uncounted = span();
        (uncounted.second.shares.commands, uncounted.clients.commands) = (None, None);
        let rates = RateWindow::default().take(&uncounted, None, None);
        assert_eq!(rates, Rates::default());
        let quiet = ServerStep { length_ns: SECOND, ..ServerStep::default() };
        let rates = RateWindow::default().take(&uncounted, Some(&quiet), Some(&MachineStep::default()));
        assert_eq!((rates.transactions_per_second, rates.transaction_ns), (Some(0.0), None));
        assert_eq!((rates.buffers_hit_ratio, rates.page_cache_hit_ratio), (None, None), "nothing was asked for");
    }
}
