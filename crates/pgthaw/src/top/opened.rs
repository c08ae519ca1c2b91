//! Opens what there is to look at, again after a restart of the server, and has it looked at.

use crate::looking::{Looking, RETRY, open_again};
use crate::{Target, describe};
use host::failure::Explain as _;
use host::linux::block_device::read_block_device;
use host::linux::{BlockDevice, Devices};
use observe::top::{Here, Missing, TopWatch};
use postgres::Psql;

/// Looks on until nobody takes frames any more. A server that goes away is waited for, as long as this task lives.
///
/// # Errors
/// When it could not be looked at in the first place.
pub async fn look_on(mut watch: TopWatch, target: Target) -> anyhow::Result<()> {
    let mut here = open(&target).await?;
    loop {
        let failure = match watch.watch(here).await {
            _ if !watch.is_heard() => return Ok(()),
            Ok(failure) => failure.unwrap_or_else(|| "it does not answer".to_owned()),
            Err(error) if !watch.has_begun() => return Err(error.into()),
            Err(error) => describe(&error.into()),
        };
        let tell = |error: Option<&anyhow::Error>| {
            watch.tell_failure(&error.map_or_else(|| failure.clone(), describe), RETRY);
        };
        here = open_again(|| open(&target), tell).await;
    }
}

async fn open(target: &Target) -> anyhow::Result<Here> {
    let mut looking = Looking::open(target).await?;
    let pulse = looking.connect().await?;
    let Looking { server, looks, who, own_pids, version_num, postmaster_pid } = looking;
    let (devices, device_name, missing) = find_devices(target);
    let grant = Psql::anywhere().grant(&server.database, "pg_monitor", &server.facts.role);
    Ok(Here {
        looks,
        who,
        pulse,
        own_pids,
        postmaster_pid,
        version_num,
        block_size: server.facts.block_size,
        data_directory: target.data_directory.as_ref().map(|directory| directory.path.clone()),
        devices,
        device_name,
        grant,
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
