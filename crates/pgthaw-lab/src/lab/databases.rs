//! Prepares the cluster and its databases. Reuses those that a killed run left behind.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use sqlx::postgres::{PgConnection, types::Oid};

use super::cluster::{Lab, Place, drop_benchmark, evict_files, run_statement};
use super::launch::{Launch, Stop, Work, run_program};
use super::left::{claim, find_left, read_held_bytes};
use super::server::{connect, find_obstacle};
use crate::study::{
    CopyWay, DatabaseKey, DatabaseSpec, Error, Event, FreshCopy, LOG_LINE_PREFIX, MakingStep, Part, Result, Strategy,
    Sweep, expected_bytes, read_named, render_digest,
};
use host::files::{Directory, directory_of};
use host::linux::SystemPageCache;
use host::units::Bytes;
use observe::{STRATEGY_ROLE, WORKLOAD_ROLE};
use pgbench::{parse_initialized, parse_loaded_share};
use postgres::{
    ConnectOptions, Load, PG_BUFFERCACHE, PG_PREWARM, Pgbench, Programs, ScratchCluster, Script, Server,
    apply_create_extension, has_cluster, read_database_comment, read_installable_extensions, read_preloaded,
    remove_cluster,
};

const SPARE_CONNECTIONS: u32 = 20;

/// Creates a cluster whose claim file contains `text`, or adopts a killed run's cluster with the same claim. A new
/// cluster is removed when this process ends, unless `outlive_owner` is called. A borrowed cluster has no claim.
pub fn open_lab(
    programs: &Programs,
    place: &Place,
    text: &str,
    clients_max: u32,
    parts: Vec<(Part, PathBuf)>,
    work: Work<'_>,
) -> Result<(Lab, Option<File>)> {
    let parent = match place {
        Place::Scratch { parent } => parent,
        Place::Borrowed { data_directory } => return Ok((Lab::borrow(programs, data_directory)?, None)),
    };
    if let Some(directory) = find_left(parent, text) {
        let claim = claim(&directory, text)?;
        if has_cluster(&directory) {
            let mut lab = Lab::of(ScratchCluster::adopt_when_stopped(programs, &directory)?, None, programs)?;
            lab.parts = parts;
            work.remark("reusing the cluster of a killed run");
            return Ok((lab, Some(claim)));
        }
        // The cluster is incomplete: the killed run was removing it.
        remove_cluster(&directory).map_err(|source| Error::file("remove", &directory, source))?;
    }
    let connections = (clients_max + SPARE_CONNECTIONS).to_string();
    // Changes few defaults: room for clients, no autovacuum between trials, a log that pgthaw can parse.
    let settings = [
        ("max_connections", connections.as_str()),
        ("autovacuum", "off"),
        ("log_checkpoints", "on"),
        // For studies that turn autovacuum on.
        ("log_autovacuum_min_duration", "0"),
        ("log_line_prefix", LOG_LINE_PREFIX),
    ];
    let mut lab = Lab::of(ScratchCluster::create(programs, parent, &settings)?, None, programs)?;
    lab.cluster.allow_replaceable_settings()?;
    for (part, elsewhere) in &parts {
        match part.directory() {
            Some(name) => lab.cluster.move_directory(name, elsewhere)?,
            None => lab.cluster.make_directory(part.name(), elsewhere)?,
        }
    }
    lab.parts = parts;
    let data_directory = lab.data_directory();
    let claim = claim(data_directory.parent().unwrap_or(&data_directory), text)?;
    Ok((lab, Some(claim)))
}

#[derive(Clone, Debug, PartialEq)]
pub struct MadeDatabase {
    pub name: String,
    pub oid: u32,
    /// Seconds and steps of the database's creation; `None` if it existed.
    pub making: Option<(f64, Vec<MakingStep>)>,
}

pub type MadeDatabases = BTreeMap<DatabaseKey, MadeDatabase>;

