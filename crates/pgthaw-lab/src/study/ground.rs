use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr as _;

use serde::{Deserialize, Serialize};
use strum::{EnumProperty, EnumString, IntoStaticStr, VariantNames};
use toml::{Table, Value};

use super::axis::{check_used, choose_named};
use super::point::{DEFAULT_SERVER, NATIVE, TOGETHER};
use super::record::Disk;
use host::linux::{FileSystemAsked, IMAGE_BYTES_MIN, Making, OwnCommands, PLACEHOLDERS};
use host::units::Bytes;

/// Refused mount options, such as those that change where a file system is mounted.
const REFUSED_OPTIONS: &str = "bind device encryption group loop move noauto nofail offset owner rbind remount ro sizelimit subvol \
     subvolid user users norecovery noload";

const LOGICAL_BLOCKS: [i64; 4] = [512, 1024, 2048, 4096];

/// A larger image takes minutes to write.
const SIZE_MAX: Bytes = Bytes(4 << 40);

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileSystemSpec {
    #[serde(flatten)]
    pub asked: FileSystemAsked,
    /// `None` means the size that the study should need.
    pub size: Option<Bytes>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerSpec {
    /// Major version, whose programs are in /usr/lib/postgresql.
    Major(u32),
    Programs(PathBuf),
}

pub fn read_disks(
    own: &BTreeMap<String, String>,
    asked: &[String],
    places: &BTreeMap<String, Places>,
) -> Result<BTreeMap<String, Disk>, String> {
    if let Some(name) = own.keys().find(|name| find_built_in(name.trim()).is_some()) {
        return Err(format!("disks.{name}: this name means a built-in disk; choose another name"));
    }
    let known = own.iter().map(|(name, figures)| {
        parse_disk(name, figures).map(|disk| (name.clone(), disk)).map_err(|problem| format!("disks.{name}: {problem}"))
    });
    let known: BTreeMap<String, Disk> = known.collect::<Result<_, String>>()?;
    let used: Vec<String> = asked.iter().chain(places.values().flat_map(BTreeMap::values)).cloned().collect();
    check_used(("disks", "disk"), own.keys(), &used, (NATIVE, "a built-in disk"))?;
    let known_names = format!("{} and names defined in [disks]", BUILT_IN.map(|(name, _)| name).join(", "));
    let of_parts = places.values().flat_map(BTreeMap::values);
    let mut disks = choose_named("points.disk", asked, &known, find_built_in, &known_names)?;
    disks.extend(choose_named("places", of_parts, &known, find_built_in, &known_names)?);
    Ok(disks)
}

pub fn read_file_systems(own: &Table, asked: &[String]) -> Result<BTreeMap<String, FileSystemSpec>, String> {
    let known = own.iter().map(|(name, value)| Ok((name.clone(), read_file_system(name, value)?)));
    let known: BTreeMap<String, FileSystemSpec> = known.collect::<Result<_, String>>()?;
    check_used(("file_systems", "file_system"), own.keys(), asked, (NATIVE, "the existing file system"))?;
    let asked = asked.iter().filter(|name| *name != NATIVE);
    let find_plain = |name: &str| find_kind(name).map(of);
    let known_names = "native, ext4, xfs, btrfs and names defined in [file_systems]";
    choose_named("points.file_system", asked, &known, find_plain, known_names)
}

fn find_kind(name: &str) -> Option<Making> {
    name.parse().ok().map(Making::Kind)
}

fn of(making: Making) -> FileSystemSpec {
    let asked = FileSystemAsked { making, options: Vec::new(), scheduler: None, logical_block_bytes: None };
    FileSystemSpec { asked, size: None }
}

/// Parses `"ext4,noatime"`, or a table with `mount` or with the user's own commands.
fn read_file_system(name: &str, value: &Value) -> Result<FileSystemSpec, String> {
    let key = format!("file_systems.{name}");
    match value {
        Value::String(text) => read_mount(&key, text),
        Value::Table(table) => read_table(&key, table),
        other => Err(format!(
            "{key}: {other} is not a file system; write \"ext4,noatime\", or a table with mount = \"ext4\""
        )),
    }
}

fn read_table(key: &str, table: &Table) -> Result<FileSystemSpec, String> {
    const KEYS: [&str; 7] = ["mount", "scheduler", "logical_block_bytes", "size", "make", "unmount", "log_device"];
    if let Some(unknown) = table.keys().find(|name| !KEYS.contains(&name.as_str())) {
        return Err(format!("{key}.{unknown}: unknown key; known keys are {}", KEYS.join(", ")));
    }
    let text = |name: &str| match table.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str())),
        Some(other) => Err(format!("{key}.{name}: {other} is not a string")),
    };
    let bytes = |name: &str| text(name)?.map(|size| read_size(&format!("{key}.{name}"), size)).transpose();
    let mut spec = if table.contains_key("make") {
        of(Making::Commands(read_commands(key, table, bytes("log_device")?)?))
    } else if let Some(other) = ["unmount", "log_device"].into_iter().find(|name| table.contains_key(*name)) {
        return Err(format!("{key}.{other}: valid only with the key make; write make, or remove {other}"));
    } else {
        let missing =
            || format!("{key}: mount is missing; write mount = \"ext4,noatime\", or make = \"mkfs… {{device}}\"");
        read_mount(&format!("{key}.mount"), text("mount")?.ok_or_else(missing)?)?
    };
    if let Some(scheduler) = text("scheduler")? {
        if !is_word(scheduler) {
            return Err(format!(
                "{key}.scheduler: {scheduler:?} is not a scheduler; write none, mq-deadline, kyber or bfq"
            ));
        }
        spec.asked.scheduler = Some(scheduler.to_owned());
    }
    if let Some(bytes) = table.get("logical_block_bytes") {
        let known = bytes.as_integer().filter(|bytes| LOGICAL_BLOCKS.contains(bytes));
        let wrong = || format!("{key}.logical_block_bytes: {bytes} is not allowed; write 512, 1024, 2048 or 4096");
        spec.asked.logical_block_bytes = Some(known.ok_or_else(wrong)? as u32);
    }
    spec.size = bytes("size")?;
    match spec.size.filter(|size| *size < IMAGE_BYTES_MIN) {
        Some(size) => Err(format!("{key}.size: {size} is too small; write {IMAGE_BYTES_MIN} or more, or leave it out")),
        None => Ok(spec),
    }
}

