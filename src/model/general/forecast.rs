//! Integrates the warm-up over transactions.
//!
//! The state is how likely a page of each bin is still missing. That depends on the transactions done, on what read-ahead
//! brought by the way, and on what the warmer has read; the speed with which transactions are done depends on it in turn.

use super::network::{Demand, compute_flow};
use super::tiers::{SteadyMisses, compute_steady_misses, survival};
use super::{Bin, Forecast, ForecastPoint, Server, Warmer, Workload};
use crate::model::Error;

/// A step is this share of the transactions done so far, and at least the first step.
const STEP: f64 = 0.03;
const FIRST_STEP: f64 = 0.5;

/// A step takes at most this share of the time that the warmer needs alone.
const WARMER_STEP: f64 = 0.01;

/// The end: so close to the steady throughput and to its reads.
const CLOSE: f64 = 1e-3;

/// A forecast ends here in any case.
const MOST_STEPS: usize = 5000;

/// What a warm-up does over time, from what is cached at the start until the steady state.
pub fn compute_forecast(workload: &Workload, server: &Server, warmer: Option<&Warmer>) -> Result<Forecast, Error> {
    workload.check()?;
    server.check()?;
    let bins = workload.bins();
    let steady = compute_steady_misses(&bins, server.buffers_pages, server.os_pages);
    let mut model = Model::new(workload, server, warmer, bins, steady);
    let end = model.look(Moment::Steady);
    let mut points = vec![model.look(Moment::Now).point];
    while points.len() < MOST_STEPS && !model.is_done(&points[points.len() - 1], &end) {
        model.step();
        points.push(model.look(Moment::Now).point);
    }
    Ok(Forecast {
        points,
        steady_tps: end.point.tps,
        steady_reading_share: end.point.reading_share,
        warmer_ends_seconds: model.warmer_ended,
    })
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Moment {
    Now,
    Steady,
}

/// What a look at a moment tells.
#[derive(Clone, Debug)]
struct View {
    point: ForecastPoint,
    warmer_reads: f64,
    /// Reads per transaction, by class.
    reads: Vec<f64>,
}

#[derive(Clone, Debug)]
struct Model<'a> {
    workload: &'a Workload,
    server: &'a Server,
    warmer: Option<&'a Warmer>,
    bins: Vec<Vec<Bin>>,
    steady: SteadyMisses,
    seconds: f64,
    transactions: f64,
    /// By class: what read-ahead brought, as the exponent of the probability that it missed a page.
    ahead: Vec<f64>,
    /// By class and bin: the share that the warmer has not read.
    unwarmed: Vec<Vec<f64>>,
    /// The warmer's step, and the reads of it that are done.
    warm_step: usize,
    warm_reads: f64,
    warmer_ended: Option<f64>,
    /// Transactions when the page cache was full.
    full_since: Option<f64>,
}

