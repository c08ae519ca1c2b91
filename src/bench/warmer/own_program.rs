//! pgthaw as one of the commands of a study.

use std::ffi::OsString;

use crate::lab::Error;
use crate::study::{Disk, PGTHAW};

/// This very program.
pub fn own_program() -> Result<OsString, Error> {
    let program = std::env::current_exe().map_err(|source| Error::Launch { command: PGTHAW.into(), source })?;
    Ok(program.into())
}

/// What its user would tell it of the disk, as far as that is in force.
pub fn device_arguments(disk: &Disk) -> Vec<OsString> {
    let figures = [("--riops", disk.riops), ("--rbps", disk.rbps.map(|bytes| bytes.0))];
    let in_force = figures.into_iter().filter(|_| disk.not_enforced.is_none());
    let in_force = in_force.filter_map(|(option, figure)| Some((option, figure?)));
    in_force.flat_map(|(option, figure)| [option.into(), figure.to_string().into()]).collect()
}
