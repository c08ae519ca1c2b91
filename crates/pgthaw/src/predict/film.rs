//! `pgthaw predict --film`: forecasts a job with other memory sizes. Requests and times come from the film, the size of
//! shared_buffers from the server.

use std::fs::File;

use super::arguments::PredictArguments;
use super::job_text::{JobAsRecorded, JobCase, JobCosts, JobPrediction};
use super::server::read_buffers_bytes;
use crate::Target;
use crate::film::with_owners;
use command::read_device_with;
use host::linux::machine::read_memory;
use model::{Error, Numbers};

use cache::trace::{self, Film, FilmHeader, FilmStore, FilmSummary, Job, MissRatioCurve, PriceSource, Run, Touched};
use cache::warm::DeviceProfile;
use host::units::{Bytes, counted};

const ENOUGH: &str = "enough";

const MEMORY_UNKNOWN: &str = "the memory of the server's machine is unknown: give memory=SIZE or --what-if memory=SIZE, or name a server on this machine with -D DIRECTORY, -h or -p";

/// # Errors
/// If the film is missing or has no recorded requests, or if a case of `--what-if` changes more than memory.
pub async fn predict_job(name: &str, arguments: &PredictArguments, figures: &Numbers) -> anyhow::Result<JobPrediction> {
    let others = arguments.what_if.iter().find(|changes| changes.memory_alone().is_none());
    if let Some(changes) = others.or(Some(figures).filter(|figures| !figures.are_of_machine())) {
        anyhow::bail!(Error::FilmTellsOfMemory { changes: changes.text.clone() });
    }
    let connection = &arguments.connection;
    let is_named = connection.names_cluster();
    let mut target = match Target::open(connection).await {
        Err(_) if !is_named => Target::default(),
        opened => opened?,
    };
    let cluster = target.system_identifier();
    let opened = FilmStore::open().open_sound(cluster, name, true);
    let (film, remarks) = opened.map_err(|error| with_owners(error, name, connection))?;
    let header = film.header();
    let of_film = header.source.system_identifier;
    if let Some(cluster) = cluster.filter(|cluster| *cluster != of_film) {
        if is_named {
            anyhow::bail!(trace::Error::OtherCluster { path: film.path().to_owned(), film: of_film, cluster });
        }
        target = Target::default();
    }
    let summary = FilmSummary::read(&film)?;
    let curve = summary.curve.as_ref().filter(|curve| curve.requests > 0).ok_or_else(|| {
        let reason = match header.sampling {
            None => "it contains the loaded pages, not the job's requests",
            Some(_) => "the job requested nothing from the page cache",
        };
        trace::Error::NoCurve { path: film.path().to_owned(), reason }
    })?;
    let mut prediction = make_prediction(&film, curve, &target, figures, &arguments.what_if)?;
    prediction.assumptions.splice(0..0, remarks);
    Ok(prediction)
}

fn make_prediction(
    film: &Film<File>,
    curve: &MissRatioCurve,
    target: &Target,
    figures: &Numbers,
    what_if: &[Numbers],
) -> anyhow::Result<JobPrediction> {
    let header = film.header();
    let directory = target.data_directory.as_ref().map(|directory| &*directory.path);
    let (device, described) = read_device_with(figures.riops, figures.rbps, directory, target.find_postmaster())?;
    let buffers = read_buffers_bytes(target);
    let device = DeviceProfile {
        reads_per_second: device.reads_per_second,
        bandwidth: Bytes(device.bandwidth as u64),
        alone_seconds: device.latency_at(1.0),
        // Reads take the larger of reads ÷ reads per second and bytes ÷ bandwidth, not the sum.
        overlap: 1.0,
        ..DeviceProfile::default()
    };
    let run = Run::of(header);
    let job = Job::new(&Touched::read(&[film], None::<&cache::Map>, false)?, run, device, header.source.block_size);
    // Recorded duration ÷ simulated duration of the recorded run, at least 1.
    let longer = job.longer_than_simulated(run, header.totals.is_fetched());
    let costs = costs_of(header, run, &job, longer);
    let mut assumptions = vec![
        "the job starts with none of its blocks cached, and least recently used blocks are evicted first".to_owned(),
        describe_price(header, &costs),
        described,
        match buffers {
            Some(buffers) => format!("{buffers} of the memory are shared_buffers, as during the recording"),
            None => "the memory does not include shared_buffers, because no running server of the film's cluster reports their size"
                .to_owned(),
        },
    ];
    if header.totals.buffers_blocks > 0 {
        let before = header.bytes(header.totals.buffers_blocks);
        assumptions.push(format!(
            "{before} were in shared_buffers before the recording, and the film does not show whether the job used them; if it did, the forecast lacks their reads, and the job takes longer"
        ));
    }
    if curve.sampling > 0 {
        assumptions.push(format!(
            "misses are estimated: the film has all requests for one in {} blocks, but only the first request for each of the other blocks",
            1_u64 << curve.sampling
        ));
    }
    let now = memory_now(figures.memory, directory.is_some());
    assumptions.extend(now.is_none().then(|| MEMORY_UNKNOWN.to_owned()));
    let told = what_if.iter().filter_map(|case| Some((case.text.clone(), case.memory_alone()?)));
    let case = |name: String, memory_bytes: Bytes, page_cache_bytes: Bytes| {
        let miss_ratio = curve.miss_ratio(page_cache_bytes.0 / u64::from(header.source.block_size)).unwrap_or_default();
        let missed = miss_ratio * curve.requests as f64;
        JobCase {
            name,
            memory_bytes,
            page_cache_bytes,
            missed_requests: missed.round() as u64,
            miss_ratio,
            device_reads: (missed * costs.miss_reads).round() as u64,
            device_bytes: Bytes((missed * costs.miss_bytes) as u64),
            seconds: longer * job.simulate_fetching(missed / curve.first_requests.max(1) as f64),
        }
    };
    let buffers = buffers.unwrap_or_default();
    let cases = now.into_iter().chain(told).map(|(name, memory)| {
        let page_cache = memory.0.checked_sub(buffers.0).ok_or(Error::BuffersBeyondMemory { buffers, memory })?;
        Ok(case(name, memory, Bytes(page_cache)))
    });
    let mut cases = cases.collect::<Result<Vec<JobCase>, Error>>()?;
    // If no memory size is known, with enough memory for all blocks of the job.
    if cases.is_empty() {
        let most = header.bytes(curve.most_blocks());
        cases.push(case(ENOUGH.to_owned(), Bytes(most.0 + buffers.0), most));
    }
    Ok(JobPrediction {
        cases,
        film: film.path().to_owned(),
        job: header.job.clone(),
        assumptions,
        recorded: JobAsRecorded {
            seconds: header.seconds,
            fetched_bytes: header.bytes(header.totals.fetched_blocks),
            device_reads: header.device_reads,
            device_bytes: header.device_bytes,
        },
        requests: curve.requests,
        first_requests: curve.first_requests,
        sampling: curve.sampling,
        sufficient_bytes: header.bytes(curve.sufficient_blocks()),
        costs,
    })
}

