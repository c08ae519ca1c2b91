//! What a point's server stands on: a file system that is made for it, and the programs that it is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr as _;

use serde::Serialize;
use toml::{Table, Value};

use super::point::{DEFAULT_SERVER, NATIVE};
use crate::linux::{FileSystemAsked, FileSystemKind};
use crate::units::Bytes;

/// Options that say where or by whom something is mounted, and not how it works.
const REFUSED_OPTIONS: [&str; 20] = [
    "bind",
    "device",
    "encryption",
    "group",
    "loop",
    "move",
    "noauto",
    "nofail",
    "offset",
    "owner",
    "rbind",
    "remount",
    "ro",
    "sizelimit",
    "subvol",
    "subvolid",
    "user",
    "users",
    "norecovery",
    "noload",
];

/// What loop devices take: powers of two from a sector to a page.
const LOGICAL_BLOCKS: [i64; 4] = [512, 1024, 2048, 4096];

/// A larger image takes minutes to write.
const SIZE_MAX: Bytes = Bytes(4 << 40);

/// A file system that is made for a study.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileSystemSpec {
    #[serde(flatten)]
    pub asked: FileSystemAsked,
    /// Of its image; `None` is what the study is expected to need.
    pub size: Option<Bytes>,
}

/// The programs of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerSpec {
    /// A major version, found where Debian puts it.
    Major(u32),
    Programs(PathBuf),
}

/// The file systems that the axis names, of the study's own and of the plain ones.
pub fn read_file_systems(own: &Table, asked: &[String]) -> Result<BTreeMap<String, FileSystemSpec>, String> {
    let known = own.iter().map(|(name, value)| Ok((name.clone(), read_file_system(name, value)?)));
    let known: BTreeMap<String, FileSystemSpec> = known.collect::<Result<_, String>>()?;
    if known.contains_key(NATIVE) {
        return Err("file_systems.native: it is the one that is there already; give this one another name".into());
    }
    let choose = |name: &String| {
        let plain = || FileSystemKind::ALL.into_iter().find(|kind| kind.name() == name).map(plain);
        let found = known.get(name).cloned().or_else(plain);
        let wrong = || {
            format!(
                "points.file_system: there is no {name:?}: native, ext4, xfs, btrfs and those of [file_systems] are known"
            )
        };
        Ok((name.clone(), found.ok_or_else(wrong)?))
    };
    asked.iter().filter(|name| *name != NATIVE).map(choose).collect()
}

fn plain(kind: FileSystemKind) -> FileSystemSpec {
    let asked = FileSystemAsked { kind, options: Vec::new(), scheduler: None, logical_block_bytes: None };
    FileSystemSpec { asked, size: None }
}

/// `"ext4,noatime"`, or a table with that as `mount`.
fn read_file_system(name: &str, value: &Value) -> Result<FileSystemSpec, String> {
    let key = format!("file_systems.{name}");
    match value {
        Value::String(text) => read_mount(&key, text),
        Value::Table(table) => read_table(&key, table),
        other => {
            Err(format!("{key}: {other} is no file system; write \"ext4,noatime\", or a table with mount = \"ext4\""))
        }
    }
}

fn read_table(key: &str, table: &Table) -> Result<FileSystemSpec, String> {
    const KEYS: [&str; 4] = ["mount", "scheduler", "logical_block_bytes", "size"];
    if let Some(unknown) = table.keys().find(|name| !KEYS.contains(&name.as_str())) {
        return Err(format!("{key}.{unknown}: there is no such key; {} are known", KEYS.join(", ")));
    }
    let text = |name: &str| match table.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str())),
        Some(other) => Err(format!("{key}.{name}: {other} is no text")),
    };
    let mount = text("mount")?.ok_or_else(|| format!("{key}: mount is missing; write mount = \"ext4,noatime\""))?;
    let mut spec = read_mount(&format!("{key}.mount"), mount)?;
    if let Some(scheduler) = text("scheduler")? {
        if !is_word(scheduler) {
            return Err(format!(
                "{key}.scheduler: {scheduler:?} is no scheduler; write none, mq-deadline, kyber or bfq"
            ));
        }
        spec.asked.scheduler = Some(scheduler.to_owned());
    }
    if let Some(bytes) = table.get("logical_block_bytes") {
        let known = bytes.as_integer().filter(|bytes| LOGICAL_BLOCKS.contains(bytes));
        let wrong = || format!("{key}.logical_block_bytes: {bytes} is not allowed; write 512, 1024, 2048 or 4096");
        spec.asked.logical_block_bytes = Some(known.ok_or_else(wrong)? as u32);
    }
    if let Some(size) = text("size")? {
        let bytes = Bytes::from_str(size).map_err(|error| format!("{key}.size: {error}"))?;
        if bytes > SIZE_MAX {
            return Err(format!("{key}.size: {size} is too much; an image has at most 4 TiB"));
        }
        spec.size = Some(bytes);
    }
    Ok(spec)
}

