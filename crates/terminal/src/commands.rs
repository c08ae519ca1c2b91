//! Commands in texts, between backticks. Printing adds the options that lead to this run's server and snapshots, and
//! breaks no line within a command.

use std::ops::Range;
use std::path::Path;
use std::sync::{LazyLock, PoisonError, RwLock, RwLockWriteGuard};

use host::failure::quote_argument;

/// Placeholder for the running command as typed.
const TYPED: &str = "pgthaw …";

/// Suffix of `TYPED`: the running command without its user option.
const WITHOUT_USER: &str = "(no -U)";

/// Placeholder for a command that is unknown until the connected role is known.
const MONITOR: &str = "GRANT pg_monitor TO …";

const WRITING: [&str; 2] = ["CREATE EXTENSION ", "GRANT "];

/// Zero-width mark between a backtick and a command that must stay unchanged, such as a job's. Printing removes it.
/// Data cannot contain it, because `printable` escapes it.
const NO_ADVICE: char = '\u{2060}';

const LOOP: &str = "; do psql -d ";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PastedCommands {
    /// Options for a pgthaw command: ` -p 5433 -d shop`, or empty.
    pub options: String,
    /// Options without `-U` and `--as`, for a command that another OS user runs with `sudo -u`.
    pub options_without_user: String,
    /// psql command as a superuser: `sudo -u postgres psql -p 5433`.
    pub psql: String,
    /// psql command for catalog changes; for a standby, on its primary.
    pub writing_psql: String,
    /// Words of the running command, shell-quoted.
    pub typed: Vec<String>,
    pub typed_without_user: Vec<String>,
    /// Options that replace the PG* variables, because sudo drops these variables.
    pub untyped: String,
    /// `psql -d shop -c 'GRANT pg_monitor TO "bob"'`; `None` until the role is known.
    pub monitor: Option<String>,
}

#[derive(Debug, Default)]
struct Run {
    known: Vec<(String, Vec<String>)>,
    server: Option<PastedCommands>,
    /// ` --dir DIRECTORY` and ` --results FILE`, if given.
    store: String,
    results: String,
    hidden: Vec<(String, String)>,
}

static RUN: LazyLock<RwLock<Run>> = LazyLock::new(RwLock::default);

fn change() -> RwLockWriteGuard<'static, Run> {
    RUN.write().unwrap_or_else(PoisonError::into_inner)
}

/// Registers pgthaw's commands with their long options. A printed command gets only options that it accepts.
pub fn know_commands(known: Vec<(String, Vec<String>)>) {
    change().known = known;
}

pub fn hide_words(words: Vec<(String, String)>) {
    change().hidden = words;
}

pub fn complete_commands_with(pasted: PastedCommands) {
    change().server = Some(pasted);
}

pub fn complete_commands_with_store(directory: &Path) {
    change().store = format!(" --dir {}", pasted_path(directory));
}

pub fn complete_commands_with_results(place: &str) {
    change().results = format!(" --results {}", quote_argument(place));
}

pub fn pasted_path(path: &Path) -> String {
    quote_argument(&path.display().to_string())
}

/// Marks the commands in a text, so that printing adds no options to them.
pub fn without_advice(text: &str) -> String {
    text.replace('`', &format!("`{NO_ADVICE}"))
}

/// Adds this run's connection options to suggested commands, and hides secrets of the command line.
pub fn complete_commands(text: &str) -> String {
    RUN.read().unwrap_or_else(PoisonError::into_inner).complete(text, false)
}

/// As `complete_commands`, also for JSON strings that are only a command, without backticks.
pub fn complete_json(json: &str) -> String {
    RUN.read().unwrap_or_else(PoisonError::into_inner).complete(json, true)
}

/// Ranges of commands and quoted paths in order, with their backticks and quotes.
pub fn find_commands(line: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(begin) = line[at..].find(['`', '\'']).map(|begin| at + begin) {
        at = begin + 1;
        let is_begin = line[..begin].chars().next_back().is_none_or(|before| !before.is_alphanumeric());
        let mark = if line[begin..].starts_with('`') { '`' } else { '\'' };
        let is_marked = mark == '`' || line[at..].starts_with('/');
        let length = line[at..].find([mark, '\n']).filter(|length| line[at + length..].starts_with(mark));
        if let Some(length) = length.filter(|_| is_begin && is_marked) {
            at += length + 1;
            found.push(begin..at);
        }
    }
    found
}

pub fn bare_command(line: &str) -> Option<&str> {
    let command = line.strip_prefix('`')?.strip_suffix('`')?;
    (!command.contains('`')).then_some(command)
}

impl Run {
    fn complete(&self, text: &str, is_json: bool) -> String {
        let hide = |text: String, (word, shown): &(String, String)| text.replace(&**word, shown);
        let text = self.hidden.iter().fold(text.to_owned(), hide);
        let (mut completed, mut at) = (String::new(), 0);
        for Range { start, end } in
            find_commands(&text).into_iter().filter(|found| text[found.start..].starts_with('`'))
        {
            let (before, behind) = (&text[..start], &text[end..]);
            let is_alone = match is_json {
                true => before.ends_with('"') && behind.starts_with('"'),
                false => before.is_empty() && behind.is_empty(),
            };
            let mark = if is_alone { "" } else { "`" };
            let command = &text[start + 1..end - 1];
            let made = if is_json { self.complete_json(command) } else { self.complete_one(command) };
            completed.extend([&text[at..start], mark, &made, mark]);
            at = end;
        }
        (completed + &text[at..]).replace(NO_ADVICE, "")
    }

