//! The stalls of a server, step by step: pure, fed by whoever looks.

use std::collections::VecDeque;

use crate::stall::sentence::{Stall, StallKind, name_stall};
use crate::stall::step::{Means, Step};
use model::{StallFinder, StallSpan};

/// Steps in a second.
const STEPS_OF_SECOND: usize = 4;

/// What was before a stall is seen so far back.
const STEPS_BEFORE: usize = 30 * STEPS_OF_SECOND;

/// So many steps are kept: those of the longest stall, and those before it.
const STEPS_KEPT: usize = 640 * STEPS_OF_SECOND;

/// Where fewer than this share of the backends is left, the load has ended, and no stall has begun.
const LEFT: f64 = 0.5;

/// A server on which fewer backends than this are at work in the mean idles, and its standstill is no stall.
const AT_WORK: f64 = 0.1;

/// Finds the stalls in the commands of steps, and names each.
#[derive(Clone, Debug)]
pub struct Stalls {
    finder: StallFinder,
    /// The latest, and how many were there before them.
    steps: VecDeque<Step>,
    dropped: usize,
    /// Those that have ended, in their order, and the one that lasts.
    pub(super) finished: Vec<Stall>,
    pub(super) ongoing: Option<Stall>,
}

impl Default for Stalls {
    fn default() -> Stalls {
        let finder = StallFinder::new(STEPS_OF_SECOND);
        Stalls { finder, steps: VecDeque::new(), dropped: 0, finished: Vec::new(), ongoing: None }
    }
}

impl Stalls {
    /// Adds what was seen in the step that has ended now.
    pub fn add(&mut self, step: Step) {
        // Before the first command there is no load.
        if self.steps.is_empty() && step.commands == 0 {
            return;
        }
        let steps_of_length = step.length_ns as f64 / 1e9 * STEPS_OF_SECOND as f64;
        let rate = step.commands as f64 / steps_of_length.max(f64::MIN_POSITIVE);
        self.steps.push_back(step);
        if self.steps.len() > STEPS_KEPT {
            self.steps.pop_front();
            self.dropped += 1;
        }
        let ended = self.finder.add(rate).and_then(|span| self.describe(&span, true));
        self.finished.extend(ended);
        self.ongoing = self.finder.open().and_then(|span| self.describe(&span, false));
    }

    /// Nothing is counted from now on: what lasts is known until here.
    pub fn end(&mut self) {
        let finder = std::mem::replace(&mut self.finder, StallFinder::new(STEPS_OF_SECOND));
        let last = finder.finish().and_then(|span| self.describe(&span, true));
        *self = Stalls { finished: std::mem::take(&mut self.finished), ..Stalls::default() };
        self.finished.extend(last);
    }

    /// Those that ended since `since_ms` (milliseconds since 1970 UTC), and the one that lasts.
    pub fn recent(&self, since_ms: i64) -> Vec<Stall> {
        let ended = self.finished.iter().filter(|stall| stall.end_ms.is_some_and(|end| end >= since_ms));
        ended.chain(&self.ongoing).cloned().collect()
    }

    /// All, when nobody looks any more.
    pub fn finish(mut self) -> Vec<Stall> {
        let last = self.finder.clone().finish().and_then(|span| self.describe(&span, false));
        self.finished.extend(last);
        self.finished
    }

    fn describe(&mut self, span: &StallSpan, has_ended: bool) -> Option<Stall> {
        let begin = span.steps.start.saturating_sub(self.dropped);
        let end = span.steps.end.saturating_sub(self.dropped);
        let steps = self.steps.make_contiguous();
        let (before, during) = (steps.get(begin.saturating_sub(STEPS_BEFORE)..begin)?, steps.get(begin..end)?);
        let backends =
            |steps: &[Step]| steps.iter().map(|step| step.backends.count).sum::<f64>() / steps.len().max(1) as f64;
        let idles = [before, during].iter().all(|steps| Means::of(steps).at_work() < AT_WORK);
        if idles || backends(during) < LEFT * backends(before) {
            return None;
        }
        let (first, last) = (during.first()?, during.last()?);
        let per_second = |rate: f64| rate * STEPS_OF_SECOND as f64;
        let (kind, sentence) = name_stall(during, before, per_second(span.usual));
        // Clients that pause again and again work so.
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
