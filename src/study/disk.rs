//! The disk that a study asks for: a limit on the device that holds the data directory, and its read-ahead.

use std::str::FromStr;

use super::error::Error;
use super::record::Disk;
use crate::units::Bytes;

/// What a disk can do; `None` is no limit, or the read-ahead that the device is set to anyway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Profile {
    riops: Option<u64>,
    rbps: Option<Bytes>,
    read_ahead: Option<Bytes>,
    wiops: Option<u64>,
    wbps: Option<Bytes>,
}

/// A general-purpose cloud volume at its base price: 3000 reads/s, 125 MiB/s (Amazon EBS gp3). Its read-ahead is
/// Linux's default for every disk (VM_READAHEAD_PAGES of include/linux/mm.h): virtual machines elsewhere have been
/// seen with 8 MiB, with which `cat` reads as on no such volume.
const GP3: Profile =
    Profile { riops: Some(3000), rbps: Some(Bytes(125 << 20)), read_ahead: Some(Bytes(128 << 10)), ..NATIVE };

/// A rotating disk: 200 reads/s, 87 MB/s. The limiter charges every read a seek, so the read-ahead is 1 MiB: with it a
/// reader in order reaches the bandwidth, as on a real one.
const HDD: Profile =
    Profile { riops: Some(200), rbps: Some(Bytes(87_000_000)), read_ahead: Some(Bytes(1 << 20)), ..NATIVE };

const NATIVE: Profile = Profile { riops: None, rbps: None, read_ahead: None, wiops: None, wbps: None };

const BUILT_IN: [(&str, Profile); 3] = [("gp3", GP3), ("hdd", HDD), ("native", NATIVE)];

/// The kernel keeps a read-ahead in whole pages.
const PAGE_BYTES: u64 = 4096;

/// A disk that the user gave a name: `san=20000,1GiB,128KiB` is 20,000 reads and 1 GiB per second with a read-ahead of
/// 128 KiB. Each may be left out: `san=,1GiB` has no limit on reads, and the device's own read-ahead. Two more limit
/// writes: `san=20000,1GiB,128KiB,5000,250MiB`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedDisk {
    name: String,
    profile: Profile,
}

impl FromStr for NamedDisk {
    type Err = Error;

    fn from_str(text: &str) -> Result<NamedDisk, Error> {
        let (name, figures) = text.split_once('=').ok_or_else(|| wrong_disk(text))?;
        let mut figures = figures.split(',').map(str::trim);
        let profile = Profile {
            riops: parse_figure(text, figures.next(), str::parse)?,
            rbps: parse_figure(text, figures.next(), Bytes::parse_rate)?,
            read_ahead: parse_figure(text, figures.next(), str::parse)?,
            wiops: parse_figure(text, figures.next(), str::parse)?,
            wbps: parse_figure(text, figures.next(), Bytes::parse_rate)?,
        };
        let name = name.trim();
        match figures.next() {
            Some(_) => Err(wrong_disk(text)),
            None if is_built_in(name) => {
                Err(Error::Disk(format!("the disk {name} is known already; give this one another name")))
            }
            None if profile == NATIVE => Err(Error::Disk(format!(
                "the disk {name:?} has no figure: write READS,BYTES,READ-AHEAD,WRITES,BYTES, of which some may be left out, or name native"
            ))),
            None => Ok(NamedDisk { name: name.to_owned(), profile }),
        }
    }
}

/// A figure of the disk `text`; nothing, or an empty one, is `None`.
fn parse_figure<T, E>(
    text: &str,
    figure: Option<&str>,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<Option<T>, Error> {
    let given = figure.filter(|figure| !figure.is_empty());
    given.map(|figure| parse(figure).map_err(|_| wrong_disk(text))).transpose()
}

fn wrong_disk(text: &str) -> Error {
    Error::Disk(format!(
        "\"{text}\" is no disk; write NAME=READS,BYTES,READ-AHEAD,WRITES,BYTES such as san=20000,1GiB,128KiB (each may be left out)"
    ))
}

/// A read-ahead that is asked for by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskedReadAhead {
    /// As the device is set.
    Native,
    Of(Bytes),
}

