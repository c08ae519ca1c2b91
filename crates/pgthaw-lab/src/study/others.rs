use serde::{Deserialize, Serialize};

use host::units::{Bytes, counted};

/// Minimum reported share of processor time, or of bytes read, that others use: half the relative difference at which
/// repeats count as noisy.
const BEARABLE_SHARE: f64 = (NOISE_TOLD - 1.0) / 2.0;

/// Excessive use of the machine by other processes during a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema)]
pub struct Others {
    pub processors: u32,
    /// Mean number of processors that other processes used.
    pub used_processors: f64,
    /// Mean number of processors that the hypervisor took.
    pub stolen_processors: f64,
    pub read_bytes: Bytes,
    pub device_read_bytes: Bytes,
    /// Programs with the largest use of processors or disk; empty if unknown.
    pub programs: Vec<String>,
}

impl Others {
    pub fn has_processors(&self) -> bool {
        self.takes_processors() || self.is_robbed()
    }

    pub fn takes_processors(&self) -> bool {
        self.used_processors >= BEARABLE_SHARE * f64::from(self.processors.max(1))
    }

    pub fn is_robbed(&self) -> bool {
        self.stolen_processors >= BEARABLE_SHARE * f64::from(self.processors.max(1))
    }

    pub fn takes_disk(&self) -> bool {
        self.read_bytes.0 > 0 && self.read_bytes.0 as f64 >= BEARABLE_SHARE * self.device_read_bytes.0 as f64
    }

    pub fn sentence(&self) -> String {
        let processors = self.processors;
        let used = || format!("used {:.1} of {}", self.used_processors, counted(processors, "processor"));
        let read = || format!("read {} of the {} that the disk delivered", self.read_bytes, self.device_read_bytes);
        let did: Vec<String> =
            [self.takes_processors().then(used), self.takes_disk().then(read)].into_iter().flatten().collect();
        let here = (!did.is_empty()).then(|| format!("other programs {}", did.join(" and ")));
        let beside = self.is_robbed().then(|| {
            let (stolen, all) = (self.stolen_processors, counted(processors, "processor"));
            format!("the hypervisor gave {stolen:.1} of {all} to other machines")
        });
        here.into_iter().chain(beside).collect::<Vec<_>>().join("; ")
    }

    pub fn remedy(&self) -> String {
        let here = (self.takes_processors() || self.takes_disk()).then(|| wait_for(&self.programs));
        let beside = self.is_robbed().then(|| "measure at another time, or on a dedicated machine".to_owned());
        here.into_iter().chain(beside).collect::<Vec<_>>().join("; ")
    }

    pub fn text(&self) -> String {
        format!("{}: {}", self.sentence(), self.remedy())
    }
}

/// Suggests waiting, not stopping: a program may be a needed server.
fn wait_for(programs: &[String]) -> String {
    let (who, have) = match programs {
        [] => ("they".to_owned(), "have"),
        [one] => (one.clone(), "has"),
        [first @ .., last] => (format!("{} and {last}", first.join(", ")), "have"),
    };
    format!("wait until {who} {have} ended, or measure at a quieter time")
}

/// Minimum reported noise: throughput of a point's fastest repeat ÷ slowest, median of all points.
pub const NOISE_TOLD: f64 = 1.1;
