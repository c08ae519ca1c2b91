use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use super::axis::{check_used, choose_named, find_file};
use super::point::{Axes, DEFAULT_DATABASE, Point};
use host::units::Bytes;

pub const DATABASE: &str = "pgthaw_bench";

/// Allowed options of `pgbench -i`: they affect only the measured tables.
const INITIALIZE_OPTIONS: [&str; 5] =
    ["--fillfactor=", "--foreign-keys", "--partitions=", "--partition-method=", "--unlogged-tables"];

/// pgthaw extends the name on the server, which allows 63 bytes.
const NAME_MAX: usize = 32;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DatabaseSpec {
    pub pgbench: bool,
    pub initialize: Vec<String>,
    /// SQL that psql runs after `pgbench -i`.
    pub setup: Option<PathBuf>,
    /// Programs that run after `setup`.
    pub commands: Vec<Vec<String>>,
}

impl Default for DatabaseSpec {
    fn default() -> DatabaseSpec {
        DatabaseSpec { pgbench: true, initialize: Vec::new(), setup: None, commands: Vec::new() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DatabaseKey {
    pub name: String,
    pub scale: u32,
}

impl DatabaseKey {
    pub fn of(point: &Point) -> DatabaseKey {
        DatabaseKey { name: point.database.clone(), scale: point.scale }
    }

    pub fn all(axes: &Axes) -> Vec<DatabaseKey> {
        let key = |name: &String, scale: &u32| DatabaseKey { name: name.clone(), scale: *scale };
        axes.database.iter().flat_map(|name| axes.scale.iter().map(move |scale| key(name, scale))).collect()
    }

    pub fn database_name(&self) -> String {
        match self.name.as_str() {
            DEFAULT_DATABASE => format!("{DATABASE}_{}", self.scale),
            name => format!("{DATABASE}_{name}_{}", self.scale),
        }
    }

    pub fn render(&self) -> String {
        match self.name.as_str() {
            DEFAULT_DATABASE => format!("scale {}", self.scale),
            name => format!("database {name}, scale {}", self.scale),
        }
    }
}

/// In the study file, `[database]` defines the database `default`, and `[databases]` the others.
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
            return Err(format!("{key}: write a name of at most {NAME_MAX} lower-case letters, digits and _"));
        }
        known.insert(name.clone(), read_database(&key, raw.clone(), directory)?);
    }
    check_used(("databases", "database"), own.keys(), asked, (DEFAULT_DATABASE, "the database of [database]"))?;
    choose_named("points.database", asked, &known, |_| None, "default and names defined in [databases]")
}

fn read_database(key: &str, mut spec: DatabaseSpec, directory: &Path) -> Result<DatabaseSpec, String> {
    let is_known = |option: &&String| INITIALIZE_OPTIONS.iter().any(|known| option.starts_with(known));
    if let Some(option) = spec.initialize.iter().find(|option| !is_known(option)) {
        let known = INITIALIZE_OPTIONS.join(", ");
        return Err(format!("{key}.initialize: {option:?} is not among {known}; the scale is an axis of [points]"));
    }
    if !spec.pgbench && !spec.initialize.is_empty() {
        return Err(format!("{key}.initialize: these are options of pgbench -i, which pgbench = false disables"));
    }
    spec.setup = spec.setup.map(|name| find_file(&format!("{key}.setup"), directory, &name)).transpose()?;
    let found = spec.commands.into_iter().map(|command| find_command(&format!("{key}.commands"), directory, command));
    spec.commands = found.collect::<Result<_, _>>()?;
    Ok(spec)
}

/// Makes the path of a program beside the study file absolute. Others are searched in PATH at run time.
pub fn find_command(key: &str, directory: &Path, mut command: Vec<String>) -> Result<Vec<String>, String> {
    let wrong = |problem: &str| format!("{key}: {problem}; write lists such as [\"./load\", \"--rows=1000\"]");
    if command.iter().flat_map(|word| word.chars()).any(char::is_control) {
        return Err(wrong("a word has a control character"));
    }
    let program =
        command.first_mut().filter(|program| !program.is_empty()).ok_or_else(|| wrong("a program is missing"))?;
    // `env` would parse this word as an option or a variable.
    if program.starts_with('-') || program.contains('=') {
        return Err(wrong(&format!("{program:?} is not a program")));
    }
    if program.contains('/') {
        let file = find_file(key, directory, Path::new(&*program))?;
        // Keeps a symbolic link's name: programs such as Debian's psql depend on it.
        let named = directory.join(&*program);
        let place = named.parent().and_then(|parent| parent.canonicalize().ok()).zip(named.file_name());
        *program = place.map_or(file, |(parent, name)| parent.join(name)).display().to_string();
    }
    Ok(command)
}

/// Creation of a database by this study.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema, crate::TS)]
pub struct DatabaseMaking {
    /// Name of the database in the study.
    pub database: String,
    pub scale: u32,
    pub file_system: String,
    pub server: String,
    pub seconds: f64,
    /// Steps. Their times exclude pgthaw's own work between the steps.
    pub steps: Vec<MakingStep>,
}

/// A step of `pgbench -i`, or the study's SQL or program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema, crate::TS)]
pub struct MakingStep {
    pub step: String,
    pub seconds: f64,
}

/// How a database was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, crate::JsonSchema, crate::TS)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum CopyWay {
    /// Blocks are shared until one is written (FICLONE).
    Reflink,
    Copy,
}

/// A copy of the study's databases for a trial.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, crate::JsonSchema, crate::TS)]
pub struct FreshCopy {
    pub way: CopyWay,
    pub bytes: Bytes,
    /// Duration, including the flush to disk.
    pub seconds: f64,
}

/// Size of pgbench's tables with indexes.
pub const BYTES_PER_SCALE: u64 = 16_000_000;

const PREFERRED_SCALE: u64 = 50;

/// The database may have a fifth of the memory, to stay in the page cache.
const MEMORY_SHARE: u64 = 5;

/// The database may have a quarter of the disk: WAL and a reserve need the rest.
const DISK_SHARE: u64 = 4;

pub fn plan_scale(available_memory: Bytes, free_disk: Bytes) -> u32 {
    let room = (available_memory.0 / MEMORY_SHARE).min(free_disk.0 / DISK_SHARE);
    (room / BYTES_PER_SCALE).clamp(1, PREFERRED_SCALE) as u32
}

pub fn expected_bytes(scale: u32) -> Bytes {
    Bytes(u64::from(scale) * BYTES_PER_SCALE)
}

/// For `shared_buffers = "auto"`.
const SHARED_BUFFERS_SHARE: u64 = 4;
const SHARED_BUFFERS_MIN: Bytes = Bytes(16 << 20);
const SHARED_BUFFERS_MAX: Bytes = Bytes(256 << 20);

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
        assert_refused("[databases.\"a; drop\"]\n", &["databases.a; drop", "lower-case letters"]);
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
