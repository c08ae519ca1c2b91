use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fs, io};

use sqlx::postgres::PgConnection;

use super::resident::{Wanted, WantedFile, write_list};
use crate::lab::{Ended, Lab, Launch, Running, client_variables, connection_arguments, plan_psql, run_statement};
use crate::study::{Disk, Error, Outcome, PGTHAW, Result, Strategy, StrategyOutcome, Sweep};
use cache::warm::{DEVICES, STATE, state_directory};
use cache::{MapInputs, Snapshot, read_heat, read_map};
use host::files::Directory;
use host::linux::page_cache::PageCache as _;
use host::linux::{DiskLimit, SystemPageCache};
use host::units::Bytes;
use observe::{BackendReads, BackendRole, apply_end_strategy_backends};
use postgres::{DataDirectory, PrewarmMode, Server, read_databases};

const AUTOPREWARM_DONE: &str = "autoprewarm successfully prewarmed";

const SERVER_STARTING: &str = "starting PostgreSQL";

const POLLS_PER_SCAN: u32 = 10;

/// Role to which io workers' reads are attributed while this strategy runs.
pub fn io_workers_serve(strategy: Strategy) -> BackendRole {
    if strategy.scans_in_server() { BackendRole::Strategy } else { BackendRole::Workload }
}

#[derive(Debug)]
pub struct Contender {
    strategy: Strategy,
    launch: Option<Launch>,
    running: Option<Running>,
    backends: BackendReads,
    start: Duration,
    /// End of the warmer's command, since boot; `None` while it runs.
    pub ended_at: Option<Duration>,
    polls: u32,
}

impl Contender {
    pub fn ready(
        strategy: Strategy,
        launch: Option<Launch>,
        lab: &Lab,
        directory: &Path,
        limit: Option<&DiskLimit>,
    ) -> Result<Contender> {
        let running = launch.as_ref().map(|launch| launch.ready("strategy", directory, limit)).transpose()?;
        let backends = BackendReads::new(lab.postmaster_pid(), io_workers_serve(strategy));
        Ok(Contender { strategy, launch, running, backends, start: Duration::ZERO, ended_at: None, polls: 0 })
    }

    pub fn go(&mut self, start: Duration) {
        self.start = start;
        self.running.iter_mut().for_each(Running::go);
    }

    /// Reads the backends' counters, which vanish when a backend ends.
    pub fn poll(&mut self, lab: &Lab) {
        if self.ended_at.is_some() || self.strategy == Strategy::Nothing {
            return;
        }
        // The sampler, once a second, would miss a backend's last reads.
        match self.polls % POLLS_PER_SCAN {
            // Ignores errors: these counters are optional.
            0 => drop(self.backends.read()),
            _ => self.backends.read_known(),
        }
        self.polls += 1;
        self.ended_at = match &mut self.running {
            Some(running) => running.poll().map(|ended| ended.at),
            None => has_autoprewarm_ended(&lab.cluster.log_tail()).then(host::linux::read_monotonic),
        };
    }

    pub fn finish(mut self, lab: &Lab) -> Outcome {
        self.poll(lab);
        let ended = self.running.as_mut().and_then(Running::poll);
        let own_bytes = self.running.as_ref().and_then(Running::read_bytes);
        let of_backends = self.backends.totals().strategy_read_bytes;
        let is_any = self.strategy != Strategy::Nothing;
        let issued_bytes = is_any.then(|| own_bytes.unwrap_or_default() + of_backends);
        let output = self.running.as_ref().map(Running::read_output_tail).unwrap_or_default();
        let fio = self.running.as_ref().filter(|_| self.strategy.is_fio());
        let own = fio.and_then(|running| parse_fio(&running.read_stdout()));
        let command = match &self.launch {
            Some(launch) => launch.render(),
            None if self.strategy == Strategy::Autoprewarm => "shared_preload_libraries = 'pg_prewarm'".to_owned(),
            None => String::new(),
        };
        let outcome = Outcome {
            told: StrategyOutcome {
                command,
                ended_after_seconds: self.ended_at.map(|at| at.saturating_sub(self.start).as_secs_f64()),
                issued_bytes,
                failure: ended.and_then(|ended| describe_failure(ended, &output)),
                // fio's output has only the figures in `own`.
                output: if own.is_some() { String::new() } else { output },
            },
            cpu: ended.and_then(|ended| ended.cpu_time),
            own,
        };
        drop(self.running);
        apply_end_strategy_backends(lab.postmaster_pid());
        outcome
    }
}