/// Returns the study's strategies that cannot run here, with instructions to enable them.
pub async fn start_server(sweep: &Sweep, lab: &mut Lab, stop: &Stop) -> Result<BTreeMap<&'static str, String>> {
    // The warm state is measured with the settings that all points share.
    let settings = if sweep.is_warmup || sweep.is_idle() { sweep.common_settings() } else { Vec::new() };
    lab.cluster.replace_settings(&settings)?;
    lab.start(None)?;
    stop.check()?;
    let (server, mut connection) = connect(lab).await?;
    if lab.is_borrowed() && !lab.has_database() {
        lab.preloaded = read_preloaded(&mut connection).await?;
        drop_benchmark(&mut connection).await?;
    }
    make_roles(&mut connection).await?;
    make_tablespaces(&mut connection, lab).await?;
    let extensions = read_installable_extensions(&mut connection).await?;
    let version_major = server.facts.version_num / 10_000;
    let obstacle = |strategy: Strategy| {
        Some((strategy.name(), find_obstacle(strategy, &lab.programs, version_major, &extensions)?))
    };
    let left_out: BTreeMap<&str, String> = sweep.strategies().into_iter().filter_map(obstacle).collect();
    if sweep.strategies().iter().all(|strategy| left_out.contains_key(strategy.name())) {
        let reasons: Vec<&str> = left_out.values().map(String::as_str).collect();
        return Err(Error::NoStrategy(reasons.join("; ")));
    }
    // A borrowed cluster's own database stays unchanged.
    if extensions.contains(PG_BUFFERCACHE) && !lab.is_borrowed() {
        apply_create_extension(&mut connection, PG_BUFFERCACHE).await?;
    }
    Ok(left_out)
}

pub async fn make_databases(sweep: &Sweep, lab: &mut Lab, work: Work<'_>) -> Result<MadeDatabases> {
    let (server, mut connection) = connect(lab).await?;
    let has_pgfincore = sweep.strategies().contains(&Strategy::Pgfincore);
    let mut databases = MadeDatabases::new();
    for key in DatabaseKey::all(&sweep.axes) {
        let Some(spec) = sweep.databases.get(&key.name) else { continue };
        let maker = Maker { sweep, key: &key, spec, has_pgfincore, work };
        let made = maker.make(lab, &server, &mut connection).await?;
        databases.insert(key, made);
    }
    Ok(databases)
}

async fn make_roles(connection: &mut PgConnection) -> Result<()> {
    for (role, attributes) in [(WORKLOAD_ROLE, "LOGIN"), (STRATEGY_ROLE, "LOGIN SUPERUSER")] {
        let make = format!(
            "DO $$ BEGIN IF pg_catalog.to_regrole('{role}') IS NULL THEN CREATE ROLE {role} {attributes}; END IF; END $$"
        );
        run_statement(connection, "create the benchmark's roles", &make).await?;
    }
    Ok(())
}

async fn make_tablespaces(connection: &mut PgConnection, lab: &Lab) -> Result<()> {
    let known = sqlx::query_scalar("SELECT spcname::pg_catalog.text FROM pg_catalog.pg_tablespace");
    let known = known.fetch_all(&mut *connection).await;
    let known: Vec<String> =
        known.map_err(|source| postgres::Error::Query { action: "read the tablespaces", source })?;
    for (part, elsewhere) in &lab.parts {
        let Some(name) = part.tablespace().filter(|name| !known.iter().any(|one| one == name)) else { continue };
        let location = elsewhere.join(part.name()).display().to_string().replace('\'', "''");
        let make = format!("CREATE TABLESPACE {name} LOCATION '{location}'");
        run_statement(connection, "create a tablespace for tables or indexes", &make).await?;
    }
    Ok(())
}

const MOVES: &str = "SELECT pg_catalog.format('ALTER TABLE %I.%I SET TABLESPACE %I', n.nspname, c.relname, $1) \
                     FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
                     WHERE c.relkind::pg_catalog.text = ANY ($2) AND c.relpersistence <> 't' \
                     AND n.nspname NOT IN ('pg_catalog', 'pg_toast', 'information_schema')";

