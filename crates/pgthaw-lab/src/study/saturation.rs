//! That the load generator itself was the limit: by which signs, and in words.

use serde::{Deserialize, Serialize};

/// By which signs the load generator itself was the limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Saturation {
    pub sign: SaturationSign,
    pub threads: u32,
    /// Of the busiest thread of pgbench, medians over the seconds: on a processor, and ready to run and waiting for one.
    pub cpu_ratio: f64,
    pub run_delay_ratio: f64,
    /// Share of the server's client backends that waited for pgbench; `None` where that says nothing.
    pub idle_backends_ratio: Option<f64>,
    /// Of a transaction's response, the part before it was begun; `None` without a rate.
    pub lag_ratio: Option<f64>,
    /// What pgbench reached with as many clients and threads and an empty statement; `None` when it was not tried.
    pub empty_tps: Option<f64>,
    /// Hosts whose threads nobody saw.
    pub unseen_hosts: Vec<String>,
}

/// The sign that decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SaturationSign {
    /// A thread used nearly as much of a core as with an empty statement.
    NearOneCore,
    /// A thread always had something to do, while backends waited for it.
    NeverIdle,
    /// Transactions began late while a thread always had something to do, or, where threads are not seen, while backends
    /// waited for it.
    ScheduleLag,
}

impl Saturation {
    /// What is so.
    pub fn sentence(&self) -> String {
        let Saturation { threads, cpu_ratio, run_delay_ratio, .. } = self;
        let who = match threads {
            1 => "pgbench's thread".to_owned(),
            _ => format!("the busiest of pgbench's {threads} threads"),
        };
        let seen = format!(
            "{who} ran {} of the time and waited for a processor {}",
            percent(*cpu_ratio),
            percent(*run_delay_ratio)
        );
        let busy = match self.unseen_hosts.is_empty() {
            true => seen,
            false if *threads == 0 => format!("its threads on {} are not seen", self.unseen_hosts.join(", ")),
            false => format!("{seen} (those on {} are not seen)", self.unseen_hosts.join(", ")),
        };
        let why = match self.sign {
            SaturationSign::NearOneCore => String::new(),
            SaturationSign::NeverIdle => {
                format!(
                    ", while {} of the backends waited for it",
                    percent(self.idle_backends_ratio.unwrap_or_default())
                )
            }
            SaturationSign::ScheduleLag => {
                let idle =
                    self.idle_backends_ratio.map(|idle| format!(" while {} of the backends wait", percent(idle)));
                let lag = percent(self.lag_ratio.unwrap_or_default());
                format!(", and {lag} of the response is being begun late{}", idle.unwrap_or_default())
            }
        };
        let empty = self.empty_tps.map(|tps| format!("; an empty statement it does {tps:.0} times a second"));
        format!("pgbench itself is the limit: {busy}{why}{}", empty.unwrap_or_default())
    }
}

/// `12 %`
pub(super) fn percent(ratio: f64) -> String {
    format!("{:.0} %", 100.0 * ratio)
}
