//! Opens what there is to look at, again after a restart of the server, and has it looked at.

use std::time::Duration;

use anyhow::bail;

use crate::commands::{Target, describe};
use crate::failure::Explain as _;
use crate::linux::block_device::read_block_device;
use crate::linux::{BlockDevice, Devices};
use crate::observe::Error;
use crate::observe::top::{Here, Missing, TopWatch};
use crate::postgres::{Psql, read_backend_pid};
use crate::terminal;

/// A server that is away is looked for so often.
const RETRY: Duration = Duration::from_secs(1);

/// Looks on until nobody takes frames any more. A server that goes away is waited for.
///
/// # Errors
/// When it could not be looked at in the first place.
pub async fn look_on(mut watch: TopWatch, target: Target) -> anyhow::Result<()> {
    loop {
        let ended = match open(&target).await {
            Ok(here) => watch.watch(here).await.map_err(anyhow::Error::from),
            Err(error) => Err(error),
        };
        let failure = match ended {
            _ if !watch.is_heard() => return Ok(()),
            Ok(failure) => failure.unwrap_or_else(|| "it does not answer".to_owned()),
            Err(error) if !watch.has_begun() => return Err(error),
            Err(error) => describe(&error),
        };
        tokio::time::sleep(RETRY).await;
        watch.tell_failure(&failure, RETRY);
    }
}

async fn open(target: &Target) -> anyhow::Result<Here> {
    let Some(server) = &target.server else { bail!(Error::NoServer) };
    let mut looks = server.connect_to(&server.database).await?;
    let mut who = server.connect_to(&server.database).await?;
    let mut pulse = server.connect_to(&server.database).await?;
    let own_pids = vec![
        read_backend_pid(&mut looks).await?,
        read_backend_pid(&mut who).await?,
        read_backend_pid(&mut pulse).await?,
    ];
    let (devices, device_name, missing) = find_devices(target);
    let grant = Psql::anywhere().grant(&server.database, "pg_monitor", &server.facts.role);
    Ok(Here {
        // It may be a newer one than before it went away.
        version_num: looks.server_version_num().unwrap_or(server.facts.version_num),
        looks,
        who,
        pulse,
        own_pids,
        postmaster_pid: target.find_postmaster(),
        block_size: server.facts.block_size,
        data_directory: target.data_directory.as_ref().map(|directory| directory.path.clone()),
        devices,
        device_name,
        // Programs read it too.
        grant: terminal::complete_commands(&grant),
        missing,
    })
}

/// The device of the data directory, and that of the log where it is another; what is not seen.
fn find_devices(target: &Target) -> (Devices, Option<String>, Vec<Missing>) {
    let missing = |what: &str, why: String, remedy| vec![Missing { what: what.to_owned(), why, remedy }];
    let Some(directory) = &target.data_directory else {
        let told = target.directory_refusal.as_ref().and_then(|refusal| refusal.detail.clone());
        let what = "the device, memory, processors, and what was fetched from storage";
        let why = told.unwrap_or_else(|| "the server is not on this host".to_owned());
        return (Devices::default(), None, missing(what, why, None));
    };
    let data = match read_block_device(&directory.path) {
        Ok(device) => device,
        Err(error) => return (Devices::default(), None, missing("the device", error.to_string(), error.hint())),
    };
    let log = read_block_device(&directory.path.join("pg_wal")).ok().filter(|log| log.number != data.number);
    let parts = |log: BlockDevice| [("data", data.number), ("wal", log.number)].into_iter().collect();
    (Devices { main: Some(data.number), parts: log.map(parts).unwrap_or_default() }, Some(data.name), Vec::new())
}