fn describe_failure(ended: Ended, output: &str) -> Option<String> {
    let last_words = output.lines().last().unwrap_or("it printed nothing");
    (!ended.status.success()).then(|| format!("{}: {last_words}", ended.status))
}

fn has_autoprewarm_ended(log: &str) -> bool {
    log.rsplit(SERVER_STARTING).next().is_some_and(|since_start| since_start.contains(AUTOPREWARM_DONE))
}

const FIO_BLOCK_BYTES: u64 = 1 << 20;

const FIO_DEPTH: u32 = 16;

const SEQSCAN: &str = "SELECT pg_catalog.avg(abalance) FROM public.pgbench_accounts";

const PGFINCORE_LOAD: &str = "SELECT pg_catalog.sum(pages_loaded) FROM public.pgfincore_snapshot s, \
     public.pgfadvise_loader(s.relation, 'main', s.segment, true, false, s.databit)";

pub fn plan_launch(strategy: Strategy, lab: &Lab, snapshots: &WarmSnapshots, disk: &Disk) -> Result<Option<Launch>> {
    let launch = match strategy {
        Strategy::Nothing | Strategy::Autoprewarm => return Ok(None),
        Strategy::Seqscan => psql(lab, SEQSCAN)?,
        Strategy::PrewarmRead => psql(lab, &prewarm_sql(PrewarmMode::Read))?,
        Strategy::PrewarmBuffer => psql(lab, &prewarm_sql(PrewarmMode::Buffer))?,
        Strategy::PrewarmPrefetch => psql(lab, &prewarm_sql(PrewarmMode::Prefetch))?,
        Strategy::Pgfincore => psql(lab, PGFINCORE_LOAD)?,
        Strategy::Cat => {
            let script = r#"for one in "$@"; do cat "$one"/*; done >/dev/null"#;
            let directories = lab.database_directories()?.into_iter().map(OsString::from);
            Launch::new("sh", ["-c", script, "sh"].map(OsString::from).into_iter().chain(directories))
        }
        Strategy::Vmtouch => {
            let directories = lab.database_directories()?.into_iter().map(OsString::from);
            Launch::new("vmtouch", [OsString::from("-t")].into_iter().chain(directories))
        }
        Strategy::Pgthaw => pgthaw(&[], lab, snapshots, disk)?,
        Strategy::PgthawGentle => pgthaw(&["--pace=gentle"], lab, snapshots, disk)?,
        Strategy::PgthawFullSpeed => pgthaw(&["--pace=full"], lab, snapshots, disk)?,
        Strategy::PgthawOs => pgthaw(&["--tier", "os"], lab, snapshots, disk)?,
        Strategy::Ranges => {
            let failed = |source| Error::Launch { command: "pgthaw-lab".into(), source };
            let program = std::env::current_exe().map_err(failed)?;
            Launch::new(program, [OsString::from("read-ranges"), snapshots.range_list().into()])
        }
        Strategy::FioBuffered => fio(&snapshots.wanted.files, false),
        Strategy::FioDirect => fio(&snapshots.wanted.files, true),
        Strategy::Job | Strategy::Run | Strategy::Isolate | Strategy::Replay => {
            snapshots.plan_job(strategy, lab, disk)?
        }
    };
    Ok(Some(launch))
}

fn prewarm_sql(mode: PrewarmMode) -> String {
    let call = format!("public.pg_prewarm(c.oid::pg_catalog.regclass, '{}'::pg_catalog.text)", mode.name());
    format!("SELECT pg_catalog.sum({call}) {WITH_STORAGE}")
}

fn psql(lab: &Lab, sql: &str) -> Result<Launch> {
    // An object of the database must not shadow one of PostgreSQL's.
    plan_psql(lab, &lab.strategy_options(), ["-c", "SET search_path = ''", "-c", sql].map(OsString::from))
}

