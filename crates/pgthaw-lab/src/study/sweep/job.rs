//! The job of a study: a command that somebody runs beside the load.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::axis::find_file;
use super::database::find_command;
use super::point::Axes;
use crate::study::strategy::Strategy;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawJob {
    command: Vec<String>,
}

/// A job as it is run, and its files.
#[derive(Debug, Default, PartialEq)]
pub struct JobSpec {
    /// The program with its arguments; empty where the study has no job.
    pub command: Vec<String>,
    /// Those of its words that are files beside the study file, by their whole names.
    pub files: Vec<PathBuf>,
}

/// The job that the strategies run. A word that is the name of a file in `directory` means that file, wherever the study is run.
pub fn read_job(raw: Option<RawJob>, axes: &Axes, directory: &Path) -> Result<JobSpec, String> {
    let Some(raw) = raw else {
        return match axes.strategies().find(|strategy| strategy.runs_job()) {
            Some(strategy) => Err(format!(
                "points.strategy: {strategy} runs the study's job, and there is none; write [job] with command = [\"psql\", \"-Xqf\", \"report.sql\"]"
            )),
            None => Ok(JobSpec::default()),
        };
    };
    if !axes.strategies().any(Strategy::runs_job) {
        return Err("job: no point runs it; name job, run, isolate or replay in points.strategy, or remove it".into());
    }
    let key = "job.command";
    let has_own_program = raw.command.first().is_some_and(|program| program.contains('/'));
    let mut command = find_command(key, directory, raw.command)?;
    let mut files = Vec::new();
    if has_own_program {
        files.extend(command.first().map(PathBuf::from));
    }
    for word in command.iter_mut().skip(1) {
        let name = Path::new(&*word);
        if name.is_relative() && directory.join(name).is_file() {
            let file = find_file(key, directory, name)?;
            *word = file.display().to_string();
            files.push(file);
        }
    }
    Ok(JobSpec { command, files })
}

#[cfg(test)]
mod tests {
    use crate::study::sweep::spec::parse_sweep;
    use crate::study::sweep::spec::tests::{assert_refused, sweep};

    const JOB: &str = "[job]\ncommand = ['psql', '-Xqf', 'report.sql']\n";

    #[test]
    fn a_job_is_run_from_any_start_and_its_files_lie_beside_the_study() {
        let directory = tempfile::tempdir().unwrap();
        let report = directory.path().join("report.sql");
        let text = format!("[points]\nstart = ['cold', 'warm']\nstrategy = ['nothing', 'job', 'run']\n{JOB}");
        let study = |says: &str| {
            std::fs::write(&report, says).unwrap();
            parse_sweep(&text, directory.path(), false).unwrap()
        };
        let one = study("SELECT 1");
        let whole = report.canonicalize().unwrap();
        assert_eq!(one.job, ["psql", "-Xqf", whole.to_str().unwrap()]);
        assert!(one.contents.contains_key(&whole));
        assert_ne!(one.digest(), study("SELECT 2").digest(), "an edited report is another study");
    }

    #[test]
    fn a_job_and_what_runs_it_go_together() {
        assert_refused("[points]\nstrategy = ['nothing', 'run']\n", &["points.strategy", "run", "[job]", "command"]);
        assert_refused(JOB, &["job", "job, run, isolate or replay", "remove"]);
        assert_refused(&format!("[points]\nstart = 'cold'\nstrategy = 'cat'\n{JOB}"), &["job", "no point runs it"]);
        assert_refused("[points]\nstrategy = 'job'\n[job]\ncommand = []\n", &["job.command", "a program is missing"]);
        assert_refused("[points]\nstrategy = 'job'\n[job]\ncommand = ['./no-such']\n", &["job.command", "no-such"]);
        assert_refused("[points]\nstrategy = 'job'\n[job]\n", &["command"]);
    }

    #[test]
    fn a_job_is_beside_a_load_that_lasts_and_warms_nothing() {
        let points = |keys: &str| format!("[points]\nstart = 'cold'\n{keys}{JOB}");
        for until in ["steady", "resident"] {
            let text = format!("until = '{until}'\n{}", points("strategy = 'job'\n"));
            assert_refused(&text, &["until", "a job"]);
        }
        assert_refused(&format!("kind = 'warmup'\n{}", points("strategy = ['cat', 'job']\n")), &["kind", "job"]);
        assert_refused(&format!("wanted = 'script'\n{}", points("strategy = 'job'\n")), &["wanted", "a warmer"]);
        assert_refused(&format!("[points]\nstrategy = ['job', 'cat']\n{JOB}"), &["points.strategy", "\"cold\""]);
        assert!(sweep(&points("strategy = ['job', 'cat']\n")).is_ok());
    }
}
