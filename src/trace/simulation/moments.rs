//! A job's run, moment by moment: what its processes ask for, what waits for the device, and who goes on when it has come.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use super::job::{DEPTH, Job};
use crate::trace::touched::Piece;
use crate::warm::plan::Read;

/// What waits for the device.
#[derive(Clone, Copy)]
enum Waiting {
    /// A read of the preload, by its place.
    Preload(usize),
    /// A read of the job's own, for a step, and its seconds.
    Own(usize, f64),
}

/// What became of a read of the preload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    NotYet,
    OnItsWay,
    Done,
}

/// One of the job's processes.
#[derive(Clone, Copy)]
enum Reader {
    /// Works until then.
    Works(f64),
    /// Waits for so many reads of its own for a step, one after another.
    Fetches(usize, u32),
    /// Waits for a step that somebody else brings.
    Waits(usize),
}

/// One run of the job.
pub(super) struct Simulation<'a> {
    job: &'a Job,
    readers: Vec<Reader>,
    /// The next step of each, by its place among its own; and how many have been begun by all.
    next: Vec<usize>,
    begun: usize,
    /// When the last one was begun.
    clock: f64,
    reads: &'a [Read],
    /// Places in `reads`, by fork and position.
    by_position: Vec<u32>,
    /// Which of them, by position, have a part in each step; empty where there are none.
    covers: Vec<(u32, u32)>,
    /// What became of each, and how many blocks of it the job had fetched by itself.
    states: Vec<State>,
    taken: Vec<u32>,
    queue: VecDeque<Waiting>,
    /// Reads of the preload that wait, and the next one.
    preloads: usize,
    next_read: usize,
    /// How often a process came to what was on its way.
    met_on_its_way: u64,
    /// Steps that the kernel reads ahead, and whether they are there.
    ahead: BTreeMap<usize, bool>,
    /// When the device is done with what it did last.
    now: f64,
}

