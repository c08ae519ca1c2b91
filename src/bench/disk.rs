//! The disk that a study asks for: a limit on the device that holds the data directory.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Disk, Error};
use crate::units::Bytes;

/// A general-purpose cloud volume at its base price: 3000 reads/s, 125 MiB/s (Amazon EBS gp3).
const GP3: (u64, Bytes) = (3000, Bytes(125 << 20));

/// A rotating disk: 200 reads/s, 87 MB/s. The limiter charges every read a seek, so readers in order are slower here
/// than on a real one unless the device's read-ahead is large.
const HDD: (u64, Bytes) = (200, Bytes(87_000_000));

/// The part of `pgthaw.toml` that names disks: `[disk.NAME]` with `riops` and `rbps`.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct NamedDisks {
    #[serde(default)]
    disk: BTreeMap<String, NamedDisk>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedDisk {
    riops: Option<u64>,
    rbps: Option<String>,
}

impl NamedDisks {
    /// Reads the text of a `pgthaw.toml`. Other sections are other commands' business.
    pub fn parse(text: &str) -> Result<NamedDisks, Error> {
        toml::from_str(text).map_err(|source| Error::Settings(source.to_string()))
    }

    /// The disk of a name, or with the given figures. `name` is `gp3`, `hdd`, `native` or a section of `pgthaw.toml`;
    /// figures given beside it win, and make it `custom`.
    pub fn choose(&self, name: Option<&str>, riops: Option<u64>, rbps: Option<Bytes>) -> Result<Disk, Error> {
        if riops == Some(0) || rbps == Some(Bytes(0)) {
            return Err(Error::Disk("a limit of 0 would stop the server: leave it out for no limit".into()));
        }
        let named = match name {
            None | Some("native") => disk("native", None, None),
            Some("gp3") => disk("gp3", Some(GP3.0), Some(GP3.1)),
            Some("hdd") => disk("hdd", Some(HDD.0), Some(HDD.1)),
            Some(other) => self.find(other)?,
        };
        match (riops, rbps) {
            (None, None) => Ok(named),
            (riops, rbps) => Ok(disk("custom", riops.or(named.riops), rbps.or(named.rbps))),
        }
    }

    fn find(&self, name: &str) -> Result<Disk, Error> {
        let Some(found) = self.disk.get(name) else {
            let known: Vec<&str> =
                ["gp3", "hdd", "native"].into_iter().chain(self.disk.keys().map(String::as_str)).collect();
            return Err(Error::Disk(format!("there is no disk \"{name}\": {} are known", known.join(", "))));
        };
        let rbps = found.rbps.as_deref().map(str::parse).transpose();
        let rbps = rbps.map_err(|source| Error::Settings(format!("[disk.{name}] rbps: {source}")))?;
        Ok(disk(name, found.riops, rbps))
    }
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
        let gp3 = NamedDisks::default().choose(Some("gp3"), None, None).unwrap();
        assert_eq!((gp3.riops, gp3.rbps), (Some(3000), Some(Bytes(131_072_000))));
        assert_eq!(compute_bound_seconds(&gp3, Bytes(1_572_864_000)), Some(12.0));
    }

    #[test]
    fn figures_win_over_a_name_and_make_it_custom() {
        let custom = NamedDisks::default().choose(Some("gp3"), Some(500), None).unwrap();
        assert_eq!((custom.name.as_str(), custom.riops, custom.rbps), ("custom", Some(500), Some(Bytes(131_072_000))));
        assert!(NamedDisks::default().choose(None, Some(0), None).is_err());
    }

    #[test]
    fn a_name_comes_from_the_settings() {
        let settings = "[other]\nx = 1\n[disk.san]\nriops = 20000\nrbps = \"1GiB\"\n";
        let disks = NamedDisks::parse(settings).unwrap();
        let san = disks.choose(Some("san"), None, None).unwrap();
        assert_eq!((san.name.as_str(), san.riops, san.rbps), ("san", Some(20000), Some(Bytes(1 << 30))));
        let unknown = disks.choose(Some("nas"), None, None).unwrap_err().to_string();
        assert!(unknown.contains("gp3, hdd, native, san"), "{unknown}");
        assert!(NamedDisks::parse("[disk.x]\niops = 1\n").is_err(), "a misspelt key is an error, not no limit");
    }

    #[test]
    fn a_limit_that_is_not_in_force_bounds_nothing() {
        let mut disk = NamedDisks::default().choose(Some("gp3"), None, None).unwrap();
        disk.not_enforced = Some("no privilege".into());
        assert_eq!(compute_bound_seconds(&disk, Bytes(1 << 30)), None);
    }
}