async fn move_relations(connection: &mut PgConnection, part: Part) -> Result<()> {
    let Some(tablespace) = part.tablespace() else { return Ok(()) };
    let action = "move tables or indexes to the tablespace that pgthaw created for them";
    // Tables and materialised views. Partitioned tables have no files.
    let kinds: &[&str] = if part == Part::Indexes { &["i"] } else { &["r", "m"] };
    let moves = sqlx::query_scalar(MOVES).bind(tablespace).bind(kinds).fetch_all(&mut *connection).await;
    let moves: Vec<String> = moves.map_err(|source| postgres::Error::Query { action, source })?;
    for statement in moves {
        run_statement(connection, action, &statement).await?;
    }
    Ok(())
}

/// Fails for another role's database: anybody with CREATEDB could have prepared one, with triggers for a superuser.
async fn find_database(connection: &mut PgConnection, name: &str) -> Result<Option<MadeDatabase>> {
    let found = "SELECT oid, pg_catalog.pg_get_userbyid(datdba)::pg_catalog.text FROM pg_catalog.pg_database WHERE datname = $1";
    let found = sqlx::query_as::<_, (Oid, String)>(found).bind(name).fetch_optional(connection).await;
    match found.map_err(|source| postgres::Error::Query { action: "find the benchmark's database", source })? {
        Some((_, owner)) if owner != WORKLOAD_ROLE => {
            Err(Error::Setting(format!("database \"{name}\" belongs to {owner}, not to pgthaw: rename or drop it")))
        }
        found => Ok(found.map(|(oid, _)| MadeDatabase { name: name.to_owned(), oid: oid.0, making: None })),
    }
}

pub fn client_variables(options: ConnectOptions) -> Vec<String> {
    let ConnectOptions { host, port, user, database, .. } = options;
    let port = port.map(|port| port.to_string());
    let given = [("PGHOST", host), ("PGPORT", port), ("PGUSER", user), ("PGDATABASE", database)];
    given.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", value?))).collect()
}

pub fn plan_psql(lab: &Lab, options: &ConnectOptions, arguments: impl IntoIterator<Item = OsString>) -> Result<Launch> {
    let own = ["-XAtq", "-v", "ON_ERROR_STOP=1"].map(OsString::from);
    let arguments = own.into_iter().chain(connection_arguments(options)).chain(arguments);
    Ok(Launch::new(lab.programs.path("psql")?, arguments))
}

pub fn connection_arguments(options: &ConnectOptions) -> Vec<OsString> {
    let port = options.port.map(|port| port.to_string());
    let given = [("-h", &options.host), ("-p", &port), ("-U", &options.user), ("-d", &options.database)];
    let given = given.into_iter().filter_map(|(option, value)| Some((option, value.as_ref()?)));
    given.flat_map(|(option, value)| [option.into(), value.into()]).collect()
}

struct Maker<'a> {
    sweep: &'a Sweep,
    key: &'a DatabaseKey,
    spec: &'a DatabaseSpec,
    has_pgfincore: bool,
    work: Work<'a>,
}

