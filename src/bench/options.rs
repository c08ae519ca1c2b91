//! What is asked of a tournament.

use crate::lab::{Error, Place, disk};
use crate::linux::{BlockDevice, ReadAhead, read_block_device};
use crate::model;
use crate::postgres::{Programs, Workload};
use crate::study::{Disk, Strategy};
use crate::units::Bytes;

/// What is asked of a tournament, or of one act of it.
#[derive(Clone, Debug)]
pub struct Options {
    /// What the act is about.
    pub title: Option<String>,
    pub programs: Programs,
    pub place: Place,
    pub scale: u32,
    /// Each trial runs it once.
    pub workload: Workload,
    pub repeats: u32,
    pub strategies: Vec<Strategy>,
    pub disk: Disk,
    pub seed: u64,
    /// Memory of the server in the trials, page cache included; `None` is no limit.
    pub memory: Option<Bytes>,
    /// `None`: of a scratch cluster a quarter of the database, at most 256 MB; of a borrowed one its own.
    pub shared_buffers: Option<Bytes>,
    /// End a trial when the verdict over it is steady?
    pub until_steady: bool,
    /// What the device gives, for the forecast; `None` when nobody knows.
    pub device: Option<model::Device>,
    /// Leave a scratch cluster, or the benchmark's database in a borrowed one, in place.
    pub is_kept: bool,
}

/// Gives the device the read-ahead of the disk asked for, if it can be had.
pub fn set_read_ahead(options: &Options) -> Result<Option<ReadAhead>, Error> {
    let asked = options.disk.read_ahead.filter(|_| options.disk.read_ahead_not_enforced.is_none());
    Ok(asked.map(|asked| ReadAhead::set(options.place.directory(), asked)).transpose()?)
}

/// The disk that holds the cluster, if it can be limited as asked; if not, the options say why.
pub fn find_device(options: &mut Options) -> Option<BlockDevice> {
    options.disk = disk::choose_in_force(options.place.directory(), options.disk.clone());
    read_block_device(options.place.directory()).ok()
}
