//! The disks that a study can name: a limit on the device that holds the data directory, and its read-ahead.

use super::record::Disk;
use host::units::Bytes;

/// A general-purpose cloud volume at its base price: 3000 reads/s, 125 MiB/s (Amazon EBS gp3). Its read-ahead is
/// Linux's default for every disk (VM_READAHEAD_PAGES of include/linux/mm.h): virtual machines elsewhere have been
/// seen with 8 MiB, with which `cat` reads as on no such volume.
const GP3: &str = "3000,125MiB,128KiB";

/// A rotating disk: 200 reads/s, 87 MB/s. The limiter charges every read a seek, so the read-ahead is 1 MiB: with it a
/// reader in order reaches the bandwidth, as on a real one.
const HDD: &str = "200,87MB,1MiB";

const BUILT_IN: [(&str, &str); 3] = [("gp3", GP3), ("hdd", HDD), (NATIVE, "")];
const NATIVE: &str = "native";

/// The kernel keeps a read-ahead in whole pages.
const PAGE_BYTES: u64 = 4096;

/// The disk of these figures: `20000,1GiB,128KiB` is 20,000 reads and 1 GiB per second with a read-ahead of 128 KiB. Each may be left
/// out: `,1GiB` has no limit on reads, and the device's own read-ahead. Two more limit writes: `20000,1GiB,128KiB,5000,250MiB`.
pub fn parse_disk(name: &str, figures: &str) -> Result<Disk, String> {
    let wrong = || {
        format!(
            "{figures:?} is no disk; write READS,BYTES,READ-AHEAD,WRITES,BYTES such as \"3000,125MiB,128KiB\", of which some may be left out"
        )
    };
    let mut texts = figures.split(',').map(str::trim);
    let mut next = || texts.next().filter(|text| !text.is_empty());
    let whole = |text: &str| text.parse().map_err(|_| wrong());
    let rate = |text: &str| Bytes::parse_rate(text).map_err(|_| wrong());
    let disk = Disk {
        name: name.to_owned(),
        riops: next().map(whole).transpose()?,
        rbps: next().map(rate).transpose()?,
        read_ahead: next().map(|text| text.parse().map_err(|_| wrong())).transpose()?,
        wiops: next().map(whole).transpose()?,
        wbps: next().map(rate).transpose()?,
        writes_not_enforced: None,
        not_enforced: None,
        read_ahead_not_enforced: None,
    };
    let Disk { riops, rbps, read_ahead, wiops, wbps, .. } = disk;
    let has_figure = disk.is_limited() || read_ahead.is_some();
    if texts.next().is_some() || (!has_figure && name != NATIVE) {
        return Err(wrong());
    }
    if [riops, wiops].contains(&Some(0)) || [rbps, wbps].contains(&Some(Bytes(0))) {
        return Err("a limit of 0 would stop the server: leave it out for no limit".to_owned());
    }
    match read_ahead.filter(|read_ahead| read_ahead.0 % PAGE_BYTES != 0) {
        Some(uneven) => Err(format!(
            "a read-ahead is whole pages of 4 kB, not {} bytes; write 128kB, or leave it out for the device's own",
            uneven.0
        )),
        None => Ok(disk),
    }
}

/// The disk of this name that needs no figures.
pub fn find_built_in(name: &str) -> Option<Disk> {
    let (name, figures) = BUILT_IN.iter().find(|(known, _)| *known == name)?;
    Some(parse_disk(name, figures).unwrap_or_else(|_| unreachable!("the figures of {name} are right")))
}

/// Names of the disks that need no figures.
pub fn built_in_names() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().map(|(name, _)| *name)
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
        find_built_in(name).unwrap()
    }

    #[test]
    fn gp3_is_what_the_documentation_says() {
        let gp3 = named("gp3");
        assert_eq!((gp3.riops, gp3.rbps, gp3.read_ahead), (Some(3000), Some(Bytes(131_072_000)), Some(Bytes(131_072))));
        assert_eq!(compute_bound_seconds(&gp3, Bytes(1_572_864_000)), Some(12.0));
        assert!(!named("native").is_limited() && named("native").read_ahead.is_none());
    }

    #[test]
    fn a_reader_in_order_reaches_the_bandwidth_of_a_rotating_disk() {
        let hdd = named("hdd");
        assert!(hdd.riops.unwrap() * hdd.read_ahead.unwrap().0 >= hdd.rbps.unwrap().0);
    }

    #[test]
    fn a_disk_has_some_of_its_figures() {
        let figures = |text| parse_disk("own", text).map(|disk| (disk.riops, disk.rbps, disk.read_ahead)).unwrap();
        assert_eq!(figures("20000,1GiB,256KiB"), (Some(20000), Some(Bytes(1 << 30)), Some(Bytes(256 << 10))));
        assert_eq!(figures(",1MB"), (None, Some(Bytes(1_000_000)), None));
        assert_eq!(figures("9"), (Some(9), None, None));
        assert_eq!(figures(",,0"), (None, None, Some(Bytes(0))));
        let pen = parse_disk("pen", ",,,400,1MiB").unwrap();
        assert_eq!((pen.wiops, pen.wbps, pen.riops), (Some(400), Some(Bytes(1 << 20)), None));
        assert!(pen.limits_writes() && pen.is_limited());
        for wrong in ["", ",,", "fast", "1,fast", "1,1MB,far", "1,1MB,4KiB,9,1MB,7"] {
            assert!(parse_disk("own", wrong).unwrap_err().contains("is no disk"), "{wrong}");
        }
        assert!(parse_disk("own", ",,6kB").unwrap_err().contains("whole pages"));
        assert!(parse_disk("own", "0").unwrap_err().contains("would stop the server"));
    }

    #[test]
    fn a_limit_that_is_not_in_force_bounds_nothing() {
        let mut disk = named("gp3");
        disk.not_enforced = Some("no privilege".into());
        assert_eq!(compute_bound_seconds(&disk, Bytes(1 << 30)), None);
    }
}
