use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use sqlx::postgres::PgConnection;

use super::cluster::{Lab, run_statement};
use super::disk::explain;
use crate::study::{Device, Error, FileSystemSpec, Finding, Machine, NO_DISK, Result, ServerSpec, Strategy, Sweep};
use host::linux::machine::{MachineFacts, read_file_system};
use host::linux::own_program::find_in_path;
use host::linux::{BlockDevice, read_block_device, read_controller, read_machine};
use host::units::Bytes;
use postgres::{
    BufferUse, PG_PREWARM, Programs, Server, ServerStatistics, SettingJudge, SettingRefusal, SettingState,
    apply_no_session_limits, read_load_time, read_server_statistics, read_setting_errors, read_setting_overrides,
    read_setting_states, read_settings, read_table_statistics, read_usage_summary,
};

/// Database for pgthaw's own queries: the benchmark's pages must stay cold.
pub const CONTROL_DATABASE: &str = "postgres";

/// Waiting times before a final reading of statistics: backends report counters when they end, other processes every
/// fifth of a second. In PostgreSQL 13 and 14, a collector writes counters twice a second.
const ROUND_DELAY: Duration = Duration::from_millis(250);
const STATISTICS_DELAY: Duration = Duration::from_millis(600);

/// Since this version, a backend's counters are visible as soon as it has ended.
const COUNTS_AT_ONCE_SINCE: u32 = 150_000;

const RELOAD_LIMIT: Duration = Duration::from_secs(2);
const RELOAD_POLL: Duration = Duration::from_millis(20);

/// `pg_settings.source` of a setting in force: the configuration file, a borrowed cluster's command line, or pgthaw's
/// own session.
const AS_ASKED_SOURCES: [&str; 4] = ["configuration file", "command line", "client", "session"];

#[derive(Debug)]
pub struct Look {
    pub statistics: ServerStatistics,
    /// Empty without pg_buffercache.
    pub buffers: Vec<BufferUse>,
    pub settings: Vec<(String, String)>,
    pub shared_buffers: Bytes,
    pub version: String,
    pub log_bytes: u64,
}

pub async fn read_final_look(lab: &Lab) -> Result<Look> {
    let is_at_once = connect(lab).await?.0.facts.version_num >= COUNTS_AT_ONCE_SINCE;
    tokio::time::sleep(if is_at_once { ROUND_DELAY } else { STATISTICS_DELAY }).await;
    read_look(lab).await
}

pub async fn read_look(lab: &Lab) -> Result<Look> {
    let (server, mut connection) = connect(lab).await?;
    Ok(Look {
        buffers: read_usage_summary(&mut connection).await.unwrap_or_default(),
        settings: read_settings(&mut connection).await?,
        shared_buffers: server.facts.shared_buffers_bytes,
        version: server.facts.version.clone(),
        log_bytes: lab.cluster.log_bytes(),
        // Read last: queries after a trial's first statistics would count for the trial.
        statistics: read_server_statistics(&mut connection, server.facts.version_num, lab.database()).await?,
    })
}

pub async fn read_tables(lab: &Lab) -> Result<ServerStatistics> {
    let (server, mut connection) = connect_to(lab, lab.database()).await?;
    if server.facts.version_num < COUNTS_AT_ONCE_SINCE {
        tokio::time::sleep(STATISTICS_DELAY).await;
    }
    Ok(read_table_statistics(&mut connection).await?)
}

pub async fn connect(lab: &Lab) -> Result<(Server, PgConnection)> {
    connect_to(lab, CONTROL_DATABASE).await
}

/// Connects as the superuser, without session limits, which are for the workload.
pub async fn connect_to(lab: &Lab, database: &str) -> Result<(Server, PgConnection)> {
    let server = Server::connect(&lab.cluster.connect_options(database)).await?;
    let mut connection = server.connect_to(database).await?;
    apply_no_session_limits(&mut connection).await?;
    Ok((server, connection))
}

pub async fn needs_restart(connection: &mut PgConnection, changed: &[String]) -> Result<bool> {
    let states = read_setting_states(connection, changed).await?;
    // An unknown setting belongs to a library, which is loaded at the server's start.
    Ok(states.len() < changed.len() || states.iter().any(|state| state.context == "postmaster"))
}

