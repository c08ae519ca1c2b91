//! Removed commands and options, and the hint for a forgotten `--`.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::SettingsError;
use postgres::{keep_words, quote_argument};

/// A row per removed command or option, or several options of a command: their names, and the replacement.
const GONE: &str = "\
rows: `pgthaw map --rows` shows the same, and also has the options --riops and --hit
restore --gentle --full-speed --max-rate: `pgthaw restore --pace gentle`, --pace full, or a rate such as --pace 50MB
hydrate --gentle --full-speed --max-rate: `pgthaw hydrate --pace gentle`, --pace full, or a rate such as --pace 50MB
restore --buffers-budget: `pgthaw restore --budget buffers=1GB`
restore --no-double: `pgthaw restore --tier exclusive`
restore --connections: `pgthaw restore --threads N`, which limits connections too
restore --read-size: `pgthaw restore` takes the read size from --riops and --rbps, or from `doctor --probe`
restore --if-any: `pgthaw restore any`
map --forks: `pgthaw map --by fork`
map --system: `pgthaw map --top 0` also shows all system catalogs; `pgthaw map -r 'pg_catalog.*'` shows only these
waits --lwlocks: `pgthaw waits` always counts LWLock waits by tranche, such as client backend::LWLock::WALWrite
record: `pgthaw run --record-only -- COMMAND` records a job, `pgthaw film record` records server sessions
replay: `pgthaw run --film FILM -- COMMAND` preloads one film
trace list: `pgthaw film show`
trace show: `pgthaw film show FILM`
film list: `pgthaw film show` lists the films
snapshot verify: `pgthaw snapshot list --verify`
trace diff: compare the relations of two films, which `pgthaw film show FILM --json` lists
trace cut: `pgthaw film record --seconds N` records the part that you need
trace merge: `pgthaw run --like NAME` chooses among all films with this name
trace: `pgthaw film show` or `pgthaw film drop`
demo: `pgthaw bench demo`
steady: `pgthaw judge FILE`
results list: `pgthaw results` lists the runs, newest first
results send: `pgthaw results --results ADDRESS` sends pending results, as every command with this option does
results noise: `pgthaw results compare` without arguments, or with a sweep of `bench --aa`, shows the noise
results time: `pgthaw results show --time`
results export --format: `pgthaw results export -o FILE.parquet` (or .json, .csv), or --json
results import --question --scale --clients --jobs --script --query-mode --seconds --connect --rate --start: `pgthaw results import PATH... KEY=VALUE`, such as scale=10 query_mode=prepared
serve --port: `pgthaw serve --listen PORT`
bench --print-study: `pgthaw bench STUDY --print`
bench --until-steady: `pgthaw bench STUDY until=steady`
bench --disk --named-disk --riops --rbps --read-ahead: `pgthaw bench STUDY disks.NAME=RIOPS,RBPS,READ_AHEAD disk=NAME`
bench --loaders --strategies: `pgthaw bench STUDY strategy=NAME,...`
bench --clients --jobs --memory --name --patience --popularity --query-mode --repeats --scale --script --script-seconds --seconds --seed --setup --shared-buffers: `pgthaw bench STUDY KEY=VALUE`, such as scale=10 settings.shared_buffers=1GB; --print shows the keys
bench judge: `pgthaw judge FILE`
bench sweep: `pgthaw bench FILE`
bench --named-disks: `pgthaw bench STUDY disks.NAME=RIOPS,RBPS,READ_AHEAD disk=NAME`
predict --pages --hit --tps --miss --clients --accesses --cores --riops --rbps --read-ahead --memory --popularity: give the figures as KEY=VALUE: `pgthaw predict pages=163968 hit=0.22ms miss=4.7ms`
predict --observe: use --seconds N to watch the clients for N seconds
predict --html --force: `pgthaw predict --json` prints the numbers of the former HTML page
predict --ascii: set LC_ALL=C to draw with ASCII only
doctor --probe-budget: `pgthaw doctor --probe=64MiB` reads at most this much
completions --man: `pgthaw completions man DIRECTORY`
snapshot show --forks: `pgthaw snapshot show --by fork`";