fn pgthaw(options: &[&str], lab: &Lab, snapshots: &WarmSnapshots, disk: &Disk) -> Result<Launch> {
    let mut arguments: Vec<OsString> = vec!["restore".into(), snapshots.pgthaw_file().into()];
    arguments.extend(connection_arguments(&lab.strategy_options()));
    arguments.extend(options.iter().map(OsString::from));
    arguments.extend(device_arguments(disk));
    Ok(Launch::new(own_program()?, arguments))
}

fn fio(wanted: &[WantedFile], is_direct: bool) -> Launch {
    let is_large = |file: &&WantedFile| std::fs::metadata(&file.path).is_ok_and(|file| file.len() >= FIO_BLOCK_BYTES);
    // Escapes colons, by which fio separates file names.
    let files = wanted.iter().filter(is_large).map(|file| file.path.to_string_lossy().replace(':', "\\:"));
    let files = files.collect::<Vec<_>>().join(":");
    let plain = ["--name=read", "--rw=read", "--readonly", "--ioengine=io_uring", "--file_service_type=sequential"];
    let arguments = plain.into_iter().chain(["--output-format=json", "--invalidate=0"]).map(str::to_owned);
    let figures = [
        format!("--direct={}", u8::from(is_direct)),
        format!("--bs={FIO_BLOCK_BYTES}"),
        format!("--iodepth={FIO_DEPTH}"),
        format!("--filename={files}"),
    ];
    Launch::new("fio", arguments.chain(figures))
}

/// Returns bytes read, and seconds.
pub fn parse_fio(text: &str) -> Option<(Bytes, f64)> {
    // fio may print warnings before the JSON document.
    let document: serde_json::Value = serde_json::from_str(text.get(text.find('{')?..)?).ok()?;
    let read = document.pointer("/jobs/0/read")?;
    Some((Bytes(read["io_bytes"].as_u64()?), read["runtime"].as_f64()? / 1000.0))
}

pub const WITH_STORAGE: &str =
    "FROM pg_catalog.pg_class c WHERE c.relkind IN ('r', 'i', 't', 'm') AND pg_catalog.pg_relation_size(c.oid) > 0";

pub fn pgfincore_take_sql() -> String {
    format!(
        "CREATE TABLE public.pgfincore_snapshot AS SELECT c.oid::pg_catalog.regclass AS relation, p.segment, p.databit \
         FROM (SELECT c.oid {WITH_STORAGE}) c, public.pgfincore(c.oid::pg_catalog.regclass, 'main', true) p"
    )
}

const AUTOPREWARM_FILE: &str = "autoprewarm.blocks";

const LABEL: &str = "job";

#[derive(Debug, Default)]
pub struct WarmSnapshots {
    directory: PathBuf,
    /// The pages in pgthaw's snapshot; empty without one.
    pub wanted: Arc<Wanted>,
    job: Vec<String>,
    /// Films of the job by disk: the speed of a cold job depends on the device's limits.
    films: BTreeMap<String, PathBuf>,
}

impl WarmSnapshots {
    /// pgfincore's snapshot is a table in the database; the others are files in `directory`.
    pub async fn take(strategies: &[Strategy], sweep: &Sweep, lab: &Lab, directory: &Path) -> Result<WarmSnapshots> {
        let (job, is_watched) = (sweep.job.clone(), sweep.is_idle());
        let mut snapshots = WarmSnapshots { directory: directory.to_owned(), job, ..WarmSnapshots::default() };
        let server = Server::connect(&lab.cluster.connect_options(lab.database())).await?;
        let mut connection = server.connect_to(lab.database()).await?;
        if strategies.contains(&Strategy::Pgfincore) {
            let drop_earlier = "DROP TABLE IF EXISTS public.pgfincore_snapshot";
            run_statement(&mut connection, "drop pgfincore's earlier snapshot", drop_earlier).await?;
            run_statement(&mut connection, "take pgfincore's snapshot", &pgfincore_take_sql()).await?;
        }
        if strategies.contains(&Strategy::Autoprewarm) {
            run_statement(&mut connection, "take autoprewarm's snapshot", "SELECT public.autoprewarm_dump_now()")
                .await?;
            snapshots.copy_autoprewarm(lab)?;
        }
        if is_watched || strategies.iter().any(|one| one.reads_snapshot()) {
            snapshots.take_pgthaw(lab, &server, &mut connection).await?;
            let map = Snapshot::read(&snapshots.pgthaw_file())?.map;
            snapshots.wanted = Arc::new(Wanted::of(&map, &lab.data_directory(), lab.page_cache.page_bytes()));
        }
        if is_watched && snapshots.wanted.files.is_empty() {
            return Err(Error::NothingWanted);
        }
        if strategies.contains(&Strategy::Ranges) {
            write_list(&snapshots.range_list(), &snapshots.wanted)?;
        }
        Ok(snapshots)
    }