    fn complete_json(&self, command: &str) -> String {
        let Ok(text) = serde_json::from_str::<String>(&format!("\"{command}\"")) else { return command.to_owned() };
        let quoted = serde_json::Value::from(self.complete_one(&text)).to_string();
        quoted[1..quoted.len() - 1].to_owned()
    }

    fn complete_one(&self, command: &str) -> String {
        let psql = || "psql".to_owned();
        let nowhere = PastedCommands {
            psql: psql(),
            writing_psql: psql(),
            typed: vec![TYPED.to_owned()],
            ..PastedCommands::default()
        };
        let server = self.server.as_ref().unwrap_or(&nowhere);
        let is_writing = WRITING.iter().any(|statement| command.contains(statement));
        let psql = if is_writing { &server.writing_psql } else { &server.psql };
        let is_of_sudo = command.starts_with("sudo ");
        let own = command.find("pgthaw ").filter(|at| *at == 0 || is_of_sudo);
        let Some((before, own)) = own.map(|at| command.split_at(at)) else {
            let is_psql = ["psql -d ", "psql -c ", "psql -l"].iter().any(|begin| command.starts_with(begin));
            return match (&server.monitor, command) {
                (Some(monitor), MONITOR) => self.complete_one(monitor),
                _ if is_psql => command.replacen("psql", psql, 1),
                _ => match find_loop(command) {
                    Some(at) => format!("{}; do {psql} -d {}", &command[..at], &command[at + LOOP.len()..]),
                    None => command.to_owned(),
                },
            };
        };
        if let Some(rest) = own.strip_prefix(TYPED).filter(|_| self.server.is_some()) {
            let (typed, rest) = match rest.strip_prefix(WITHOUT_USER) {
                Some(rest) => (&server.typed_without_user, rest),
                None => (&server.typed, rest),
            };
            let untyped = if is_of_sudo { &*server.untyped } else { "" };
            return format!("{before}{}{rest}", with_options(typed, untyped));
        }
        let words = &own["pgthaw ".len()..];
        let is_it = |(name, _): &&(String, Vec<String>)| {
            words.strip_prefix(&**name).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        };
        let Some((name, options)) = self.known.iter().filter(is_it).max_by_key(|(name, _)| name.len()) else {
            return command.to_owned();
        };
        let of_server =
            if is_of_sudo && before.contains("-u ") { &server.options_without_user } else { &server.options };
        let added = [("port", of_server), ("dir", &self.store), ("results", &self.results)];
        let is_lacking =
            |(option, added): &(&str, &String)| options.iter().any(|one| one == option) && !words.contains(&***added);
        let added: String = added.into_iter().filter(is_lacking).map(|(_, added)| &**added).collect();
        format!("{before}pgthaw {name}{added}{}", &words[name.len()..])
    }
}

fn find_loop(command: &str) -> Option<usize> {
    command.match_indices(LOOP).map(|(at, _)| at).find(|at| shlex::split(&command[..*at]).is_some())
}

