//! `pgthaw doctor`: the work is done in `src/linux/capability/` and `src/postgres/capability/`.

use clap::Args;

use super::doctor_probe::{ProbeArguments, check_profile, run_probe};
use super::{ConnectionArguments, ExitStatus, OutputArguments, PositionalArguments};
use crate::failure::{Capability, ErrorKind};
use crate::linux::capability::{HostTarget, check_host, check_programs};
use crate::postgres::capability::{Checked, check_pgbench, check_server};
use crate::terminal;

/// Everything that is looked at, in the order in which it is told.
const NAMES: [&str; 25] = [
    "server",
    "data-dir",
    "ownership",
    "role",
    "buffered-io",
    "buffers",
    "pg_buffercache",
    "pg_prewarm",
    "pgfincore",
    "os",
    "evict",
    "page-flags",
    "drop-caches",
    "memory",
    "direct-io",
    "io-uring",
    "device",
    "profile",
    "disk-limit",
    "bpf",
    "tracepoints",
    "pressure",
    "pgbench",
    "vmtouch",
    "fio",
];

/// What this host and this server let pgthaw do, and what mends the rest
#[derive(Debug, Args)]
pub struct DoctorArguments {
    #[command(flatten)]
    connection: ConnectionArguments,

    #[command(flatten)]
    positional: PositionalArguments,

    /// Exit with status 3 unless this is possible; may be repeated
    #[arg(long, value_name = "NAME", value_parser = NAMES)]
    require: Vec<String>,

    #[command(flatten)]
    probe: ProbeArguments,
}

impl DoctorArguments {
    /// Which server and databases were named.
    pub fn named(&self) -> ConnectionArguments {
        self.connection.clone().with(self.positional.clone())
    }
}

/// Runs the command.
pub async fn run(arguments: DoctorArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    let named = arguments.named();
    if arguments.probe.probe {
        return run_probe(arguments.probe, &named, output).await;
    }
    let server = named.connect(|options| options).await;
    let checked = check_server(&server, &named.databases()?, named.data_dir.as_deref()).await;
    let mut capabilities = check_all(checked);
    for remedy in capabilities.iter_mut().filter_map(|one| one.remedy.as_mut()) {
        *remedy = terminal::complete_commands(remedy);
    }
    match output.json {
        true => terminal::print_json(&capabilities)?,
        false => terminal::print_line(&terminal::render_doctor(&capabilities)),
    }
    let is_missing = |one: &&Capability| !one.ok && is_required(&arguments, one.name);
    let missing: Vec<&str> = capabilities.iter().filter(is_missing).map(|one| one.name).collect();
    if missing.is_empty() {
        return Ok(ExitStatus::Done);
    }
    terminal::print_remark(&format!("asked for and not possible: {}", missing.join(", ")));
    Ok(ExitStatus::Because(ErrorKind::Privilege))
}

/// The host's checks are made on what the server's found.
fn check_all(checked: Checked) -> Vec<Capability> {
    let target = HostTarget {
        data_directory: checked.directory.map(|directory| directory.path),
        data_file: checked.relation_file,
        server_pid: checked.server_pid,
    };
    let mut capabilities = checked.capabilities;
    capabilities.extend(check_host(&target));
    let after_device = capabilities.iter().position(|one| one.name == "device").map_or(capabilities.len(), |at| at + 1);
    capabilities.insert(after_device, check_profile(target.data_directory.as_deref()));
    capabilities.push(check_pgbench());
    capabilities.extend(check_programs());
    capabilities
}

/// Was it asked for, with `--require` or by naming the server or the directory?
fn is_required(arguments: &DoctorArguments, name: &str) -> bool {
    let named = arguments.named();
    match name {
        _ if arguments.require.iter().any(|required| required == name) => true,
        "server" => named.says_anything(),
        "data-dir" => named.data_dir.is_some(),
        _ => false,
    }
}
