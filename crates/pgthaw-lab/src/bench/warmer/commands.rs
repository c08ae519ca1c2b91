//! What is run for each strategy.

use std::ffi::OsString;
use std::path::Path;

use super::snapshots::{WITH_STORAGE, WarmSnapshots};
use super::snapshots::{device_arguments, own_program};
use crate::bench::resident::WantedFile;
use crate::lab::{Error, Lab, Launch};
use crate::study::{Disk, Strategy};
use cache::warm::Sharing;
use host::units::Bytes;
use postgres::{ConnectOptions, PrewarmMode};

/// fio is given the files from this size on: it reads whole blocks of 1 MiB.
const FIO_BLOCK_BYTES: u64 = 1 << 20;

/// Reads that fio keeps in flight.
const FIO_DEPTH: u32 = 16;

const SEQSCAN: &str = "SELECT pg_catalog.avg(abalance) FROM public.pgbench_accounts";

const PGFINCORE_LOAD: &str = "SELECT pg_catalog.sum(pages_loaded) FROM public.pgfincore_snapshot s, \
     public.pgfadvise_loader(s.relation, 'main', s.segment, true, false, s.databit)";

/// The command of a strategy; `None` for the two that have none: nothing, and autoprewarm, which the server starts.
pub fn plan_launch(
    strategy: Strategy,
    lab: &Lab,
    snapshots: &WarmSnapshots,
    disk: &Disk,
) -> Result<Option<Launch>, Error> {
    let launch = match strategy {
        Strategy::Nothing | Strategy::Autoprewarm => return Ok(None),
        Strategy::Seqscan => psql(lab, SEQSCAN)?,
        Strategy::Prewarm(mode) => psql(lab, &prewarm_sql(mode))?,
        Strategy::Pgfincore => psql(lab, PGFINCORE_LOAD)?,
        Strategy::Cat => cat(lab)?,
        Strategy::Vmtouch => {
            let directories = lab.database_directories()?.into_iter().map(OsString::from);
            Launch::new("vmtouch", [OsString::from("-t")].into_iter().chain(directories))
        }
        Strategy::Pgthaw(sharing) => pgthaw(sharing, lab, snapshots, disk)?,
        Strategy::PgthawOs => {
            let mut launch = pgthaw(Sharing::Fair, lab, snapshots, disk)?;
            launch.arguments.extend(["--tier", "os"].map(OsString::from));
            launch
        }
        Strategy::Ranges => read_ranges(&snapshots.range_list())?,
        Strategy::FioBuffered => fio(&snapshots.wanted().files, false),
        Strategy::FioDirect => fio(&snapshots.wanted().files, true),
        Strategy::Job | Strategy::Run | Strategy::Isolate | Strategy::Replay => {
            snapshots.job().plan_launch(strategy, lab, disk)?
        }
    };
    Ok(Some(launch))
}

/// What a strategy without a command is, for people.
pub fn describe(strategy: Strategy) -> &'static str {
    match strategy {
        Strategy::Autoprewarm => "shared_preload_libraries = 'pg_prewarm'",
        _ => "",
    }
}

fn prewarm_sql(mode: PrewarmMode) -> String {
    format!("SELECT pg_catalog.sum(public.pg_prewarm(c.oid, '{}')) {WITH_STORAGE}", mode.name())
}

fn cat(lab: &Lab) -> Result<Launch, Error> {
    let script = r#"for one in "$@"; do cat "$one"/*; done >/dev/null"#;
    let directories = lab.database_directories()?.into_iter().map(OsString::from);
    Ok(Launch::new("sh", ["-c", script, "sh"].map(OsString::from).into_iter().chain(directories)))
}

fn psql(lab: &Lab, sql: &str) -> Result<Launch, Error> {
    let mut arguments: Vec<OsString> = ["-XAtq", "-v", "ON_ERROR_STOP=1"].map(OsString::from).to_vec();
    arguments.extend(connection_arguments(&lab.strategy_options()));
    // In the benchmark's own database, as a superuser: whatever stands there does not come before PostgreSQL's own.
    arguments.extend(["-c", "SET search_path = ''", "-c", sql].map(OsString::from));
    Ok(Launch::new(lab.programs.path("psql")?, arguments))
}

/// This very program, told what the disk can do as its user would know it.
fn pgthaw(sharing: Sharing, lab: &Lab, snapshots: &WarmSnapshots, disk: &Disk) -> Result<Launch, Error> {
    let mut arguments: Vec<OsString> = vec!["restore".into(), snapshots.pgthaw_file().into()];
    arguments.extend(connection_arguments(&lab.strategy_options()));
    match sharing {
        Sharing::Fair => {}
        Sharing::Gentle => arguments.push("--pace=gentle".into()),
        Sharing::FullSpeed => arguments.push("--pace=full".into()),
    }
    arguments.extend(device_arguments(disk));
    Ok(Launch::new(own_program()?, arguments))
}

/// A read for every range, nothing merged.
fn read_ranges(list: &Path) -> Result<Launch, Error> {
    let program = std::env::current_exe().map_err(|source| Error::Launch { command: "pgthaw-lab".into(), source })?;
    Ok(Launch::new(program, [OsString::from("read-ranges"), list.into()]))
}

/// Sequential reads of the wanted files, one after the other; what it measured is printed.
fn fio(wanted: &[WantedFile], is_direct: bool) -> Launch {
    let is_large = |file: &&WantedFile| std::fs::metadata(&file.path).is_ok_and(|file| file.len() >= FIO_BLOCK_BYTES);
    // fio separates files by colons.
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

/// What fio says of its reads: bytes, and seconds.
pub fn parse_fio(text: &str) -> Option<(Bytes, f64)> {
    // Warnings may stand before the document.
    let document: serde_json::Value = serde_json::from_str(text.get(text.find('{')?..)?).ok()?;
    let read = document.pointer("/jobs/0/read")?;
    Some((Bytes(read["io_bytes"].as_u64()?), read["runtime"].as_f64()? / 1000.0))
}

/// psql's options, which are pgthaw's too.
fn connection_arguments(options: &ConnectOptions) -> Vec<OsString> {
    let port = options.port.map(|port| port.to_string());
    let given = [("-h", &options.host), ("-p", &port), ("-U", &options.user), ("-d", &options.database)];
    let given = given.into_iter().filter_map(|(option, value)| Some((option, value.as_ref()?)));
    given.flat_map(|(option, value)| [option.into(), value.into()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fio_tells_bytes_and_milliseconds() {
        let text = "fio: a warning\n{\"jobs\": [{\"read\": {\"io_bytes\": 3145728, \"runtime\": 1500}}]}";
        assert_eq!(parse_fio(text), Some((Bytes(3_145_728), 1.5)));
        assert_eq!(parse_fio("killed"), None);
    }
}
