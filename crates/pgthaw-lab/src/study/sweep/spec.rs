//! The study file: what it may hold, and what is said of one that holds something else.
//!
//! Every message names the key, what is allowed there, and so what to do.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use toml::{Table, Value};

use super::axis::{Axis, Mix, read_length, read_settings, read_variables};
use super::database::check_fresh_copy;
use super::database::{DatabaseSpec, RawDatabase, read_databases};
use super::exceeded::{Exceeded, read_exceeds};
use super::generators::{Generators, RawGenerators, read_generators};
use super::ground::{FileSystemSpec, ServerSpec, read_disks, read_file_systems, read_servers};
use super::ground::{Places, read_places};
use super::job::{JobSpec, RawJob, read_job};
use super::point::{Axes, DEFAULT_DATABASE, DEFAULT_SERVER, FIXED_AXES, NATIVE, Point, SIDE, STRATEGY, TOGETHER};
use super::start::StartAsked;
use super::warmup::{
    Until, check_beginnings, check_generators, read_kind, read_memory, read_popularity, read_until, read_wanted,
    read_wanted_seconds,
};
use crate::study::built_in::read_named;
use crate::study::error::Error;
use crate::study::record::Disk;
use crate::study::size::choose_shared_buffers;
use crate::study::strategy::Strategy;
use cache::warm::Sharing;
use host::files::read_text_at_most;
use host::units::{Bytes, counted};
use postgres::{Length, Load, Script, TransactionLog};

/// Longer files are no study by hand.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// With trials of a second this many take more than a day.
pub const TRIALS_MAX: u128 = 100_000;

/// The same for the parameters of pgbench: far above what it or a server can do, and no overflow in sight.
const SCALE_MAX: u32 = 1_000_000;
const CLIENTS_MAX: u32 = 10_000;
const REPEATS_MAX: u32 = 1000;
const TRIES_MAX: u32 = 1_000_000;

