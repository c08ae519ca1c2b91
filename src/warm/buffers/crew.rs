//! How many connections load: as many as help. Pure.

use std::time::Duration;

/// So long what the connections bring is watched before anything changes, and until each has ended so many statements.
const WINDOW: Duration = Duration::from_millis(500);
const STATEMENTS_EACH: u64 = 2;

/// One connection more helps when it brings this much more.
const NOTICEABLE: f64 = 1.1;

/// What did not help is tried again after so long: what is read later may lie elsewhere.
const RETRY: Duration = Duration::from_secs(4);

/// What all connections together have done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    pub statements: u64,
    pub blocks: u64,
}

/// The connections at work.
#[derive(Clone, Copy, Debug)]
pub struct Crew {
    most: usize,
    connections: usize,
    /// When the window began, and what had been done by then.
    since: (Duration, Done),
    /// Blocks per second before the last connection was added.
    before: Option<f64>,
    /// When one more did not help.
    settled_at: Option<Duration>,
}

impl Crew {
    /// One connection, of at most `most`.
    pub fn new(most: usize) -> Crew {
        Crew {
            most: most.max(1),
            connections: 1,
            since: (Duration::ZERO, Done::default()),
            before: None,
            settled_at: None,
        }
    }

    /// How many there are to be from now on, when `done` is done since the beginning.
    pub fn judge(&mut self, now: Duration, done: Done) -> usize {
        let (began, then) = self.since;
        let ended = done.statements - then.statements;
        let lasted = now.saturating_sub(began);
        if lasted < WINDOW || ended < STATEMENTS_EACH * self.connections as u64 {
            return self.connections;
        }
        self.since = (now, done);
        if self.settled_at.is_some_and(|settled_at| now.saturating_sub(settled_at) < RETRY) {
            return self.connections;
        }
        let rate = (done.blocks - then.blocks) as f64 / lasted.as_secs_f64();
        if self.before.take().is_some_and(|before| rate < before * NOTICEABLE) {
            self.settled_at = Some(now);
            self.connections -= 1;
        } else if self.connections < self.most {
            self.before = Some(rate);
            self.connections += 1;
        }
        self.connections
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The connections after each half second on a server that loads `rate(connections)` blocks a second, 512 in a statement.
    fn play(most: usize, seconds: f64, rate: impl Fn(usize, f64) -> f64) -> Vec<usize> {
        let (mut crew, mut blocks, mut connections) = (Crew::new(most), 0.0, 1);
        let mut found = Vec::new();
        for half in 1..=(2.0 * seconds) as u32 {
            let now = f64::from(half) / 2.0;
            blocks += rate(connections, now) / 2.0;
            let done = Done { statements: blocks as u64 / 512, blocks: blocks as u64 };
            connections = crew.judge(Duration::from_secs_f64(now), done);
            found.push(connections);
        }
        found
    }

    #[test]
    fn there_are_as_many_as_help() {
        let scales_to = |best: usize| move |connections: usize, _: f64| 10_000.0 * connections.min(best) as f64;
        assert_eq!(play(8, 4.0, scales_to(3)), [2, 3, 4, 3, 3, 3, 3, 3]);
        assert_eq!(play(8, 2.0, scales_to(1)), [2, 1, 1, 1]);
        assert_eq!(play(2, 2.5, scales_to(9)), [2, 2, 2, 2, 2]);
        assert_eq!(play(1, 1.0, scales_to(9)), [1, 1]);
    }

    #[test]
    fn what_did_not_help_is_tried_again_later() {
        let later = |connections: usize, now: f64| if now > 3.0 { 10_000.0 * connections as f64 } else { 10_000.0 };
        let found = play(4, 7.0, later);
        assert_eq!(found[..3], [2, 1, 1]);
        assert_eq!(found.last(), Some(&4));
    }

    #[test]
    fn slow_statements_are_waited_for() {
        // One in two seconds: four seconds for two of them.
        let found = play(4, 5.0, |_, _| 256.0);
        assert_eq!(found[..8], [1, 1, 1, 1, 1, 1, 1, 2]);
    }
}
