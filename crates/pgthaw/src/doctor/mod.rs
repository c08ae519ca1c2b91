//! `pgthaw doctor`; `crates/host/src/linux/capability.rs` and `crates/postgres/src/capability.rs` have the checks.

pub mod device_text;
mod probe;

use std::sync::Arc;

use clap::Args;
use clap::builder::PossibleValuesParser;
use serde_json::{Value, json};

use crate::{ConnectionArguments, ExitStatus, OutputArguments, PositionalArguments, connect_to_meant};
use host::failure::{Capability, ErrorKind, compute_readiness};
use host::linux::capability::{HostTarget, check_host, check_programs};
use host::units::Bytes;
use postgres::capability::{Checked, check_pgbench, check_server};

use probe::{check_profile, probe_budget, run_probe};

const NAMES: &str = "verdict server data-dir ownership tablespaces role buffered-io buffers pg_buffercache pg_prewarm pgfincore os \
                     evict page-flags drop-caches memory direct-io io-uring device profile disk-limit bpf tracepoints pressure \
                     pgbench vmtouch fio";

/// Check which features work here, and how to enable the others
///
/// The exit status is 3 if a check named by `--require` fails, or if an option names a server or a data directory whose
/// check fails. Without `--require` it is also 3 if pgthaw can neither take nor restore a snapshot.
#[derive(Debug, Args)]
pub struct DoctorArguments {
    #[command(flatten)]
    positional: PositionalArguments,

    /// Exit with status 3 unless this check passes; may be repeated
    #[arg(long, value_name = "NAME", hide_short_help = true, value_parser = PossibleValuesParser::new(NAMES.split(' ')))]
    require: Vec<String>,

    /// Measure the data directory's device, and store its profile
    ///
    /// restore, hydrate, predict and bench use the profile. Reads relation files with direct I/O, at most BYTES (64MiB or more), and writes
    /// nothing there. This saturates the device for up to 10 seconds and delays all other reads. The profile is stored for this user, and
    /// is valid for this cgroup's disk limit. Run the probe as the same user, and in the same cgroup, as later restores.
    #[arg(long, value_name = "BYTES", conflicts_with = "require", value_parser = probe_budget)]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "1GiB")]
    probe: Option<Bytes>,

    #[command(flatten)]
    connection: ConnectionArguments,
}

impl DoctorArguments {
    pub fn named(&self) -> ConnectionArguments {
        self.connection.clone().with(self.positional.clone())
    }
}

pub async fn run(arguments: DoctorArguments, output: OutputArguments) -> anyhow::Result<ExitStatus> {
    let named = arguments.named();
    if let Some(budget) = arguments.probe {
        return run_probe(budget, &named, output).await;
    }
    let server = connect_to_meant(&named).await;
    let checked = check_server(&server, &named.databases()?, named.open_directory().transpose()).await;
    let capabilities = check_all(checked);
    let readiness = compute_readiness(&capabilities);
    let answer = [terminal::render_readiness_json(&readiness)].into_iter();
    let list: Vec<Value> = answer.chain(capabilities.iter().map(|one| json!(one))).collect();
    terminal::print_answer(&list, output.json, || terminal::render_doctor(&capabilities, &readiness))?;
    let found = capabilities.iter().map(|one| (one.name, one.ok)).chain([(terminal::VERDICT, readiness.is_complete())]);
    let is_required = |name: &str| match name {
        _ if arguments.require.iter().any(|required| required == name) => true,
        "server" => named.says_anything(),
        "data-dir" => named.names_directory(),
        _ => false,
    };
    let is_missing = |(name, ok): &(&str, bool)| !ok && is_required(name);
    let missing: Vec<&str> = found.filter(is_missing).map(|(name, _)| name).collect();
    if missing.is_empty() {
        let is_useless = arguments.require.is_empty() && !readiness.is_anything_possible();
        return Ok(if is_useless { ExitStatus::Because(ErrorKind::Privilege) } else { ExitStatus::Done });
    }
    terminal::print_complaint(&format!("required but not possible: {}", missing.join(", ")));
    Ok(ExitStatus::Because(ErrorKind::Privilege))
}

fn check_all(checked: Checked) -> Vec<Capability> {
    let target = HostTarget {
        files: checked.directory.as_ref().map(|directory| Arc::clone(&directory.files)),
        data_directory: checked.directory.map(|directory| directory.path),
        data_file: checked.relation_file,
        server_pid: checked.server_pid,
    };
    let mut capabilities = checked.capabilities;
    capabilities.extend(check_host(&target));
    let after_device = capabilities.iter().position(|one| one.name == "device").map_or(capabilities.len(), |at| at + 1);
    capabilities.insert(after_device, check_profile(target.data_directory.as_deref(), target.server_pid));
    capabilities.push(check_pgbench());
    capabilities.extend(check_programs());
    capabilities
}
