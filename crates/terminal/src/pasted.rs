//! Commands that are printed lead to the server and the snapshots that this run used: whoever pastes one need not add
//! anything.

use std::path::Path;
use std::sync::{LazyLock, OnceLock, RwLock};

use host::failure::quote_argument;

/// Commands of pgthaw that connect to a server, longest first where one begins another.
const CONNECTING: [&str; 14] = [
    "doctor",
    "map",
    "evict",
    "restore",
    "hydrate",
    "predict",
    "film record",
    "run",
    "snapshot take",
    "snapshot list",
    "snapshot show",
    "snapshot diff",
    "snapshot drop",
    "snapshot verify",
];

/// Commands of pgthaw that read results.
const READING_RESULTS: [&str; 4] = ["report", "results", "serve", "judge"];

/// What a text says where the command that runs is meant, as it was typed.
const TYPED: &str = "pgthaw …";

/// As [`TYPED`], without the user that was given.
const TYPED_WITHOUT_USER: &str = "pgthaw …(no -U)";

/// In a text: what lets the role that pgthaw is see what others do, which only who has connected can say.
const MONITOR: &str = "GRANT pg_monitor TO …";

/// Behind what begins a command in a text that is data, such as the command line of a job: that is no command of pgthaw's advice, and is shown
/// as it was. It has no width, no text that was made printable has it, and it is never printed.
const NO_ADVICE: char = '\u{2060}';

/// What makes a command lead to this run's server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PastedCommands {
    /// Behind a command of pgthaw: ` -p 5433 -d shop`, or nothing.
    pub options: String,
    /// The same without the user: what leads another user of the operating system there as himself.
    pub options_without_user: String,
    /// psql as a superuser, with what leads to the server: `sudo -u postgres psql -p 5433`.
    pub psql: String,
    /// The command that runs, as it was typed.
    pub typed: String,
    /// The same without the user that was given.
    pub typed_without_user: String,
    /// What leads there beside what was typed, where that stood in the environment, which sudo does not pass on.
    pub untyped: String,
    /// `psql -d shop -c 'GRANT pg_monitor TO "bob"'`; `None` before it is known who pgthaw is.
    pub monitor: Option<String>,
}

/// ` --dir DIRECTORY`, where one was given.
static STORE: OnceLock<String> = OnceLock::new();

/// ` --results FILE`, where one was given.
static RESULTS: OnceLock<String> = OnceLock::new();

static PASTED: LazyLock<RwLock<Option<PastedCommands>>> = LazyLock::new(RwLock::default);

/// Words that were typed and hold a password, each with what is shown instead.
static HIDDEN: RwLock<Vec<(String, String)>> = RwLock::new(Vec::new());

/// From now on these words are never printed.
pub fn hide_words(words: Vec<(String, String)>) {
    if let Ok(mut hidden) = HIDDEN.write() {
        *hidden = words;
    }
}

/// From now on commands that are printed are completed so.
pub fn complete_commands_with(pasted: PastedCommands) {
    if let Ok(mut current) = PASTED.write() {
        *current = Some(pasted);
    }
}

/// From now on commands that are printed keep snapshots in this directory. A run has one.
pub fn complete_commands_with_store(directory: &Path) {
    STORE.get_or_init(|| format!(" --dir {}", quote_argument(&directory.display().to_string())));
}

/// From now on commands that are printed read results in this place. A run has one.
pub fn complete_commands_with_results(place: &str) {
    RESULTS.get_or_init(|| format!(" --results {}", quote_argument(place)));
}

/// A text that is about to be printed, with its commands completed, and without what is secret of the command line.
pub fn complete_commands(text: &str) -> String {
    let hide = |text: String, (word, shown): &(String, String)| text.replace(&**word, shown);
    let text = HIDDEN.read().map_or_else(|_| text.to_owned(), |hidden| hidden.iter().fold(text.to_owned(), hide));
    let text = RESULTS.get().map_or_else(|| text.clone(), |results| complete_with_results(&text, results));
    let text = match PASTED.read().ok().as_deref() {
        Some(Some(pasted)) => pasted.complete(&text, STORE.get().map_or("", String::as_str)),
        _ => text,
    };
    text.replace(NO_ADVICE, "")
}