impl<'a> Simulation<'a> {
    pub fn new(job: &'a Job, reads: &'a [Read]) -> Simulation<'a> {
        let mut by_position: Vec<u32> = (0..reads.len() as u32).collect();
        by_position.sort_unstable_by_key(|at| (reads[*at as usize].fork, reads[*at as usize].range.start));
        let (states, taken) = (vec![State::NotYet; reads.len()], vec![0; reads.len()]);
        let covers = cover(job, reads, &by_position);
        Simulation {
            job,
            readers: vec![Reader::Works(0.0); job.readers.len()],
            next: vec![0; job.readers.len()],
            begun: 0,
            clock: 0.0,
            reads,
            by_position,
            covers,
            states,
            taken,
            queue: VecDeque::new(),
            preloads: 0,
            met_on_its_way: 0,
            next_read: 0,
            ahead: BTreeMap::new(),
            now: 0.0,
        }
    }

    pub fn run(mut self) -> f64 {
        loop {
            self.fill();
            let served_at = self.queue.front().map(|first| self.now + self.seconds(*first));
            match self.next_to_ask() {
                Some((reader, clock)) if served_at.is_none_or(|served_at| clock <= served_at) => {
                    let step = self.job.readers[reader][self.next[reader]] as usize;
                    self.next[reader] += 1;
                    self.begun += 1;
                    self.clock = clock;
                    self.begin(reader, step, clock);
                }
                next if served_at.is_some() && (next.is_some() || self.is_anybody_waiting()) => self.serve_first(),
                _ => break,
            }
        }
        let end = |reader: &Reader| if let Reader::Works(until) = reader { *until } else { 0.0 };
        self.readers.iter().map(end).fold(0.0, f64::max)
    }

    /// The process that asks next, and when. One that came later in the film comes when as much has been begun.
    fn next_to_ask(&self) -> Option<(usize, f64)> {
        let asks = |(place, reader): (usize, &Reader)| match (reader, self.job.readers[place].get(self.next[place])) {
            (Reader::Works(until), Some(step)) => Some((place, *until, *step as usize)),
            _ => None,
        };
        let asking = || self.readers.iter().enumerate().filter_map(asks);
        let has_come = |place: usize, step: usize| self.next[place] > 0 || step <= self.begun;
        let earliest = asking().filter(|(place, _, step)| has_come(*place, *step));
        let earliest = earliest.min_by(|one, other| one.1.total_cmp(&other.1));
        // Nobody else goes on before it comes.
        let next = || asking().filter(|_| !self.is_anybody_waiting()).min_by_key(|(_, _, step)| *step);
        let (place, until, _) = earliest.or_else(next)?;
        Some((place, if self.next[place] > 0 { until } else { self.clock }))
    }

    fn is_anybody_waiting(&self) -> bool {
        self.readers.iter().any(|reader| !matches!(reader, Reader::Works(_)))
    }

    /// A process asks for a step.
    fn begin(&mut self, reader: usize, at: usize, clock: f64) {
        let step = self.job.steps[at];
        if step.missing_blocks == 0 {
            return self.work(reader, at, clock);
        }
        match self.ahead.get(&at) {
            Some(false) => return self.readers[reader] = Reader::Waits(at),
            Some(true) => {
                self.ahead.remove(&at);
                return self.work(reader, at, clock);
            }
            None => {}
        }
        let covering = self.covering(at);
        let is_brought = !covering.is_empty() && covering.clone().all(|place| self.is_on_its_way(place));
        if is_brought && self.is_there(at) {
            return self.work(reader, at, clock);
        }
        if is_brought && self.waits_for_what_comes() {
            return self.readers[reader] = Reader::Waits(at);
        }
        self.take(covering, step.missing_blocks);
        self.push_own(at, clock);
        self.readers[reader] = Reader::Fetches(at, step.reads);
    }

    /// Does a process wait for what is on its way? While one of several does, the others come to what nobody brings yet, and read that:
    /// half of them, by what TPC-H's Q4, Q14 and Q15 were seen to read beside a preload (docs/films.md).
    fn waits_for_what_comes(&mut self) -> bool {
        self.met_on_its_way += 1;
        !self.job.fetches_at_once() || self.met_on_its_way.is_multiple_of(2)
    }

    /// A process has its step, and works; meanwhile the kernel reads the next one ahead, if it would.
    fn work(&mut self, reader: usize, at: usize, clock: f64) {
        if let Some(next) = self.job.readers[reader].get(self.next[reader]) {
            self.read_ahead(*next as usize, clock);
        }
        let own_seconds = self.job.block_seconds();
        self.readers[reader] = Reader::Works(clock + own_seconds * f64::from(self.job.steps[at].piece.blocks));
    }

    /// Has the kernel read a step ahead, if it would, and nobody else brings it.
    fn read_ahead(&mut self, at: usize, clock: f64) {
        let Some(step) = self.job.steps.get(at).filter(|step| step.is_ahead && step.missing_blocks > 0) else { return };
        let covering = self.covering(at);
        if self.ahead.contains_key(&at) || covering.clone().any(|place| self.is_on_its_way(place)) {
            return;
        }
        self.take(covering, step.missing_blocks);
        self.ahead.insert(at, false);
        self.push(Waiting::Own(at, step.seconds), clock);
    }

    /// One of the reads that a step takes.
    fn push_own(&mut self, at: usize, clock: f64) {
        let step = self.job.steps[at];
        self.push(Waiting::Own(at, step.seconds / f64::from(step.reads)), clock);
    }

    fn push(&mut self, waiting: Waiting, clock: f64) {
        if self.queue.is_empty() {
            self.now = self.now.max(clock);
        }
        self.queue.push_back(waiting);
    }

    /// Keeps the preload's reads waiting.
    fn fill(&mut self) {
        while self.preloads < DEPTH && self.next_read < self.reads.len() {
            let at = self.next_read;
            self.next_read += 1;
            // The job has had all of it.
            if u64::from(self.taken[at]) < self.reads[at].range.blocks() {
                self.queue.push_back(Waiting::Preload(at));
                self.states[at] = State::OnItsWay;
                self.preloads += 1;
            }
        }
    }

    fn seconds(&self, waiting: Waiting) -> f64 {
        match waiting {
            Waiting::Preload(at) => self.job.read_seconds(self.reads[at].range.blocks() as u32 - self.taken[at]),
            Waiting::Own(_, seconds) => seconds,
        }
    }

    /// The first one is done; whoever waited for it goes on.
    fn serve_first(&mut self) {
        let Some(first) = self.queue.pop_front() else { return };
        self.now += self.seconds(first);
        match first {
            Waiting::Preload(at) => {
                self.states[at] = State::Done;
                self.preloads -= 1;
                // Behind what waits already, as readers come back when they are done.
                self.fill();
                self.wake();
            }
            Waiting::Own(step, _) => {
                self.fill();
                match self.ahead.get_mut(&step) {
                    Some(is_there) => {
                        *is_there = true;
                        self.wake();
                    }
                    None => self.go_on(step),
                }
            }
        }
    }

    /// Those whose step has been brought work.
    fn wake(&mut self) {
        for place in 0..self.readers.len() {
            let Reader::Waits(at) = self.readers[place] else { continue };
            let is_there = match self.ahead.get(&at) {
                Some(is_there) => *is_there,
                None => self.is_there(at),
            };
            if is_there {
                self.ahead.remove(&at);
                self.work(place, at, self.now);
            }
        }
    }

    /// A read of a step is done that a process fetches by itself.
    fn go_on(&mut self, step: usize) {
        let fetches = |reader: &Reader| matches!(reader, Reader::Fetches(at, _) if *at == step);
        let Some(place) = self.readers.iter().position(fetches) else { return };
        match self.readers[place] {
            Reader::Fetches(at, left) if left > 1 => {
                self.readers[place] = Reader::Fetches(at, left - 1);
                self.push_own(at, self.now);
            }
            _ => self.work(place, step, self.now),
        }
    }

    /// Has the preload brought all that it brings of a step?
    fn is_there(&self, at: usize) -> bool {
        self.covering(at).all(|place| self.states[self.by_position[place] as usize] == State::Done)
    }

    /// Is a read of the preload, by its place by position, done or waiting?
    fn is_on_its_way(&self, place: usize) -> bool {
        self.states[self.by_position[place] as usize] != State::NotYet
    }

    /// The job fetches so many blocks by itself that these reads, by position, would have brought.
    fn take(&mut self, covering: Range<usize>, blocks: u32) {
        for place in covering {
            let read = self.by_position[place] as usize;
            let rest = self.reads[read].range.blocks() as u32 - self.taken[read];
            self.taken[read] += if self.states[read] == State::Done { 0 } else { blocks.min(rest) };
        }
    }

    /// Which reads of the preload, by position, have a part in a step.
    fn covering(&self, at: usize) -> Range<usize> {
        self.covers.get(at).map_or(0..0, |(first, last)| *first as usize..*last as usize)
    }
}

