//! The disk that a study asks for: a limit on the device that holds the data directory.

use std::str::FromStr;

use super::{Disk, Error};
use crate::units::Bytes;

/// A general-purpose cloud volume at its base price: 3000 reads/s, 125 MiB/s (Amazon EBS gp3).
const GP3: (u64, Bytes) = (3000, Bytes(125 << 20));

/// A rotating disk: 200 reads/s, 87 MB/s. The limiter charges every read a seek, so readers in order are slower here
/// than on a real one unless the device's read-ahead is large.
const HDD: (u64, Bytes) = (200, Bytes(87_000_000));

/// A disk that the user gave a name: `san=20000,1GiB` is 20,000 reads and 1 GiB per second. Either may be left out:
/// `san=,1GiB` has no limit on reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedDisk {
    name: String,
    riops: Option<u64>,
    rbps: Option<Bytes>,
}

impl FromStr for NamedDisk {
    type Err = Error;

    fn from_str(text: &str) -> Result<NamedDisk, Error> {
        let wrong = || Error::Disk(format!("\"{text}\" is no disk; write NAME=READS,BYTES such as san=20000,1GiB"));
        let (name, figures) = text.split_once('=').ok_or_else(wrong)?;
        let (riops, rbps) = figures.split_once(',').unwrap_or((figures, ""));
        let (riops, rbps) = (riops.trim(), rbps.trim());
        let riops = (!riops.is_empty()).then(|| riops.parse()).transpose().map_err(|_| wrong())?;
        let rbps = (!rbps.is_empty()).then(|| rbps.parse()).transpose().map_err(|_| wrong())?;
        Ok(NamedDisk { name: name.trim().to_owned(), riops, rbps })
    }
}

/// The disk of a name, or with the given figures. `name` is `gp3`, `hdd`, `native` or one of `known`; figures given
/// beside it win, and make it `custom`.
pub fn choose_disk(
    known: &[NamedDisk],
    name: Option<&str>,
    riops: Option<u64>,
    rbps: Option<Bytes>,
) -> Result<Disk, Error> {
    let named = match name {
        None | Some("native") => disk("native", None, None),
        Some("gp3") => disk("gp3", Some(GP3.0), Some(GP3.1)),
        Some("hdd") => disk("hdd", Some(HDD.0), Some(HDD.1)),
        Some(other) => find_named(known, other)?,
    };
    let chosen = match (riops, rbps) {
        (None, None) => named,
        (riops, rbps) => disk("custom", riops.or(named.riops), rbps.or(named.rbps)),
    };
    if chosen.riops == Some(0) || chosen.rbps == Some(Bytes(0)) {
        return Err(Error::Disk("a limit of 0 would stop the server: leave it out for no limit".into()));
    }
    Ok(chosen)
}

fn find_named(known: &[NamedDisk], name: &str) -> Result<Disk, Error> {
    let found = known.iter().find(|disk| disk.name == name);
    found.map(|found| disk(name, found.riops, found.rbps)).ok_or_else(|| {
        let own = known.iter().map(|disk| disk.name.as_str());
        let names: Vec<&str> = ["gp3", "hdd", "native"].into_iter().chain(own).collect();
        Error::Disk(format!("there is no disk \"{name}\": {} are known", names.join(", ")))
    })
}

fn disk(name: &str, riops: Option<u64>, rbps: Option<Bytes>) -> Disk {
    Disk { name: name.to_owned(), riops, rbps, not_enforced: None }
}

/// Seconds below which no warmer can bring `wanted` in: bytes ÷ bandwidth. `None` without a limit in force, because
/// the native disk's bandwidth is not known.
pub fn compute_bound_seconds(disk: &Disk, wanted: Bytes) -> Option<f64> {
    let is_in_force = disk.not_enforced.is_none();
    disk.rbps.filter(|_| is_in_force).map(|bandwidth| wanted.seconds_at(bandwidth))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gp3_is_what_the_documentation_says() {
        let gp3 = choose_disk(&[], Some("gp3"), None, None).unwrap();
        assert_eq!((gp3.riops, gp3.rbps), (Some(3000), Some(Bytes(131_072_000))));
        assert_eq!(compute_bound_seconds(&gp3, Bytes(1_572_864_000)), Some(12.0));
    }

    #[test]
    fn figures_win_over_a_name_and_make_it_custom() {
        let custom = choose_disk(&[], Some("gp3"), Some(500), None).unwrap();
        assert_eq!((custom.name.as_str(), custom.riops, custom.rbps), ("custom", Some(500), Some(Bytes(131_072_000))));
        assert!(choose_disk(&[], None, Some(0), None).is_err());
    }

    #[test]
    fn a_disk_can_have_a_name_of_ones_own() {
        let known: Vec<NamedDisk> = ["san=20000,1GiB", "tape=,1MB", "ram=9"].map(|text| text.parse().unwrap()).into();
        let limits = |name| choose_disk(&known, Some(name), None, None).map(|disk| (disk.riops, disk.rbps)).unwrap();
        assert_eq!(limits("san"), (Some(20000), Some(Bytes(1 << 30))));
        assert_eq!(limits("tape"), (None, Some(Bytes(1_000_000))));
        assert_eq!(limits("ram"), (Some(9), None));
        let unknown = choose_disk(&known, Some("nas"), None, None).unwrap_err().to_string();
        assert!(unknown.contains("gp3, hdd, native, san, tape, ram"), "{unknown}");
        for wrong in ["san", "san=fast", "san=1,fast"] {
            assert!(wrong.parse::<NamedDisk>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_limit_that_is_not_in_force_bounds_nothing() {
        let mut disk = choose_disk(&[], Some("gp3"), None, None).unwrap();
        disk.not_enforced = Some("no privilege".into());
        assert_eq!(compute_bound_seconds(&disk, Bytes(1 << 30)), None);
    }
}
