//! Parser of study files. Every error names the key and its allowed values.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use sha2::{Digest as _, Sha256};
use strum::Display;
use toml::{Table, Value};

use super::axis::{
    Axis, LATENCY_LIMITS_MS, Mix, RATES, check_least, find_file, read_lengths, read_settings, read_variables,
    whole_number,
};
use super::built_in::read_named;
use super::database::{DatabaseSpec, choose_shared_buffers, find_command, read_databases};
use super::error::{Error, Result};
use super::generators::{Generators, RawGenerators, read_generators};
use super::ground::{FileSystemSpec, Places, ServerSpec, read_disks, read_file_systems, read_places, read_servers};
use super::point::{
    Axes, DEFAULT_DATABASE, DEFAULT_SERVER, FIXED_AXES, LENGTH_AXES, LoadBegins, NATIVE, NO_LIMIT, NOTHING, Point,
    SIDE, STRATEGY, StartAsked, Strategy, TOGETHER, UNLIMITED, Until,
};
use super::record::Disk;
use host::files::read_text_at_most;
use host::units::{Bytes, counted};
use pgbench::QueryMode;
use postgres::{Length, Load, Script, TransactionLog};

const FILE_BYTES_MAX: u64 = 1 << 20;

/// This many trials of 1 s take more than a day.
pub const TRIALS_MAX: u128 = 100_000;

