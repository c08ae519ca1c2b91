//! The databases of a study: how each is made, and which of them a point uses.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use super::axis::{check_used, choose_named, find_file};
use super::point::{Axes, DEFAULT_DATABASE, Point};
use host::units::Bytes;

/// The database that the workload runs in, unless another is named.
pub const DATABASE: &str = "pgthaw_bench";

/// Options of `pgbench -i` that change what is measured and nothing else.
const INITIALIZE_OPTIONS: [&str; 5] =
    ["--fillfactor=", "--foreign-keys", "--partitions=", "--partition-method=", "--unlogged-tables"];

/// A database's own name is part of that of the server's, which has 63 bytes at most.
const NAME_MAX: usize = 32;

/// How a database is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DatabaseSpec {
    /// Does `pgbench -i` make its tables first?
    pub pgbench: bool,
    /// Options of `pgbench -i`.
    pub initialize: Vec<String>,
    /// SQL that psql runs in it afterwards.
    pub setup: Option<PathBuf>,
    /// Programs with their arguments, run after that.
    pub commands: Vec<Vec<String>>,
}

impl Default for DatabaseSpec {
    fn default() -> DatabaseSpec {
        DatabaseSpec { pgbench: true, initialize: Vec::new(), setup: None, commands: Vec::new() }
    }
}

impl DatabaseSpec {
    /// Is its size that of pgbench's tables with their defaults? What own SQL, programs or options make of it shows when they ran.
    pub fn has_known_size(&self) -> bool {
        self.pgbench && self.initialize.is_empty() && self.setup.is_none() && self.commands.is_empty()
    }
}

/// One database of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DatabaseKey {
    /// Of the axis `database`.
    pub name: String,
    pub scale: u32,
}

impl DatabaseKey {
    pub fn of(point: &Point) -> DatabaseKey {
        DatabaseKey { name: point.database.clone(), scale: point.scale }
    }

    /// Every database of a study.
    pub fn all(axes: &Axes) -> Vec<DatabaseKey> {
        let key = |name: &String, scale: &u32| DatabaseKey { name: name.clone(), scale: *scale };
        axes.database.iter().flat_map(|name| axes.scale.iter().map(move |scale| key(name, scale))).collect()
    }

    /// What the server calls it.
    pub fn database_name(&self) -> String {
        match self.name.as_str() {
            DEFAULT_DATABASE => format!("{DATABASE}_{}", self.scale),
            name => format!("{DATABASE}_{name}_{}", self.scale),
        }
    }

    /// For people: `scale 10`, or `database partitioned, scale 10`.
    pub fn render(&self) -> String {
        match self.name.as_str() {
            DEFAULT_DATABASE => format!("scale {}", self.scale),
            name => format!("database {name}, scale {}", self.scale),
        }
    }
}

/// The databases that the axis names: `default` is the one of `[database]`, the others are those of `[databases]`. Files that
/// they name lie in `directory`.
pub fn read_databases(
    usual: DatabaseSpec,
    own: BTreeMap<String, DatabaseSpec>,
    asked: &[String],
    directory: &Path,
) -> Result<BTreeMap<String, DatabaseSpec>, String> {
    let mut known = BTreeMap::from([(DEFAULT_DATABASE.to_owned(), read_database("database", usual, directory)?)]);
    for (name, raw) in &own {
        let key = format!("databases.{name}");
        let is_part = |one: char| one.is_ascii_lowercase() || one.is_ascii_digit() || one == '_';
        if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(is_part) {
            return Err(format!("{key}: write a name of at most {NAME_MAX} small letters, digits and _"));
        }
        known.insert(name.clone(), read_database(&key, raw.clone(), directory)?);
    }
    check_used(("databases", "database"), own.keys(), asked, (DEFAULT_DATABASE, "that of [database]"))?;
    choose_named("points.database", asked, &known, |_| None, "default and those of [databases]")
}