fn read_size(key: &str, size: &str) -> Result<Bytes, String> {
    let bytes = Bytes::from_str(size).map_err(|error| format!("{key}: {error}"))?;
    match bytes {
        Bytes(0) => Err(format!("{key}: the size is 0; write a size such as \"1GiB\", or remove it")),
        bytes if bytes > SIZE_MAX => Err(format!("{key}: {size} is too large; an image has at most 4 TiB")),
        bytes => Ok(bytes),
    }
}

fn read_commands(key: &str, table: &Table, log_device: Option<Bytes>) -> Result<OwnCommands, String> {
    let read = |name: &str| {
        let texts = match table.get(name) {
            None => Vec::new(),
            Some(Value::Array(texts)) => texts.iter().collect(),
            Some(text) => vec![text],
        };
        texts.into_iter().map(|text| read_command(&format!("{key}.{name}"), text)).collect::<Result<Vec<_>, _>>()
    };
    let own = OwnCommands { make: read("make")?, mount: read("mount")?, unmount: read("unmount")?, log_device };
    let all = [&own.make, &own.mount, &own.unmount];
    let has = |placeholder: &str, commands: &[&Vec<Vec<String>>]| {
        commands.iter().copied().flatten().flatten().any(|word| word.contains(placeholder))
    };
    match (log_device, has("{log_device}", &all)) {
        (None, true) => {
            return Err(format!(
                "{key}: {{log_device}} is used, but log_device is missing; write its size, such as log_device = \"1GiB\""
            ));
        }
        (Some(_), false) => {
            return Err(format!("{key}.log_device: no command uses {{log_device}}; use it, or remove the key"));
        }
        _ => {}
    }
    if !has("{device}", &all[..1]) {
        return Err(format!(
            "{key}.make: {{device}} is missing: it stands for the loop device on which pgthaw creates the file system"
        ));
    }
    if !has("{directory}", &all[..2]) {
        return Err(format!(
            "{key}: {{directory}} is missing: a command in \"make\" or \"mount\" must contain it; it stands for the directory in which the file system is mounted"
        ));
    }
    Ok(own)
}