fn memory_now(told: Option<Bytes>, is_here: bool) -> Option<(String, Bytes)> {
    let here = || is_here.then(|| read_memory().ok()).flatten().map(|memory| memory.total_bytes);
    let told = told.map(|memory| (format!("memory={memory}"), memory));
    told.or_else(|| here().map(|memory| (format!("now: {memory}"), memory)))
}

/// Uses the measured device reads, else one read per run of adjacent blocks. If other processes also used the device,
/// the measured reads are an upper limit.
fn costs_of(header: &FilmHeader, run: Run, job: &Job, longer: f64) -> JobCosts {
    let missed_blocks = header.totals.fetched_blocks as f64 * run.fetches;
    let (reads, miss_seconds) = job.price();
    let per_block = |all: f64| all / missed_blocks.max(1.0);
    let most =
        header.device_reads.filter(|_| run.source == PriceSource::Others).map_or(1.0, |all| per_block(all as f64));
    JobCosts {
        own_seconds: longer * job.simulate_fetching(0.0),
        miss_seconds,
        miss_reads: run.device_reads.map_or(reads.min(most), |counted| per_block(counted as f64)),
        miss_bytes: match header.device_bytes.filter(|_| run.device_reads.is_some()) {
            Some(Bytes(delivered)) => per_block(delivered as f64),
            None => header.source.block_size.into(),
        },
        missed_blocks,
        source: run.source,
    }
}

fn describe_price(header: &FilmHeader, costs: &JobCosts) -> String {
    let missed = header.bytes(costs.missed_blocks as u64);
    let counted_from = "calculated from the device's reads during the recording";
    let estimated = |because: &str| format!("estimated from runs of adjacent blocks, because {because}");
    let why = match costs.source {
        PriceSource::Counted => counted_from.to_owned(),
        PriceSource::CountedAgain => {
            format!("{counted_from}, in which the job fetched {missed}, some blocks more than once")
        }
        PriceSource::NotCounted => estimated("the device's reads were not counted"),
        PriceSource::Warm => {
            estimated("most blocks were already cached, and the few device reads do not show the cost")
        }
        PriceSource::Preloaded => estimated(
            "pgthaw preloaded blocks during the recording; the minimum time of this preload (its bytes ÷ bandwidth) is not counted as the job's own work",
        ),
        PriceSource::Others => estimated("other processes also used the device"),
    };
    let own = terminal::render_seconds(costs.own_seconds);
    let reads = counted((costs.miss_reads * 100.0).round() / 100.0, "read");
    format!("{own} are the job's own work; a missed block costs {reads} and {:.3} ms ({why})", costs.miss_seconds * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_called_what_its_memory_is() {
        let told = memory_now(Some(Bytes(1 << 30)), true).unwrap();
        assert_eq!(told, ("memory=1 GB".to_owned(), Bytes(1 << 30)));
        assert!(memory_now(None, true).unwrap().0.starts_with("now: "));
        assert_eq!(memory_now(None, false), None);
    }
}