/// A text that is data, within one that is about to be printed: no command in it is completed.
pub fn without_advice(text: &str) -> String {
    let begins = ["pgthaw ", "psql ", "GRANT "];
    begins.into_iter().fold(text.to_owned(), |text, begin| {
        let word = begin.trim_end();
        text.replace(begin, &format!("{word}{NO_ADVICE} "))
    })
}

impl PastedCommands {
    /// Is it the command that runs, as it was typed? It leads there by itself, with options in whatever order.
    fn is_as_typed(&self, command: &str, behind: &str) -> bool {
        [&self.typed, &self.typed_without_user].into_iter().any(|typed| {
            let own = typed.split_once(" -- ").map_or(&**typed, |(own, _)| own);
            let options = own.strip_prefix(command).filter(|options| !options.is_empty());
            let left = options.and_then(|options| behind.strip_prefix(options));
            left.is_some_and(|left| !left.starts_with(|c: char| c.is_alphanumeric() || c == '-' || c == '_'))
        })
    }

    /// What was completed before stays as it is. `store`: what leads a command that reads snapshots to them.
    fn complete(&self, text: &str, store: &str) -> String {
        let text = self.monitor.as_ref().map_or_else(|| text.to_owned(), |monitor| text.replace(MONITOR, monitor));
        let text = CONNECTING.iter().fold(text, |text, name| {
            replace_whole(&text, &format!("pgthaw {name}"), |before, command, behind| {
                let store = if *name == "doctor" { "" } else { store };
                let options = if is_another_user(before) { &self.options_without_user } else { &self.options };
                let added = format!("{options}{store}");
                let is_complete = behind.starts_with(&added) || self.is_as_typed(command, behind);
                (!is_complete).then(|| format!("{command}{added}"))
            })
        });
        // `sudo -u postgres `, or nothing.
        let first = self.psql.find("psql").map_or("", |at| &self.psql[..at]);
        let text = ["-d ", "-c ", "-l "].iter().fold(text, |text, option| {
            replace_whole(&text, &format!("psql {option}"), |before, _, _| {
                (first.is_empty() || !before.ends_with(first)).then(|| format!("{} {option}", self.psql))
            })
        });
        let typed = [(TYPED_WITHOUT_USER, &self.typed_without_user), (TYPED, &self.typed)];
        typed.into_iter().fold(text, |text, (meant, typed)| {
            replace_whole(&text, meant, |before, _, _| match is_another_user(before) || before.ends_with("sudo ") {
                true => Some(with_options(typed, &self.untyped)),
                false => Some(typed.clone()),
            })
        })
    }
}

/// `results`: what leads a command that reads results to them. What was completed before stays as it is.
fn complete_with_results(text: &str, results: &str) -> String {
    READING_RESULTS.iter().fold(text.to_owned(), |text, name| {
        replace_whole(&text, &format!("pgthaw {name}"), |_, command, behind| {
            (!behind.starts_with(results)).then(|| format!("{command}{results}"))
        })
    })
}

/// A command line with more options, which stand before those of a job.
fn with_options(typed: &str, options: &str) -> String {
    match typed.split_once(" -- ") {
        Some((own, job)) => format!("{own}{options} -- {job}"),
        None => format!("{typed}{options}"),
    }
}

/// Does `sudo -u SOMEBODY` stand at the end of this text?
fn is_another_user(before: &str) -> bool {
    let mut words = before.split_whitespace().rev().skip(1);
    words.next() == Some("-u") && words.next().is_some_and(|word| word.ends_with("sudo"))
}

