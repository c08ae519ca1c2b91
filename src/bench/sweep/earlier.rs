//! A sweep that goes on where it was interrupted, and only with the server and on the disk that it began with.

use std::collections::BTreeSet;
use std::path::Path;

use crate::lab::{Error, Place};
use crate::linux::block_device::read_block_device;
use crate::linux::machine::read_mount;
use crate::postgres::Programs;
use crate::study::{MeasurementVerdict, NO_DISK, SweepRun};

/// What an interrupted run has left.
#[derive(Clone, Debug)]
pub struct Earlier {
    pub run: SweepRun,
    /// Number and repeat of the trials that were kept.
    pub finished: BTreeSet<(u32, u32)>,
}

impl Earlier {
    /// Refuses another server or another disk: the sweep would have trials of both, and nothing would tell them apart. A lab
    /// server's own cluster is known by its directory, a scratch cluster is as good as another.
    pub fn check_ground(&self, programs: &Programs, place: &Place) -> Result<(), Error> {
        let parent = place.directory();
        let disk = read_block_device(parent).map_or_else(|_| NO_DISK.to_owned(), |device| device.name);
        let file_system = read_mount(parent)?.file_system;
        let (machine, server) = (&self.run.machine, &self.run.server);
        let (cluster, was) = match place {
            Place::Scratch { .. } => (None, None),
            Place::Borrowed { data_directory } => {
                (Some(data_directory.path.as_path()), server.data_directory.as_deref())
            }
        };
        let now = render_ground(&programs.version()?.text, &disk, &file_system, cluster);
        let began = render_ground(&server.version, &machine.device.name, &machine.file_system, was);
        match now == began {
            true => Ok(()),
            false => Err(Error::OtherGround { id: self.run.id.clone(), began, now }),
        }
    }
}

fn render_ground(version: &str, disk: &str, file_system: &str, cluster: Option<&Path>) -> String {
    let disk = if disk == NO_DISK { "no disk" } else { disk };
    let cluster = cluster.map(|directory| format!(" in {}", directory.display())).unwrap_or_default();
    format!("PostgreSQL {version} on {disk} ({file_system}){cluster}")
}

/// Adds what is found now to what was found when the sweep began: a limit may be in force no longer.
pub fn add_verdicts(verdicts: &mut Vec<MeasurementVerdict>, found: Vec<MeasurementVerdict>) {
    for verdict in found {
        if !verdicts.contains(&verdict) {
            verdicts.push(verdict);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::Finding;

    #[test]
    fn what_is_found_anew_is_told_and_the_rest_is_told_once() {
        let not_in_force = || {
            let what = "the limit of the disk gp3".to_owned();
            MeasurementVerdict::from(Finding::NotInForce { what, reason: "it needs root".into() })
        };
        let mut verdicts = vec![MeasurementVerdict::from(Finding::OneRepeat)];
        add_verdicts(&mut verdicts, vec![Finding::OneRepeat.into(), not_in_force()]);
        assert_eq!(verdicts, [Finding::OneRepeat.into(), not_in_force()]);
    }
}
