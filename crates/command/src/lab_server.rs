//! Servers that may be made cold: those that say so themselves, and those that the settings name.

use clap::Args;

use super::Target;
use host::failure::{ErrorKind, Explain};
use postgres::read_configured_setting;

/// How the `cluster_name` of a lab server begins.
const LAB_PREFIXES: [&str; 2] = ["lab", "pgthaw"];

/// Which servers may be made cold or restarted.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Safety")]
pub struct LabArguments {
    /// Do it, whatever server it is
    #[arg(long)]
    pub yes: bool,

    /// A lab server's system identifier, as pg_controldata prints it; may be repeated. In pgthaw.toml: lab_servers
    #[arg(long = "lab-server", value_name = "IDENTIFIER", hide_short_help = true)]
    pub lab_servers: Vec<u64>,
}

/// The server is none that may be made cold without `--yes`.
#[derive(Debug, thiserror::Error)]
#[error("{action} makes the server at {address} slow until it is warm again, and it is no lab server")]
pub struct NotALabServer {
    action: &'static str,
    address: String,
    system_identifier: Option<u64>,
}

impl Explain for NotALabServer {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Usage
    }

    fn hint(&self) -> Option<String> {
        let identifier = self.system_identifier.map_or("its system identifier".to_owned(), |number| number.to_string());
        Some(format!(
            "give --yes if you mean it; a lab server has the cluster_name lab or one that begins with lab-, or stands in pgthaw.toml: lab_servers = [{identifier}]"
        ))
    }
}

/// Is this a server that was set up to be played with? `lab_servers` are system identifiers.
pub fn is_lab_server(target: &Target, lab_servers: &[u64]) -> bool {
    target.system_identifier().is_some_and(|identifier| lab_servers.contains(&identifier))
        || is_lab_name(&cluster_name(target))
}

/// The cluster's name as the server says; of a stopped one, as it is configured.
fn cluster_name(target: &Target) -> String {
    match (&target.server, &target.data_directory) {
        (Some(server), _) => server.facts.cluster_name.clone(),
        // What cannot be found out is no lab's name.
        (None, Some(directory)) => read_configured_setting(directory, "cluster_name").unwrap_or_default(),
        (None, None) => String::new(),
    }
}

/// Refuses `action` (the command's name) on a server that is no lab server, unless the user insists.
pub fn require_lab_server(
    target: &Target,
    arguments: &LabArguments,
    action: &'static str,
) -> Result<(), NotALabServer> {
    if arguments.yes || is_lab_server(target, &arguments.lab_servers) {
        return Ok(());
    }
    Err(NotALabServer { action, address: target.address(), system_identifier: target.system_identifier() })
}

fn is_lab_name(cluster_name: &str) -> bool {
    let is_rest = |rest: &str| rest.is_empty() || rest.starts_with(['-', '_']);
    LAB_PREFIXES.iter().any(|prefix| cluster_name.strip_prefix(prefix).is_some_and(is_rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use postgres::LAB_CLUSTER_NAME;

    #[test]
    fn production_is_no_lab() {
        for name in ["", "main", "production", "elaborate", "my-lab", "labour-payroll"] {
            assert!(!is_lab_name(name), "{name}");
        }
        for name in ["lab", "lab-7", LAB_CLUSTER_NAME] {
            assert!(is_lab_name(name), "{name}");
        }
    }
}