/// Returns a finding after a timeout.
pub async fn apply_reload(connection: &mut PgConnection) -> Result<Option<Finding>> {
    let before = read_load_time(connection).await?;
    run_statement(connection, "reload the settings", "SELECT pg_catalog.pg_reload_conf()").await?;
    let asked_at = Instant::now();
    // The postmaster signals this session only after its own reload.
    while read_load_time(connection).await? == before {
        if asked_at.elapsed() > RELOAD_LIMIT {
            let reason = format!("the server had not reloaded its configuration after {} s", RELOAD_LIMIT.as_secs());
            return Ok(Some(Finding::NotInForce { what: "the configuration file of the trial".into(), reason }));
        }
        tokio::time::sleep(RELOAD_POLL).await;
    }
    Ok(None)
}

pub async fn check_settings(lab: &Lab, asked: &[(String, String)]) -> Result<Vec<Finding>> {
    if asked.is_empty() {
        return Ok(Vec::new());
    }
    let (_, mut connection) = connect(lab).await?;
    let names: Vec<String> = asked.iter().map(|(name, _)| name.clone()).collect();
    let is_asked = |name: &String| names.contains(name);
    let errors = read_setting_errors(&mut connection).await?;
    if let Some((name, error)) = errors.into_iter().find(|(name, _)| is_asked(name)) {
        return Err(Error::Setting(format!("settings.{name}: {error}")));
    }
    let states = read_setting_states(&mut connection, &names).await?;
    let not_in_force = |name: &str, reason| Finding::NotInForce { what: format!("the setting {name}"), reason };
    let deviation = |state: &SettingState| {
        let (name, asked) = asked.iter().find(|(name, _)| *name == state.name)?;
        Some(not_in_force(name, find_deviation(state, asked)?))
    };
    let mut findings: Vec<Finding> = states.iter().filter_map(deviation).collect();
    for (name, value) in read_setting_overrides(&mut connection).await? {
        if asked.iter().any(|(known, wanted)| *known == name && *wanted != value) {
            let reason = format!("ALTER ROLE or ALTER DATABASE has set it to {value}");
            findings.push(not_in_force(&name, reason));
        }
    }
    Ok(findings)
}

fn find_deviation(state: &SettingState, asked: &str) -> Option<String> {
    let SettingState { source, unit, value, .. } = state;
    if state.pending_restart {
        return Some("it requires a restart".to_owned());
    }
    if state.is_left_to_server(asked) {
        return None;
    }
    if !AS_ASKED_SOURCES.contains(&source.as_str()) {
        return Some(format!("its value is from the {source}"));
    }
    let counted = unit.as_ref().map(|unit| format!(" (in {unit})")).unwrap_or_default();
    let value = value.as_deref().unwrap_or_default();
    (state.holds(asked) == Some(false)).then(|| format!("requested {asked}, but it is {value}{counted}"))
}

pub fn describe_machine(directory: &Path) -> Result<Machine> {
    let MachineFacts { hostname, kernel, cpu_model, cores, memory_bytes } = read_machine()?;
    let describe = |device: BlockDevice| {
        let behind = read_controller(device.number);
        Device {
            name: device.name,
            major_minor: device.number.to_string(),
            rotational: device.is_rotational,
            read_ahead_bytes: device.read_ahead_bytes,
            model: behind.model,
            drivers: behind.drivers,
            write_cache: behind.write_cache,
        }
    };
    let none = |_| Device { name: NO_DISK.to_owned(), ..Device::default() };
    let device = read_block_device(directory).map_or_else(none, describe);
    Ok(Machine { hostname, kernel, cpu_model, cores, memory_bytes, file_system: read_file_system(directory), device })
}

/// `extensions`: those available for CREATE EXTENSION.
pub fn find_obstacle(
    strategy: Strategy,
    programs: &Programs,
    version_major: u32,
    extensions: &BTreeSet<String>,
) -> Option<String> {
    let extension = |name: &str, package: String| {
        (!extensions.contains(name)).then(|| format!("this server has no {name}: `apt-get install {package}`"))
    };
    let psql = || programs.path("psql").err().map(|_| "no psql: `apt-get install postgresql-client`".to_owned());
    match strategy {
        Strategy::FioBuffered | Strategy::FioDirect => find_program("fio"),
        Strategy::Vmtouch => find_program("vmtouch"),
        Strategy::Seqscan => psql(),
        Strategy::Autoprewarm => extension(PG_PREWARM, "postgresql-contrib".into()),
        Strategy::PrewarmRead | Strategy::PrewarmBuffer | Strategy::PrewarmPrefetch => {
            psql().or_else(|| extension(PG_PREWARM, "postgresql-contrib".into()))
        }
        Strategy::Pgfincore => {
            psql().or_else(|| extension("pgfincore", format!("postgresql-{version_major}-pgfincore")))
        }
        _ => None,
    }
}