fn read_command(key: &str, value: &Value) -> Result<Vec<String>, String> {
    let wrong = || format!("{key}: {value} is not a command; write a string, or a list of strings");
    let text = value.as_str().ok_or_else(wrong)?;
    let words = shlex::split(text).filter(|words| words.first().is_some_and(|program| !program.is_empty()));
    let words =
        words.ok_or_else(|| format!("{key}: {text:?} is not a command: it is empty, or a quote is not closed"))?;
    for word in &words {
        let rest = PLACEHOLDERS.iter().fold(word.clone(), |rest, placeholder| rest.replace(placeholder, ""));
        if rest.contains(['{', '}']) {
            let known = PLACEHOLDERS.join(", ");
            return Err(format!("{key}: {word:?} has an unknown placeholder; known are {known}"));
        }
    }
    // A study's digest must not depend on the working directory.
    if words[0].contains('/') && !words[0].starts_with('/') {
        return Err(format!("{key}: {:?} is a relative path; write a name in PATH, or an absolute path", words[0]));
    }
    Ok(words)
}

fn read_mount(key: &str, text: &str) -> Result<FileSystemSpec, String> {
    let mut parts = text.split(',').map(str::trim);
    let kind = parts.next().unwrap_or_default();
    let wrong = || format!("{key}: pgthaw cannot create {kind:?}; write ext4, xfs or btrfs, then its options");
    let mut spec = of(find_kind(kind).ok_or_else(wrong)?);
    for option in parts {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        if !is_word(name) || !(value.is_empty() || is_value(value)) {
            return Err(format!(
                "{key}: {option:?} is not a mount option; write letters, digits and _, optionally followed by = and a value"
            ));
        }
        if REFUSED_OPTIONS.split(' ').any(|refused| refused == name) {
            return Err(format!("{key}: the option {name} is not allowed in a study; remove it"));
        }
        spec.asked.options.push(option.to_owned());
    }
    Ok(spec)
}

fn is_word(text: &str) -> bool {
    let is_part = |one: char| one.is_ascii_alphanumeric() || one == '_' || one == '-';
    text.starts_with(|first: char| first.is_ascii_alphanumeric()) && text.chars().all(is_part)
}

/// A slash could name a file or device outside the study.
fn is_value(text: &str) -> bool {
    text.chars().all(|one| one.is_ascii_alphanumeric() || "_-.:%+".contains(one))
}

