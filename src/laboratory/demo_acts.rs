//! The two acts of `pgthaw demo`: everything is needed, and a hot newest tenth. The same disk, the same tables; who wins is
//! another one.

use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;
use clap::Args;

use super::bench_point::make_study;
use super::study::{ScratchArguments, choose_strategies};
use crate::bench::StudyAsked;
use crate::lab::Place;
use crate::postgres::pgbench::{QueryMode, Script};
use crate::postgres::{MarkedDirectory, Programs};
use crate::study::{Disk, Strategy, WarmupAsked, size};

/// 99 % of the transactions in the newest tenth of the accounts: the script of the study in lab/restore.
const NEWEST_TENTH: &str = include_str!("../../lab/restore/newest-tenth.sql");

const SCRIPT_FILE: &str = "newest-tenth.sql";

/// The line of that script which says the scale.
const SCALE: &str = "\\set scale 100";

/// What each act is about, its strategies and the seconds of its trials: as short as shows it, for a demo that is over in
/// five minutes.
const EVERYTHING: &str = "everything is needed";
const EVERYTHING_STRATEGIES: &str = "nothing,seqscan,cat,vmtouch,pg_prewarm-read,pg_prewarm-buffer,pgthaw";
const EVERYTHING_SECONDS: u32 = 20;
const HOT: &str = "99 % of the work in the newest tenth";
const HOT_STRATEGIES: &str = "nothing,cat,pg_prewarm-buffer,autoprewarm,pgthaw";
const HOT_SECONDS: u32 = 12;

/// Which trials, and how long.
#[derive(Clone, Debug, Args)]
pub struct ActArguments {
    /// Seconds that each trial lasts [default: 20 where everything is needed, 12 with a hot tenth]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: Option<u32>,

    /// Trials per strategy
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repeats: u32,

    /// Strategies of both acts, separated by commas [default: the usual ones of each]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    strategies: Vec<Strategy>,
}

/// What differs between the acts.
#[derive(Debug)]
struct Act {
    title: &'static str,
    script: Script,
    strategies: &'static str,
    seconds: u32,
}

impl ActArguments {
    /// A study for each of the two acts; the script of the second one is in the directory `scripts`.
    pub fn studies(
        &self,
        scale: u32,
        disk: &Disk,
        scripts: &Path,
        scratch: &ScratchArguments,
    ) -> anyhow::Result<Vec<StudyAsked>> {
        let (everything, hot) = (Script::Builtin("select-only"), Script::File(scripts.join(SCRIPT_FILE)));
        let acts = [
            Act {
                title: EVERYTHING,
                script: everything,
                strategies: EVERYTHING_STRATEGIES,
                seconds: EVERYTHING_SECONDS,
            },
            Act { title: HOT, script: hot, strategies: HOT_STRATEGIES, seconds: HOT_SECONDS },
        ];
        acts.iter().map(|act| self.study(act, scale, disk, scratch)).collect()
    }

    fn study(&self, act: &Act, scale: u32, disk: &Disk, scratch: &ScratchArguments) -> anyhow::Result<StudyAsked> {
        let strategies = match &self.strategies[..] {
            [] => act.strategies.split(',').map(str::parse).collect::<Result<_, _>>()?,
            given => choose_strategies(given, Strategy::DEFAULT),
        };
        let asked = WarmupAsked {
            title: Some(act.title),
            scale,
            clients: 8,
            jobs: 2,
            script: &act.script,
            setup: None,
            query_mode: QueryMode::default(),
            seconds: self.seconds.unwrap_or(act.seconds),
            until: None,
            wanted_seconds: None,
            repeats: self.repeats,
            seed: None,
            strategies: &strategies,
            disk,
            memory: None,
            settings: &size::scratch_settings(scale, scratch.shared_buffers),
        };
        let place = Place::Scratch { parent: scratch.dir.clone() };
        Ok(make_study(&asked, Programs::find(scratch.bin_dir.as_deref())?, place, scratch.keep)?.0)
    }
}

/// Writes the script of the second act into a directory that is gone when the demo is.
pub fn write_script(scale: u32) -> anyhow::Result<MarkedDirectory> {
    let directory = MarkedDirectory::create("pgthaw-demo-", &std::env::temp_dir())?;
    let script = directory.directory().create_file(SCRIPT_FILE, 0o644);
    let written = script.and_then(|mut file| file.write_all(newest_tenth(scale).as_bytes()));
    written.with_context(|| format!("cannot write {}", directory.path().join(SCRIPT_FILE).display()))?;
    directory.open_to_others()?;
    Ok(directory)
}

/// pgbench does not tell a script of one's own the scale.
fn newest_tenth(scale: u32) -> String {
    NEWEST_TENTH.replace(SCALE, &format!("\\set scale {scale}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_is_that_of_the_study_at_the_demos_scale() {
        assert_eq!(NEWEST_TENTH.matches(SCALE).count(), 1);
        assert!(newest_tenth(7).contains("\\set scale 7\n"));
    }

    #[test]
    fn every_act_has_strategies_that_exist() {
        for names in [EVERYTHING_STRATEGIES, HOT_STRATEGIES] {
            assert!(names.split(',').all(|name| name.parse::<Strategy>().is_ok()), "{names}");
        }
    }
}
