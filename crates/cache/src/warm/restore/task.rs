//! One restore, and its part for the page cache.

use std::path::PathBuf;

use tokio::sync::Notify;

use super::governor::Governor;
use super::request::{Request, RestoreOptions};
use crate::files::Files;
use crate::warm::Refusal;
use crate::warm::control::Host;
use crate::warm::plan::Geometry;

#[derive(Clone, Debug)]
pub struct Place {
    pub directory: PathBuf,
    pub geometry: Geometry,
}

#[derive(Debug)]
pub struct Restore {
    pub(in crate::warm) request: Request,
    pub(in crate::warm) options: RestoreOptions,
    pub(super) place: Result<Place, Refusal>,
    pub(in crate::warm) host: Host,
    pub(super) governor: Governor,
    pub(super) answered: Notify,
}

impl Restore {
    pub fn new(request: Request, options: RestoreOptions, place: Result<Place, Refusal>, host: Host) -> Restore {
        let RestoreOptions { sharing, threads, max_rate, device, .. } = options;
        let governor = Governor::new(sharing, threads, max_rate, device);
        Restore { request, options, place, host, governor, answered: Notify::new() }
    }
}

#[derive(Clone, Copy)]
pub struct OsTier<'a> {
    pub files: Files<'a>,
    pub restore: &'a Restore,
}
