//! Commands and quoted paths within a sentence, which a reader pastes: they are never broken.

use std::ops::Range;
use std::path::Path;

use host::failure::quote_argument;

/// What pgthaw's own commands begin with, and whether a second word follows. A test holds it against the command line.
const OWN: &[(&str, &[&str])] = &[
    ("doctor", &[]),
    ("map", &[]),
    ("snapshot", &["take", "list", "show", "diff", "verify", "drop"]),
    ("restore", &[]),
    ("evict", &[]),
    ("hydrate", &[]),
    ("run", &[]),
    ("film", &["record", "list", "show", "drop"]),
    ("bench", &["warmup", "residency", "forecast", "demo"]),
    ("results", &["list", "show", "time", "export", "import", "noise", "compare", "drop", "send"]),
    ("report", &[]),
    ("serve", &[]),
    ("predict", &[]),
    ("judge", &[]),
    ("read-ranges", &[]),
    ("top", &[]),
    ("waits", &[]),
    ("completions", &[]),
];

/// What other commands begin with. They go on to the end of their clause.
const OTHERS: &[&str] = &[
    "apt-get install ",
    "chmod ",
    "docker run ",
    "echo $",
    "ip address",
    "mkdir -",
    "mount -",
    "openssl ",
    "pg_ctlcluster ",
    "rm -- ",
    "runuser ",
    "setcap ",
    "su -",
    "sudo ",
    "systemctl ",
];

/// Where the clause of such a command ends. The first of them counts.
const CLAUSE_ENDS: &[&str] = &[" (", ", ", "; ", ": ", " or ", " makes ", " lists "];

/// What commands begin with that run one.
const RUNNING: &[&str] = &["pgthaw run "];

/// A loop of the shell, to its end.
const LOOP: (&str, &str) = ("for d in ", "; done");

/// Options of one letter that take no value.
const BARE_SHORT: &[&str] = &["-A", "-W", "-X", "-l", "-q", "-t", "-v", "-w", "-y"];

/// Long options whose value looks like any word.
const WORD_OPTIONS: &[&str] = &["--by", "--dbname", "--host", "--tier", "--username"];

/// A path as a shell takes it, which is as it is for most.
pub fn pasted_path(path: &Path) -> String {
    quote_argument(&path.display().to_string())
}

/// Where commands stand in a line, in order.
pub fn find_commands(line: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < line.len() {
        match length_at(line, at) {
            Some(length) => {
                found.push(at..at + length);
                at += length;
            }
            None => at += line[at..].chars().next().map_or(1, char::len_utf8),
        }
    }
    found
}

/// The length of the command that begins at this byte, if one does.
fn length_at(line: &str, at: usize) -> Option<usize> {
    let before = line[..at].chars().next_back();
    if line[at..].starts_with(char::is_whitespace) {
        return None;
    }
    if before.is_some_and(|before| !before.is_whitespace() && !matches!(before, '(' | '→')) {
        return None;
    }
    let text = &line[at..];
    if let Some(quoted) = text.strip_prefix('`') {
        return Some(quoted.find('`')? + 2);
    }
    if let (begin, end) = LOOP
        && text.starts_with(begin)
    {
        return Some(text.find(end)? + end.len());
    }
    if text.starts_with("'/") {
        return Some(text.split_inclusive('\'').take(2).map(str::len).sum());
    }
    if OTHERS.iter().any(|begin| text.starts_with(begin)) {
        return Some(trimmed_clause(text).len());
    }
    let mut words = Words { text, at: 0 };
    match words.next()? {
        "pgthaw" => {
            let (_, seconds) = OWN.iter().find(|(name, _)| words.take_if(|word| word == *name))?;
            words.take_if(|word| seconds.contains(&word));
        }
        "psql" if words.peek().is_some_and(|word| word.starts_with('-') || is_value(word)) => {}
        _ => return None,
    }
    // A command of the user's stands behind `--`, and options of any kind before it.
    let clause = trimmed_clause(text);
    if RUNNING.iter().any(|begin| text.starts_with(begin)) && clause.contains(" -- ") {
        return Some(clause.len());
    }
    words.take_options();
    Some(words.at)
}

/// The text up to where its clause ends, without the punctuation there.
fn trimmed_clause(text: &str) -> &str {
    text[..clause_length(text)].trim_end_matches(|end| end != ')' && is_punctuation(end))
}

/// Bytes up to where a clause ends: at none of its own words in quotes or brackets, such as `$(command -v pgthaw)`.
fn clause_length(text: &str) -> usize {
    let (mut quote, mut depth, mut before) = (None, 0, ' ');
    for (at, character) in text.char_indices() {
        match (quote, character) {
            (Some(open), _) if open == character => quote = None,
            (Some(_), _) => {}
            // An apostrophe within a word quotes nothing.
            (None, '\'' | '"') if !before.is_alphanumeric() => quote = Some(character),
            (None, _) if depth == 0 && CLAUSE_ENDS.iter().any(|end| text[at..].starts_with(end)) => return at,
            (None, '(') => depth += 1,
            (None, ')') if depth == 0 => return at,
            (None, ')') => depth -= 1,
            _ => {}
        }
        before = character;
    }
    text.len()
}

/// The words of a shell, from the left.
struct Words<'a> {
    text: &'a str,
    /// Behind the last word that was taken.
    at: usize,
}

impl<'a> Words<'a> {
    /// The next word without punctuation behind it, and where it ends. There is none behind punctuation.
    fn look(&self) -> Option<(&'a str, usize)> {
        let rest = &self.text[self.at..];
        let begin = self.at + (rest.len() - rest.trim_start().len());
        // Between two words there is nothing but space.
        if self.at > 0 && begin == self.at {
            return None;
        }
        let word = &self.text[begin..begin + word_length(&self.text[begin..])];
        let word = if word.ends_with(['\'', '"']) { word } else { word.trim_end_matches(is_punctuation) };
        (!word.is_empty()).then_some((word, begin + word.len()))
    }