pub fn find_program(name: &str) -> Option<String> {
    find_in_path(name, &[]).is_none().then(|| format!("no {name} in PATH: `apt-get install {name}`"))
}

const LIBRARY_SETTINGS: [&str; 3] =
    ["shared_preload_libraries", "session_preload_libraries", "local_preload_libraries"];

const LOADED_WHEN_NEEDED: [&str; 4] = ["plpgsql", "plperl", "pltcl", "plpython"];

pub fn find_servers(sweep: &Sweep, default: &Programs) -> Result<BTreeMap<String, Programs>> {
    let find = |name: &String| {
        let programs = match sweep.servers.get(name) {
            None => default.clone(),
            Some(ServerSpec::Major(major)) => Programs::find_version(None, *major)?,
            Some(ServerSpec::Programs(bin_dir)) => Programs::find(Some(bin_dir))?,
        };
        Ok((name.clone(), programs))
    };
    sweep.axes.server.iter().map(find).collect()
}

/// Remarks on the study's settings for a dry run, which needs no installed server.
///
/// # Errors
/// Fails like `check_settings_known`.
pub fn read_setting_remarks(sweep: &Sweep, default: Result<Programs, postgres::Error>) -> Result<Vec<String>> {
    match default {
        _ if sweep.axes.settings.is_empty() => Ok(Vec::new()),
        Ok(programs) => check_settings_known(sweep, &find_servers(sweep, &programs)?),
        Err(error) => Ok(vec![format!("pgthaw did not check whether a server knows the settings: {error}")]),
    }
}

pub fn read_file_system_remarks(sweep: &Sweep) -> Vec<String> {
    let told = |(name, spec): (&String, &FileSystemSpec)| {
        let error = spec.asked.check_available().err()?;
        Some(format!("the file system {name}: {}", explain(&error)))
    };
    sweep.file_systems.iter().filter_map(told).collect()
}

/// Rejects settings that a server does not know or allow. Returns remarks on values that will fail.
pub fn check_settings_known(sweep: &Sweep, servers: &BTreeMap<String, Programs>) -> Result<Vec<String>> {
    let asked = &sweep.axes.settings;
    let mut remarks = find_unloaded(asked);
    for (server, programs) in servers {
        let judge = SettingJudge::new(programs)?;
        let on = if sweep.axes.server.len() > 1 { format!(" (server {server})") } else { String::new() };
        for (name, value) in asked.iter().flat_map(|(name, values)| values.iter().map(move |value| (name, value))) {
            let refused = |why: &str| Err(Error::SettingRefused { name: name.clone(), why: format!("{why}{on}") });
            match judge.judge(name, value)? {
                None => {}
                Some(SettingRefusal::Unknown { nearest: None }) => return refused("this server has no such setting"),
                Some(SettingRefusal::Unknown { nearest: Some(near) }) => {
                    return refused(&format!("this server has no such setting; did you mean {near}?"));
                }
                Some(SettingRefusal::Fixed) => return refused("its value was set at build time; remove the setting"),
                Some(SettingRefusal::Value(why)) => {
                    remarks.push(format!("settings.{name}: trials with {value} will fail: {why}{on}"));
                }
            }
        }
    }
    Ok(remarks)
}