impl<'a> Model<'a> {
    fn new(
        workload: &'a Workload,
        server: &'a Server,
        warmer: Option<&'a Warmer>,
        bins: Vec<Vec<Bin>>,
        steady: SteadyMisses,
    ) -> Model<'a> {
        let unwarmed = bins.iter().map(|bins| vec![1.0; bins.len()]).collect();
        Model {
            ahead: vec![0.0; bins.len()],
            unwarmed,
            workload,
            server,
            warmer: warmer.filter(|warmer| !warmer.steps.is_empty()),
            bins,
            steady,
            seconds: 0.0,
            transactions: 0.0,
            warm_step: 0,
            warm_reads: 0.0,
            warmer_ended: None,
            full_since: None,
        }
    }

    /// The probability that a page of a bin is not cached anywhere.
    fn missing(&self, class: usize, bin: usize, moment: Moment) -> f64 {
        let steady = self.steady.device[class][bin];
        if moment == Moment::Steady {
            return steady;
        }
        let until = self.full_since.unwrap_or(self.transactions);
        let filled = survival(self.bins[class][bin].weight, until)
            * (-self.ahead[class]).exp()
            * self.unwarmed[class][bin]
            * (1.0 - self.workload.classes[class].resident_share);
        // A full cache forgets what it holds by accident within as many transactions as filled it.
        let age = self.full_since.map_or(0.0, |since| (self.transactions - since) / since.max(1.0));
        filled + (steady - filled) * age.min(1.0)
    }

    fn look(&self, moment: Moment) -> View {
        let buffers_age = match moment {
            Moment::Now => self.transactions.min(self.steady.buffers_time),
            Moment::Steady => self.steady.buffers_time,
        };
        let (mut reads, mut copies, mut pages, mut resident) = (Vec::new(), 0.0, 0.0, 0.0);
        for (class, bins) in self.bins.iter().enumerate() {
            let mut class_reads = 0.0;
            for (place, bin) in bins.iter().enumerate() {
                let missing = self.missing(class, place, moment);
                let accesses = bin.pages * bin.weight;
                class_reads += accesses * missing;
                copies += accesses * (survival(bin.weight, buffers_age) - missing).max(0.0);
                resident += bin.pages * (1.0 - missing);
                pages += bin.pages;
            }
            reads.push(class_reads);
        }
        let read_sum: f64 = reads.iter().sum();
        let workload = self.workload;
        let demand = Demand {
            cpu_seconds: workload.hit_seconds + copies * workload.copy_seconds + read_sum * workload.read_seconds,
            reads: read_sum,
            read_bytes: workload.read_ahead_pages.max(1.0) * self.server.block_bytes,
        };
        let is_warming = moment == Moment::Now && self.is_warming();
        let warmer = self.warmer.filter(|_| is_warming);
        let flow = compute_flow(workload.clients, self.server.cores, demand, &self.server.device, warmer);
        let without = |(class, reads): (usize, &f64)| {
            let accesses = workload.classes[class].accesses;
            (1.0 - (reads / accesses).min(1.0)).powf(accesses)
        };
        let point = ForecastPoint {
            seconds: self.seconds,
            transactions: self.transactions,
            tps: flow.tps,
            reads_per_second: flow.tps * read_sum,
            reading_share: 1.0 - reads.iter().enumerate().map(without).product::<f64>(),
            resident_share: resident / pages,
        };
        View { point, warmer_reads: flow.warmer_reads, reads }
    }

    fn is_warming(&self) -> bool {
        self.warmer
            .is_some_and(|warmer| self.warm_step < warmer.steps.len() && self.seconds >= warmer.begins_after_seconds)
    }

    /// One step, by what the middle of it looks like.
    fn step(&mut self) {
        let view = self.look(Moment::Now);
        let mut transactions = (STEP * self.transactions).max(FIRST_STEP);
        if let Some(warmer) = self.warmer.filter(|warmer| self.warm_step < warmer.steps.len()) {
            let reads: f64 = warmer.steps.iter().map(|step| step.reads).sum();
            let device = &self.server.device;
            let alone = (reads * warmer.read_bytes / device.bandwidth).max(reads / device.reads_per_second);
            transactions = transactions.min((WARMER_STEP * alone * view.point.tps).max(1e-3));
        }
        let mut middle = self.clone();
        middle.advance(transactions / 2.0, &view);
        // A warmer that ends in the first half of the step has to end in the step too.
        let ends = self.is_warming() && !middle.is_warming();
        let view = if ends { view } else { middle.look(Moment::Now) };
        self.advance(transactions, &view);
    }

    fn advance(&mut self, transactions: f64, view: &View) {
        let seconds = transactions / view.point.tps;
        self.seconds += seconds;
        self.transactions += transactions;
        if self.full_since.is_none() {
            for (class, reads) in view.reads.iter().enumerate() {
                let neighbours = (self.workload.read_ahead_pages - 1.0).max(0.0);
                self.ahead[class] += neighbours * reads * transactions / self.workload.classes[class].pages;
            }
            let pages: f64 = self.bins.iter().flatten().map(|bin| bin.pages).sum();
            if view.point.resident_share * pages >= self.server.os_pages {
                self.full_since = Some(self.transactions);
            }
        }
        self.advance_warmer(view.warmer_reads * seconds);
    }

    /// The warmer does so many reads. Where the workload was sooner there is nothing left to read from the device.
    fn advance_warmer(&mut self, mut reads: f64) {
        while let Some(step) = self.warmer.and_then(|warmer| warmer.steps.get(self.warm_step)).copied() {
            let bins = step.bin.map_or(0..self.bins[step.class].len(), |bin| bin..bin + 1);
            let fetched = |bin: usize| survival(self.bins[step.class][bin].weight, self.transactions);
            let pages: f64 = bins.clone().map(|bin| self.bins[step.class][bin].pages).sum();
            let missing: f64 = bins.clone().map(|bin| self.bins[step.class][bin].pages * fetched(bin)).sum();
            let needed = (step.reads - self.warm_reads) * (missing / pages).max(1e-6);
            let done = if needed <= reads {
                step.reads
            } else {
                self.warm_reads + reads / needed * (step.reads - self.warm_reads)
            };
            for bin in bins {
                self.unwarmed[step.class][bin] = 1.0 - done / step.reads;
            }
            self.warm_reads = done;
            if needed > reads {
                return;
            }
            reads -= needed;
            self.warm_step += 1;
            self.warm_reads = 0.0;
            if self.warmer.is_some_and(|warmer| self.warm_step == warmer.steps.len()) {
                self.warmer_ended = Some(self.seconds);
            }
        }
    }

    fn is_done(&self, now: &ForecastPoint, end: &View) -> bool {
        let is_warmed = self.warmer.is_none_or(|warmer| self.warm_step >= warmer.steps.len());
        let is_fast = (now.tps / end.point.tps - 1.0).abs() < CLOSE;
        is_warmed && is_fast && (now.reading_share - end.point.reading_share).abs() < CLOSE
    }
}
