//! Others on the machine: one finding with its figures, the same for every kind of study. Pure.

use crate::observe::OthersUse;
use crate::study::Others;
use crate::units::Bytes;

/// Reads of others that no disk notices: below both, in all and per second.
const UNNOTICED_BYTES: Bytes = Bytes(20_000_000);
const UNNOTICED_BYTES_PER_SECOND: f64 = 1e6;

/// Processor time that readings of clocks of 10 ms may invent.
const UNSURE_CPU_SECONDS: f64 = 0.1;

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