    pub fn range_list(&self) -> PathBuf {
        self.directory.join("ranges")
    }

    pub fn pgthaw_file(&self) -> PathBuf {
        self.directory.join("warm.parquet")
    }

    async fn take_pgthaw(&self, lab: &Lab, server: &Server, connection: &mut PgConnection) -> Result<()> {
        let mut databases = read_databases(connection).await?;
        databases.retain(|database| database.name == lab.database());
        let data_directory = DataDirectory::open(&lab.data_directory())?;
        let page_cache = SystemPageCache::of(&data_directory.files);
        let inputs = MapInputs {
            server: Some(server),
            data_directory: Some(&data_directory),
            ..MapInputs::of(&page_cache, &databases)
        };
        let mut map = read_map(inputs).await?;
        read_heat(&mut map, inputs, &[]).await;
        Ok(Snapshot::new(map, None).write(&self.pgthaw_file())?)
    }

    /// Restores autoprewarm's file, which the server rewrites at every stop. Other trials do not load autoprewarm.
    pub fn place(&self, strategy: Strategy, lab: &Lab) -> Result<()> {
        if strategy == Strategy::Autoprewarm {
            let data = DataDirectory::open_files(&lab.data_directory())?;
            let kept = Directory::open(&self.directory).and_then(|kept| kept.open_file(AUTOPREWARM_FILE));
            let placed = kept.and_then(|kept| data.replace(AUTOPREWARM_FILE, kept));
            placed.map_err(|source| Error::file("copy", &self.directory.join(AUTOPREWARM_FILE), source))?;
        }
        lab.configure_autoprewarm(strategy == Strategy::Autoprewarm)
    }

    /// Does not follow symbolic links in the data directory.
    fn copy_autoprewarm(&self, lab: &Lab) -> Result<()> {
        let data = DataDirectory::open_files(&lab.data_directory())?;
        let copy = || {
            let mut kept = Directory::open(&self.directory)?.create_file(AUTOPREWARM_FILE, 0o600)?;
            io::copy(&mut data.open_file(AUTOPREWARM_FILE)?, &mut kept)
        };
        copy().map(drop).map_err(|source| Error::file("copy", &data.path().join(AUTOPREWARM_FILE), source))
    }

    /// Requires a cold server.
    pub fn plan_recording(&self, lab: &Lab) -> Result<Launch> {
        let record = ["run", "--record-only", "--like", LABEL, "--"].map(OsString::from);
        Ok(self.launch_job(lab, [own_program()?].into_iter().chain(record)))
    }

    pub fn keep_film(&mut self, disk: &Disk) -> Result<()> {
        let kept = self.directory.join(format!("films-{}", self.films.len()));
        fs::rename(self.state_home(), &kept).map_err(|source| Error::file("keep", &kept, source))?;
        self.films.insert(disk.name.clone(), kept);
        Ok(())
    }

    /// Every trial on this disk must start with the same films.
    pub fn place_films(&self, disk: &Disk) -> Result<()> {
        let state = self.state_home();
        let place = || {
            if state.exists() {
                fs::remove_dir_all(&state)?;
            }
            let devices = state_directory().join(DEVICES);
            if devices.is_dir() {
                copy_files(&devices, &state.join(STATE).join(DEVICES))?;
            }
            self.films.get(&disk.name).map_or(Ok(()), |films| copy_files(films, &state))
        };
        place().map_err(|source| Error::file("place films in", &state, source))
    }

    fn plan_job(&self, strategy: Strategy, lab: &Lab, disk: &Disk) -> Result<Launch> {
        let words: &[&str] = match strategy {
            Strategy::Run => &["run", "--like", LABEL],
            Strategy::Isolate => &["run", "--like", LABEL, "--protect=isolate"],
            Strategy::Replay => &["run", "--film", LABEL],
            _ => return Ok(self.launch_job(lab, [])),
        };
        let words = words.iter().map(OsString::from).chain(device_arguments(disk)).chain([OsString::from("--")]);
        Ok(self.launch_job(lab, [own_program()?].into_iter().chain(words)))
    }

