//! Others on the machine: one finding with its figures, the same for every kind of study.

use serde::{Deserialize, Serialize};

use host::units::{Bytes, counted};

/// What others may have of the processors' time, or of what the disk delivered: half of the difference between repeats from
/// which on these count as noisy. What they took then explains less than half of any difference that is told.
const BEARABLE_SHARE: f64 = (NOISE_TOLD - 1.0) / 2.0;

/// What others had of the machine while a trial ran, more than its comparison can bear. Field names are part of `--json`
/// (docs/formats.md).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Others {
    pub processors: u32,
    /// Of these used by others, and given to other machines by the hypervisor, in the mean.
    pub used_processors: f64,
    pub stolen_processors: f64,
    /// Read from the device by others, and by anybody.
    pub read_bytes: Bytes,
    pub device_read_bytes: Bytes,
    /// The programs that had most of what is told; empty where they are not to be seen.
    pub programs: Vec<String>,
}

impl Others {
    /// Did others, here or beside this machine, have so much of the processors that nobody else is to blame?
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

    /// What is so.
    pub fn sentence(&self) -> String {
        let processors = self.processors;
        let used = || format!("used {:.1} of {}", self.used_processors, counted(processors, "processor"));
        let read = || format!("read {} of the {} that the disk delivered", self.read_bytes, self.device_read_bytes);
        let did: Vec<String> =
            [self.takes_processors().then(used), self.takes_disk().then(read)].into_iter().flatten().collect();
        let here = (!did.is_empty()).then(|| format!("others {} meanwhile", did.join(" and ")));
        let beside = self.is_robbed().then(|| {
            let (stolen, all) = (self.stolen_processors, counted(processors, "processor"));
            format!("the hypervisor gave {stolen:.1} of {all} to other machines")
        });
        here.into_iter().chain(beside).collect::<Vec<_>>().join("; ")
    }

    /// What to do about it.
    pub fn remedy(&self) -> String {
        let here = (self.takes_processors() || self.takes_disk()).then(|| wait_for(&self.programs));
        let beside = self.is_robbed().then(|| "measure at another time, or on a machine of one's own".to_owned());
        here.into_iter().chain(beside).collect::<Vec<_>>().join("; ")
    }

    /// Both in one line.
    pub fn text(&self) -> String {
        format!("{}: {}", self.sentence(), self.remedy())
    }
}

/// Who is named may be a server that must not be stopped.
fn wait_for(programs: &[String]) -> String {
    let (who, have) = match programs {
        [] => ("they".to_owned(), "have"),
        [one] => (one.clone(), "has"),
        [first @ .., last] => (format!("{} and {last}", first.join(", ")), "have"),
    };
    format!("wait until {who} {have} ended, or measure at a quieter time")
}

/// Repeats of one point that differ by more than this are told.
pub const NOISE_TOLD: f64 = 1.1;