/// Which of these reads, by position, have a part in each step: in one pass over both, for each step is asked about several times.
fn cover(job: &Job, reads: &[Read], by_position: &[u32]) -> Vec<(u32, u32)> {
    if reads.is_empty() {
        return Vec::new();
    }
    let read = |place: usize| by_position.get(place).map(|at| &reads[*at as usize]);
    let mut covers = vec![(0, 0); job.steps.len()];
    let mut first = 0;
    for at in &job.order {
        let Piece { fork, start, blocks } = job.steps[*at as usize].piece;
        let (fork, start, end) = (fork as usize, u64::from(start), u64::from(start + blocks));
        while read(first).is_some_and(|read| (read.fork, read.range.end) <= (fork, start)) {
            first += 1;
        }
        let mut last = first;
        while read(last).is_some_and(|read| (read.fork, read.range.start) < (fork, end)) {
            last += 1;
        }
        covers[*at as usize] = (first as u32, last as u32);
    }
    covers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::simulation::Run;
    use crate::trace::simulation::job::Step;
    use crate::trace::touched::Touched;
    use crate::units::{BlockRange, Bytes};
    use crate::warm::DeviceProfile;

    #[test]
    fn what_covers_a_step_is_found_in_one_pass() {
        let piece = |at: u32| Piece { fork: at % 2, start: at * 7919 % 1000, blocks: 1 + at % 9 };
        let job = Job {
            steps: (0..300)
                .map(|at| Step { piece: piece(at), missing_blocks: 1, reads: 1, seconds: 0.0, is_ahead: false })
                .collect(),
            ..Job::new(
                &Touched::default(),
                Run { seconds: 1.0, device_reads: None, is_cold: true, preloaded: Bytes(0) },
                DeviceProfile::default(),
                8192,
            )
        };
        let mut order: Vec<u32> = (0..300).collect();
        order.sort_by_key(|at| (piece(*at).fork, piece(*at).start));
        let job = Job { order, ..job };
        let reads: Vec<Read> = [1, 0]
            .into_iter()
            .flat_map(|fork| (0..60).map(move |at| Read { fork, range: BlockRange::new(at * 17, at * 17 + 11) }))
            .collect();
        let simulation = Simulation::new(&job, &reads);
        for (at, step) in job.steps.iter().enumerate() {
            let Piece { fork, start, blocks } = step.piece;
            let has_part = |read: &&Read| {
                read.fork == fork as usize
                    && read.range.start < u64::from(start + blocks)
                    && read.range.end > u64::from(start)
            };
            let expected: Vec<Read> = reads.iter().filter(has_part).copied().collect();
            let found = simulation.covering(at).map(|place| reads[simulation.by_position[place] as usize]);
            assert_eq!(found.collect::<Vec<Read>>(), expected, "{:?}", step.piece);
        }
    }
}