    fn launch_job(&self, lab: &Lab, before: impl IntoIterator<Item = OsString>) -> Launch {
        let mut state_home = OsString::from("XDG_STATE_HOME=");
        state_home.push(self.state_home());
        let variables = client_variables(lab.strategy_options()).into_iter().map(OsString::from).chain([state_home]);
        Launch::new("env", variables.chain(before).chain(self.job.iter().map(OsString::from)))
    }

    fn state_home(&self) -> PathBuf {
        self.directory.join("state")
    }
}

fn copy_files(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let place = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy_files(&entry.path(), &place)?,
            false => drop(fs::copy(entry.path(), place)?),
        }
    }
    Ok(())
}

pub fn own_program() -> Result<OsString> {
    let missing = || Error::Launch { command: PGTHAW.into(), source: std::io::ErrorKind::NotFound.into() };
    Ok(host::linux::own_program::find_beside(PGTHAW).ok_or_else(missing)?.into())
}

pub fn device_arguments(disk: &Disk) -> Vec<OsString> {
    let figures = [("--riops", disk.riops), ("--rbps", disk.rbps.map(|bytes| bytes.0))];
    let in_force = figures.into_iter().filter(|_| disk.not_enforced.is_none());
    let in_force = in_force.filter_map(|(option, figure)| Some((option, figure?)));
    in_force.flat_map(|(option, figure)| [option.into(), figure.to_string().into()]).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;

    use super::*;

    #[test]
    fn autoprewarm_is_done_when_this_servers_log_says_so() {
        let done =
            "LOG:  starting PostgreSQL 15\nLOG:  autoprewarm successfully prewarmed 5 of 5 previously-loaded blocks\n";
        assert!(has_autoprewarm_ended(done));
        assert!(!has_autoprewarm_ended(&format!("{done}LOG:  starting PostgreSQL 15\n")));
        assert!(!has_autoprewarm_ended(""));
    }

    #[test]
    fn a_failure_is_told_in_its_last_words() {
        let ended = |code: i32| {
            let status = ExitStatus::from_raw(code << 8);
            Ended { at: Duration::ZERO, status, read_bytes: None, cpu_time: None }
        };
        assert_eq!(describe_failure(ended(0), "x"), None);
        let failure = describe_failure(ended(1), "CONTEXT: y\nERROR: no such table").unwrap();
        assert_eq!(failure, "exit status: 1: ERROR: no such table");
    }
}

#[cfg(test)]
mod commands_tests {
    use super::*;

    #[test]
    fn fio_tells_bytes_and_milliseconds() {
        let text = "fio: a warning\n{\"jobs\": [{\"read\": {\"io_bytes\": 3145728, \"runtime\": 1500}}]}";
        assert_eq!(parse_fio(text), Some((Bytes(3_145_728), 1.5)));
        assert_eq!(parse_fio("killed"), None);
    }
}

#[cfg(test)]
mod snapshots_tests {
    use super::*;
    use crate::study::ground::disk_tests::named;

    #[test]
    fn what_a_trial_leaves_is_not_there_in_the_next() {
        let place = tempfile::tempdir().unwrap();
        let mut job = WarmSnapshots { directory: place.path().to_owned(), ..WarmSnapshots::default() };
        let film = |name: &str| job_films(place.path()).join(name);
        fs::create_dir_all(job_films(place.path())).unwrap();
        fs::write(film("of-gp3"), "film").unwrap();
        job.keep_film(&named("gp3")).unwrap();
        for _ in 0..2 {
            job.place_films(&named("gp3")).unwrap();
            assert_eq!(fs::read_to_string(film("of-gp3")).unwrap(), "film");
            assert!(!film("of-the-trial").exists());
            fs::write(film("of-the-trial"), "film").unwrap();
        }
        job.place_films(&named("hdd")).unwrap();
        assert!(!film("of-gp3").exists() && !film("of-the-trial").exists());
    }

    fn job_films(place: &Path) -> PathBuf {
        place.join("state/pgthaw/films/1")
    }
}
