//! Can a strategy run here? If not: what is missing, and the command that gets it.

use std::collections::BTreeSet;

use crate::postgres::{PG_PREWARM, Programs};
use crate::study::Strategy;

/// What is in the way of a strategy; `None` when nothing is. `extensions` are those that the server could create.
pub fn find_obstacle(
    strategy: Strategy,
    programs: &Programs,
    version_major: u32,
    extensions: &BTreeSet<String>,
) -> Option<String> {
    let extension = |name: &str, package: String| {
        (!extensions.contains(name)).then(|| format!("this server has no {name}: apt-get install {package}"))
    };
    let psql = || programs.path("psql").err().map(|_| "no psql: apt-get install postgresql-client".to_owned());
    match strategy {
        Strategy::Nothing | Strategy::Cat | Strategy::Pgthaw(_) | Strategy::PgthawOs | Strategy::Ranges => None,
        // Whatever the job needs, its author has.
        Strategy::Job | Strategy::Run | Strategy::Isolate | Strategy::Replay => None,
        Strategy::FioBuffered | Strategy::FioDirect => find_program("fio"),
        Strategy::Vmtouch => find_program("vmtouch"),
        Strategy::Seqscan => psql(),
        Strategy::Autoprewarm => extension(PG_PREWARM, "postgresql-contrib".into()),
        Strategy::Prewarm(_) => psql().or_else(|| extension(PG_PREWARM, "postgresql-contrib".into())),
        Strategy::Pgfincore => {
            psql().or_else(|| extension("pgfincore", format!("postgresql-{version_major}-pgfincore")))
        }
    }
}

/// What is said of a program that is not there; `None` when it is.
pub fn find_program(name: &str) -> Option<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = std::env::split_paths(&path).any(|directory| directory.join(name).is_file());
    (!is_there).then(|| format!("no {name} in PATH: apt-get install {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postgres::PrewarmMode;

    #[test]
    fn a_missing_extension_is_told_with_its_package() {
        let programs = Programs::find(None).unwrap();
        let none = BTreeSet::new();
        let obstacle = find_obstacle(Strategy::Pgfincore, &programs, 15, &none).unwrap();
        assert!(obstacle.ends_with("apt-get install postgresql-15-pgfincore"), "{obstacle}");
        let all = BTreeSet::from([PG_PREWARM.to_owned()]);
        assert_eq!(find_obstacle(Strategy::Prewarm(PrewarmMode::Read), &programs, 15, &all), None);
        assert_eq!(find_obstacle(Strategy::Nothing, &programs, 15, &none), None);
    }

    #[test]
    fn a_missing_program_is_told() {
        assert_eq!(find_program("sh"), None);
        assert!(find_program("no-such-program").unwrap().contains("apt-get install no-such-program"));
    }
}
