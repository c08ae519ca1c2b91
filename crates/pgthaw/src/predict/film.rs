//! `pgthaw predict --film`: forecasts a job with other memory sizes. Requests and times come from the film, the size of
//! shared_buffers from the server.

use std::fs::File;
use std::path::PathBuf;

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

#[derive(Default)]
struct Asked {
    cluster: Option<u64>,
    buffers: Option<Bytes>,
    directory: Option<PathBuf>,
    server: Option<u32>,
}

/// # Errors
/// If the film is missing or has no recorded requests, or if a case of `--what-if` changes more than memory.
pub async fn predict_job(name: &str, arguments: &PredictArguments, figures: &Numbers) -> anyhow::Result<JobPrediction> {
    let others = arguments.what_if.iter().find(|changes| changes.memory_alone().is_none());
    if let Some(changes) = others.or(Some(figures).filter(|figures| !figures.are_of_machine())) {
        anyhow::bail!(Error::FilmTellsOfMemory { changes: changes.text.clone() });
    }
    let connection = &arguments.connection;
    let is_named = connection.names_cluster();
    let asked = match Target::open(connection).await {
        Ok(target) => ask(&target),
        Err(_) if !is_named => Asked::default(),
        Err(error) => return Err(error),
    };
    let opened = FilmStore::open().open_sound(asked.cluster, name, true);
    let (film, remarks) = opened.map_err(|error| with_owners(error, name, connection))?;
    let header = film.header();
    let of_film = header.source.system_identifier;
    let asked = match asked.cluster {
        Some(cluster) if cluster != of_film && is_named => {
            anyhow::bail!(trace::Error::OtherCluster { path: film.path().to_owned(), film: of_film, cluster })
        }
        Some(cluster) if cluster != of_film => Asked::default(),
        _ => asked,
    };
    let summary = FilmSummary::read(&film)?;
    let curve = summary.curve.as_ref().filter(|curve| curve.requests > 0).ok_or_else(|| {
        let reason = match header.sampling {
            None => "it contains the loaded pages, not the job's requests",
            Some(_) => "the job requested nothing from the page cache",
        };
        trace::Error::NoCurve { path: film.path().to_owned(), reason }
    })?;
    let mut prediction = make_prediction(&film, curve, asked, figures, &arguments.what_if)?;
    prediction.assumptions.splice(0..0, remarks);
    Ok(prediction)
}

fn ask(target: &Target) -> Asked {
    let buffers = match (&target.server, &target.data_directory) {
        (Some(server), _) => Some(server.facts.shared_buffers_bytes),
        (None, Some(directory)) => read_buffers_bytes(directory),
        (None, None) => None,
    };
    let directory = target.data_directory.as_ref().map(|directory| directory.path.clone());
    Asked { cluster: target.system_identifier(), buffers, directory, server: target.find_postmaster() }
}

fn make_prediction(
    film: &Film<File>,
    curve: &MissRatioCurve,
    asked: Asked,
    figures: &Numbers,
    what_if: &[Numbers],
) -> anyhow::Result<JobPrediction> {
    let header = film.header();
    let (device, described) = read_device_with(figures.riops, figures.rbps, asked.directory.as_deref(), asked.server)?;
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
    let longer = job.longer_than_simulated(run, header.totals.is_fetched());
    let costs = costs_of(header, run, &job, longer);
    let mut assumptions = vec![
        "the job starts with none of its blocks cached, and least recently used blocks are evicted first".to_owned(),
        describe_price(header, &costs),
        described,
        match asked.buffers {
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
    let now = memory_now(figures.memory, asked.directory.is_some());
    assumptions.extend(now.is_none().then(|| MEMORY_UNKNOWN.to_owned()));
    let told = what_if.iter().filter_map(|case| Some((case.text.clone(), case.memory_alone()?)));
    let memories: Vec<(String, Bytes)> = now.into_iter().chain(told).collect();
    let forecast = Forecast { header, curve, job: &job, costs, longer };
    Ok(JobPrediction {
        cases: forecast.cases(memories, asked.buffers.unwrap_or_default())?,
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

struct Forecast<'a> {
    header: &'a FilmHeader,
    curve: &'a MissRatioCurve,
    job: &'a Job,
    costs: JobCosts,
    /// Recorded duration ÷ simulated duration of the recorded run, at least 1.
    longer: f64,
}

impl Forecast<'_> {
    /// If no memory size is known, returns one case, with enough memory for all blocks of the job.
    fn cases(&self, memories: Vec<(String, Bytes)>, buffers: Bytes) -> Result<Vec<JobCase>, Error> {
        if memories.is_empty() {
            let most = self.header.bytes(self.curve.most_blocks());
            return Ok(vec![self.case(ENOUGH.to_owned(), Bytes(most.0 + buffers.0), most)]);
        }
        let case = |(name, memory): (String, Bytes)| {
            let page_cache = memory.0.checked_sub(buffers.0).ok_or(Error::BuffersBeyondMemory { buffers, memory })?;
            Ok(self.case(name, memory, Bytes(page_cache)))
        };
        memories.into_iter().map(case).collect()
    }

    fn case(&self, name: String, memory_bytes: Bytes, page_cache_bytes: Bytes) -> JobCase {
        let blocks = page_cache_bytes.0 / u64::from(self.header.source.block_size);
        let miss_ratio = self.curve.miss_ratio(blocks).unwrap_or_default();
        let missed = miss_ratio * self.curve.requests as f64;
        JobCase {
            name,
            memory_bytes,
            page_cache_bytes,
            missed_requests: missed.round() as u64,
            miss_ratio,
            device_reads: (missed * self.costs.miss_reads).round() as u64,
            device_bytes: Bytes((missed * self.costs.miss_bytes) as u64),
            seconds: self.longer * self.job.simulate_fetching(missed / self.curve.first_requests.max(1) as f64),
        }
    }
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
    let missed = || header.bytes(costs.missed_blocks as u64);
    let why = match costs.source {
        PriceSource::Counted => "calculated from the device's reads during the recording".to_owned(),
        PriceSource::CountedAgain => {
            format!(
                "calculated from the device's reads during the recording, in which the job fetched {}, some blocks more than once",
                missed()
            )
        }
        PriceSource::NotCounted => {
            "estimated from runs of adjacent blocks, because the device's reads were not counted".to_owned()
        }
        PriceSource::Warm => {
            "estimated from runs of adjacent blocks, because most blocks were already cached, and the few device reads do not show the cost"
                .to_owned()
        }
        PriceSource::Preloaded => {
            "estimated from runs of adjacent blocks, because pgthaw preloaded blocks during the recording; the minimum time of this preload (its bytes ÷ bandwidth) is not counted as the job's own work"
                .to_owned()
        }
        PriceSource::Others => {
            "estimated from runs of adjacent blocks, because other processes also used the device".to_owned()
        }
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