/// Replaces a command where it is no part of a longer word, by what is made of the text before it, itself and the text
/// behind it; `None` leaves it.
fn replace_whole(text: &str, command: &str, with: impl Fn(&str, &str, &str) -> Option<String>) -> String {
    let mut replaced = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(command) {
        let (before, from) = rest.split_at(at);
        let behind = &from[command.len()..];
        let is_word = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
        let is_whole = !before.ends_with(is_word) && (command.ends_with(' ') || !behind.starts_with(is_word));
        let made = if is_whole { with(before, command, behind) } else { None };
        replaced.push_str(before);
        replaced.push_str(made.as_deref().unwrap_or(command));
        rest = behind;
    }
    replaced + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_command_leads_to_the_results() {
        let complete = |text: &str| complete_with_results(text, " --results 'a b'");
        let once = complete("draw it: pgthaw report x; `pgthaw results list` lists, pgthaw bench demo does not");
        assert_eq!(
            once,
            "draw it: pgthaw report --results 'a b' x; `pgthaw results --results 'a b' list` lists, pgthaw bench demo does not"
        );
        assert_eq!(complete(&once), once);
    }

    #[test]
    fn a_command_that_is_data_is_shown_as_it_was() {
        let pasted = PastedCommands {
            options: " -p 5433".into(),
            psql: "psql -p 5433".into(),
            typed: "pgthaw film list -p 5433".into(),
            monitor: Some("psql -c 'GRANT pg_monitor TO \"bob\"'".into()),
            ..PastedCommands::default()
        };
        let job = "psql -d shop -c 'GRANT pg_monitor TO …'; pgthaw run -- psql -c x; pgthaw …";
        let complete = |text: &str| pasted.complete(&complete_with_results(text, " --results y"), " --dir x");
        assert_ne!(complete(job), job);
        let marked = without_advice(job);
        assert_eq!(complete(&marked), marked);
        assert_eq!(complete_commands(&marked), job);
        assert_eq!(console::measure_text_width(&marked), console::measure_text_width(job));
    }

    #[test]
    fn a_printed_command_leads_to_the_server() {
        let pasted = PastedCommands {
            options: " -p 5433 -U ann -d shop".into(),
            options_without_user: " -p 5433 -d shop".into(),
            psql: "sudo -u postgres psql -p 5433".into(),
            typed: "pgthaw map -U ann --top 3".into(),
            typed_without_user: "pgthaw map --top 3".into(),
            untyped: " -p 5434".into(),
            monitor: Some("psql -d shop -c 'GRANT pg_monitor TO \"bob\"'".into()),
        };
        let complete = |text: &str| pasted.complete(text, "");
        assert_eq!(
            complete("pgthaw snapshot take makes one, pgthaw restore x the warmer; pgthaw mapper is none"),
            "pgthaw snapshot take -p 5433 -U ann -d shop makes one, pgthaw restore -p 5433 -U ann -d shop x the warmer; \
             pgthaw mapper is none"
        );
        let with_store = pasted.complete("pgthaw snapshot take, pgthaw doctor", " --dir x");
        assert_eq!(
            with_store,
            "pgthaw snapshot take -p 5433 -U ann -d shop --dir x, pgthaw doctor -p 5433 -U ann -d shop"
        );
        let as_another = complete("run sudo -u bob pgthaw doctor");
        assert_eq!(as_another, "run sudo -u bob pgthaw doctor -p 5433 -d shop");
        assert_eq!(complete(&as_another), as_another);
        assert_eq!(pasted.complete(&with_store, " --dir x"), with_store);
        assert_eq!(
            complete("psql -d shop -c 'CREATE EXTENSION pg_prewarm'"),
            "sudo -u postgres psql -p 5433 -d shop -c 'CREATE EXTENSION pg_prewarm'"
        );
        assert_eq!(
            complete("GRANT pg_monitor TO …, or connect as a superuser"),
            "sudo -u postgres psql -p 5433 -d shop -c 'GRANT pg_monitor TO \"bob\"', or connect as a superuser"
        );
        for text in ["pgthaw map shows it", "psql -d shop -l", "GRANT pg_monitor TO …"] {
            let once = complete(text);
            assert_eq!(complete(&once), once);
        }
        // Options in another order than those that are added.
        for text in ["pgthaw … -W", "sudo -u postgres pgthaw …(no -U)", "sudo pgthaw … -W"] {
            let once = complete(text);
            assert_eq!(complete(&once), once);
        }
        let elsewhere = PastedCommands { psql: "runuser -u postgres -- psql".into(), ..PastedCommands::default() };
        let once = elsewhere.complete("psql -d shop -l", "");
        assert_eq!(
            (elsewhere.complete(&once, ""), once.as_str()),
            (once.clone(), "runuser -u postgres -- psql -d shop -l")
        );
        assert_eq!(complete("sudo pgthaw … -W"), "sudo pgthaw map -U ann --top 3 -p 5434 -W");
        assert_eq!(complete("pgthaw … -W"), "pgthaw map -U ann --top 3 -W", "whose environment it is");
        assert_eq!(complete("sudo -u postgres pgthaw …(no -U)"), "sudo -u postgres pgthaw map --top 3 -p 5434");
        assert_eq!(with_options("pgthaw run -- psql -c x", " -p 5434"), "pgthaw run -p 5434 -- psql -c x");
    }
}
