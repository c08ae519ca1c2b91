//! Servers that may be made cold: those that say so themselves, and those that the settings name.

use super::Target;
use crate::failure::{ErrorKind, Explain};

/// How the `cluster_name` of a lab server begins.
const LAB_PREFIXES: [&str; 2] = ["lab", "pgthaw"];

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
            "give --yes if you mean it; a lab server has a cluster_name that begins with lab, or stands in pgthaw.toml: lab_servers = [{identifier}]"
        ))
    }
}

/// Is this a server that was set up to be played with? `lab_servers` are system identifiers.
pub fn is_lab_server(target: &Target, lab_servers: &[u64]) -> bool {
    let name = target.server.as_ref().map_or("", |server| server.facts.cluster_name.as_str());
    is_lab_name(name) || target.system_identifier().is_some_and(|identifier| lab_servers.contains(&identifier))
}

/// Refuses `action` (the command's name) on a server that is no lab server, unless the user insists.
pub fn require_lab_server(
    target: &Target,
    lab_servers: &[u64],
    is_insisted: bool,
    action: &'static str,
) -> Result<(), NotALabServer> {
    if is_insisted || is_lab_server(target, lab_servers) {
        return Ok(());
    }
    Err(NotALabServer { action, address: target.address(), system_identifier: target.system_identifier() })
}

fn is_lab_name(cluster_name: &str) -> bool {
    LAB_PREFIXES.iter().any(|prefix| cluster_name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postgres::LAB_CLUSTER_NAME;

    #[test]
    fn production_is_no_lab() {
        for name in ["", "main", "production", "elaborate", "my-lab"] {
            assert!(!is_lab_name(name), "{name}");
        }
        for name in ["lab", "lab-7", LAB_CLUSTER_NAME] {
            assert!(is_lab_name(name), "{name}");
        }
    }
}