impl Maker<'_> {
    async fn make(&self, lab: &mut Lab, server: &Server, connection: &mut PgConnection) -> Result<MadeDatabase> {
        let name = self.key.database_name();
        if let Some(database) = find_database(connection, &name).await? {
            // The comment is set last, so a database without it is incomplete.
            if read_database_comment(connection, &name).await? == Some(self.mark()) {
                return Ok(database);
            }
            run_statement(connection, "drop an incomplete database", &format!("DROP DATABASE {name}")).await?;
        }
        // template0 has no objects that others added to template1.
        let create = format!("CREATE DATABASE {name} OWNER {WORKLOAD_ROLE} TEMPLATE template0");
        run_statement(connection, "create the benchmark's database", &create).await?;
        let vanished = || Error::Setting(format!("the database {name} vanished"));
        let mut database = find_database(connection, &name).await?.ok_or_else(vanished)?;
        lab.use_database(&database.name, database.oid);
        let mut inside = server.connect_to(&name).await?;
        let extensions = read_installable_extensions(&mut inside).await?;
        let wanted = [PG_PREWARM, PG_BUFFERCACHE].into_iter().chain(self.has_pgfincore.then_some("pgfincore"));
        for extension in wanted.filter(|one| extensions.contains(*one)) {
            apply_create_extension(&mut inside, extension).await?;
        }
        let began = Instant::now();
        let steps = self.fill(lab)?;
        database.making = Some((began.elapsed().as_secs_f64(), steps));
        for (part, _) in &lab.parts {
            move_relations(&mut inside, *part).await?;
        }
        let mark = format!("COMMENT ON DATABASE {name} IS '{}'", self.mark());
        run_statement(connection, "mark the benchmark's database", &mark).await?;
        Ok(database)
    }

    fn mark(&self) -> String {
        format!("made by pgthaw {:?}", self.spec).replace('\'', "")
    }

    fn fill(&self, lab: &Lab) -> Result<Vec<MakingStep>> {
        let mut steps = if self.spec.pgbench { self.make_pgbench_tables(lab)? } else { Vec::new() };
        let mut timed = |step: String, work: &dyn Fn() -> Result<()>| {
            let began = Instant::now();
            work()?;
            steps.push(MakingStep { step, seconds: began.elapsed().as_secs_f64() });
            Ok::<(), Error>(())
        };
        if let Some(setup) = &self.spec.setup {
            timed(setup.display().to_string(), &|| self.run_setup(lab, setup))?;
        }
        for command in &self.spec.commands {
            timed(command.first().cloned().unwrap_or_default(), &|| self.run_command(lab, command))?;
        }
        Ok(steps)
    }

    fn make_pgbench_tables(&self, lab: &Lab) -> Result<Vec<MakingStep>> {
        let bytes = expected_bytes(self.key.scale);
        self.work.step(format!("creating pgbench's tables, {} ({bytes})", self.key.render()));
        let pgbench = Pgbench::find(&lab.programs, lab.workload_options())?;
        let own = self.spec.initialize.iter().map(Into::into);
        let arguments = own.chain(pgbench.initialize_arguments(self.key.scale));
        let launch = Launch::new(&pgbench.program, arguments);
        let said = run_program("pgbench", &launch, None, self.work, |said| {
            if let Some(share) = said.lines().next_back().and_then(parse_loaded_share) {
                self.work.events.tell(Event::StepShare(share));
            }
        })?;
        let steps = said.lines().find_map(parse_initialized).unwrap_or_default();
        Ok(steps.into_iter().map(|(step, seconds)| MakingStep { step, seconds }).collect())
    }

    /// Runs a study's program without a shell, with the PG* variables set.
    fn run_command(&self, lab: &Lab, command: &[String]) -> Result<()> {
        let program = command.first().map(Path::new);
        // `contents` lacks programs found in PATH, so these are not checked.
        program.map_or(Ok(()), |program| read_unchanged(self.sweep, program).map(drop))?;
        let given = client_variables(lab.workload_options());
        let variables = given.into_iter().chain([format!("PGTHAW_SCALE={}", self.key.scale)]);
        let told = Launch::new(command.first().cloned().unwrap_or_default(), command.iter().skip(1)).render();
        self.work.step(format!("running {told}"));
        let launch = Launch::new("env", variables.chain(command.iter().cloned()));
        run_program("a command of database.commands", &launch, None, self.work, |_| ()).map(drop).map_err(|error| {
            match error {
                Error::Program { program, output } => Error::Program { program, output: format!("{told}: {output}") },
                other => other,
            }
        })
    }

    fn run_setup(&self, lab: &Lab, setup: &Path) -> Result<()> {
        read_unchanged(self.sweep, setup)?;
        self.work.step(format!("running {}", setup.display()));
        let told = ["-v".into(), format!("scale={}", self.key.scale).into(), "-f".into(), setup.into()];
        let launch = plan_psql(lab, &lab.workload_options(), told)?;
        run_program("psql", &launch, None, self.work, |_| ()).map(drop)
    }
}

/// Copies of scripts under the same file names, which results show.
#[derive(Debug)]
pub struct ScriptCopies(BTreeMap<PathBuf, PathBuf>);

