//! Can a strategy run here? If not: what is missing, and the command that gets it.

use std::collections::{BTreeMap, BTreeSet};

use super::disk::explain;
use super::error::Error;

use crate::study::{FileSystemSpec, ServerSpec, Strategy, Sweep};
use postgres::{PG_PREWARM, Programs, SettingJudge, SettingRefusal};

/// What is in the way of a strategy; `None` when nothing is. `extensions` are those that the server could create.
pub fn find_obstacle(
    strategy: Strategy,
    programs: &Programs,
    version_major: u32,
    extensions: &BTreeSet<String>,
) -> Option<String> {
    let extension = |name: &str, package: String| {
        (!extensions.contains(name)).then(|| format!("this server has no {name}: `apt-get install {package}`"))
    };
    let psql = || programs.path("psql").err().map(|_| "no psql: `apt-get install postgresql-client`".to_owned());
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
    (!is_there).then(|| format!("no {name} in PATH: `apt-get install {name}`"))
}

/// Settings that name the libraries which a server or a session loads.
const LIBRARY_SETTINGS: [&str; 3] =
    ["shared_preload_libraries", "session_preload_libraries", "local_preload_libraries"];

/// Libraries that are loaded when they are first needed.
const LOADED_WHEN_NEEDED: [&str; 4] = ["plpgsql", "plperl", "pltcl", "plpython"];

/// The programs of each server of the study.
pub fn find_servers(sweep: &Sweep, default: &Programs) -> Result<BTreeMap<String, Programs>, Error> {
    let find = |name: &String| {
        Ok((
            name.clone(),
            match sweep.servers.get(name) {
                None => default.clone(),
                Some(ServerSpec::Major(major)) => Programs::find_version(None, *major)?,
                Some(ServerSpec::Programs(bin_dir)) => Programs::find(Some(bin_dir))?,
            },
        ))
    };
    sweep.axes.server.iter().map(find).collect()
}

/// What speaks against the study's settings where nothing is to be made, maybe not even a server is installed.
///
/// # Errors
/// As [`check_settings_known`].
pub fn read_setting_remarks(sweep: &Sweep, default: Result<Programs, postgres::Error>) -> Result<Vec<String>, Error> {
    match default {
        _ if sweep.axes.settings.is_empty() => Ok(Vec::new()),
        Ok(programs) => check_settings_known(sweep, &find_servers(sweep, &programs)?),
        Err(error) => Ok(vec![format!("whether a server knows the settings was not looked at: {error}")]),
    }
}

/// The study's file systems that cannot be made here, each with what would mend it.
pub fn read_file_system_remarks(sweep: &Sweep) -> Vec<String> {
    let told = |(name, spec): (&String, &FileSystemSpec)| {
        let error = spec.asked.check_available().err()?;
        Some(format!("the file system {name}: {}", explain(&error)))
    };
    sweep.file_systems.iter().filter_map(told).collect()
}

/// Refuses settings that one of the servers does not know or that nobody can set. What is returned speaks against others, whose
/// trials may fail.
pub fn check_settings_known(sweep: &Sweep, servers: &BTreeMap<String, Programs>) -> Result<Vec<String>, Error> {
    let asked = &sweep.axes.settings;
    let mut remarks = find_unloaded(asked);
    for (server, programs) in servers {
        let judge = SettingJudge::new(programs)?;
        let on = if sweep.axes.server.len() > 1 { format!(" (server {server})") } else { String::new() };
        for (name, value) in asked.iter().flat_map(|(name, values)| values.iter().map(move |value| (name, value))) {
            let refused = |why: &str| Err(Error::SettingRefused { name: name.clone(), why: format!("{why}{on}") });
            match judge.judge(name, value)? {
                None => {}
                Some(SettingRefusal::Unknown { nearest: None }) => return refused("this server has no such setting"),
                Some(SettingRefusal::Unknown { nearest: Some(near) }) => {
                    return refused(&format!("this server has no such setting; is {near} meant?"));
                }
                Some(SettingRefusal::Fixed) => return refused("it was fixed when the server was built; remove it"),
                Some(SettingRefusal::Value(why)) => {
                    remarks.push(format!("settings.{name}: trials with {value} will fail: {why}{on}"));
                }
            }
        }
    }
    Ok(remarks)
}