pub fn list_gone() -> Vec<(String, &'static str)> {
    let mut all = Vec::new();
    for (gone, instead) in GONE.lines().filter_map(|row| row.split_once(": ")) {
        match gone.split_once(" --") {
            None => all.push((gone.to_owned(), instead)),
            Some((command, options)) => {
                all.extend(options.split(" --").map(|option| (format!("{command} --{option}"), instead)));
            }
        }
    }
    all
}

/// Command that runs its job even if the settings are invalid.
pub(super) const RUN: &str = "run";

const WITH_VALUE: [&str; 2] = ["--mode", "--config"];

pub fn is_option(words: &[String], at: usize) -> bool {
    words[at].starts_with('-') || (at > 0 && WITH_VALUE.contains(&&*words[at - 1]))
}

pub fn explain_refused(error: &clap::Error, arguments: &[OsString]) -> Option<SettingsError> {
    let context = match error.kind() {
        ErrorKind::UnknownArgument => ContextKind::InvalidArg,
        ErrorKind::InvalidSubcommand => ContextKind::InvalidSubcommand,
        _ => return None,
    };
    let Some(ContextValue::String(refused)) = error.get(context) else { return None };
    let words: Vec<String> = arguments.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    find_successor(&words, Some(refused)).or_else(|| find_forgotten_dashes(&words, refused))
}

pub fn find_successor(words: &[String], refused: Option<&str>) -> Option<SettingsError> {
    let words: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.starts_with('-')).collect();
    let is_it = |gone: &str| match gone.split_once(" --") {
        Some((command, option)) => {
            let is_refused = refused.and_then(|refused| refused.strip_prefix("--")) == Some(option);
            is_refused && words.starts_with(&command.split(' ').collect::<Vec<_>>())
        }
        None => {
            let gone: Vec<&str> = gone.split(' ').collect();
            words.starts_with(&gone) && refused.is_none_or(|refused| gone.contains(&refused))
        }
    };
    let (gone, instead) = list_gone().into_iter().find(|(gone, _)| is_it(gone))?;
    Some(SettingsError::Gone { gone, instead })
}

/// Finds a job's command without `--` before it; clap's error does not suggest the `--`.
fn find_forgotten_dashes(words: &[String], refused: &str) -> Option<SettingsError> {
    if refused.starts_with('-') || words.iter().any(|word| word == "--") {
        return None;
    }
    let command = (0..words.len()).find(|at| !is_option(words, *at)).filter(|at| words[*at] == RUN)?;
    let mut places = (command + 1..words.len()).filter(|at| words[*at] == *refused);
    // Prefers a word that does not follow an option: one that does may be the option's value.
    let job = places.clone().find(|at| !is_option(words, at - 1)).or_else(|| places.next())?;
    let render = |words: &[String]| words.iter().map(|word| quote_argument(word)).collect::<Vec<_>>().join(" ");
    let shown = keep_words(words);
    let right = format!("`pgthaw {} -- {}`", render(&shown[..job]), render(&shown[job..]));
    Some(SettingsError::ForgottenDashes { word: shown[job].clone(), right })
}

#[cfg(test)]
mod tests {
    use clap::{Arg, Command};

    use super::*;

    fn found(line: &str) -> Option<String> {
        let job = Arg::new("job").last(true).num_args(1..);
        let run = Command::new("run").args([Arg::new("like").long("like"), job]);
        let command = Command::new("pgthaw").arg(Arg::new("mode").long("mode").global(true));
        let command = command.subcommands([run, Command::new("map").arg(Arg::new("database"))]);
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let error = command.try_get_matches_from(&words).err()?;
        let SettingsError::ForgottenDashes { right, .. } = explain_refused(&error, &words)? else { panic!() };
        Some(right.trim_matches('`').to_owned())
    }

    #[test]
    fn the_right_command_is_told() {
        assert_eq!(found("pgthaw run psql -f x.sql").as_deref(), Some("pgthaw run -- psql -f x.sql"));
        let with_options = found("pgthaw --mode 640 run --like psql psql -c $x").unwrap();
        assert_eq!(with_options, "pgthaw --mode 640 run --like psql -- psql -c '$x'");
    }

    #[test]
    fn other_mistakes_are_claps_to_tell() {
        for line in ["pgthaw run --like x --no", "pgthaw map a run", "pgthaw run -- psql", "pgthaw run --like x -f"] {
            assert_eq!(found(line), None, "{line}");
        }
    }
}