impl ScriptCopies {
    pub fn make(sweep: &Sweep, directory: &Path) -> Result<ScriptCopies> {
        let file = |script: &(Script, u32)| match &script.0 {
            Script::File(path) => Some(path.clone()),
            Script::Builtin(_) => None,
        };
        let files: BTreeSet<PathBuf> = sweep.scripts.values().flatten().filter_map(file).collect();
        let copy = |(number, path): (usize, PathBuf)| {
            let content = read_unchanged(sweep, &path)?;
            // Two scripts may have the same file name.
            let place = directory.join(format!("scripts-{number}"));
            std::fs::create_dir_all(&place).map_err(|source| Error::file("create", &place, source))?;
            let kept = place.join(path.file_name().unwrap_or_default());
            std::fs::write(&kept, content).map_err(|source| Error::file("write", &kept, source))?;
            Ok((path, kept))
        };
        files.into_iter().enumerate().map(copy).collect::<Result<_>>().map(ScriptCopies)
    }

    pub fn of(&self, load: &Load) -> Load {
        let kept = |script: &Script| match script {
            Script::File(path) => Script::File(self.0.get(path).unwrap_or(path).clone()),
            builtin => builtin.clone(),
        };
        let scripts = load.scripts.iter().map(|(script, weight)| (kept(script), *weight));
        Load { scripts: scripts.collect(), ..load.clone() }
    }
}

/// Fails if the file has changed since the study was read: its content identifies the study.
pub fn read_unchanged(sweep: &Sweep, path: &Path) -> Result<Vec<u8>> {
    let Some(digest) = sweep.contents.get(path) else { return Ok(Vec::new()) };
    let content = read_named(path).map_err(|source| Error::file("read", path, source))?;
    match render_digest(&content) == *digest {
        true => Ok(content),
        false => Err(Error::Setting(format!(
            "{} has changed since the study was read: start the study again",
            path.display()
        ))),
    }
}

const KEPT: &str = "fresh";

const UNFINISHED: &str = "unfinished";

const REPLACED: &str = "replaced";

#[derive(Clone, Debug)]
pub struct FreshDatabase {
    /// Directories in the order of copying. The data directory is last, so that it exists only if all other copies are
    /// complete.
    places: Vec<KeptDirectory>,
    way: CopyWay,
}

#[derive(Clone, Debug)]
struct KeptDirectory {
    parent: PathBuf,
    name: &'static str,
}

impl KeptDirectory {
    fn open(&self) -> Result<Directory> {
        Directory::open(&self.parent).map_err(self.failed_to("open"))
    }

    fn failed_to(&self, action: &'static str) -> impl Fn(io::Error) -> Error + '_ {
        move |source| Error::file(action, &self.parent, source)
    }

    fn remove(&self, name: &str) -> Result<()> {
        match self.open()?.remove_tree(name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.failed_to("remove a copy in")(error)),
            _ => Ok(()),
        }
    }
}

impl FreshDatabase {
    /// Reuses a killed run's copy, which predates the first trial.
    pub fn keep(lab: &Lab, work: Work<'_>) -> Result<FreshDatabase> {
        let parts = lab.parts.iter().map(|(part, elsewhere)| KeptDirectory {
            parent: elsewhere.clone(),
            name: part.directory().unwrap_or_else(|| part.name()),
        });
        let data = lab.data_directory();
        let rest = KeptDirectory { parent: directory_of(&data).to_owned(), name: "data" };
        let mut fresh = FreshDatabase { places: parts.chain([rest]).collect(), way: CopyWay::Reflink };
        if fresh.places.iter().try_for_each(|place| fresh.probe(place, work)).is_err() {
            work.stop.check()?;
            fresh.way = CopyWay::Copy;
        }
        if !fresh.places.iter().all(|place| place.parent.join(KEPT).exists()) {
            work.step(format!("preserving a copy of the databases ({})", <&str>::from(fresh.way)));
            for place in &fresh.places {
                place.remove(KEPT)?;
                fresh.copy(place, place.name, KEPT, work, &|| ())?;
            }
        }
        Ok(fresh)
    }

