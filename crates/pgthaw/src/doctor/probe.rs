//! `pgthaw doctor --probe`; the probe is in `crates/cache/src/warm/probe/`.

use crate::doctor::device_text::{render_device, render_limit, render_profile};
use crate::warm_progress::end_in_good_order;
use crate::{ConnectionArguments, ExitStatus, OutputArguments, Target};
use cache::warm::probe::{DeviceRecord, Measurement, ProfileStore, find_sample_files, probe_device};
use cache::warm::restore::join_cgroups;
use cache::warm::{Control, Error};
use command::{find_limit, find_profile};
use host::failure::{Capability, ErrorKind};
use host::linux::block_device::{BlockDevice, DeviceCounters, read_block_device, read_device_counters};
use host::linux::cgroup::{ReadLimit, read_limit_of};
use host::linux::open_files;
use host::units::{Bytes, ParseBytesError};
use postgres::DataDirectory;
use terminal::Progress;

pub const NAME: &str = "profile";

/// Minimum of `--probe=BYTES`: fewer bytes would allow too few reads of the largest size.
const BUDGET_MIN: Bytes = Bytes(64 << 20);

pub fn probe_budget(text: &str) -> Result<Bytes, String> {
    match text.parse() {
        Ok(budget) if budget < BUDGET_MIN => Err(format!("must be at least {BUDGET_MIN}")),
        parsed => parsed.map_err(|error: ParseBytesError| error.to_string()),
    }
}

pub async fn run_probe(
    budget: Bytes,
    connection: &ConnectionArguments,
    output: OutputArguments,
) -> anyhow::Result<ExitStatus> {
    open_files::allow_all();
    let target = Target::open(connection).await?;
    let control = end_in_good_order();
    let directory = target.data_directory.ok_or(Error::NothingToProbe)?;
    let progress = Progress::steps("probing", 0, output.shows_progress());
    let shown = progress.clone();
    let measured = tokio::task::spawn_blocking(move || measure(&directory, budget, &control, &shown)).await;
    progress.finish();
    let Some(record) = measured?? else { return Ok(ExitStatus::Because(ErrorKind::Interrupted)) };
    let path = ProfileStore::open().keep(&record)?;
    terminal::print_answer(&record, output.json, || render_device(&record, &path))?;
    Ok(ExitStatus::Done)
}

fn measure(
    directory: &DataDirectory,
    budget: Bytes,
    control: &Control,
    progress: &Progress,
) -> Result<Option<DeviceRecord>, Error> {
    let device = read_block_device(&directory.path)?;
    let server_pid = directory.find_postmaster_pid();
    // Joins cgroups as restore does: the same read limit then applies.
    server_pid.map(join_cgroups);
    let limit = find_limit(&device, None);
    let mut remarks: Vec<String> = server_pid.and_then(|pid| limit_remark(&device, limit, pid)).into_iter().collect();
    let files = find_sample_files(directory)?;
    let tell = |what: &str, done, steps| {
        progress.reach(done, steps);
        progress.say(what);
    };
    let before = read_device_counters(device.number)?;
    let Some(measurement) = probe_device(&directory.files, &files, budget, control, &tell)? else { return Ok(None) };
    remarks.extend(traffic_remark(&measurement, before, read_device_counters(device.number)?));
    if measurement.has_read_twice {
        remarks.push(
            "some blocks were read twice, because the relations are small: a cache in the device or its host may have served the second reads".into(),
        );
    }
    Ok(Some(DeviceRecord::new(&device, limit, measurement, remarks)))
}

fn limit_remark(device: &BlockDevice, own: ReadLimit, server_pid: u32) -> Option<String> {
    let server = read_limit_of(server_pid, device.number).ok().filter(|server| *server != own)?;
    Some(format!(
        "the server's cgroup ({}) and pgthaw's ({}) have different limits: run pgthaw in the server's cgroup to measure with its limit",
        render_limit(server),
        render_limit(own)
    ))
}

fn traffic_remark(measurement: &Measurement, before: DeviceCounters, after: DeviceCounters) -> Option<String> {
    let own = measurement.read_bytes;
    let all = Bytes(after.read_bytes.0.saturating_sub(before.read_bytes.0));
    let (few, many) = (own.0 as f64 * 0.9, own.0 as f64 * 1.1);
    match all.0 as f64 {
        seen if seen < few => Some(format!(
            "the device delivered only {all} of the {own} that pgthaw read: the relation files are sparse or compressed"
        )),
        seen if seen > many => {
            let others = Bytes(all.0 - own.0);
            Some(format!("other processes read {others} from the device during the probe, which lowered the figures"))
        }
        _ => None,
    }
}

pub fn check_profile(directory: Option<&std::path::Path>, server: Option<u32>) -> Capability {
    const GROUP: &str = "disk";
    const REMEDY: &str = "`pgthaw doctor --probe`";
    let Some(directory) = directory else {
        return Capability::no(GROUP, NAME, "no data directory, so no device", "see data-dir above");
    };
    match find_profile(directory, server) {
        Ok(Some(record)) => Capability::yes(GROUP, NAME, render_profile(&record)),
        Ok(None) => {
            Capability::no(GROUP, NAME, "the device was not measured: restore assumes a typical cloud volume", REMEDY)
        }
        Err(error) => Capability::no(GROUP, NAME, error.to_string(), REMEDY),
    }
}