pub fn read_servers(own: &BTreeMap<String, PathBuf>, asked: &[String]) -> Result<BTreeMap<String, ServerSpec>, String> {
    if let Some((name, path)) = own.iter().find(|(_, path)| !path.is_absolute()) {
        let path = path.display();
        return Err(format!("servers.{name}: {path} is not an absolute path; write one such as /opt/pg18/bin"));
    }
    check_used(("servers", "server"), own.keys(), asked, (DEFAULT_SERVER, "the server found by default"))?;
    let own = own.iter().map(|(name, path)| (name.clone(), ServerSpec::Programs(path.clone()))).collect();
    let major = |name: &str| name.parse().ok().filter(|major| (10..1000).contains(major)).map(ServerSpec::Major);
    let asked = asked.iter().filter(|name| *name != DEFAULT_SERVER);
    let known_names = "default, a major version such as \"15\", and names defined in [servers]";
    choose_named("points.server", asked, &own, major, known_names)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[derive(Serialize, Deserialize, EnumProperty, EnumString, IntoStaticStr, VariantNames)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Part {
    #[strum(props(log = "wal-log", directory = "pg_wal"))]
    Wal,
    /// pg_xact, or pg_clog before PostgreSQL 10.
    #[strum(props(log = "slru-log", directory = "pg_xact"))]
    Slru,
    /// Includes materialised views and TOAST tables.
    #[strum(props(log = "tables-log", tablespace = "pgthaw_tables"))]
    Tables,
    #[strum(props(log = "indexes-log", tablespace = "pgthaw_indexes"))]
    Indexes,
}

host::named!(Part);

impl Part {
    pub fn log_name(self) -> &'static str {
        self.get_str("log").unwrap_or_else(|| unreachable!("{self:?} has no log"))
    }

    /// `None` for a part in a tablespace.
    pub fn directory(self) -> Option<&'static str> {
        self.get_str("directory")
    }

    /// `None` for a part in the data directory.
    pub fn tablespace(self) -> Option<&'static str> {
        self.get_str("tablespace")
    }
}

/// Disk of each part that has its own device. The other parts are on the point's disk.
pub type Places = BTreeMap<Part, String>;

pub fn read_places(
    own: &BTreeMap<String, Table>,
    asked: &[String],
    file_systems: &[String],
) -> Result<BTreeMap<String, Places>, String> {
    check_used(("places", "places"), own.keys(), asked, (TOGETHER, "all parts on one device"))?;
    let known = own.iter().map(|(name, table)| Ok((name.clone(), read_place(name, table)?)));
    let known: BTreeMap<String, Places> = known.collect::<Result<_, String>>()?;
    let named = asked.iter().filter(|name| *name != TOGETHER);
    let places = choose_named("points.places", named, &known, |_| None, "together and names defined in [places]")?;
    let is_apart = places.values().any(|parts| !parts.is_empty());
    if is_apart && file_systems.iter().any(|name| name == NATIVE) {
        return Err(
            "points.places: some parts of the cluster are on loop devices. For a fair comparison, the other parts must \
                    be on a loop device too: write file_system = \"ext4\" (or xfs, btrfs, one of \
                    [file_systems])"
                .into(),
        );
    }
    Ok(places)
}

fn read_place(name: &str, table: &Table) -> Result<Places, String> {
    if table.is_empty() {
        return Err(format!(
            "places.{name}: the table is empty; write a part of the cluster and its disk, such as wal = \"gp3\", or use points.places = \"{TOGETHER}\""
        ));
    }
    let read = |(key, value): (&String, &Value)| {
        let known = || Part::VARIANTS.join(", ");
        let part =
            key.parse().map_err(|_| format!("places.{name}.{key}: unknown part of a cluster; known are {}", known()));
        let disk = value.as_str().map(str::to_owned);
        let wrong = || format!("places.{name}.{key}: {value} is not a disk; write the name of one, such as \"gp3\"");
        Ok((part?, disk.ok_or_else(wrong)?))
    };
    table.iter().map(read).collect()
}

/// Amazon EBS gp3 at its base price: 3000 reads/s, 125 MiB/s. The read-ahead is Linux's default (VM_READAHEAD_PAGES in
/// include/linux/mm.h).
const GP3: &str = "3000,125MiB,128KiB";

/// The limit of 200 reads/s also applies to sequential reads: a read-ahead of 1 MiB lets them reach the bandwidth.
const HDD: &str = "200,87MB,1MiB";

const BUILT_IN: [(&str, &str); 3] = [("gp3", GP3), ("hdd", HDD), (NATIVE, "")];
const PAGE_BYTES: u64 = 4096;

