//! Detects stalls, step by step. No I/O.

use std::collections::VecDeque;

use crate::stall::sentence::{BLOCKED, Stall, StallKind, name_stall};
use crate::stall::step::{Means, Step};
use model::{StallFinder, StallSpan};

pub const STEPS_OF_SECOND: usize = 4;

/// Time with which a stall is compared.
const SECONDS_BEFORE: usize = 30;

/// Enough for the longest stall and the time before it.
const SECONDS_KEPT: usize = 640;

/// If fewer than this share of the backends remains, the load has ended, which is no stall.
const LEFT: f64 = 0.5;

/// A server counts as idle if on average fewer backends than this do anything but wait for their clients.
const AT_WORK: f64 = 0.1;

const VICTIMS_OF_SAMPLES: f64 = 1.5;

#[derive(Clone, Debug)]
pub struct Stalls {
    finder: StallFinder,
    steps_of_second: usize,
    steps: VecDeque<Step>,
    dropped: usize,
    pub(super) finished: Vec<Stall>,
    pub(super) ongoing: Option<Stall>,
}

impl Stalls {
    pub fn new(steps_of_second: usize) -> Stalls {
        let finder = StallFinder::new(steps_of_second);
        Stalls { finder, steps_of_second, steps: VecDeque::new(), dropped: 0, finished: Vec::new(), ongoing: None }
    }

    pub fn add(&mut self, step: Step) {
        // There was no load yet.
        if self.steps.is_empty() && step.commands == 0 {
            return;
        }
        let steps_of_length = step.length_ns as f64 / 1e9 * self.steps_of_second as f64;
        let rate = step.commands as f64 / steps_of_length.max(f64::MIN_POSITIVE);
        self.steps.push_back(step);
        if self.steps.len() > SECONDS_KEPT * self.steps_of_second {
            self.steps.pop_front();
            self.dropped += 1;
        }
        let ended = self.finder.add(rate).and_then(|span| self.describe(&span, true));
        self.finished.extend(ended);
        self.ongoing = self.finder.open().and_then(|span| self.describe(&span, false));
    }

    pub fn end(&mut self) {
        let ended = std::mem::replace(self, Stalls::new(self.steps_of_second));
        self.finished = ended.finish(true);
    }

    /// Stalls in progress, or ended since `since_ms` (Unix time in milliseconds).
    pub fn recent(&self, since_ms: i64) -> Vec<Stall> {
        let ended = self.finished.iter().filter(|stall| stall.end_ms.is_some_and(|end| end >= since_ms));
        ended.chain(&self.ongoing).cloned().collect()
    }

    /// `has_ended`: whether a stall in progress ends now.
    pub fn finish(mut self, has_ended: bool) -> Vec<Stall> {
        let last = self.finder.clone().finish().and_then(|span| self.describe(&span, has_ended));
        self.finished.extend(last);
        self.finished
    }

    fn describe(&mut self, span: &StallSpan, has_ended: bool) -> Option<Stall> {
        let begin = span.steps.start.saturating_sub(self.dropped);
        let end = span.steps.end.saturating_sub(self.dropped);
        let steps_of_second = self.steps_of_second as f64;
        let steps = self.steps.make_contiguous();
        let (before, during) =
            (steps.get(begin.saturating_sub(SECONDS_BEFORE * self.steps_of_second)..begin)?, steps.get(begin..end)?);
        let backends = |steps: &[Step]| steps.iter().map(|step| step.backends).sum::<f64>() / steps.len().max(1) as f64;
        // In samples, a lone waiter does not explain a lower transaction rate.
        if self.steps_of_second == 1 && Means::of(during).of_classes(&BLOCKED) < VICTIMS_OF_SAMPLES {
            return None;
        }
        let idles = [before, during].iter().all(|steps| Means::of(steps).at_work() < AT_WORK);
        if idles || backends(during) < LEFT * backends(before) {
            return None;
        }
        let (first, last) = (during.first()?, during.last()?);
        let per_second = |rate: f64| rate * steps_of_second;
        let (kind, sentence) = name_stall(during, before, per_second(span.usual));
        // Regular pauses of clients are normal.
        if span.is_usual && matches!(kind, StallKind::ClientPause | StallKind::ClientDelay) {
            return None;
        }
        Some(Stall {
            begin_ms: first.wall_ms - (first.length_ns / 1_000_000) as i64,
            end_ms: has_ended.then_some(last.wall_ms),
            length_ns: during.iter().map(|step| step.length_ns).sum(),
            kind,
            sentence,
            least_per_second: per_second(span.least),
            usual_per_second: per_second(span.usual),
        })
    }
}
