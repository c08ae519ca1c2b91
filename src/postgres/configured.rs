//! What a cluster is configured to, asked without its server.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use super::lender::read_options;
use super::programs::run;
use super::{DataDirectory, Error, Programs};

/// The value of a setting that the cluster's server would start with: in its files, those that they include, and the
/// options of its last start. PostgreSQL's own `postgres -C` reads them, as the directory's owner when this is root.
///
/// # Errors
/// When there are no programs of the cluster's version, or its files cannot be read.
pub fn read_configured_setting(directory: &DataDirectory, name: &str) -> Result<String, Error> {
    let programs = Programs::find_version(None, directory.version_major)?;
    let path = &directory.path;
    let mut command = Command::new(programs.path("postgres")?);
    command.args(["-C", name, "-D"]).arg(path).args(read_options(path)).current_dir("/").env_remove("PGDATA");
    if rustix::process::geteuid().is_root() {
        let metadata =
            fs::metadata(path).map_err(|source| Error::File { action: "look at", path: path.clone(), source })?;
        command.uid(metadata.uid()).gid(metadata.gid());
    }
    Ok(run(&mut command)?.trim_end_matches('\n').to_owned())
}