/// Inserts options before the job.
fn with_options(typed: &[String], options: &str) -> String {
    let mut words: Vec<&str> = typed.iter().map(String::as_str).collect();
    let at = words.iter().position(|word| *word == "--").unwrap_or(words.len());
    words.insert(at, options.trim());
    words.retain(|word| !word.is_empty());
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> Run {
        let command =
            |words: &str, options: &[&str]| (words.to_owned(), options.iter().map(|&one| one.to_owned()).collect());
        let pasted = PastedCommands {
            options: " -p 5433 -U ann -d shop".into(),
            options_without_user: " -p 5433 -d shop".into(),
            psql: "sudo -u postgres psql -p 5433".into(),
            writing_psql: "sudo -u postgres psql -p 5433".into(),
            typed: vec!["pgthaw map -U ann --top 3".into()],
            typed_without_user: vec!["pgthaw map --top 3".into()],
            untyped: " -p 5434".into(),
            monitor: Some("psql -d shop -c 'GRANT pg_monitor TO \"bob\"'".into()),
        };
        Run {
            known: vec![
                command("snapshot take", &["port", "dir"]),
                command("restore", &["port", "dir"]),
                command("doctor", &["port"]),
                command("report", &["results"]),
                command("bench", &[]),
            ],
            server: Some(pasted),
            ..Run::default()
        }
    }

    fn complete(run: &Run, text: &str) -> String {
        run.complete(text, false)
    }

    #[test]
    fn a_printed_command_leads_to_the_server() {
        let run = run();
        for (text, completed) in [
            (
                "`pgthaw snapshot take` makes one, `pgthaw restore x` the warmer; `pgthaw mapper` is none, nor is pgthaw restore",
                "`pgthaw snapshot take -p 5433 -U ann -d shop` makes one, `pgthaw restore -p 5433 -U ann -d shop x` the warmer; \
                 `pgthaw mapper` is none, nor is pgthaw restore",
            ),
            ("run `sudo -u bob pgthaw doctor`", "run `sudo -u bob pgthaw doctor -p 5433 -d shop`"),
            ("`psql -d shop -c 'CREATE EXTENSION x'`", "sudo -u postgres psql -p 5433 -d shop -c 'CREATE EXTENSION x'"),
            (
                "`for d in a '; do psql -d' \"'\\\"; do psql -d\"; do psql -d \"$d\" -c '; do psql -d x'; done` (on the primary)",
                "`for d in a '; do psql -d' \"'\\\"; do psql -d\"; do sudo -u postgres psql -p 5433 -d \"$d\" -c '; do psql -d x'; done` (on the primary)",
            ),
            ("`psql -p 1 -d shop -l`", "psql -p 1 -d shop -l"),
            (
                "`GRANT pg_monitor TO …`, or connect as a superuser",
                "`sudo -u postgres psql -p 5433 -d shop -c 'GRANT pg_monitor TO \"bob\"'`, or connect as a superuser",
            ),
            ("`sudo pgthaw … -W`", "sudo pgthaw map -U ann --top 3 -p 5434 -W"),
            ("`pgthaw … -W`", "pgthaw map -U ann --top 3 -W"),
            ("`sudo -u postgres pgthaw …(no -U)`", "sudo -u postgres pgthaw map --top 3 -p 5434"),
        ] {
            assert_eq!(complete(&run, text), completed);
        }
        let mut standby = run;
        standby.server.as_mut().unwrap().writing_psql = "psql -h db1".into();
        for (text, completed) in [
            ("`psql -d shop -c 'CREATE EXTENSION x'`", "psql -h db1 -d shop -c 'CREATE EXTENSION x'"),
            ("`GRANT pg_monitor TO …`", "psql -h db1 -d shop -c 'GRANT pg_monitor TO \"bob\"'"),
            ("`psql -l`", "sudo -u postgres psql -p 5433 -l"),
        ] {
            assert_eq!(complete(&standby, text), completed);
        }
        for (typed, completed) in [
            (&["pgthaw", "run", "--", "psql"][..], "pgthaw run -p 5434 -- psql"),
            (&["pgthaw", "map", "-U", "'a -- b'"], "pgthaw map -U 'a -- b' -p 5434"),
        ] {
            assert_eq!(
                with_options(&typed.iter().map(|&word| word.to_owned()).collect::<Vec<_>>(), " -p 5434"),
                completed
            );
        }
    }

    #[test]
    fn a_printed_command_leads_to_snapshots_and_results() {
        let elsewhere = Run { store: " --dir x".into(), results: " --results 'a b'".into(), server: None, ..run() };
        for (text, completed) in [
            ("`pgthaw snapshot take`, `pgthaw doctor`", "`pgthaw snapshot take --dir x`, `pgthaw doctor`"),
            ("`pgthaw restore --dir x y` it", "`pgthaw restore --dir x y` it"),
            (
                "draw it: `pgthaw report x`; `pgthaw bench demo`",
                "draw it: `pgthaw report --results 'a b' x`; `pgthaw bench demo`",
            ),
            ("`pgthaw … -W`", "pgthaw … -W"),
        ] {
            assert_eq!(complete(&elsewhere, text), completed);
        }
    }

    #[test]
    fn a_command_that_is_data_is_shown_as_it_was() {
        let job = "sh -c '`pgthaw doctor`; pgthaw doctor'";
        assert_ne!(complete(&run(), job), job);
        let marked = without_advice(job);
        assert_eq!(complete(&run(), &marked), job);
        assert_eq!(console::measure_text_width(&marked), console::measure_text_width(job));
    }

    #[test]
    fn programs_get_a_command_alone_without_backticks() {
        let json =
            serde_json::json!({ "remedy": "`GRANT pg_monitor TO …`", "why": "see `psql -d \"a\" -l`" }).to_string();
        let completed: serde_json::Value = serde_json::from_str(&run().complete(&json, true)).unwrap();
        assert_eq!(completed["remedy"], "sudo -u postgres psql -p 5433 -d shop -c 'GRANT pg_monitor TO \"bob\"'");
        assert_eq!(completed["why"], "see `sudo -u postgres psql -p 5433 -d \"a\" -l`");
    }

    #[test]
    fn commands_and_quoted_paths_are_found_and_apostrophes_are_none() {
        let line = "the server's `psql -d 'a b'` kept '/home/a b/x' (`pgthaw map`), and a 'name'";
        let found: Vec<&str> = find_commands(line).into_iter().map(|range| &line[range]).collect();
        assert_eq!(found, ["`psql -d 'a b'`", "'/home/a b/x'", "`pgthaw map`"]);
        assert_eq!((bare_command("`a b`"), bare_command("`a` b `c`"), bare_command("a")), (Some("a b"), None, None));
    }
}