    fn peek(&self) -> Option<&'a str> {
        self.look().map(|(word, _)| word)
    }

    fn next(&mut self) -> Option<&'a str> {
        let (word, end) = self.look()?;
        self.at = end;
        Some(word)
    }

    fn take_if(&mut self, is_wanted: impl FnOnce(&'a str) -> bool) -> bool {
        let wanted = self.peek().is_some_and(is_wanted);
        wanted && self.next().is_some()
    }

    /// Options with their values, and names; up to the first word of the sentence around.
    fn take_options(&mut self) {
        while let Some(word) = self.peek() {
            let is_option = word.starts_with('-') && word.len() > 1;
            if !is_option && !is_value(word) {
                return;
            }
            self.next();
            let is_short = word.len() == 2 && !BARE_SHORT.contains(&word);
            if is_option && (is_short || WORD_OPTIONS.contains(&word)) {
                self.next();
            }
        }
    }
}

/// Bytes up to the first space outside of quotes, or up to a comma behind a quote.
fn word_length(text: &str) -> usize {
    let mut quote = None;
    for (at, character) in text.char_indices() {
        match quote {
            Some(open) if open == character => quote = None,
            Some(_) => {}
            None if matches!(character, '\'' | '"') => quote = Some(character),
            None if character.is_whitespace() => return at,
            None if matches!(character, ',' | ';' | ')') && text[..at].ends_with(['\'', '"']) => return at,
            None => {}
        }
    }
    text.len()
}

fn is_punctuation(character: char) -> bool {
    matches!(character, ',' | ';' | ':' | '.' | '?' | ')')
}

/// Is it a name, a number, a path or a placeholder, and no word of a sentence?
fn is_value(word: &str) -> bool {
    let is_placeholder =
        word.len() > 1 && word.chars().all(|character| character.is_ascii_uppercase() || "_-".contains(character));
    let has = |characters: &[char]| word.contains(characters);
    is_placeholder
        || word == "newest"
        || has(&['/', '=', '~', '\'', '"', '$', '>'])
        || word.contains(|one: char| one.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(line: &str) -> Vec<&str> {
        find_commands(line).into_iter().map(|range| &line[range]).collect()
    }

    #[test]
    fn the_command_behind_two_dashes_belongs_to_it() {
        let right = "pgthaw run --like nightly '--protect=isolate' -- psql -d shop -f /srv/report.sql -v 'day=a, b'";
        let line = format!("  hint: {right}");
        let found: Vec<&str> = find_commands(&line).into_iter().map(|one| &line[one]).collect();
        assert_eq!(found, [right]);
    }

    #[test]
    fn a_command_ends_where_the_sentence_goes_on() {
        let lines: [(&str, &[&str]); 19] = [
            ("pgthaw doctor -h localhost -W asks for it on a terminal", &["pgthaw doctor -h localhost -W"]),
            ("→ pgthaw doctor --probe", &["pgthaw doctor --probe"]),
            ("pgthaw doctor says what is missing and how to get it", &["pgthaw doctor"]),
            (
                "note: pgthaw restore now takes this one, pgthaw restore 20261122-213504.150 the warmer one",
                &["pgthaw restore", "pgthaw restore 20261122-213504.150"],
            ),
            ("a cloud volume; pgthaw doctor --probe measures this one", &["pgthaw doctor --probe"]),
            ("pgthaw doctor -p 5999 --data-dir DIRECTORY", &["pgthaw doctor -p 5999 --data-dir DIRECTORY"]),
            (
                "psql -h /tmp -U me -d 'my app' -c 'GRANT pg_monitor TO \"x\"', or connect as a superuser",
                &["psql -h /tmp -U me -d 'my app' -c 'GRANT pg_monitor TO \"x\"'"],
            ),
            ("psql -l lists the databases; of a stopped server", &["psql -l"]),
            (
                "for d in a b; do psql -p 1 -d \"$d\" -c 'CREATE EXTENSION x'; done (on the primary)",
                &["for d in a b; do psql -p 1 -d \"$d\" -c 'CREATE EXTENSION x'; done"],
            ),
            (
                "mount -t tracefs tracefs /sys/kernel/tracing (as root)",
                &["mount -t tracefs tracefs /sys/kernel/tracing"],
            ),
            ("make it first (mkdir -p /a/b), or name another", &["mkdir -p /a/b"]),
            (
                "not seen (run pgthaw as root, or: setcap cap_bpf+ep $(command -v pgthaw)), and why",
                &["setcap cap_bpf+ep $(command -v pgthaw)"],
            ),
            ("make it (mkdir -p '/a, b or c'), or name another", &["mkdir -p '/a, b or c'"]),
            ("kept '/home/a b/x.parquet' (10 kB)", &["'/home/a b/x.parquet'"]),
            ("`pgthaw results list` lists the runs", &["`pgthaw results list`"]),
            ("apt-get install postgresql, or name the directory", &["apt-get install postgresql"]),
            ("run pgthaw as the owner of the data directory (usually postgres) or as root", &[]),
            ("pgthaw evict makes the server slow; pgthaw's psql is PostgreSQL's own", &["pgthaw evict"]),
            ("take an older one (pgthaw snapshot list), or not", &["pgthaw snapshot list"]),
        ];
        for (line, expected) in lines {
            assert_eq!(found(line), expected, "{line}");
        }
    }
}