/// A kind, and options as `mount -o` has them.
fn read_mount(key: &str, text: &str) -> Result<FileSystemSpec, String> {
    let mut parts = text.split(',').map(str::trim);
    let kind = parts.next().unwrap_or_default();
    let known = FileSystemKind::ALL.into_iter().find(|known| known.name() == kind);
    let wrong =
        || format!("{key}: {kind:?} is no file system that can be made; write ext4, xfs or btrfs, then its options");
    let mut spec = plain(known.ok_or_else(wrong)?);
    for option in parts {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        if !is_word(name) || !(value.is_empty() || is_value(value)) {
            return Err(format!(
                "{key}: {option:?} is no mount option: letters, digits and _ alone, then perhaps = and a value"
            ));
        }
        if REFUSED_OPTIONS.contains(&name) {
            return Err(format!("{key}: the option {name} does not say how a file system works; remove it"));
        }
        spec.asked.options.push(option.to_owned());
    }
    Ok(spec)
}

fn is_word(text: &str) -> bool {
    let is_part = |one: char| one.is_ascii_alphanumeric() || one == '_' || one == '-';
    text.starts_with(|first: char| first.is_ascii_alphanumeric()) && text.chars().all(is_part)
}

/// No slash: an option that names a file or a device means another one than the study's.
fn is_value(text: &str) -> bool {
    text.chars().all(|one| one.is_ascii_alphanumeric() || "_-.:%+".contains(one))
}

/// The programs that the axis names.
pub fn read_servers(own: &BTreeMap<String, PathBuf>, asked: &[String]) -> Result<BTreeMap<String, ServerSpec>, String> {
    if let Some((name, path)) = own.iter().find(|(_, path)| !path.is_absolute()) {
        let path = path.display();
        return Err(format!("servers.{name}: {path} is no whole path; write it from the root, such as /opt/pg18/bin"));
    }
    if own.contains_key(DEFAULT_SERVER) {
        return Err("servers.default: it is the one that is found anyway; give this one another name".into());
    }
    let choose = |name: &String| {
        let major = || name.parse().ok().filter(|major| (10..1000).contains(major)).map(ServerSpec::Major);
        let found = own.get(name).map(|path: &PathBuf| ServerSpec::Programs(Path::to_owned(path))).or_else(major);
        let wrong = || {
            format!(
                "points.server: there is no {name:?}: default, a major version such as \"15\", and those of [servers] are known"
            )
        };
        Ok((name.clone(), found.ok_or_else(wrong)?))
    };
    asked.iter().filter(|name| *name != DEFAULT_SERVER).map(choose).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::sweep::spec::tests::{assert_refused, sweep};

    #[test]
    fn file_systems_and_servers_are_axes() {
        let study = sweep(
            "[points]\nfile_system = [\"native\", \"xfs\", \"fast\"]\nserver = [\"default\", \"15\", \"mine\"]\n\
             [file_systems]\nfast = { mount = \"ext4,noatime,data=writeback\", scheduler = \"none\", \
             logical_block_bytes = 4096, size = \"2GiB\" }\nunused = \"btrfs\"\n[servers]\nmine = \"/opt/pg/bin\"\n",
        )
        .unwrap();
        assert_eq!((study.points(), study.axes.varied()), (9, vec!["file_system".to_owned(), "server".to_owned()]));
        let last = study.point(8);
        assert_eq!((last.file_system.as_str(), last.server.as_str()), ("fast", "mine"));
        assert_eq!(study.file_systems.keys().collect::<Vec<_>>(), ["fast", "xfs"]);
        let fast = &study.file_systems["fast"];
        assert_eq!(fast.asked.options, ["noatime", "data=writeback"]);
        assert_eq!((fast.size, fast.asked.logical_block_bytes), (Some(Bytes(2 << 30)), Some(4096)));
        assert_eq!(study.servers["15"], ServerSpec::Major(15));
        assert_eq!(study.servers["mine"], ServerSpec::Programs("/opt/pg/bin".into()));
    }

    #[test]
    fn what_no_mount_should_see_is_refused() {
        let named = |text: &str| format!("[points]\nfile_system = \"x\"\n[file_systems]\nx = {text}\n");
        for option in ["a;b", "a b", "$(id)", "x=/dev/sda", "x='y'", "", "-o", "a=`b`", "a\\nb", "é", "a=b=c", "x=|"] {
            assert_refused(&named(&format!("\"ext4,{option}\"")), &["file_systems.x", "no mount option"]);
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
        assert_refused(
            "[points]\nfile_system = \"ntfs\"\n",
            &["points.file_system", "ntfs", "native, ext4, xfs, btrfs"],
        );
        assert_refused("[file_systems]\nnative = \"ext4\"\n", &["file_systems.native", "another name"]);
    }

    #[test]
    fn a_server_is_a_version_or_a_whole_path() {
        assert_refused("[points]\nserver = \"newest\"\n", &["points.server", "newest", "\"15\"", "[servers]"]);
        assert_refused("[servers]\nmine = \"bin\"\n", &["servers.mine", "/opt/pg18/bin"]);
        assert_refused("[servers]\ndefault = \"/opt\"\n", &["servers.default", "another name"]);
        assert_refused("[points]\nserver = \"4\"\n", &["points.server"]);
    }
}
