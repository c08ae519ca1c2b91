//! What the server shows of itself around a trial, and the settings that a trial asks of it.

use std::path::Path;
use std::time::{Duration, Instant};

use sqlx::postgres::PgConnection;

use super::cluster::{Lab, run_statement};
use super::error::Error;
use crate::study::{BufferUse, Device, Finding, Machine, NO_DISK};
use host::linux::{BlockDevice, read_controller, read_machine, read_mount};
use host::units::Bytes;
use postgres::{
    Server, ServerStatistics, SettingState, apply_no_session_limits, read_load_time, read_server_statistics,
    read_setting_errors, read_setting_overrides, read_setting_states, read_settings, read_table_statistics,
    read_usage_summary,
};

/// Where pgthaw connects to during trials: looking at the server warms no page of the benchmark's database.
pub const CONTROL_DATABASE: &str = "postgres";

/// Backends report what they counted when they end, other processes in each of their rounds of a fifth of a second; 13 and 14
/// collect it in a process that writes it down twice a second.
const ROUND_DELAY: Duration = Duration::from_millis(250);
const STATISTICS_DELAY: Duration = Duration::from_millis(600);

/// From this version on a backend's counts are there when it has ended.
const COUNTS_AT_ONCE_SINCE: u32 = 150_000;

/// A running server may take so long to read its settings anew; how often it is looked at meanwhile.
const RELOAD_LIMIT: Duration = Duration::from_secs(2);
const RELOAD_POLL: Duration = Duration::from_millis(20);

/// Where a setting's value may be from: the study's own file, of a borrowed cluster the command line, or pgthaw's own session,
/// which sets a few for itself.
const AS_ASKED_SOURCES: [&str; 4] = ["configuration file", "command line", "client", "session"];

/// One look at a running server.
#[derive(Debug)]
pub struct Look {
    pub statistics: ServerStatistics,
    /// Nothing where there is no pg_buffercache.
    pub buffers: Vec<BufferUse>,
    /// Settings that are not the default.
    pub settings: Vec<(String, String)>,
    pub shared_buffers: Bytes,
    pub version: String,
    /// Bytes of its log.
    pub log_bytes: u64,
}

/// Looks at the lab's server when a trial is over: when all has been reported that its processes counted.
pub async fn read_final_look(lab: &Lab) -> Result<Look, Error> {
    let is_at_once = connect(lab).await?.0.facts.version_num >= COUNTS_AT_ONCE_SINCE;
    tokio::time::sleep(if is_at_once { ROUND_DELAY } else { STATISTICS_DELAY }).await;
    read_look(lab).await
}

/// Looks at the lab's server.
pub async fn read_look(lab: &Lab) -> Result<Look, Error> {
    let (server, mut connection) = connect(lab).await?;
    let summary = read_usage_summary(&mut connection).await.unwrap_or_default();
    let as_use = |one: &postgres::UsageSummary| BufferUse {
        usage_count: one.usage_count,
        buffers: one.buffers,
        dirty: one.dirty,
    };
    Ok(Look {
        buffers: summary.iter().map(as_use).collect(),
        settings: read_settings(&mut connection).await?,
        shared_buffers: server.facts.shared_buffers_bytes,
        version: server.facts.version.clone(),
        log_bytes: lab.cluster().log_bytes(),
        // Last, so that the rest of the look is not counted.
        statistics: read_server_statistics(&mut connection, server.facts.version_num, lab.database()).await?,
    })
}

/// Looks at the benchmark's tables.
pub async fn read_tables(lab: &Lab) -> Result<ServerStatistics, Error> {
    let (server, mut connection) = connect_to(lab, lab.database()).await?;
    if server.facts.version_num < COUNTS_AT_ONCE_SINCE {
        tokio::time::sleep(STATISTICS_DELAY).await;
    }
    Ok(read_table_statistics(&mut connection).await?)
}

/// Connects as the superuser, outside of the benchmark's database.
pub async fn connect(lab: &Lab) -> Result<(Server, PgConnection), Error> {
    connect_to(lab, CONTROL_DATABASE).await
}