/// Checks how a database is made, and finds its files.
fn read_database(key: &str, mut spec: DatabaseSpec, directory: &Path) -> Result<DatabaseSpec, String> {
    let is_known = |option: &&String| INITIALIZE_OPTIONS.iter().any(|known| option.starts_with(known));
    if let Some(option) = spec.initialize.iter().find(|option| !is_known(option)) {
        let known = INITIALIZE_OPTIONS.join(", ");
        return Err(format!("{key}.initialize: {option:?} is not among {known}; the scale is an axis of [points]"));
    }
    if !spec.pgbench && !spec.initialize.is_empty() {
        return Err(format!("{key}.initialize: these are options of pgbench -i, which pgbench = false leaves out"));
    }
    spec.setup = spec.setup.map(|name| find_file(&format!("{key}.setup"), directory, &name)).transpose()?;
    let found = spec.commands.into_iter().map(|command| find_command(&format!("{key}.commands"), directory, command));
    spec.commands = found.collect::<Result<_, _>>()?;
    Ok(spec)
}

/// A program that lies beside the study file is meant by its whole name, any other is looked for in PATH when it is run.
pub fn find_command(key: &str, directory: &Path, mut command: Vec<String>) -> Result<Vec<String>, String> {
    let wrong = |problem: &str| format!("{key}: {problem}; write lists such as [\"./load\", \"--rows=1000\"]");
    if command.iter().flat_map(|word| word.chars()).any(char::is_control) {
        return Err(wrong("a word has a control character"));
    }
    let program =
        command.first_mut().filter(|program| !program.is_empty()).ok_or_else(|| wrong("a program is missing"))?;
    // `env` would take it for an option or for a variable.
    if program.starts_with('-') || program.contains('=') {
        return Err(wrong(&format!("{program:?} is no program")));
    }
    if program.contains('/') {
        let file = find_file(key, directory, Path::new(&*program))?;
        // A link keeps its name: by that some programs choose what they do, such as Debian's psql.
        let named = directory.join(&*program);
        let place = named.parent().and_then(|parent| parent.canonicalize().ok()).zip(named.file_name());
        *program = place.map_or(file, |(parent, name)| parent.join(name)).display().to_string();
    }
    Ok(command)
}

/// A database that was made for a study, and how long that took. One that an earlier study has left is not among them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct DatabaseMaking {
    /// As the study names them: of the axes `database`, `scale`, `file_system` and `server`.
    pub database: String,
    pub scale: u32,
    pub file_system: String,
    pub server: String,
    pub seconds: f64,
    /// In their order; what pgthaw did between them is in none.
    pub steps: Vec<MakingStep>,
}

/// A step of it: one of `pgbench -i`, as pgbench calls it, or SQL and programs of the study.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct MakingStep {
    pub step: String,
    pub seconds: f64,
}

/// How the copy of a trial was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum CopyWay {
    /// The file system shares the blocks until one is written (FICLONE).
    Reflink,
    /// Every byte was written.
    Copy,
}

/// The copy that a trial ran on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct FreshCopy {
    pub way: CopyWay,
    /// Of the files that were copied.
    pub bytes: Bytes,
    /// Until all of it was on the disk.
    pub seconds: f64,
}

// ---- sizes ----

/// Bytes of pgbench's tables per unit of scale, indexes included.
pub const BYTES_PER_SCALE: u64 = 16_000_000;

/// The scale when there is room enough.
const PREFERRED_SCALE: u64 = 50;

/// So much of the memory that is available: the warm database has to stay in the page cache beside everything else.
const MEMORY_SHARE: u64 = 5;

/// So much of the free disk: the tables, their WAL, and room to spare.
const DISK_SHARE: u64 = 4;

/// The scale for a machine with so much memory available and so much disk free, at least 1.
pub fn plan_scale(available_memory: Bytes, free_disk: Bytes) -> u32 {
    let room = (available_memory.0 / MEMORY_SHARE).min(free_disk.0 / DISK_SHARE);
    (room / BYTES_PER_SCALE).clamp(1, PREFERRED_SCALE) as u32
}

/// Bytes of the database at a scale, roughly.
pub fn expected_bytes(scale: u32) -> Bytes {
    Bytes(u64::from(scale) * BYTES_PER_SCALE)
}

/// Shared buffers that a study leaves to pgthaw: so much of the database, within these limits.
const SHARED_BUFFERS_SHARE: u64 = 4;
const SHARED_BUFFERS_MIN: Bytes = Bytes(16 << 20);
const SHARED_BUFFERS_MAX: Bytes = Bytes(256 << 20);