impl FromStr for AskedReadAhead {
    type Err = Error;

    fn from_str(text: &str) -> Result<AskedReadAhead, Error> {
        match text {
            "native" => Ok(AskedReadAhead::Native),
            _ => text.parse().map(AskedReadAhead::Of).map_err(|error| Error::Disk(format!("{error}; or native"))),
        }
    }
}

impl AskedReadAhead {
    fn bytes(self) -> Option<Bytes> {
        match self {
            AskedReadAhead::Native => None,
            AskedReadAhead::Of(bytes) => Some(bytes),
        }
    }
}

/// What is asked of a disk: a name, and figures that win over those of the name.
#[derive(Clone, Copy, Debug, Default)]
pub struct AskedDisk<'a> {
    /// `gp3`, `hdd`, `native` or a named one's; `None` is `native`.
    pub name: Option<&'a str>,
    pub riops: Option<u64>,
    pub rbps: Option<Bytes>,
    pub read_ahead: Option<AskedReadAhead>,
}

/// The disk asked for, of the built-in and the `known` ones. Figures that differ from those of its name make it
/// `custom`.
pub fn choose_disk(known: &[NamedDisk], asked: AskedDisk<'_>) -> Result<Disk, Error> {
    let name = asked.name.unwrap_or("native");
    let named = find_profile(known, name)?;
    let chosen = Profile {
        riops: asked.riops.or(named.riops),
        rbps: asked.rbps.or(named.rbps),
        read_ahead: asked.read_ahead.map_or(named.read_ahead, AskedReadAhead::bytes),
        ..named
    };
    if [chosen.riops, chosen.wiops].contains(&Some(0)) || [chosen.rbps, chosen.wbps].contains(&Some(Bytes(0))) {
        return Err(Error::Disk("a limit of 0 would stop the server: leave it out for no limit".into()));
    }
    if let Some(read_ahead) = chosen.read_ahead.filter(|read_ahead| read_ahead.0 % PAGE_BYTES != 0) {
        let wrong = format!("a read-ahead is whole pages of 4 kB, not {} bytes; write 128kB or native", read_ahead.0);
        return Err(Error::Disk(wrong));
    }
    let name = match chosen {
        chosen if chosen == named => name,
        NATIVE => "native",
        _ => "custom",
    };
    let Profile { riops, rbps, read_ahead, wiops, wbps } = chosen;
    Ok(Disk {
        name: name.to_owned(),
        riops,
        rbps,
        wiops,
        wbps,
        writes_not_enforced: None,
        not_enforced: None,
        read_ahead,
        read_ahead_not_enforced: None,
    })
}

/// Is it a disk that needs no figures?
pub fn is_built_in(name: &str) -> bool {
    BUILT_IN.iter().any(|(known, _)| *known == name)
}

fn find_profile(known: &[NamedDisk], name: &str) -> Result<Profile, Error> {
    let own = known.iter().map(|disk| (disk.name.as_str(), disk.profile));
    let all: Vec<(&str, Profile)> = BUILT_IN.into_iter().chain(own).collect();
    let found = all.iter().find(|(known, _)| *known == name);
    found.map(|(_, profile)| *profile).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        Error::Disk(format!("there is no disk \"{name}\": {} are known", names.join(", ")))
    })
}