    /// Tests whether the file system can share blocks.
    fn probe(&self, place: &KeptDirectory, work: Work<'_>) -> Result<()> {
        let probe = place.parent.join(UNFINISHED);
        std::fs::write(&probe, "probe").map_err(place.failed_to("write in"))?;
        let copied = self.run_cp(CopyWay::Reflink, &probe, &place.parent.join(REPLACED), work, &|| ());
        place.remove(UNFINISHED)?;
        place.remove(REPLACED)?;
        copied
    }

    pub fn put_back(&self, lab: &mut Lab, work: Work<'_>) -> Result<FreshCopy> {
        let began = Instant::now();
        work.step(format!("restoring the databases from the copy ({})", <&str>::from(self.way)));
        // If killed here, pgthaw leaves no cluster rather than an incomplete one.
        for place in self.places.iter().rev() {
            place.remove(REPLACED)?;
            match place.open()?.rename(place.name, REPLACED) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(place.failed_to("replace the files in")(error));
                }
                _ => {}
            }
        }
        let bytes: Bytes = self.places.iter().map(|place| read_held_bytes(&place.parent.join(KEPT))).sum();
        for place in &self.places {
            place.remove(REPLACED)?;
            let target = place.parent.join(UNFINISHED);
            let share = || read_held_bytes(&target).0 as f64 / bytes.0.max(1) as f64;
            self.copy(place, KEPT, place.name, work, &|| work.events.tell(Event::StepShare(share().min(1.0))))?;
            // The cached copy would occupy memory in the trial.
            evict_files(&SystemPageCache::new(), &place.parent.join(KEPT))?;
        }
        lab.open_again()?;
        Ok(FreshCopy { way: self.way, bytes, seconds: began.elapsed().as_secs_f64() })
    }

    /// Copies under a temporary name, and renames the copy once it is durable.
    fn copy(&self, place: &KeptDirectory, from: &str, to: &str, work: Work<'_>, tell: &dyn Fn()) -> Result<()> {
        place.remove(UNFINISHED)?;
        self.run_cp(self.way, &place.parent.join(from), &place.parent.join(UNFINISHED), work, tell)?;
        let synchronised = File::open(&place.parent).and_then(|parent| Ok(rustix::fs::syncfs(parent)?));
        synchronised.map_err(place.failed_to("synchronise"))?;
        place.open()?.rename(UNFINISHED, to).map_err(place.failed_to("name the copy in"))
    }

    fn run_cp(&self, way: CopyWay, from: &Path, to: &Path, work: Work<'_>, tell: &dyn Fn()) -> Result<()> {
        let how = match way {
            CopyWay::Reflink => "--reflink=always",
            CopyWay::Copy => "--reflink=never",
        };
        let options = ["-aT", how].map(OsString::from);
        let launch = Launch::new("cp", options.into_iter().chain([from.into(), to.into()]));
        run_program("cp", &launch, None, work, |_| tell()).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::spec::tests::sweep;

    #[test]
    fn what_is_edited_meanwhile_is_not_measured() {
        let directory = tempfile::tempdir_in(std::env::temp_dir()).unwrap();
        let script = directory.path().canonicalize().unwrap().join("one.sql");
        std::fs::write(&script, "SELECT 1;").unwrap();
        let study =
            sweep(&format!("[points]\nscript = {{ \"{}\" = 2, select-only = 1 }}\n", script.display())).unwrap();
        let copies = ScriptCopies::make(&study, directory.path()).unwrap();
        std::fs::write(&script, "SELECT 2;").unwrap();
        let load = study.load(&study.point(0));
        let kept = copies.of(&load);
        let names = |load: &Load| load.scripts.iter().map(|(script, _)| script.name()).collect::<Vec<_>>();
        assert_eq!(names(&kept), names(&load));
        let texts = kept.scripts.iter().filter_map(|(script, _)| match script {
            Script::File(path) => Some(std::fs::read_to_string(path).unwrap()),
            Script::Builtin(_) => None,
        });
        assert_eq!(texts.collect::<Vec<_>>(), ["SELECT 1;"]);
        let changed = read_unchanged(&study, &script).unwrap_err().to_string();
        assert!(changed.contains("one.sql has changed"), "{changed}");
        assert_eq!(ScriptCopies::make(&study, directory.path()).unwrap_err().to_string(), changed);
    }
}
