//! Others on the machine: one finding with its figures, the same for every kind of study. Pure.

use serde::{Deserialize, Serialize};

use super::sweep::NOISE_TOLD;
use crate::observe::OthersUse;
use crate::units::Bytes;

/// What others may have of the processors' time, or of what the disk delivered: half of the difference between repeats from
/// which on these count as noisy. What they took then explains less than half of any difference that is told.
const BEARABLE_SHARE: f64 = (NOISE_TOLD - 1.0) / 2.0;

/// Reads of others that no disk notices: below both, in all and per second.
const UNNOTICED_BYTES: Bytes = Bytes(20_000_000);
const UNNOTICED_BYTES_PER_SECOND: f64 = 1e6;

/// Processor time that readings of clocks of 10 ms may invent.
const UNSURE_CPU_SECONDS: f64 = 0.1;

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

/// The others, if they had more than can be borne. `None` where nobody looked.
pub fn find_others(used: Option<&OthersUse>) -> Option<Others> {
    let used = used?;
    let sure = |processors: f64| if processors * used.seconds < UNSURE_CPU_SECONDS { 0.0 } else { processors };
    let mut others = Others {
        processors: used.processors,
        used_processors: sure(used.used_processors),
        stolen_processors: sure(used.stolen_processors),
        read_bytes: used.read_bytes,
        device_read_bytes: used.device_read_bytes,
        programs: Vec::new(),
    };
    // In a long trial a disk bears more.
    let unnoticed = (used.seconds * UNNOTICED_BYTES_PER_SECOND).max(UNNOTICED_BYTES.0 as f64);
    if used.read_bytes.0 as f64 <= unnoticed {
        others.read_bytes = Bytes(0);
    }
    if others.takes_processors() {
        others.programs.extend(used.users.iter().cloned());
    }
    if others.takes_disk() {
        let new: Vec<String> = used.readers.iter().filter(|one| !others.programs.contains(one)).cloned().collect();
        others.programs.extend(new);
    }
    (others.takes_processors() || others.takes_disk() || others.is_robbed()).then_some(others)
}

impl Others {
    /// Did others, here or beside this machine, have so much of the processors that nobody else is to blame?
    pub fn has_processors(&self) -> bool {
        self.takes_processors() || self.is_robbed()
    }

    fn takes_processors(&self) -> bool {
        self.used_processors >= BEARABLE_SHARE * f64::from(self.processors.max(1))
    }

    fn is_robbed(&self) -> bool {
        self.stolen_processors >= BEARABLE_SHARE * f64::from(self.processors.max(1))
    }

    fn takes_disk(&self) -> bool {
        self.read_bytes.0 > 0 && self.read_bytes.0 as f64 >= BEARABLE_SHARE * self.device_read_bytes.0 as f64
    }

    /// What is so.
    pub fn sentence(&self) -> String {
        let processors = self.processors;
        let used = || format!("used {:.1} of {processors} processors", self.used_processors);
        let read = || format!("read {} of the {} that the disk delivered", self.read_bytes, self.device_read_bytes);
        let did: Vec<String> =
            [self.takes_processors().then(used), self.takes_disk().then(read)].into_iter().flatten().collect();
        let here = (!did.is_empty()).then(|| format!("others {} meanwhile", did.join(" and ")));
        let beside = self.is_robbed().then(|| {
            format!("the hypervisor gave {:.1} of {processors} processors to other machines", self.stolen_processors)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn used(used_processors: f64, stolen_processors: f64, read: u64) -> OthersUse {
        OthersUse {
            seconds: 10.0,
            processors: 2,
            used_processors,
            stolen_processors,
            users: vec!["make".into()],
            readers: vec!["dd".into(), "make".into()],
            read_bytes: Bytes(read),
            device_read_bytes: Bytes(800 << 20),
        }
    }

    #[test]
    fn others_are_told_with_their_figures_and_what_to_wait_for() {
        let both = find_others(Some(&used(0.9, 0.0, 690 << 20))).unwrap();
        assert_eq!(
            both.text(),
            "others used 0.9 of 2 processors and read 690 MB of the 800 MB that the disk delivered meanwhile: wait until \
             make and dd have ended, or measure at a quieter time"
        );
        let disk = find_others(Some(&used(0.05, 0.0, 690 << 20))).unwrap();
        assert!(disk.sentence().starts_with("others read 690 MB") && !disk.has_processors(), "{disk:?}");
        let processors = find_others(Some(&used(0.9, 0.0, 1000))).unwrap();
        assert!(!processors.sentence().contains("disk") && processors.has_processors(), "{processors:?}");
        assert_eq!(processors.remedy(), "wait until make has ended, or measure at a quieter time");
        let unseen = Others { programs: Vec::new(), ..processors };
        assert_eq!(unseen.remedy(), "wait until they have ended, or measure at a quieter time");
    }

    #[test]
    fn neighbours_of_a_virtual_machine_are_others_by_their_name() {
        let beside = find_others(Some(&used(0.0, 0.3, 0))).unwrap();
        assert_eq!(beside.sentence(), "the hypervisor gave 0.3 of 2 processors to other machines");
        assert!(beside.has_processors() && !beside.remedy().contains("wait"), "{}", beside.remedy());
    }

    #[test]
    fn what_a_comparison_bears_is_not_told() {
        assert_eq!(find_others(Some(&used(0.09, 0.09, 39_000_000))), None);
        // Much of what little was read, and a disk does not notice it.
        let quiet = OthersUse { device_read_bytes: Bytes(10_000_000), ..used(0.0, 0.0, 9_000_000) };
        assert_eq!(find_others(Some(&quiet)), None);
        let short = OthersUse { seconds: 0.1, ..used(0.9, 0.9, 0) };
        assert_eq!(find_others(Some(&short)), None);
        let long = OthersUse { seconds: 3600.0, ..used(0.0, 0.0, 690 << 20) };
        assert_eq!(find_others(Some(&long)), None);
        assert_eq!(find_others(None), None);
    }
}