/// Maxima that prevent overflow, far above what pgbench or a server can run.
const SCALE_MAX: u32 = 1_000_000;
const CLIENTS_MAX: u32 = 10_000;
const REPEATS_MAX: u32 = 1000;
const TRIES_MAX: u32 = 1_000_000;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sweep {
    pub question: String,
    pub repeats: u32,
    /// `None` chooses a random seed.
    pub seed: Option<u64>,
    /// Share of transactions with a logged latency, above 0 to 1.
    pub logged_share: f64,
    /// Tries per transaction, counting the first (pgbench's `--max-tries`).
    pub max_tries: u32,
    pub axes: Axes,
    pub scripts: BTreeMap<String, Mix>,
    pub disks: BTreeMap<String, Disk>,
    pub file_systems: BTreeMap<String, FileSystemSpec>,
    pub places: BTreeMap<String, Places>,
    pub servers: BTreeMap<String, ServerSpec>,
    pub databases: BTreeMap<String, DatabaseSpec>,
    /// Caches that the database must exceed from a given scale upwards.
    pub exceeds: BTreeMap<Exceeded, u32>,
    pub is_warmup: bool,
    /// How the script chooses rows, as in `predict popularity=`.
    pub popularity: Option<String>,
    pub until: Option<Until>,
    /// Duration of a cold run of the script before the trials. Warmers load the pages that it reads.
    pub wanted_seconds: Option<u32>,
    /// Warmers load only the pages that the script reads in a cold trial.
    pub is_script_wanted: bool,
    /// Whether to measure where the server's time goes. `None`: only while the overhead is small.
    pub time: Option<bool>,
    /// Memory limit of the server at every point, including shared memory and page cache. `None`: points may have
    /// limits of their own.
    pub memory: Option<Bytes>,
    pub fresh_copy: bool,
    /// Command of the strategies `job`, `run`, `isolate` and `replay`; empty without them.
    pub job: Vec<String>,
    /// Hosts that run pgbench; `None` for this host.
    pub generators: Option<Generators>,
    /// Digests of files: an edited script makes a different study.
    pub contents: BTreeMap<PathBuf, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
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
    aa: bool,
    points: BTreeMap<AxisName, Value>,
    variables: Table,
    settings: Table,
    disks: BTreeMap<String, String>,
    file_systems: Table,
    places: BTreeMap<String, Table>,
    fresh_copy: bool,
    servers: BTreeMap<String, PathBuf>,
    database: DatabaseSpec,
    databases: BTreeMap<String, DatabaseSpec>,
    exceeds: BTreeMap<Exceeded, Value>,
    generators: Option<RawGenerators>,
    job: Option<RawJob>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct AxisName(&'static str);

impl<'de> Deserialize<'de> for AxisName {
    fn deserialize<D: Deserializer<'de>>(key: D) -> Result<AxisName, D::Error> {
        let name = String::deserialize(key)?;
        let known: Vec<&str> = FIXED_AXES.iter().map(|axis| axis.name).collect();
        let unknown = || format!("unknown field `{name}`, expected one of `{}`", known.join("`, `"));
        known.iter().copied().find(|known| *known == name).map(AxisName).ok_or_else(|| D::Error::custom(unknown()))
    }
}

impl RawSweep {
    fn axis(&self, name: &'static str) -> Axis<'_> {
        Axis { key: format!("{POINTS}.{name}"), value: self.points.get(&AxisName(name)) }
    }

    /// Replaces `shared_buffers = "auto"`, which depends on the scale.
    fn settle_shared_buffers(&mut self) -> Result<(), String> {
        let scales = self.axis("scale").whole_numbers(1, SCALE_MAX);
        let Some(size) = self.settings.get_mut("shared_buffers").filter(|size| size.as_str() == Some(AUTO)) else {
            return Ok(());
        };
        let [scale] = scales?[..] else {
            return Err(format!("settings.shared_buffers: \"{AUTO}\" requires a single scale; write a size"));
        };
        *size = Value::String(choose_shared_buffers(scale));
        Ok(())
    }
}

pub fn read_study_text(path: &Path) -> Result<String> {
    match read_text_at_most(path, FILE_BYTES_MAX) {
        Err(error) if error.kind() == std::io::ErrorKind::FileTooLarge => {
            let problem = format!("{error}, the limit for a study file");
            Err(Error::Spec { path: path.to_owned(), problem })
        }
        text => text.map_err(|source| Error::file("read", path, source)),
    }
}

pub fn parse_sweep(text: &str, directory: &Path, is_twice: bool) -> Result<Sweep, String> {
    let mut raw: RawSweep = toml::from_str(text).map_err(|error| error.to_string())?;
    raw.aa |= is_twice;
    raw.settle_shared_buffers()?;
    let (axes, scripts) = read_axes(&raw, directory)?;
    let key = |key: &str, value| Axis { key: key.to_owned(), value };
    let repeats = key("repeats", raw.repeats.as_ref()).whole_number(REPEATS_MAX)?.unwrap_or(3);
    let max_tries = key("max_tries", raw.max_tries.as_ref()).whole_number(TRIES_MAX)?.unwrap_or(1);
    let wanted_seconds = key("wanted_seconds", raw.wanted_seconds.as_ref()).whole_number(WANTED_SECONDS_MAX)?;
    check_size(&axes, repeats)?;
    let until = raw.until.as_deref().map(read_until).transpose()?;
    check_rules(&raw, &axes, until, repeats)?;
    let places = read_places(&raw.places, &axes.places, &axes.file_system)?;
    let disks = read_disks(&raw.disks, &axes.disk, &places)?;
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
    let (job, of_job) = read_job(raw.job, &axes, directory)?;
    let contents = files.chain(setups).chain(own_programs).chain(&of_job).map(|path| {
        let bytes = read_named(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        Ok((path.clone(), render_digest(&bytes)))
    });
    let is_forecast = raw.kind.as_deref() == Some(FORECAST);
    Ok(Sweep {
        question: raw.question.unwrap_or_default(),
        repeats,
        seed: raw.seed.as_ref().map(read_seed).transpose()?,
        logged_share: raw.logged_share.as_ref().map_or(Ok(1.0), read_share)?,
        max_tries,
        exceeds: read_exceeds(&raw.exceeds)?,
        is_warmup: raw.kind.is_some(),
        popularity: is_forecast.then(|| raw.popularity.unwrap_or_else(|| "uniform".to_owned())),
        until,
        wanted_seconds,
        is_script_wanted: raw.wanted.is_some(),
        time: raw.time,
        memory: raw.memory.as_deref().map(read_memory).transpose()?,
        fresh_copy: raw.fresh_copy,
        job,
        generators: raw.generators.map(read_generators).transpose()?,
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

pub const AUTO: &str = "auto";

type Scripts = BTreeMap<String, Mix>;

fn read_axes(raw: &RawSweep, directory: &Path) -> Result<(Axes, Scripts), String> {
    let scripts = raw.axis("script").scripts(directory)?;
    let strategies = raw.axis(STRATEGY).words(Strategy::Nothing)?;
    let mut axes = Axes {
        scale: raw.axis("scale").whole_numbers(1, SCALE_MAX)?,
        clients: raw.axis("clients").whole_numbers(1, CLIENTS_MAX)?,
        jobs: raw.axis("jobs").whole_numbers(1, CLIENTS_MAX)?,
        script: scripts.iter().map(|(name, _)| name.clone()).collect(),
        rate: raw.axis("rate").numbers_or(UNLIMITED, &RATES, "transactions per second")?,
        start: raw.axis("start").words(StartAsked::Warm)?,
        disk: raw.axis("disk").names(NATIVE)?,
        file_system: raw.axis("file_system").names(NATIVE)?,
        server: raw.axis("server").names(DEFAULT_SERVER)?,
        latency_limit_ms: raw.axis("latency_limit_ms").numbers_or(NO_LIMIT, &LATENCY_LIMITS_MS, "milliseconds")?,
        strategy: strategies.iter().map(Strategy::to_string).collect(),
        database: raw.axis("database").names(DEFAULT_DATABASE)?,
        query_mode: raw.axis("query_mode").words(QueryMode::default())?,
        memory: raw.axis("memory").memories()?,
        places: raw.axis("places").names(TOGETHER)?,
        load_begins: raw.axis("load_begins").words(LoadBegins::AtOnce)?,
        variables: read_variables(&raw.variables)?,
        settings: read_settings(&raw.settings)?,
        is_twice: raw.aa,
        ..Axes::default()
    };
    read_lengths(&mut axes, LENGTH_AXES.map(|name| raw.axis(name)))?;
    check_names(&axes)?;
    Ok((axes, scripts.into_iter().collect()))
}

fn is_fixed(name: &str) -> bool {
    FIXED_AXES.iter().any(|axis| axis.name == name)
}

fn check_names(axes: &Axes) -> Result<(), String> {
    let is_setting = |name: &str| axes.settings.iter().any(|(setting, _)| setting == name);
    let is_taken = |name: &str| is_fixed(name) || name == SIDE || is_setting(name);
    axes.variables.iter().find(|(name, _)| is_taken(name)).map_or(Ok(()), |(name, _)| {
        Err(format!(
            "variables.{name}: the name has another meaning in a study file; rename the variable, here and in the script"
        ))
    })
}

fn check_tables(databases: &BTreeMap<String, DatabaseSpec>, scripts: &Scripts) -> Result<(), String> {
    let has_tables = databases.values().all(|database| database.pgbench);
    match scripts.values().flatten().find(|(script, _)| !has_tables && matches!(script, Script::Builtin(_))) {
        Some((script, _)) => Err(format!(
            "points.script: {} needs pgbench's tables, which a database with pgbench = false lacks; write your own script",
            script.name()
        )),
        None => Ok(()),
    }
}

fn check_size(axes: &Axes, repeats: u32) -> Result<(), String> {
    let points = axes.count();
    let trials = points.saturating_mul(u128::from(repeats));
    if trials <= TRIALS_MAX {
        return Ok(());
    }
    Err(format!(
        "the study has {} × {}, but may have at most {TRIALS_MAX} trials; write fewer values in {}, or split the study",
        counted(points, "point"),
        counted(repeats, "repeat"),
        axes.varied().join(", ")
    ))
}

pub fn render_digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn read_seed(value: &Value) -> Result<u64, String> {
    let seed = value.as_integer().and_then(|seed| u64::try_from(seed).ok());
    seed.ok_or_else(|| format!("seed: {value} is not a seed; write a whole number from 0, or leave it out"))
}

fn read_share(value: &Value) -> Result<f64, String> {
    let share = value.as_float().or(value.as_integer().map(|whole| whole as f64));
    let wrong =
        || format!("logged_share: {value} is not a share of transactions; write a number above 0, up to 1.0 for all");
    share.filter(|share| *share > 0.0 && *share <= 1.0).ok_or_else(wrong)
}

impl Sweep {
    /// Axes with more than one value. For a warm-up study, always includes the strategy.
    pub fn varied(&self) -> Vec<String> {
        let varied = self.axes.varied();
        if varied.is_empty() && self.is_warmup { vec![STRATEGY.to_owned()] } else { varied }
    }

    pub fn points(&self) -> u32 {
        self.axes.count() as u32
    }

    pub fn trials(&self) -> u32 {
        self.points() * self.repeats
    }

    pub fn point(&self, number: u32) -> Point {
        let point = self.axes.point(number.into());
        Point { memory: point.memory.or(self.memory), ..point }
    }

    pub fn strategies(&self) -> Vec<Strategy> {
        let mut strategies: Vec<Strategy> = self.axes.strategies().collect();
        if self.axes.start.contains(&StartAsked::Restored) {
            strategies.push(Strategy::PgthawFullSpeed);
        }
        strategies
    }

    pub fn load(&self, point: &Point) -> Load {
        // pgbench detects the scale only for its own scripts.
        let scale = self.has_own_script(point).then(|| ("scale".to_owned(), point.scale.to_string()));
        Load {
            scripts: self.scripts.get(&point.script).cloned().unwrap_or_default(),
            variables: point.variables.iter().cloned().chain(scale).collect(),
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

    pub fn has_own_script(&self, point: &Point) -> bool {
        let scripts = self.scripts.get(&point.script);
        scripts.into_iter().flatten().any(|(script, _)| matches!(script, Script::File(_)))
    }

    /// Whether the load needs all bytes that warmers load. A user's own script may need only some, except with
    /// `is_script_wanted`.
    pub fn needs_all_cached(&self, point: &Point) -> bool {
        self.is_script_wanted || !self.has_own_script(point)
    }

    pub fn disk(&self, point: &Point) -> Disk {
        self.disks.get(&point.disk).cloned().unwrap_or_else(|| unreachable!("the disk {} was read", point.disk))
    }

    /// Includes the contents of scripts, but not the file's layout.
    pub fn digest(&self) -> String {
        let meaning = serde_json::to_vec(self).unwrap_or_else(|_| unreachable!("maps of text become JSON"));
        render_digest(&meaning)
    }
}

const TOP_KEYS: &str = "question kind popularity until wanted_seconds wanted memory time repeats seed logged_share max_tries \
     aa points variables settings disks file_systems places fresh_copy servers database databases exceeds \
     generators job";

/// Table of the study file; `KEY=VALUE` may omit its name.
const POINTS: &str = "points";

const TEXTS: [&str; 3] = ["question", "disks", "servers"];

/// Jaro-Winkler similarity from which a key counts as mistyped.
const LIKENESS_MIN: f64 = 0.8;

pub fn set_keys(text: &str, assignments: &[&str]) -> Result<String, String> {
    toml::from_str::<RawSweep>(text).map_err(|error| error.to_string())?;
    let mut study: Table = toml::from_str(text).map_err(|error| error.to_string())?;
    assignments.iter().try_for_each(|assignment| set_key(&mut study, assignment))?;
    Ok(if assignments.is_empty() { text.to_owned() } else { study.to_string() })
}

/// Sets a dotted key to a TOML value or bare text. An empty value removes it. For an axis, `a,b` is a list.
fn set_key(study: &mut Table, assignment: &str) -> Result<(), String> {
    let wrong = || format!("{assignment:?} sets no key of the study: write KEY=VALUE, such as scale=10");
    let (key, value) = assignment.split_once('=').ok_or_else(wrong)?;
    let path = read_path(key)?;
    let value = read_value(&path, value);
    let Some((last, tables)) = path.split_last() else { return Ok(()) };
    let mut table = study;
    for name in tables {
        let inner = table.entry(name.clone()).or_insert_with(|| Value::Table(Table::new()));
        table = inner.as_table_mut().ok_or_else(|| format!("{key}: {name} is a value, not a table"))?;
    }
    // A trial has only one length.
    if tables == [POINTS] && LENGTH_AXES.contains(&last.as_str()) {
        LENGTH_AXES.iter().for_each(|axis| drop(table.remove(*axis)));
    }
    match value {
        Some(value) => table.insert(last.clone(), value),
        None => table.remove(last),
    };
    Ok(())
}

fn is_top(key: &str) -> bool {
    TOP_KEYS.split(' ').any(|known| known == key)
}

fn read_path(key: &str) -> Result<Vec<String>, String> {
    let mut rest = toml::from_str::<Table>(&format!("{key} = 0")).map_err(|_| format!("{key:?} is not a key"))?;
    let mut path: Vec<String> = Vec::new();
    while let Some((name, value)) = std::mem::take(&mut rest).into_iter().next() {
        path.push(name);
        if let Value::Table(inner) = value {
            rest = inner;
        }
    }
    if !is_top(&path[0]) && is_fixed(&path[0]) {
        path.insert(0, POINTS.to_owned());
    }
    match path.as_slice() {
        [first, ..] if !is_top(first) => Err(describe_unknown(key, first)),
        [first, second, ..] if first == POINTS && !is_fixed(second) => Err(describe_unknown(key, second)),
        _ => Ok(path),
    }
}

fn describe_unknown(key: &str, name: &str) -> String {
    let known = TOP_KEYS.split(' ').chain(FIXED_AXES.iter().map(|axis| axis.name));
    let near = known.map(|known| (strsim::jaro_winkler(name, known), known));
    let near = near.max_by(|one, other| one.0.total_cmp(&other.0)).filter(|(likeness, _)| *likeness > LIKENESS_MIN);
    match near {
        Some((_, near)) => format!("a study has no key {key}; did you mean {near}?"),
        None => format!(
            "a study has no key {key}; write settings.{key} for a server setting, variables.{key} for a script's variable"
        ),
    }
}

fn read_value(path: &[String], text: &str) -> Option<Value> {
    if text.is_empty() {
        return None;
    }
    let typed = |text: &str| {
        let mut table = toml::from_str::<Table>(&format!("value = {text}")).ok().filter(|table| table.len() == 1)?;
        table.remove("value")
    };
    let bare = |text: &str| Value::String(text.to_owned());
    let value = typed(text);
    Some(match path[0].as_str() {
        key if TEXTS.contains(&key) => value.filter(Value::is_str).unwrap_or_else(|| bare(text)),
        POINTS if value.is_none() && text.contains(',') => {
            Value::Array(text.split(',').map(str::trim).map(|one| typed(one).unwrap_or_else(|| bare(one))).collect())
        }
        _ => value.unwrap_or_else(|| bare(text)),
    })
}

const WARMUP: &str = "warmup";
const FORECAST: &str = "forecast";

const WANTED_SECONDS_MAX: u32 = 24 * 3600;

fn check_rules(raw: &RawSweep, axes: &Axes, until: Option<Until>, repeats: u32) -> Result<(), String> {
    let (kind, wanted) = (raw.kind.as_deref(), raw.wanted.as_deref());
    let is_cold = axes.start == [StartAsked::Cold];
    let by_seconds = axes.seconds != [None];
    let is_idle = until == Some(Until::Resident);
    let waits = axes.load_begins != [LoadBegins::AtOnce];
    let (warms, runs_job) = (axes.strategies().any(Strategy::warms), axes.strategies().any(Strategy::runs_job));
    let has = |name: &str| axes.strategy.iter().any(|one| one == name);
    let rules = [
        (!warms || is_cold, "points.strategy: a strategy warms a cold server; write start = \"cold\""),
        (
            !raw.fresh_copy || !axes.start.contains(&StartAsked::AsIs),
            "fresh_copy: start \"as-is\" keeps the previous trial's database; write another value for points.start, or remove fresh_copy",
        ),
        (
            until.is_none() || by_seconds,
            "until: set a trial's maximum length in points.seconds, and remove points.transactions or \
             points.total_transactions",
        ),
        (until.is_none() || !runs_job, "until: a trial with a job always lasts its points.seconds; remove until"),
        (
            !is_idle || is_cold,
            "until = \"resident\" measures warmers of an idle, cold server, but points.start is not \"cold\"",
        ),
        (
            !is_idle || !has(NOTHING),
            "until = \"resident\" measures warmers of an idle, cold server, but \"nothing\" in points.strategy \
             has no warmer: the server would stay cold",
        ),
        (
            !is_idle || (axes.rate == [None] && axes.latency_limit_ms == [None]),
            "until = \"resident\" measures warmers of an idle, cold server, but points.rate or points.latency_limit_ms \
             needs a load; remove it",
        ),
        (!is_idle || raw.generators.is_none(), "generators: with until = \"resident\" no load runs; remove the table"),
        (
            !waits || !by_seconds,
            "points.load_begins: with \"after-warmer\" the load begins when the warmer ends, so points.seconds cannot \
             limit it; write transactions = 1, or the number of transactions that each client is to run",
        ),
        (
            !waits || is_cold,
            "points.load_begins: \"after-warmer\" requires points.start = \"cold\": warmers only warm cold servers",
        ),
        (
            !waits || raw.generators.is_none(),
            "points.load_begins: with \"after-warmer\" the load begins when the warmer ends, but load generators need their \
             start time in advance; remove [generators]",
        ),
        (
            matches!(wanted, None | Some("script")),
            "wanted: write \"script\"; or remove this key: warmers then load all data",
        ),
        (
            wanted.is_none() || !is_idle,
            "wanted: with until = \"resident\", write wanted_seconds instead: warmers then load what the script \
             reads in this time",
        ),
        (
            wanted.is_none() || axes.script.len() == 1 || !has(Strategy::Pgfincore.name()),
            "wanted: pgfincore keeps only one snapshot per database, but each script needs a snapshot of its own; write only one script in points.script",
        ),
        (
            wanted.is_none() || warms || axes.start.contains(&StartAsked::Restored),
            "wanted: nothing restores the data that the script reads; name a warmer in points.strategy, write start = \
             \"restored\", or remove wanted",
        ),
        (raw.wanted_seconds.is_none() || is_idle, "wanted_seconds: valid only with until = \"resident\"; remove it"),
        (
            raw.memory.is_none() || raw.axis("memory").value.is_none(),
            "memory and points.memory exclude each other; remove one of them",
        ),
        (matches!(kind, None | Some(WARMUP | FORECAST)), "kind: write \"warmup\" or \"forecast\", or leave it out"),
        (
            raw.popularity.is_none() || kind == Some(FORECAST),
            "popularity: valid only with kind = \"forecast\"; remove it",
        ),
        (
            kind != Some(FORECAST) || (repeats == 1 && axes.strategy == [NOTHING]),
            "kind = \"forecast\" measures one cold start without a warmer; write repeats = 1 and strategy = \"nothing\"",
        ),
    ];
    if let Some((_, problem)) = rules.into_iter().find(|(is_kept, _)| !is_kept) {
        return Err(problem.to_owned());
    }
    kind.map_or(Ok(()), |kind| check_warmup(kind, axes, is_idle))
}

fn read_until(word: &str) -> Result<Until, String> {
    word.parse()
        .map_err(|_| format!("until: {word:?} is not allowed; write \"steady\" or \"resident\", or leave it out"))
}

fn read_memory(text: &str) -> Result<Bytes, String> {
    let wrong = |_| format!("memory: {text:?} is not a size; write one such as \"512MB\", or leave it out");
    check_least("memory", text.parse().map_err(wrong)?)
}

fn check_warmup(kind: &str, axes: &Axes, is_idle: bool) -> Result<(), String> {
    let varied = axes.varied();
    let other = varied.iter().find(|axis| *axis != STRATEGY);
    let wrong = match other {
        Some(axis) => format!("{axis} has several values"),
        None if axes.start != [StartAsked::Cold] => "points.start is not \"cold\"".to_owned(),
        None if axes.strategies().any(Strategy::runs_job) => "points.strategy runs a job".to_owned(),
        None if is_idle => "until is \"resident\", so no workload runs".to_owned(),
        None if axes.point(0).seconds.is_none() => "its trials end by points.transactions".to_owned(),
        None => return Ok(()),
    };
    Err(format!(
        "a study with kind = \"{kind}\" runs a load on a cold server for points.seconds and varies only the warmer, but {wrong}; remove kind to run a sweep"
    ))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Display)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Exceeded {
    SharedBuffers,
    Memory,
}

pub fn read_exceeds(raw: &BTreeMap<Exceeded, Value>) -> Result<BTreeMap<Exceeded, u32>, String> {
    let scale = |(cache, value): (&Exceeded, &Value)| {
        let wrong = || {
            format!("exceeds.{cache}: {value} is not a scale; write the smallest scale whose data must exceed {cache}")
        };
        Ok((*cache, whole_number(value, u32::MAX).ok_or_else(wrong)?))
    };
    raw.iter().map(scale).collect()
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawJob {
    command: Vec<String>,
}

/// Files in `directory` get absolute paths.
fn read_job(raw: Option<RawJob>, axes: &Axes, directory: &Path) -> Result<(Vec<String>, Vec<PathBuf>), String> {
    let Some(raw) = raw else {
        return match axes.strategies().find(|strategy| strategy.runs_job()) {
            Some(strategy) => Err(format!(
                "points.strategy: {strategy} runs the study's job, but there is none; write [job] with command = [\"psql\", \"-Xqf\", \"report.sql\"]"
            )),
            None => Ok((Vec::new(), Vec::new())),
        };
    };
    if !axes.strategies().any(Strategy::runs_job) {
        return Err(
            "job: no strategy runs it; add \"job\", \"run\", \"isolate\" or \"replay\" to points.strategy, or remove [job]".into()
        );
    }
    let key = "job.command";
    let has_own_program = raw.command.first().is_some_and(|program| program.contains('/'));
    let mut command = find_command(key, directory, raw.command)?;
    let mut files = Vec::new();
    if has_own_program {
        files.extend(command.first().map(PathBuf::from));
    }
    for word in command.iter_mut().skip(1) {
        let name = Path::new(&*word);
        if name.is_relative() && directory.join(name).is_file() {
            let file = find_file(key, directory, name)?;
            *word = file.display().to_string();
            files.push(file);
        }
    }
    Ok((command, files))
}

#[cfg(test)]
pub mod tests {
    use super::*;

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
        assert_eq!((point.start, point.disk.as_str(), point.rate), (StartAsked::Warm, "native", None));
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
            &["points.seconds", "points.transactions", "keep one"],
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
        assert_refused("[settings]\n\"work_mem = 1 #\" = 1\n", &["settings", "not the name"]);
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

#[cfg(test)]
mod keys_tests {
    use super::*;
    use crate::study::built_in::BUILT_IN_STUDIES;
    use crate::study::spec::tests::sweep;

    fn set(text: &str, assignments: &[&str]) -> String {
        set_keys(text, assignments).unwrap()
    }

    #[test]
    fn every_key_can_be_set_and_studies_know_no_other() {
        let unknown = sweep("no_such_key = 1").unwrap_err();
        for key in TOP_KEYS.split(' ') {
            assert!(unknown.contains(&format!("`{key}`")), "{key}: {unknown}");
        }
        assert_eq!(unknown.matches("`, `").count() + 1, TOP_KEYS.split(' ').count(), "{unknown}");
    }

    #[test]
    fn values_are_those_of_toml_or_bare() {
        let text = "[points]\nseconds = 5\n";
        assert_eq!(set(text, &[]), text);
        let keys = [
            "clients=1,8",
            "script=select-only,tpcb-like",
            "transactions=7",
            "settings.work_mem=64MB",
            "settings.auto_explain.log_analyze=true",
            "disks.ram=9",
            "disk=ram",
            "server=15",
            "question=What, and why?",
            "repeats=3",
            "repeats=2",
            "points.scale=[1, 2]",
        ];
        let study = sweep(&set(text, &keys)).unwrap();
        assert_eq!((study.points(), study.repeats, study.question.as_str()), (8, 2, "What, and why?"));
        let point = study.point(7);
        assert_eq!((point.scale, point.clients, point.script.as_str()), (2, 8, "tpcb-like"));
        assert_eq!((point.transactions, point.seconds, point.server.as_str()), (Some(7), None, "15"));
        assert_eq!(
            (point.value("auto_explain.log_analyze").as_deref(), study.disk(&point).riops),
            (Some("on"), Some(9))
        );
        assert_eq!(set("question = \"x\"\nseed = 7\n", &["question="]), "seed = 7\n");
    }

    #[test]
    fn a_mistyped_key_is_told_with_the_nearest() {
        for (assignment, told) in [
            ("clinets=2", "did you mean clients?"),
            ("points.scales=2", "no key points.scales; did you mean scale?"),
            ("repeat=2", "did you mean repeats?"),
            ("work_mem=64MB", "settings.work_mem"),
            ("scale", "KEY=VALUE"),
            ("a b=1", "is not a key"),
            ("seed.x=1", "seed is a value"),
        ] {
            let refused = set_keys("seed = 1\n", &[assignment]).unwrap_err();
            assert!(refused.contains(told), "{refused}");
        }
        assert!(set_keys("repeat = 1\n", &["seed=1"]).unwrap_err().contains("line 1"));
    }

    #[test]
    fn every_built_in_study_is_one() {
        for text in BUILT_IN_STUDIES.iter().flat_map(|(_, texts)| *texts) {
            let study = sweep(&set(text, if text.contains("scale = \"auto\"") { &["scale=10"] } else { &[] })).unwrap();
            let shared_buffers = study.point(0).value("shared_buffers");
            assert_eq!(
                shared_buffers.as_deref(),
                Some(if study.point(0).scale == 10 { "39062kB" } else { "195312kB" })
            );
        }
    }
}

#[cfg(test)]
mod warmup_tests {
    use super::*;
    use crate::study::spec::tests::{assert_refused, sweep};

    #[test]
    fn a_study_of_ways_to_warm_has_one_workload_and_starts_cold() {
        assert_refused("kind = 'warmup'\n[points]\nstart = 'cold'\nscale = [1, 2]\n", &["kind", "scale has several"]);
        assert_refused("kind = 'warmup'\n", &["points.start is not \"cold\""]);
        assert_refused("kind = 'warmup'\n[points]\nstart = 'cold'\ntransactions = 5\n", &["points.transactions"]);
        assert_refused("kind = 'other'\n", &["kind", "\"warmup\""]);
        assert_refused("popularity = 'uniform'\n", &["popularity", "\"forecast\""]);
        let forecast = "kind = 'forecast'\n[points]\nstart = 'cold'\n";
        assert_refused(forecast, &["kind", "repeats = 1"]);
        assert_eq!(sweep(&format!("repeats = 1\n{forecast}")).unwrap().popularity.as_deref(), Some("uniform"));
        assert_refused("until = 'warm'\n", &["until", "\"steady\"", "\"resident\""]);
        assert_refused("until = 'steady'\n[points]\ntransactions = 5\n", &["until", "points.seconds"]);
        assert_refused("memory = 'much'\n", &["memory", "512MB"]);
        for little in ["1kB", "0", "39.9MB"] {
            assert_refused(&format!("memory = '{little}'\n"), &["memory", "too little", "40 MB"]);
            assert_refused(&format!("[points]\nmemory = ['{little}', 'none']\n"), &["points.memory", "40 MB"]);
        }
    }

    #[test]
    fn a_load_that_waits_is_a_job_from_cold() {
        let job =
            "[points]\ntransactions = 1\nstart = 'cold'\nstrategy = ['nothing', 'cat']\nload_begins = 'after-warmer'\n";
        let study = sweep(&format!("wanted = 'script'\n{job}")).unwrap();
        assert!(study.is_script_wanted && study.point(0).load_begins == LoadBegins::AfterWarmer);
        let needs_all = |text: &str| {
            let study = sweep(text).unwrap();
            study.needs_all_cached(&study.point(0))
        };
        let own = job.replace("transactions", "script = 'newest-tenth.sql'\ntransactions");
        assert!(needs_all(job) && !needs_all(&own) && needs_all(&format!("wanted = 'script'\n{own}")));
        assert_eq!(study.point(0).value("load_begins").as_deref(), Some("after-warmer"));
        assert_refused(
            "[points]\nstart = 'cold'\nload_begins = 'after-warmer'\n",
            &["points.load_begins", "transactions = 1"],
        );
        assert_refused(
            "[points]\ntransactions = 1\nload_begins = 'after-warmer'\n",
            &["points.load_begins", "\"cold\""],
        );
        assert_refused("[points]\nload_begins = 'later'\n", &["points.load_begins", "at-once, after-warmer"]);
        assert_refused(
            &format!("{job}[generators]\nhosts = ['a']\naddress = '10.0.0.1'\n"),
            &["points.load_begins", "[generators]"],
        );
        assert_refused("wanted = 'all'\n", &["wanted", "\"script\""]);
        assert_refused("wanted = 'script'\n[points]\nstart = 'cold'\n", &["wanted", "points.strategy"]);
    }

    #[test]
    fn a_study_of_warmers_of_an_idle_server_has_no_load_that_warms_it() {
        let cold = "[points]\nstart = 'cold'\nstrategy = 'cat'\n";
        assert!(sweep(&format!("until = 'resident'\n{cold}")).unwrap().wanted_seconds.is_none());
        assert_refused("until = 'resident'\n", &["until", "points.start is not \"cold\""]);
        assert_refused("until = 'resident'\n[points]\nstart = 'cold'\n", &["points.strategy", "nothing"]);
        assert_refused(&format!("until = 'resident'\nkind = 'warmup'\n{cold}"), &["kind", "no workload runs"]);
        assert_refused(&format!("until = 'resident'\n{cold}rate = 500\n"), &["points.rate", "remove it"]);
        let hosts = "[generators]\nhosts = ['a']\naddress = '127.0.0.1'\n";
        assert_refused(&format!("until = 'resident'\n{cold}{hosts}"), &["generators", "no load runs"]);
        assert_refused(&format!("wanted_seconds = 3\n{cold}"), &["wanted_seconds", "until = \"resident\""]);
        assert_refused(&format!("until = 'resident'\nwanted_seconds = 0\n{cold}"), &["wanted_seconds", "86400"]);
    }
}

#[cfg(test)]
mod job_tests {
    use crate::study::spec::parse_sweep;
    use crate::study::spec::tests::{assert_refused, sweep};

    const JOB: &str = "[job]\ncommand = ['psql', '-Xqf', 'report.sql']\n";

    #[test]
    fn a_job_is_run_from_any_start_and_its_files_lie_beside_the_study() {
        let directory = tempfile::tempdir().unwrap();
        let report = directory.path().join("report.sql");
        let text = format!("[points]\nstart = ['cold', 'warm']\nstrategy = ['nothing', 'job', 'run']\n{JOB}");
        let study = |says: &str| {
            std::fs::write(&report, says).unwrap();
            parse_sweep(&text, directory.path(), false).unwrap()
        };
        let one = study("SELECT 1");
        let whole = report.canonicalize().unwrap();
        assert_eq!(one.job, ["psql", "-Xqf", whole.to_str().unwrap()]);
        assert!(one.contents.contains_key(&whole));
        assert_ne!(one.digest(), study("SELECT 2").digest(), "an edited report is another study");
    }

    #[test]
    fn a_job_and_what_runs_it_go_together() {
        assert_refused("[points]\nstrategy = ['nothing', 'run']\n", &["points.strategy", "run", "[job]", "command"]);
        assert_refused(JOB, &["job", "to points.strategy, or remove [job]", "remove"]);
        assert_refused(&format!("[points]\nstart = 'cold'\nstrategy = 'cat'\n{JOB}"), &["job", "no strategy runs it"]);
        assert_refused("[points]\nstrategy = 'job'\n[job]\ncommand = []\n", &["job.command", "a program is missing"]);
        assert_refused("[points]\nstrategy = 'job'\n[job]\ncommand = ['./no-such']\n", &["job.command", "no-such"]);
        assert_refused("[points]\nstrategy = 'job'\n[job]\n", &["command"]);
    }

    #[test]
    fn a_job_is_beside_a_load_that_lasts_and_warms_nothing() {
        let points = |keys: &str| format!("[points]\nstart = 'cold'\n{keys}{JOB}");
        for until in ["steady", "resident"] {
            let text = format!("until = '{until}'\n{}", points("strategy = 'job'\n"));
            assert_refused(&text, &["until", "a job"]);
        }
        assert_refused(&format!("kind = 'warmup'\n{}", points("strategy = ['cat', 'job']\n")), &["kind", "job"]);
        assert_refused(&format!("wanted = 'script'\n{}", points("strategy = 'job'\n")), &["wanted", "a warmer"]);
        assert_refused(&format!("[points]\nstrategy = ['job', 'cat']\n{JOB}"), &["points.strategy", "\"cold\""]);
        assert!(sweep(&points("strategy = ['job', 'cat']\n")).is_ok());
    }
}