/// The value of the setting at a scale.
pub fn choose_shared_buffers(scale: u32) -> String {
    let share = Bytes(expected_bytes(scale).0 / SHARED_BUFFERS_SHARE).clamp(SHARED_BUFFERS_MIN, SHARED_BUFFERS_MAX);
    format!("{}kB", share.0 >> 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::spec::tests::{assert_refused, sweep};

    #[test]
    fn databases_are_an_axis() {
        let study = sweep(
            "[points]\nscale = [1, 2]\ndatabase = [\"default\", \"parts\"]\n[database]\ninitialize = [\"--foreign-keys\"]\n\
             [databases.parts]\ninitialize = [\"--partitions=4\"]\n",
        )
        .unwrap();
        assert_eq!((study.points(), study.databases.len()), (4, 2));
        assert_eq!(study.databases["parts"].initialize, ["--partitions=4"]);
        assert_eq!(study.databases["default"].initialize, ["--foreign-keys"]);
        let keys = DatabaseKey::all(&study.axes);
        let names: Vec<String> = keys.iter().map(DatabaseKey::database_name).collect();
        assert_eq!(names, ["pgthaw_bench_1", "pgthaw_bench_2", "pgthaw_bench_parts_1", "pgthaw_bench_parts_2"]);
        assert_eq!((keys[1].render(), keys[3].render()), ("scale 2".into(), "database parts, scale 2".into()));
        for number in 0..study.points() {
            assert!(keys.contains(&DatabaseKey::of(&study.point(number))));
        }
    }

    #[test]
    fn a_program_is_run_by_the_name_that_its_link_has() {
        let directory = tempfile::tempdir().unwrap();
        let own = directory.path().canonicalize().unwrap();
        std::fs::write(own.join("wrapper"), "").unwrap();
        std::os::unix::fs::symlink("wrapper", own.join("psql")).unwrap();
        for named in ["./psql".to_owned(), own.join("psql").display().to_string()] {
            let found = find_command("job.command", &own, vec![named, "-f".into()]).unwrap();
            assert_eq!(found, [own.join("psql").display().to_string(), "-f".into()]);
        }
        assert!(find_command("job.command", &own, vec!["./none".into()]).is_err());
    }

    #[test]
    fn a_database_that_makes_no_sense_is_refused() {
        assert_refused("[points]\ndatabase = \"parts\"\n", &["points.database", "parts", "default"]);
        assert_refused("[databases.default]\n", &["databases.default", "another name"]);
        assert_refused("[databases.\"a; drop\"]\n", &["databases.a; drop", "small letters"]);
        assert_refused("[databases.x]\ninitialize = [\"-s\"]\n", &["databases.x.initialize", "--fillfactor="]);
        assert_refused("[database]\npgbench = false\ninitialize = [\"--foreign-keys\"]\n", &["database.initialize"]);
        assert_refused("[database]\npgbench = false\n", &["points.script", "select-only", "pgbench = false"]);
        assert_refused("[database]\ncommands = [[\"-x\"]]\n", &["database.commands", "-x"]);
    }

    #[test]
    fn a_fresh_copy_is_for_trials_that_make_their_start() {
        assert!(sweep("fresh_copy = true\n[points]\nstart = \"cold\"\n").unwrap().fresh_copy);
        assert_eq!(sweep("fresh_copy = false\n").unwrap().digest(), sweep("").unwrap().digest());
        assert_refused("fresh_copy = true\n[points]\nstart = [\"warm\", \"as-is\"]\n", &["fresh_copy", "as-is"]);
    }
}

#[cfg(test)]
mod size_tests {
    use super::*;

    #[test]
    fn the_scarcer_of_memory_and_disk_decides() {
        let gb = |count: u64| Bytes(count * 1_000_000_000);
        assert_eq!(plan_scale(gb(24), gb(100)), 50);
        assert_eq!(plan_scale(gb(2), gb(100)), 25);
        assert_eq!(plan_scale(gb(24), gb(1)), 15);
        assert_eq!(plan_scale(Bytes(0), gb(1)), 1);
    }
}