/// Settings of libraries that the study does not load: a server then accepts any name with a dot.
fn find_unloaded(asked: &[(String, Vec<String>)]) -> Vec<String> {
    let names_libraries = |name: &str| LIBRARY_SETTINGS.contains(&name.to_ascii_lowercase().as_str());
    let loads = |library: &str| {
        let named = asked.iter().filter(|(name, _)| names_libraries(name)).flat_map(|(_, values)| values);
        named.flat_map(|value| value.split(',')).any(|one| one.trim().trim_matches(['"', '\'']).ends_with(library))
    };
    let libraries = asked.iter().filter_map(|(name, _)| Some((name, name.split_once('.')?.0)));
    let unloaded = libraries.filter(|(_, library)| !LOADED_WHEN_NEEDED.contains(library) && !loads(library));
    unloaded
        .map(|(name, library)| {
            format!(
                "settings.{name}: the study does not load the library {library} \
                 (shared_preload_libraries = \"{library}\"): pgthaw cannot check this setting"
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rustix::process::{Pid, Signal, kill_process};

    use super::*;
    use postgres::{Programs, ScratchCluster};

    fn set(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[tokio::test]
    async fn a_late_reload_is_waited_for_and_one_that_does_not_come_is_told() {
        let programs = Programs::find(None).unwrap();
        let mut cluster = ScratchCluster::create(&programs, Path::new("/tmp"), &[]).unwrap();
        cluster.allow_replaceable_settings().unwrap();
        cluster.replace_settings(&[set("work_mem", "5MB")]).unwrap();
        cluster.start().unwrap();
        let server = Server::connect(&cluster.connect_options(CONTROL_DATABASE)).await.unwrap();
        let mut connection = server.connect_to(CONTROL_DATABASE).await.unwrap();
        let names = ["work_mem".to_owned()];
        let read_deviation = async |connection: &mut PgConnection, asked: &str| {
            find_deviation(&read_setting_states(connection, &names).await.unwrap()[0], asked)
        };
        let postmaster = Pid::from_raw(cluster.postmaster_pid().unwrap() as i32).unwrap();

        kill_process(postmaster, Signal::STOP).unwrap();
        cluster.replace_settings(&[set("work_mem", "7MB")]).unwrap();
        let finding = apply_reload(&mut connection).await.unwrap().unwrap();
        assert!(finding.to_string().contains("not reloaded its configuration after 2 s"), "{}", finding.to_string());
        let told = read_deviation(&mut connection, "7MB").await;
        assert_eq!(told.as_deref(), Some("requested 7MB, but it is 5120 (in kB)"));

        let woken = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(500));
            kill_process(postmaster, Signal::CONT).unwrap();
        });
        assert_eq!(apply_reload(&mut connection).await.unwrap(), None);
        assert_eq!(read_deviation(&mut connection, "7MB").await, None);
        woken.join().unwrap();
    }
}

#[cfg(test)]
mod availability_tests {
    use super::*;
    use crate::study::spec::tests::sweep;

    #[test]
    fn a_missing_extension_is_told_with_its_package() {
        let programs = Programs::find(None).unwrap();
        let none = BTreeSet::new();
        let obstacle = find_obstacle(Strategy::Pgfincore, &programs, 15, &none).unwrap();
        assert!(obstacle.ends_with("`apt-get install postgresql-15-pgfincore`"), "{obstacle}");
        let all = BTreeSet::from([PG_PREWARM.to_owned()]);
        assert_eq!(find_obstacle(Strategy::PrewarmRead, &programs, 15, &all), None);
        assert_eq!(find_obstacle(Strategy::Nothing, &programs, 15, &none), None);
    }

    #[test]
    fn a_missing_program_is_told() {
        assert_eq!(find_program("sh"), None);
        assert!(find_program("no-such-program").unwrap().contains("apt-get install no-such-program"));
    }

    fn check(settings: &str) -> Result<Vec<String>, Error> {
        let study = sweep(&format!("[settings]\n{settings}\n")).unwrap();
        let servers = find_servers(&study, &Programs::find(None).unwrap()).unwrap();
        check_settings_known(&study, &servers)
    }

    #[test]
    fn unknown_and_fixed_settings_are_refused_and_bad_values_told() {
        assert_eq!(check("work_mem = [\"1MB\", \"2MB\"]").unwrap(), Vec::<String>::new());
        let refused = |settings| check(settings).unwrap_err().to_string();
        assert_eq!(
            refused("effective_cache_sise = \"1GB\""),
            "settings.effective_cache_sise: this server has no such setting; did you mean effective_cache_size?"
        );
        assert!(refused("block_size = 8192").contains("set at build time"));
        let told = check("work_mem = [\"1MB\", \"1 XB\"]").unwrap();
        assert!(told.len() == 1 && told[0].starts_with("settings.work_mem: trials with 1 XB will fail"), "{told:?}");
    }

    #[test]
    fn a_librarys_setting_needs_its_library() {
        let told = check("\"auto_explain.log_min_duration\" = 5").unwrap();
        assert!(told.len() == 1 && told[0].contains("not load the library auto_explain"), "{told:?}");
        let loaded = "session_preload_libraries = \"pg_prewarm, auto_explain\"\n\"auto_explain.log_min_duration\" = 5";
        assert_eq!(check(loaded).unwrap(), Vec::<String>::new());
    }
}