/// Parses `20000,1GiB,128KiB`: reads per second, bytes per second, read-ahead. Each may be omitted, as in `,1GiB`. Two
/// further values limit writes: `20000,1GiB,128KiB,5000,250MiB`.
pub fn parse_disk(name: &str, figures: &str) -> Result<Disk, String> {
    let wrong = || {
        format!(
            "{figures:?} is not a disk; write READS,BYTES,READ-AHEAD,WRITES,BYTES (per second, except READ-AHEAD), such as \"3000,125MiB,128KiB\"; each may be omitted"
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
        ..Disk::default()
    };
    let Disk { riops, rbps, read_ahead, wiops, wbps, .. } = disk;
    let has_figure = disk.is_limited() || read_ahead.is_some();
    if texts.next().is_some() || (!has_figure && name != NATIVE) {
        return Err(wrong());
    }
    if [riops, wiops].contains(&Some(0)) || [rbps, wbps].contains(&Some(Bytes(0))) {
        return Err("a limit of 0 would stop the server; omit it for no limit".to_owned());
    }
    match read_ahead.filter(|read_ahead| read_ahead.0 % PAGE_BYTES != 0) {
        Some(uneven) => Err(format!(
            "a read-ahead must be whole pages of 4 kB, not {} bytes; write 128kB, or omit it to keep the device's own",
            uneven.0
        )),
        None => Ok(disk),
    }
}

pub fn find_built_in(name: &str) -> Option<Disk> {
    let (name, figures) = BUILT_IN.iter().find(|(known, _)| *known == name)?;
    Some(parse_disk(name, figures).unwrap_or_else(|_| unreachable!("the figures of {name} are valid")))
}

/// Time of the fastest possible warmer. `None` without a bandwidth limit in force.
pub fn compute_bound_seconds(disk: &Disk, wanted: Bytes) -> Option<f64> {
    let is_in_force = disk.not_enforced.is_none();
    disk.rbps.filter(|_| is_in_force).map(|bandwidth| wanted.seconds_at(bandwidth))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::spec::tests::{assert_refused, sweep};

    #[test]
    fn file_systems_and_servers_are_axes() {
        let study = sweep(
            "[points]\nfile_system = [\"native\", \"xfs\", \"fast\"]\nserver = [\"default\", \"15\", \"mine\"]\n\
             [file_systems]\nfast = { mount = \"ext4,noatime,data=writeback\", scheduler = \"none\", \
             logical_block_bytes = 4096, size = \"2GiB\" }\n[servers]\nmine = \"/opt/pg/bin\"\n",
        )
        .unwrap();
        assert_eq!((study.points(), study.axes.varied()), (9, vec!["file_system".to_owned(), "server".to_owned()]));
        let last = study.point(8);
        assert_eq!((last.file_system.as_str(), last.server.as_str()), ("fast", "mine"));
        assert_eq!(study.file_systems.keys().collect::<Vec<_>>(), ["fast", "xfs"]);
        let fast = &study.file_systems["fast"];
        assert_eq!(fast.asked.options, ["noatime", "data=writeback"]);
        assert_eq!(serde_json::to_value(fast).unwrap()["kind"], "ext4");
        assert_eq!((fast.size, fast.asked.logical_block_bytes), (Some(Bytes(2 << 30)), Some(4096)));
        assert_eq!(study.servers["15"], ServerSpec::Major(15));
        assert_eq!(study.servers["mine"], ServerSpec::Programs("/opt/pg/bin".into()));
    }

    #[test]
    fn a_disk_without_a_figure_is_refused() {
        for figures in ["", ",,", " , "] {
            let text = format!("[points]\ndisk = \"own\"\n[disks]\nown = \"{figures}\"\n");
            assert_refused(&text, &["disks.own", "not a disk", "READS,BYTES,READ-AHEAD"]);
        }
        assert_refused("[points]\ndisk = \"\"\n", &["points.disk", "a name"]);
    }

    #[test]
    fn what_no_point_uses_is_refused() {
        for (section, text) in [
            ("file_systems.spare", "[file_systems]\nspare = \"btrfs\"\n"),
            ("servers.spare", "[servers]\nspare = \"/opt/pg/bin\"\n"),
            ("disks.spare", "[disks]\nspare = \"3000\"\n"),
            ("databases.spare", "[databases.spare]\npgbench = false\n"),
        ] {
            let axis = format!("points.{}", section.split("s.").next().unwrap());
            assert_refused(text, &[section, "no point uses it", &axis]);
        }
    }

    #[test]
    fn what_no_mount_should_see_is_refused() {
        let named = |text: &str| format!("[points]\nfile_system = \"x\"\n[file_systems]\nx = {text}\n");
        for option in ["a;b", "a b", "$(id)", "x=/dev/sda", "x='y'", "", "-o", "a=`b`", "a\\nb", "é", "a=b=c", "x=|"] {
            assert_refused(&named(&format!("\"ext4,{option}\"")), &["file_systems.x", "not a mount option"]);
        }
        for option in ["loop", "bind", "remount", "offset=512", "ro", "device=x"] {
            assert_refused(&named(&format!("\"btrfs,noatime,{option}\"")), &["file_systems.x", "remove it"]);
        }
        assert_refused(&named("\"zfs\""), &["file_systems.x", "zfs", "ext4, xfs or btrfs"]);
        assert_refused(&named("7"), &["file_systems.x", "ext4,noatime"]);
        assert_refused(&named("{ mont = \"ext4\" }"), &["file_systems.x.mont", "mount, scheduler"]);
        assert_refused(&named("{ scheduler = \"none\" }"), &["file_systems.x", "mount is missing"]);
        assert_refused(&named("{ mount = \"ext4\", scheduler = \"a;b\" }"), &["file_systems.x.scheduler"]);
        assert_refused(&named("{ mount = \"ext4\", logical_block_bytes = 100 }"), &["logical_block_bytes", "4096"]);
        assert_refused(&named("{ mount = \"ext4\", size = \"a lot\" }"), &["file_systems.x.size", "a lot"]);
        assert_refused(&named("{ mount = \"ext4\", size = \"9000TiB\" }"), &["file_systems.x.size", "4 TiB"]);
        assert_refused(&named("{ mount = \"ext4\", size = \"300MB\" }"), &["file_systems.x.size", "300 MB", "512 MB"]);
        assert_refused(
            "[points]\nfile_system = \"ntfs\"\n",
            &["points.file_system", "ntfs", "native, ext4, xfs, btrfs"],
        );
        assert_refused("[file_systems]\nnative = \"ext4\"\n", &["file_systems.native", "another name"]);
    }

    #[test]
    fn a_file_system_may_be_made_by_commands_of_ones_own() {
        let named = |text: &str| format!("[points]\nfile_system = \"x\"\n[file_systems.x]\n{text}\n");
        let study = sweep(&named(
            "make = \"mkfs.ext4 -L 'a b' -b 1024 {device}\"\nmount = \"mount -o data=writeback {device} {directory}\"\n\
             scheduler = \"none\"",
        ))
        .unwrap();
        let asked = &study.file_systems["x"].asked;
        assert_eq!(
            asked.render_commands(),
            ["mkfs.ext4 -L 'a b' -b 1024 '{device}'", "mount -o 'data=writeback' '{device}' '{directory}'"]
        );
        assert_eq!((asked.log_device(), asked.scheduler.as_deref()), (None, Some("none")));
        let pool = sweep(&named(
            "make = [\"zpool create -m {directory} {name} {device} log {log_device}\", \"zfs set recordsize=8k {name}\"]\n\
             unmount = \"zpool destroy {name}\"\nlog_device = \"1GiB\"",
        ));
        assert_eq!(pool.unwrap().file_systems["x"].asked.log_device(), Some(Bytes(1 << 30)));
        let make = "make = \"mkfs.ext4 {device}\"";
        for (text, parts) in [
            ("make = \"mkfs.ext4\"", &["file_systems.x.make", "{device} is missing"][..]),
            (make, &["file_systems.x", "{directory}"]),
            ("make = \"mkfs.ext4 {disk}\"", &["file_systems.x.make", "{disk}", "{device}, {log_device}"]),
            ("make = \"mkfs.ext4 'x\"", &["file_systems.x.make", "quote"]),
            ("make = \"\"", &["file_systems.x.make", "not a command"]),
            ("make = 7", &["file_systems.x.make", "7", "list of strings"]),
            ("make = \"./mk {device} {directory}\"", &["file_systems.x.make", "absolute path"]),
            ("make = \"mk {device} {log_device} {directory}\"", &["log_device is missing"]),
            ("make = \"mk {device} {directory}\"\nlog_device = \"1GiB\"", &["file_systems.x.log_device"]),
            ("mount = \"ext4\"\nunmount = \"umount {directory}\"", &["file_systems.x.unmount", "make"]),
        ] {
            assert_refused(&named(text), parts);
        }
    }

    #[test]
    fn a_server_is_a_version_or_a_whole_path() {
        assert_refused("[points]\nserver = \"newest\"\n", &["points.server", "newest", "\"15\"", "[servers]"]);
        assert_refused("[servers]\nmine = \"bin\"\n", &["servers.mine", "/opt/pg18/bin"]);
        assert_refused("[servers]\ndefault = \"/opt\"\n", &["servers.default", "another name"]);
        assert_refused("[points]\nserver = \"4\"\n", &["points.server"]);
    }

    #[test]
    fn places_are_an_axis_and_each_part_has_a_disk() {
        let study = sweep(
            "[points]\nplaces = [\"together\", \"apart\"]\nfile_system = \"ext4\"\n[disks]\nlog = \",,,400\"\n\
             [places.apart]\nwal = \"log\"\nslru = \"gp3\"\n",
        )
        .unwrap();
        assert_eq!((study.points(), study.axes.varied()), (2, vec!["places".to_owned()]));
        assert_eq!(study.point(1).value("places").as_deref(), Some("apart"));
        let parts = |number| {
            let places = study.places.get(&study.point(number).places).cloned();
            places.unwrap_or_default().into_iter().collect::<Vec<_>>()
        };
        assert!(parts(0).is_empty());
        assert_eq!(parts(1), [(Part::Wal, "log".to_owned()), (Part::Slru, "gp3".to_owned())]);
        assert_eq!(study.disks.keys().collect::<Vec<_>>(), ["gp3", "log", "native"]);
    }

    #[test]
    fn what_cannot_be_placed_is_refused() {
        let with = |text: &str| format!("[points]\nplaces = \"x\"\nfile_system = \"ext4\"\n{text}");
        assert_refused(&with(""), &["points.places", "\"x\"", "[places]"]);
        assert_refused(&with("[places.x]\nlog = \"gp3\"\n"), &["places.x.log", "wal, slru, tables, indexes"]);
        assert_refused(&with("[places.x]\nwal = 7\n"), &["places.x.wal", "gp3"]);
        assert_refused(&with("[places.x]\nwal = \"fast\"\n"), &["places", "fast", "gp3", "[disks]"]);
        assert_refused(&with("[places.together]\n[places.x]\n"), &["places.together", "another name"]);
        assert_refused(&with("[places.x]\n"), &["places.x", "is empty", "wal = "]);
        assert_refused(
            &with("[places.x]\nwal = \"gp3\"\n[places.y]\nwal = \"hdd\"\n"),
            &["places.y", "no point uses it", "points.places"],
        );
        let native = "[points]\nplaces = \"x\"\nfile_system = [\"native\", \"xfs\"]\n[places.x]\nwal = \"gp3\"\n";
        assert_refused(native, &["points.places", "file_system = \"ext4\""]);
    }
}

#[cfg(test)]
pub mod disk_tests {
    use super::*;

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
            assert!(parse_disk("own", wrong).unwrap_err().contains("is not a disk"), "{wrong}");
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
