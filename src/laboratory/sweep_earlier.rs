//! The run of a study that `bench sweep` goes on with, and the right to do so.

use std::path::{Path, PathBuf};

use crate::bench::Earlier;
use crate::lab::SweepLock;
use crate::linux::machine::read_machine;
use crate::results::{Place, Store};
use crate::study::Sweep;

/// A run of the same study on this host that did not get to its end, and that no other process runs. Its clusters lie, or will, below
/// `parent`.
pub async fn find_earlier(store: &Store, sweep: &Sweep, parent: &Path) -> anyhow::Result<Option<(SweepLock, Earlier)>> {
    let hostname = read_machine()?.hostname;
    let Some(run) = store.find_unfinished_sweep(&sweep.digest(), &hostname).await? else { return Ok(None) };
    let lock = SweepLock::take(&lock_directory(store), &run.id, parent)?;
    // Whoever had it may have ended the sweep a moment ago.
    let Some(run) = store.find_sweep(&run.id).await?.filter(|run| run.ended_at.is_none()) else { return Ok(None) };
    let finished = store.read_finished(&run.id).await?;
    Ok(Some((lock, Earlier { run, finished })))
}

/// Where the locks of its sweeps are: beside the file that keeps them.
pub fn lock_directory(store: &Store) -> PathBuf {
    let parent = match store.place() {
        Place::File(file) => file.parent().filter(|parent| !parent.as_os_str().is_empty()),
        Place::Server(_) => None,
    };
    parent.unwrap_or(Path::new(".")).to_owned()
}
