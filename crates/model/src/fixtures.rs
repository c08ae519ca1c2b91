use crate::{Judgement, PageClass, Verdict, WarmStep, Warmer, Workload};

const SAME_SECONDS: f64 = 1e-6;

const SAME_SHARE: f64 = 1e-9;

impl Judgement {
    pub fn find_contradictions(&self) -> Vec<String> {
        let is_level = matches!(self.verdict, Verdict::Steady | Verdict::Periodic);
        let verdict = self.verdict;
        let mut found = vec![
            (self.steady_from_seconds.is_some() == is_level, "it is steady from an instant, or it is not steady"),
            (self.period_seconds.is_some() == (verdict == Verdict::Periodic), "a period is one of a periodic run"),
            (!is_level || self.steady_tps.is_some(), "a steady run has a steady throughput"),
            (
                verdict != Verdict::Degrading || self.steady_tps.is_none(),
                "a run that degrades has no steady throughput",
            ),
            (self.to_95_seconds.is_none() || self.steady_tps.is_some(), "95 % of nothing is reached"),
            (is_level || self.level_error_share.is_none(), "the noise of a level that there is not"),
            (is_level || self.warmth.is_none(), "a level that there is not is warm or cold"),
            (self.has_agreeing_mean(), "the mean's error is that of another mean or level"),
        ];
        if let (true, Some(from)) = (is_level, self.steady_from_seconds) {
            let is_before_end = from + self.level_lasts_seconds <= self.run_seconds + SAME_SECONDS;
            found.push((is_no_later(self.to_95_seconds, from), "it is steady before its own 95 %"));
            found.push((is_before_end, "the level did not last as long as one must"));
            found.push((is_no_later(self.should_have_run_seconds, self.run_seconds), "a steady run was long enough"));
        } else if let Some(needed) = self.should_have_run_seconds {
            found.push((needed > self.run_seconds, "a run that was long enough would have a verdict"));
        }
        let broken = found.into_iter().filter(|(holds, _)| !holds).map(|(_, rule)| rule.to_owned());
        let times = [self.to_50_seconds, self.to_90_seconds, self.to_95_seconds];
        broken.chain(find_disorder(times)).collect()
    }

    fn has_agreeing_mean(&self) -> bool {
        let expected = self.steady_tps.map(|steady| self.mean_tps / steady - 1.0);
        match (expected, self.mean_error_share) {
            (Some(expected), Some(share)) => (expected - share).abs() < SAME_SHARE,
            (expected, share) => expected.is_none() && share.is_none(),
        }
    }
}

fn is_no_later(seconds: Option<f64>, than: f64) -> bool {
    seconds.is_some_and(|seconds| seconds <= than + SAME_SECONDS)
}

pub fn find_disorder(times: [Option<f64>; 3]) -> Option<String> {
    let in_order = |pair: &[Option<f64>]| match (pair[0], pair[1]) {
        (Some(less), Some(more)) => less <= more,
        (None, Some(_)) => false,
        (_, None) => true,
    };
    (!times.windows(2).all(in_order)).then(|| "more of the throughput is reached before less of it".to_owned())
}

impl Warmer {
    pub fn in_file_order(workload: &Workload, block_bytes: f64, depth: u32, read_bytes: f64) -> Warmer {
        let step = |(class, one): (usize, &PageClass)| WarmStep {
            class,
            bin: None,
            share: 1.0,
            reads: one.pages * block_bytes / read_bytes,
        };
        Warmer {
            steps: workload.classes.iter().enumerate().map(step).collect(),
            depth,
            read_bytes,
            begins_after_seconds: 0.0,
        }
    }
}