/// Seconds below which no warmer can bring `wanted` in: bytes ÷ bandwidth. `None` without a limit in force, because
/// the native disk's bandwidth is not known.
pub fn compute_bound_seconds(disk: &Disk, wanted: Bytes) -> Option<f64> {
    let is_in_force = disk.not_enforced.is_none();
    disk.rbps.filter(|_| is_in_force).map(|bandwidth| wanted.seconds_at(bandwidth))
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A disk by its name alone.
    pub fn named(name: &str) -> Disk {
        choose(name, AskedDisk::default()).unwrap()
    }

    fn choose(name: &str, asked: AskedDisk<'_>) -> Result<Disk, Error> {
        choose_disk(&[], AskedDisk { name: Some(name), ..asked })
    }

    #[test]
    fn gp3_is_what_the_documentation_says() {
        let gp3 = named("gp3");
        assert_eq!((gp3.riops, gp3.rbps, gp3.read_ahead), (Some(3000), Some(Bytes(131_072_000)), Some(Bytes(131_072))));
        assert_eq!(compute_bound_seconds(&gp3, Bytes(1_572_864_000)), Some(12.0));
    }

    #[test]
    fn a_reader_in_order_reaches_the_bandwidth_of_a_rotating_disk() {
        let hdd = named("hdd");
        assert!(hdd.riops.unwrap() * hdd.read_ahead.unwrap().0 >= hdd.rbps.unwrap().0);
    }

    #[test]
    fn figures_win_over_a_name_and_make_it_custom() {
        let custom = choose("gp3", AskedDisk { riops: Some(500), ..AskedDisk::default() }).unwrap();
        assert_eq!((custom.name.as_str(), custom.riops, custom.rbps), ("custom", Some(500), Some(Bytes(131_072_000))));
        assert!(choose("native", AskedDisk { riops: Some(0), ..AskedDisk::default() }).is_err());
    }

    #[test]
    fn a_read_ahead_can_be_asked_for_by_itself() {
        let with = |name, text: &str| {
            let asked = AskedDisk { read_ahead: Some(text.parse().unwrap()), ..AskedDisk::default() };
            choose(name, asked).map(|disk| (disk.name, disk.riops, disk.read_ahead))
        };
        assert_eq!(with("gp3", "native").unwrap(), ("custom".into(), Some(3000), None));
        assert_eq!(with("gp3", "128KiB").unwrap(), ("gp3".into(), Some(3000), Some(Bytes(131_072))));
        assert_eq!(with("native", "0").unwrap(), ("custom".into(), None, Some(Bytes(0))));
        assert_eq!(with("native", "native").unwrap(), ("native".into(), None, None));
        assert!(with("gp3", "6kB").unwrap_err().to_string().contains("whole pages"));
        assert!("far".parse::<AskedReadAhead>().is_err());
    }

    #[test]
    fn a_disk_can_have_a_name_of_ones_own() {
        let texts = ["san=20000,1GiB,256KiB", "tape=,1MB", "ram=9", "pen=,,,400,1MiB"];
        let known: Vec<NamedDisk> = texts.map(|text| text.parse().unwrap()).into();
        let choose = |name| choose_disk(&known, AskedDisk { name: Some(name), ..AskedDisk::default() });
        let figures = |name| choose(name).map(|disk| (disk.riops, disk.rbps, disk.read_ahead)).unwrap();
        assert_eq!(figures("san"), (Some(20000), Some(Bytes(1 << 30)), Some(Bytes(256 << 10))));
        assert_eq!(figures("tape"), (None, Some(Bytes(1_000_000)), None));
        assert_eq!(figures("ram"), (Some(9), None, None));
        let pen = choose("pen").unwrap();
        assert_eq!((pen.wiops, pen.wbps, pen.riops), (Some(400), Some(Bytes(1 << 20)), None));
        assert!(pen.limits_writes() && pen.is_limited());
        let unknown = choose("nas").unwrap_err().to_string();
        assert!(unknown.contains("gp3, hdd, native, san, tape, ram, pen"), "{unknown}");
        for wrong in ["san", "san=fast", "san=1,fast", "san=1,1MB,far", "san=1,1MB,4KiB,9,1MB,7"] {
            assert!(wrong.parse::<NamedDisk>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_disk_of_ones_own_has_a_name_of_its_own() {
        for name in ["gp3", " hdd ", "native"] {
            let refused = format!("{name}=9,1MB").parse::<NamedDisk>().unwrap_err().to_string();
            assert!(refused.contains(name.trim()) && refused.contains("another name"), "{refused}");
        }
        assert!("gp2=9,1MB".parse::<NamedDisk>().is_ok());
    }

    #[test]
    fn a_limit_that_is_not_in_force_bounds_nothing() {
        let mut disk = named("gp3");
        disk.not_enforced = Some("no privilege".into());
        assert_eq!(compute_bound_seconds(&disk, Bytes(1 << 30)), None);
    }
}