/// A study: what to measure, checked, and ready to run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sweep {
    /// What the study asks, for people.
    pub question: String,
    pub repeats: u32,
    /// Of the order of the trials; `None`: any.
    pub seed: Option<u64>,
    /// Share of the transactions whose latency is kept, above 0 to 1.
    pub logged_share: f64,
    /// How often a transaction is tried that fails by a deadlock or a serialization failure.
    pub max_tries: u32,
    pub axes: Axes,
    /// The scripts behind each value of the axis `script`.
    pub scripts: BTreeMap<String, Mix>,
    pub disks: BTreeMap<String, Disk>,
    /// Those of the axis `file_system`, but for the native one.
    pub file_systems: BTreeMap<String, FileSystemSpec>,
    /// Those of the axis `places`, but for the one that has all on one device.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub places: BTreeMap<String, Places>,
    /// The programs of the axis `server`, but for the default.
    pub servers: BTreeMap<String, ServerSpec>,
    /// Those of the axis `database`.
    pub databases: BTreeMap<String, DatabaseSpec>,
    /// From which scale on the database is meant to exceed a cache.
    pub exceeds: BTreeMap<Exceeded, u32>,
    /// Is it a study of ways to warm one server, and shown so?
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_warmup: bool,
    /// Of a study that forecasts its trial: how the script chooses rows, as `predict --popularity` has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub popularity: Option<String>,
    /// What ends a trial before its seconds are over, if anything does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Until>,
    /// Where trials end when what is wanted is resident: it is what the load reads in so many seconds from a cold start; `None`:
    /// everything is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wanted_seconds: Option<u32>,
    /// Is what the script reads in one trial from a cold start wanted, of each script on its own, and nothing else?
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_script_wanted: bool,
    /// Is the time of the server's processes accounted for in each trial? `None`: while that takes little.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<bool>,
    /// Memory of the server in every trial, shared memory and page cache included; `None`: as the points say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Bytes>,
    /// Has each trial a fresh copy of the databases, or do they follow each other in one?
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub fresh_copy: bool,
    /// The command that strategies run beside the load, with its arguments; empty where none of them runs one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub job: Vec<String>,
    /// The hosts that make the load; `None`: this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generators: Option<Generators>,
    /// Digests of the files that it names: an edited script makes another study.
    pub contents: BTreeMap<PathBuf, String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSweep {
    question: Option<String>,
    kind: Option<String>,
    popularity: Option<String>,
    until: Option<String>,
    wanted_seconds: Option<Value>,
    wanted: Option<String>,
    memory: Option<String>,
    time: Option<bool>,
    repeats: Option<Value>,
    seed: Option<Value>,
    logged_share: Option<Value>,
    max_tries: Option<Value>,
    #[serde(default)]
    aa: bool,
    #[serde(default)]
    points: RawPoints,
    #[serde(default)]
    variables: Table,
    #[serde(default)]
    settings: Table,
    #[serde(default)]
    disks: BTreeMap<String, String>,
    #[serde(default)]
    file_systems: Table,
    #[serde(default)]
    places: BTreeMap<String, Table>,
    #[serde(default)]
    fresh_copy: bool,
    #[serde(default)]
    servers: BTreeMap<String, PathBuf>,
    #[serde(default)]
    database: RawDatabase,
    #[serde(default)]
    databases: BTreeMap<String, RawDatabase>,
    #[serde(default)]
    exceeds: BTreeMap<Exceeded, Value>,
    generators: Option<RawGenerators>,
    job: Option<RawJob>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPoints {
    scale: Option<Value>,
    clients: Option<Value>,
    jobs: Option<Value>,
    script: Option<Value>,
    rate: Option<Value>,
    seconds: Option<Value>,
    transactions: Option<Value>,
    total_transactions: Option<Value>,
    start: Option<Value>,
    disk: Option<Value>,
    file_system: Option<Value>,
    server: Option<Value>,
    latency_limit_ms: Option<Value>,
    strategy: Option<Value>,
    database: Option<Value>,
    query_mode: Option<Value>,
    memory: Option<Value>,
    places: Option<Value>,
    load_begins: Option<Value>,
}

/// Reads the text of a study file.
pub fn read_study_text(path: &Path) -> Result<String, Error> {
    match read_text_at_most(path, FILE_BYTES_MAX) {
        Err(error) if error.kind() == std::io::ErrorKind::FileTooLarge => {
            let problem = format!("{error}, which is the most that a study file has");
            Err(Error::Spec { path: path.to_owned(), problem })
        }
        text => text.map_err(|source| Error::file("read", path, source)),
    }
}

/// Refuses a text that is no study file, with the line of what is wrong, and returns its keys.
pub fn parse_study_table(text: &str) -> Result<Table, String> {
    toml::from_str::<RawSweep>(text).map_err(|error| error.to_string())?;
    toml::from_str(text).map_err(|error| error.to_string())
}

/// Reads and checks a study. Files that it names are looked for in `directory`. `is_twice`: every point is measured twice, whatever
/// the text says.
pub fn parse_sweep(text: &str, directory: &Path, is_twice: bool) -> Result<Sweep, String> {
    let mut raw: RawSweep = toml::from_str(text).map_err(|error| error.to_string())?;
    raw.aa |= is_twice;
    raw.settle_shared_buffers()?;
    let (axes, scripts) = read_axes(&raw, directory)?;
    let repeats = raw
        .repeats
        .as_ref()
        .map_or(Ok(3), |value| Axis { key: "repeats", value: Some(value) }.whole_number(REPEATS_MAX))?;
    let max_tries = Axis { key: "max_tries", value: raw.max_tries.as_ref() };
    let max_tries = max_tries.value.map_or(Ok(1), |_| max_tries.whole_number(TRIES_MAX))?;
    check_size(&axes, repeats)?;
    let until = read_until(raw.until.as_deref(), &axes)?;
    check_generators(raw.generators.is_some(), until)?;
    let places = read_places(&raw.places, &axes.places, &axes.file_system)?;
    let disks = read_disks(&raw.disks, &axes.disk, &places)?;
    check_fresh_copy(raw.fresh_copy, &axes)?;
    let file_systems = read_file_systems(&raw.file_systems, &axes.file_system)?;
    let servers = read_servers(&raw.servers, &axes.server)?;
    let databases = read_databases(raw.database, raw.databases, &axes.database, directory)?;
    check_tables(&databases, &scripts)?;
    let files = scripts.values().flatten().filter_map(|(script, _)| match script {
        Script::File(path) => Some(path),
        Script::Builtin(_) => None,
    });
    let commands = databases.values().flat_map(|database| &database.commands);
    let programs: Vec<PathBuf> = commands.filter_map(|command| command.first()).map(PathBuf::from).collect();
    let own_programs = programs.iter().filter(|program| program.is_absolute());
    let setups = databases.values().filter_map(|database| database.setup.as_ref());
    let JobSpec { command: job, files: of_job } = read_job(raw.job, &axes, directory)?;
    let contents =
        files.chain(setups).chain(own_programs).chain(&of_job).map(|path| Ok((path.clone(), read_digest(path)?)));
    Ok(Sweep {
        question: raw.question.unwrap_or_default(),
        repeats,
        seed: raw.seed.as_ref().map(read_seed).transpose()?,
        logged_share: raw.logged_share.as_ref().map_or(Ok(1.0), read_share)?,
        max_tries,
        exceeds: read_exceeds(&raw.exceeds)?,
        is_warmup: read_kind(raw.kind.as_deref(), &axes, until)?,
        popularity: read_popularity(raw.popularity, raw.kind.as_deref(), &axes, repeats)?,
        until,
        wanted_seconds: raw.wanted_seconds.as_ref().map(|value| read_wanted_seconds(value, until)).transpose()?,
        is_script_wanted: read_wanted(raw.wanted.as_deref(), &axes, until)?,
        time: raw.time,
        memory: read_memory(raw.memory.as_deref(), raw.points.memory.is_some())?,
        fresh_copy: raw.fresh_copy,
        job,
        generators: raw.generators.as_ref().map(read_generators).transpose()?,
        contents: contents.collect::<Result<_, String>>()?,
        axes,
        scripts,
        disks,
        file_systems,
        places,
        servers,
        databases,
    })
}

/// The word that leaves a value to pgthaw.
pub const AUTO: &str = "auto";

impl RawSweep {
    /// Writes the size that `shared_buffers = "auto"` means. It goes by the scale, so there is one scale.
    fn settle_shared_buffers(&mut self) -> Result<(), String> {
        let Some(size) = self.settings.get_mut("shared_buffers").filter(|size| size.as_str() == Some(AUTO)) else {
            return Ok(());
        };
        let scales = Axis { key: "points.scale", value: self.points.scale.as_ref() }.whole_numbers(1, SCALE_MAX)?;
        let [scale] = scales[..] else {
            return Err(format!("settings.shared_buffers: \"{AUTO}\" is for a study of one scale; write a size"));
        };
        *size = Value::String(choose_shared_buffers(scale));
        Ok(())
    }
}

type Scripts = BTreeMap<String, Mix>;

fn read_axes(raw: &RawSweep, directory: &Path) -> Result<(Axes, Scripts), String> {
    let points = &raw.points;
    let axis = |key, value| Axis { key, value };
    let clients = axis("points.clients", points.clients.as_ref()).whole_numbers(1, CLIENTS_MAX)?;
    let length = [
        axis("points.seconds", points.seconds.as_ref()),
        axis("points.transactions", points.transactions.as_ref()),
        axis("points.total_transactions", points.total_transactions.as_ref()),
    ];
    let length = read_length(length, &clients)?;
    let scripts = axis("points.script", points.script.as_ref()).scripts(directory)?;
    let axes = Axes {
        scale: axis("points.scale", points.scale.as_ref()).whole_numbers(1, SCALE_MAX)?,
        clients,
        jobs: axis("points.jobs", points.jobs.as_ref()).whole_numbers(1, CLIENTS_MAX)?,
        script: scripts.iter().map(|(name, _)| name.clone()).collect(),
        rate: axis("points.rate", points.rate.as_ref()).rates()?,
        length,
        start: axis("points.start", points.start.as_ref()).starts()?,
        disk: axis("points.disk", points.disk.as_ref()).names(NATIVE)?,
        file_system: axis("points.file_system", points.file_system.as_ref()).names(NATIVE)?,
        server: axis("points.server", points.server.as_ref()).names(DEFAULT_SERVER)?,
        latency_limit_ms: axis("points.latency_limit_ms", points.latency_limit_ms.as_ref()).latency_limits()?,
        strategy: axis("points.strategy", points.strategy.as_ref()).strategies()?,
        database: axis("points.database", points.database.as_ref()).names(DEFAULT_DATABASE)?,
        query_mode: axis("points.query_mode", points.query_mode.as_ref()).query_modes()?,
        memory: axis("points.memory", points.memory.as_ref()).memories()?,
        places: axis("points.places", points.places.as_ref()).names(TOGETHER)?,
        load_begins: axis("points.load_begins", points.load_begins.as_ref()).beginnings()?,
        variables: read_variables(&raw.variables)?,
        settings: read_settings(&raw.settings)?,
        is_twice: raw.aa,
    };
    check_names(&axes)?;
    check_strategies(&axes)?;
    check_beginnings(&axes, raw.generators.is_some())?;
    Ok((axes, scripts.into_iter().collect()))
}

/// An axis is known by its name alone.
fn check_names(axes: &Axes) -> Result<(), String> {
    let is_setting = |name: &str| axes.settings.iter().any(|(setting, _)| setting == name);
    match axes
        .variables
        .iter()
        .find(|(name, _)| FIXED_AXES.contains(&name.as_str()) || name == SIDE || is_setting(name))
    {
        Some((name, _)) => Err(format!(
            "variables.{name}: the name means something else in this file; give the variable another, here and in the script"
        )),
        None => Ok(()),
    }
}

/// A server that is warm already says nothing of what warms it.
fn check_strategies(axes: &Axes) -> Result<(), String> {
    if !axes.strategies().any(Strategy::warms) || axes.start == [StartAsked::Cold] {
        return Ok(());
    }
    Err("points.strategy: a strategy warms a cold server; write start = \"cold\"".into())
}

/// pgbench's own scripts are about the tables that it makes.
fn check_tables(databases: &BTreeMap<String, DatabaseSpec>, scripts: &Scripts) -> Result<(), String> {
    if databases.values().all(|database| database.pgbench) {
        return Ok(());
    }
    let builtin = scripts.values().flatten().find_map(|(script, _)| match script {
        Script::Builtin(name) => Some(name),
        Script::File(_) => None,
    });
    match builtin {
        Some(name) => Err(format!(
            "points.script: {name} needs pgbench's tables, which pgbench = false leaves out of a database; write a script of your own"
        )),
        None => Ok(()),
    }
}

/// Refuses too much before anything is made of it.
fn check_size(axes: &Axes, repeats: u32) -> Result<(), String> {
    let points = axes.count();
    let trials = points.saturating_mul(u128::from(repeats));
    if trials <= TRIALS_MAX {
        return Ok(());
    }
    Err(format!(
        "it has {} × {}; at most {TRIALS_MAX} trials are run: name fewer values in {}, or split the study",
        counted(points, "point"),
        counted(repeats, "repeat"),
        axes.varied().join(", ")
    ))
}

fn read_digest(path: &Path) -> Result<String, String> {
    let bytes = read_named(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    Ok(render_digest(&bytes))
}

/// SHA-256 in hexadecimal.
pub fn render_digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn read_seed(value: &Value) -> Result<u64, String> {
    let seed = value.as_integer().and_then(|seed| u64::try_from(seed).ok());
    seed.ok_or_else(|| format!("seed: {value} is no seed; write a whole number from 0, or leave it out"))
}

fn read_share(value: &Value) -> Result<f64, String> {
    let share = value.as_float().or(value.as_integer().map(|whole| whole as f64));
    let wrong =
        || format!("logged_share: {value} is no share of the transactions; write a number above 0, up to 1.0 for all");
    share.filter(|share| *share > 0.0 && *share <= 1.0).ok_or_else(wrong)
}

impl Sweep {
    /// Axes with more than one value; a study of warmers has theirs even with a single one.
    pub fn varied(&self) -> Vec<String> {
        let varied = self.axes.varied();
        if varied.is_empty() && self.is_warmup { vec![STRATEGY.to_owned()] } else { varied }
    }

    /// Points that there are.
    pub fn points(&self) -> u32 {
        // check_size has let no more pass than fit.
        self.axes.count() as u32
    }

    /// Trials that there are.
    pub fn trials(&self) -> u32 {
        self.points() * self.repeats
    }

    /// The point with this number, from 0.
    pub fn point(&self, number: u32) -> Point {
        let point = self.axes.point(number.into());
        Point { memory: point.memory.or(self.memory), ..point }
    }

    /// What warms servers in it, [`Strategy::Nothing`] where nothing does.
    pub fn strategies(&self) -> Vec<Strategy> {
        let mut strategies: Vec<Strategy> = self.axes.strategies().collect();
        if self.axes.start.contains(&StartAsked::Restored) {
            strategies.push(Strategy::Pgthaw(Sharing::FullSpeed));
        }
        strategies
    }

    /// What pgbench does at a point.
    pub fn load(&self, point: &Point) -> Load {
        Load {
            scripts: self.scripts.get(&point.script).cloned().unwrap_or_default(),
            variables: self.variables(point),
            query_mode: point.query_mode,
            clients: point.clients,
            jobs: point.jobs,
            rate: point.rate,
            latency_limit_ms: point.latency_limit_ms,
            max_tries: self.max_tries,
            length: match (point.seconds, point.transactions_of_client()) {
                (None, Some(transactions)) => Length::Transactions(transactions),
                (seconds, _) => Length::Seconds(seconds.unwrap_or_default()),
            },
            log: TransactionLog::Transactions(self.logged_share),
        }
    }

    /// Those of the scripts; the scale too, which pgbench finds out for its own scripts alone.
    fn variables(&self, point: &Point) -> Vec<(String, String)> {
        let scripts = self.scripts.get(&point.script);
        let has_own = scripts.into_iter().flatten().any(|(script, _)| matches!(script, Script::File(_)));
        let scale = has_own.then(|| ("scale".to_owned(), point.scale.to_string()));
        point.variables.iter().cloned().chain(scale).collect()
    }

    /// The disk of a point.
    pub fn disk(&self, point: &Point) -> Disk {
        // Every name of the axis was looked up when the file was read.
        self.disks.get(&point.disk).cloned().unwrap_or_else(|| unreachable!("the disk {} was read", point.disk))
    }

    /// The parts of a point's server that lie on devices of their own, each with the name of its disk.
    pub fn parts(&self, point: &Point) -> Places {
        self.places.get(&point.places).cloned().unwrap_or_default()
    }

    /// The same for files that mean the same, whatever their layout, with scripts that say the same: hexadecimal.
    pub fn digest(&self) -> String {
        let meaning = serde_json::to_vec(self).unwrap_or_else(|_| unreachable!("maps of text become JSON"));
        render_digest(&meaning)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A study of this text, with scripts in the temporary directory.
    pub fn sweep(text: &str) -> Result<Sweep, String> {
        parse_sweep(text, &std::env::temp_dir(), false)
    }

    #[track_caller]
    pub fn assert_refused(text: &str, parts: &[&str]) {
        let problem = sweep(text).unwrap_err();
        for part in parts {
            assert!(problem.contains(part), "{part:?} is not said: {problem}");
        }
    }

    #[test]
    fn a_value_is_a_list_of_one_and_what_is_left_out_has_a_default() {
        let study = sweep("[points]\nscale = [1, 10]\nclients = 4\n").unwrap();
        assert_eq!((study.points(), study.repeats, study.trials()), (2, 3, 6));
        let point = study.point(1);
        assert_eq!(
            (point.scale, point.clients, point.seconds, point.script.as_str()),
            (10, 4, Some(10), "select-only")
        );
        assert_eq!((point.start.name(), point.disk.as_str(), point.rate), ("warm", "native", None));
        assert_eq!(study.axes.varied(), ["scale"]);
    }

    #[test]
    fn everything_can_be_an_axis() {
        let study = sweep(
            r#"
            question = "what is what?"
            repeats = 6
            seed = 7
            logged_share = 0.5
            [points]
            scale = 1
            script = ["tpcb-like", { select-only = 9, simple-update = 1 }]
            rate = ["unlimited", 100, 0.5]
            transactions = [100, 200]
            start = ["cold", "warm", "restored", "as-is"]
            disk = ["gp3", "slow"]
            [variables]
            rows = [10, 100]
            [settings]
            work_mem = ["4MB", "64MB"]
            auto_explain.log_analyze = true
            "pg_prewarm.autoprewarm" = false
            [disks]
            slow = "100,1MiB,128KiB"
            [database]
            initialize = ["--fillfactor=80", "--foreign-keys"]
            "#,
        )
        .unwrap();
        assert_eq!(study.points(), 2 * 3 * 2 * 4 * 2 * 2 * 2);
        let point = study.point(study.points() - 1);
        assert_eq!(point.script, "select-only@9 + simple-update@1");
        assert_eq!(study.load(&point).scripts.len(), 2);
        assert_eq!(point.value("auto_explain.log_analyze").as_deref(), Some("on"));
        assert_eq!(point.value("pg_prewarm.autoprewarm").as_deref(), Some("off"));
        assert_eq!(study.disk(&point).riops, Some(100));
        assert_eq!(study.load(&point).length, Length::Transactions(200));
    }

    #[test]
    fn a_study_may_measure_every_point_twice() {
        let study = sweep("aa = true\n[points]\nclients = [1, 2]\n").unwrap();
        assert_eq!((study.points(), study.axes.varied()), (4, vec!["clients".to_owned(), "side".to_owned()]));
        let given = parse_sweep("[points]\nclients = [1, 2]\n", &std::env::temp_dir(), true).unwrap();
        assert_eq!(given, study);
        assert_ne!(given.digest(), sweep("[points]\nclients = [1, 2]\n").unwrap().digest());
        assert_refused("[variables]\nside = 1\n", &["variables.side"]);
    }

    #[test]
    fn a_wrong_key_is_named_with_what_is_allowed() {
        assert_refused("[points]\nscales = 1\n", &["scales", "scale", "clients", "line 2"]);
        assert_refused("[point]\nscale = 1\n", &["point", "points"]);
        assert_refused("[points]\nscale = \"big\"\n", &["points.scale", "big", "whole number", "1000000"]);
        assert_refused("[points]\nscale = []\n", &["points.scale", "empty"]);
        assert_refused("[points]\nscale = [1, 2, 1]\n", &["points.scale", "1", "twice"]);
        assert_refused("[points]\nclients = 0\n", &["points.clients", "from 1 to 10000"]);
        assert_refused(
            "[points]\nseconds = 5\ntransactions = 9\n",
            &["points.seconds", "points.transactions", "remove"],
        );
        assert_refused("[points]\nrate = -1\n", &["points.rate", "unlimited"]);
        assert_refused("[points]\nstart = \"hot\"\n", &["points.start", "cold, warm, restored, as-is"]);
        assert_refused("[points]\nstrategy = \"dd\"\nstart = \"cold\"\n", &["points.strategy", "pg_prewarm-read"]);
        assert_refused("[points]\nstrategy = \"cat\"\n", &["points.strategy", "start = \"cold\""]);
        assert_refused("[points]\ndisk = \"floppy\"\n", &["points.disk", "floppy", "gp3", "[disks]"]);
        assert_refused("[disks]\nslow = \"fast\"\n", &["disks.slow", "READS,BYTES,READ-AHEAD"]);
        assert_refused("[disks]\ngp3 = \"16000,1GiB\"\n", &["disks.gp3", "another name"]);
        assert_refused("repeats = 0\n", &["repeats", "from 1 to 1000"]);
        assert_refused("seed = -1\n", &["seed", "from 0"]);
        assert_refused("logged_share = 0\n", &["logged_share", "above 0"]);
        assert_refused("[points]\nscript = \"no-such.sql\"\n", &["points.script", "no-such.sql", "select-only"]);
        assert_refused("[points]\nscript = { select-only = 0 }\n", &["points.script", "select-only", "weight"]);
        assert_refused("[database]\ninitialize = [\"-s\"]\n", &["database.initialize", "-s", "--fillfactor="]);
        assert_refused("[variables]\nclients = 1\n", &["variables.clients", "another"]);
        assert_refused("[variables]\n\"a b\" = 1\n", &["variables", "a b", "letters"]);
    }

    #[test]
    fn settings_that_pgthaw_needs_for_itself_are_refused() {
        for name in ["port", "unix_socket_directories", "log_line_prefix", "data_directory"] {
            assert_refused(&format!("[settings]\n{name} = 1\n"), &[name, "pgthaw"]);
        }
        assert_refused("[settings]\nwork_mem = \"1MB\\nport = 1\"\n", &["settings.work_mem", "control character"]);
        assert_refused("[settings]\n\"work_mem = 1 #\" = 1\n", &["settings", "no name"]);
        assert_refused("[settings]\nwork_mem = [[1]]\n", &["settings.work_mem"]);
    }

    #[test]
    fn ten_million_points_are_refused_at_once() {
        let thousand: Vec<String> = (1..=1000).map(|number| number.to_string()).collect();
        let list = thousand.join(", ");
        let text =
            format!("[points]\nscale = [{list}]\nclients = [{list}]\nseconds = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]\n");
        assert_refused(&text, &["10000000 points", "100000", "scale, clients, seconds"]);
        let settings: String = (0..300).map(|number| format!("a{number} = [1, 2]\n")).collect();
        assert_refused(&format!("[settings]\n{settings}"), &["points", "at most 100000 trials"]);
    }

    #[test]
    fn the_digest_is_that_of_the_meaning() {
        let digest = |text: &str| sweep(text).unwrap().digest();
        assert_eq!(digest("[points]\nscale = 1\n"), digest("# why\n[points]\nscale = [ 1 ]\n"));
        assert_ne!(digest("[points]\nscale = 1\n"), digest("[points]\nscale = 2\n"));
        let directory = tempfile::tempdir().unwrap();
        let script = directory.path().join("one.sql");
        let digest = |text: &str| {
            std::fs::write(&script, text).unwrap();
            parse_sweep("[points]\nscript = \"one.sql\"\n", directory.path(), false).unwrap().digest()
        };
        assert_ne!(digest("SELECT 1;"), digest("SELECT 2;"));
    }

    #[test]
    fn names_of_scripts_are_names_of_files_whatever_they_hold() {
        let directory = tempfile::tempdir().unwrap();
        let name = "a; rm -rf $(x) 'y'.sql";
        std::fs::write(directory.path().join(name), "SELECT 1;").unwrap();
        let study = parse_sweep(&format!("[points]\nscript = \"{name}\"\n"), directory.path(), false).unwrap();
        let load = study.load(&study.point(0));
        assert_eq!(load.scripts, [(Script::File(directory.path().canonicalize().unwrap().join(name)), 1)]);
    }
}