/// A name with a point belongs to a library. Before that is loaded every such name is as good as any other.
fn find_unloaded(asked: &[(String, Vec<String>)]) -> Vec<String> {
    let names_libraries = |name: &str| LIBRARY_SETTINGS.contains(&name.to_ascii_lowercase().as_str());
    let loads = |library: &str| {
        let named = asked.iter().filter(|(name, _)| names_libraries(name)).flat_map(|(_, values)| values);
        named.flat_map(|value| value.split(',')).any(|one| one.trim().trim_matches(['"', '\'']).ends_with(library))
    };
    let libraries = asked.iter().filter_map(|(name, _)| Some((name, name.split_once('.')?.0)));
    let unloaded = libraries.filter(|(_, library)| !LOADED_WHEN_NEEDED.contains(library) && !loads(library));
    unloaded
        .map(|(name, library)| {
            format!(
                "settings.{name}: nothing in the study loads the library {library} \
                 (shared_preload_libraries = \"{library}\"): whether it knows this setting cannot be told"
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::sweep::spec::tests::sweep;
    use postgres::PrewarmMode;

    #[test]
    fn a_missing_extension_is_told_with_its_package() {
        let programs = Programs::find(None).unwrap();
        let none = BTreeSet::new();
        let obstacle = find_obstacle(Strategy::Pgfincore, &programs, 15, &none).unwrap();
        assert!(obstacle.ends_with("`apt-get install postgresql-15-pgfincore`"), "{obstacle}");
        let all = BTreeSet::from([PG_PREWARM.to_owned()]);
        assert_eq!(find_obstacle(Strategy::Prewarm(PrewarmMode::Read), &programs, 15, &all), None);
        assert_eq!(find_obstacle(Strategy::Nothing, &programs, 15, &none), None);
    }

    #[test]
    fn a_missing_program_is_told() {
        assert_eq!(find_program("sh"), None);
        assert!(find_program("no-such-program").unwrap().contains("apt-get install no-such-program"));
    }

    fn check(settings: &str) -> Result<Vec<String>, Error> {
        let study = sweep(&format!("[settings]\n{settings}\n")).unwrap();
        let servers = find_servers(&study, &Programs::find(None).unwrap()).unwrap();
        check_settings_known(&study, &servers)
    }

    #[test]
    fn unknown_and_fixed_settings_are_refused_and_bad_values_told() {
        assert_eq!(check("work_mem = [\"1MB\", \"2MB\"]").unwrap(), Vec::<String>::new());
        let refused = |settings| check(settings).unwrap_err().to_string();
        assert_eq!(
            refused("effective_cache_sise = \"1GB\""),
            "settings.effective_cache_sise: this server has no such setting; is effective_cache_size meant?"
        );
        assert!(refused("block_size = 8192").contains("fixed when the server was built"));
        let told = check("work_mem = [\"1MB\", \"1 XB\"]").unwrap();
        assert!(told.len() == 1 && told[0].starts_with("settings.work_mem: trials with 1 XB will fail"), "{told:?}");
    }

    #[test]
    fn a_librarys_setting_needs_its_library() {
        let told = check("\"auto_explain.log_min_duration\" = 5").unwrap();
        assert!(told.len() == 1 && told[0].contains("loads the library auto_explain"), "{told:?}");
        let loaded = "session_preload_libraries = \"pg_prewarm, auto_explain\"\n\"auto_explain.log_min_duration\" = 5";
        assert_eq!(check(loaded).unwrap(), Vec::<String>::new());
    }
}