/// Connects as the superuser to a database of the lab. What the point limits sessions by is for those of the workload.
pub async fn connect_to(lab: &Lab, database: &str) -> Result<(Server, PgConnection), Error> {
    let server = Server::connect(&lab.connect_options(database)).await?;
    let mut connection = server.connect_to(database).await?;
    apply_no_session_limits(&mut connection).await?;
    Ok((server, connection))
}

/// Does any of these settings, when it changes, need a restart?
pub async fn needs_restart(connection: &mut PgConnection, changed: &[String]) -> Result<bool, Error> {
    let states = read_setting_states(connection, changed).await?;
    // One that is not known yet belongs to a library, which is loaded at the start.
    Ok(states.len() < changed.len() || states.iter().any(|state| state.context == "postmaster"))
}

/// Lets the running server read its settings anew, and waits until it has; says so when it does not.
pub async fn apply_reload(connection: &mut PgConnection) -> Result<Option<Finding>, Error> {
    let before = read_load_time(connection).await?;
    run_statement(connection, "reload the settings", "SELECT pg_catalog.pg_reload_conf()").await?;
    let asked_at = Instant::now();
    // This session is told by the postmaster, once that has read them for the sessions to come.
    while read_load_time(connection).await? == before {
        if asked_at.elapsed() > RELOAD_LIMIT {
            let reason = format!("the server had not read it anew after {} s", RELOAD_LIMIT.as_secs());
            return Ok(Some(Finding::NotInForce { what: "the configuration file of the trial".into(), reason }));
        }
        tokio::time::sleep(RELOAD_POLL).await;
    }
    Ok(None)
}

/// Compares what was asked with what is in force. An error: the server does not take a value.
pub async fn check_settings(lab: &Lab, asked: &[(String, String)]) -> Result<Vec<Finding>, Error> {
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

/// Why a setting is not as it was asked for; `None`: it is, as far as that can be told.
fn find_deviation(state: &SettingState, asked: &str) -> Option<String> {
    let SettingState { source, unit, value, .. } = state;
    if state.pending_restart {
        return Some("it waits for a restart".to_owned());
    }
    if state.is_left_to_server(asked) {
        return None;
    }
    if !AS_ASKED_SOURCES.contains(&source.as_str()) {
        return Some(format!("its value is from the {source}"));
    }
    let counted = unit.as_ref().map(|unit| format!(" (in {unit})")).unwrap_or_default();
    let value = value.as_deref().unwrap_or_default();
    (state.holds(asked) == Some(false)).then(|| format!("{asked} was asked for, and it is {value}{counted}"))
}

/// The host, and the disk that holds `directory`.
pub fn describe_machine(directory: &Path, device: Option<&BlockDevice>) -> Result<Machine, Error> {
    let facts = read_machine()?;
    let device = device.map_or_else(|| Device::nameless(NO_DISK), describe_device);
    Ok(Machine {
        hostname: facts.hostname,
        kernel: facts.kernel,
        cpu_model: facts.cpu_model,
        cores: facts.cores,
        memory_bytes: facts.memory_bytes,
        file_system: read_mount(directory)?.file_system,
        device,
    })
}

fn describe_device(device: &BlockDevice) -> Device {
    let behind = read_controller(device.number);
    Device {
        name: device.name.clone(),
        major_minor: device.number.to_string(),
        rotational: device.is_rotational,
        read_ahead_bytes: device.read_ahead_bytes,
        model: behind.model,
        drivers: behind.drivers,
        write_cache: behind.write_cache,
    }
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
        assert!(finding.to_string().contains("had not read it anew after 2 s"), "{}", finding.to_string());
        let told = read_deviation(&mut connection, "7MB").await;
        assert_eq!(told.as_deref(), Some("7MB was asked for, and it is 5120 (in kB)"));

        let woken = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(500));
            kill_process(postmaster, Signal::CONT).unwrap();
        });
        assert_eq!(apply_reload(&mut connection).await.unwrap(), None);
        assert_eq!(read_deviation(&mut connection, "7MB").await, None);
        woken.join().unwrap();
    }
}
