//! Commands and options of studies that are gone, as they are typed now.

use super::SettingsError;
use postgres::quote_argument;

/// Commands, and the words that begin them now.
const COMMANDS: [(&str, &str); 4] =
    [("bench judge", "judge"), ("bench sweep", "bench"), ("demo", "bench demo"), ("steady", "judge")];

/// Options of `bench`, and the keys of a study that they are now.
const KEYS: [(&str, &str); 20] = [
    ("--clients", "clients"),
    ("--disk", "disk"),
    ("--jobs", "jobs"),
    ("--loaders", "strategy"),
    ("--memory", "memory"),
    ("--name", "question"),
    ("--named-disk", "disks"),
    ("--patience", "seconds"),
    ("--popularity", "popularity"),
    ("--query-mode", "query_mode"),
    ("--repeats", "repeats"),
    ("--scale", "scale"),
    ("--script", "script"),
    ("--script-seconds", "wanted_seconds"),
    ("--seconds", "seconds"),
    ("--seed", "seed"),
    ("--setup", "database.setup"),
    ("--shared-buffers", "settings.shared_buffers"),
    ("--strategies", "strategy"),
    ("--until-steady", "until=steady"),
];

/// Figures of a disk, in the order in which a study has them.
const FIGURES: [&str; 3] = ["--riops", "--rbps", "--read-ahead"];

/// What to type instead of the words behind `pgthaw`, where these were right once. `refused` is the word that clap does not know.
pub fn find_translation(words: &[String], refused: Option<&str>) -> Option<SettingsError> {
    let is_begun_by = |gone: &str| gone.split(' ').eq(words.iter().take(gone.split(' ').count()).map(String::as_str));
    let moved = COMMANDS.iter().find(|(gone, _)| is_begun_by(gone));
    let (gone, begin, rest) = match moved {
        Some((gone, now)) => (Some(*gone), vec![(*now).to_owned()], &words[gone.split(' ').count()..]),
        None => (refused, Vec::new(), words),
    };
    let is_bench = begin
        .first()
        .map(String::as_str)
        .or(words.first().map(String::as_str))
        .is_some_and(|first| first.starts_with("bench"));
    let now = [begin, if is_bench { write_keys(rest) } else { quote(rest) }].concat();
    let is_other = now != quote(words);
    is_other.then(|| SettingsError::Moved {
        gone: gone.unwrap_or_default().to_owned(),
        now: format!("pgthaw {}", now.join(" ")),
    })
}

fn quote(words: &[String]) -> Vec<String> {
    words.iter().map(|word| write_word(word)).collect()
}

/// One word of a command line. A shell takes KEY=VALUE as it is behind a command, and commas too, so only the value is quoted where it
/// has to be.
fn write_word(word: &str) -> String {
    let is_plain = |text: &str| text.split([',', '=']).all(|part| part.is_empty() || quote_argument(part) == part);
    match word.split_once('=') {
        Some((key, value)) if !key.is_empty() && is_plain(key) => match is_plain(value) {
            true => word.to_owned(),
            false => format!("{key}={}", quote_argument(value)),
        },
        _ => quote_argument(word),
    }
}

/// The words with each option that is a key now as that key.
fn write_keys(words: &[String]) -> Vec<String> {
    let (mut written, mut figures) = (Vec::new(), [const { String::new() }; 3]);
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        let (option, value) = word.split_once('=').map_or((word, None), |(option, value)| (option, Some(value)));
        let mut value = || value.or_else(|| words.next()).unwrap_or("VALUE").to_owned();
        if let Some(figure) = FIGURES.iter().position(|known| *known == option) {
            figures[figure] = value();
        } else if option == "--print-study" {
            written.push("--print".to_owned());
        } else if let Some((_, key)) = KEYS.iter().find(|(known, _)| *known == option) {
            written.push(match *key {
                key if key.contains('=') => key.to_owned(),
                "disks" => write_word(&format!("disks.{}", value())),
                key => write_word(&format!("{key}={}", value())),
            });
        } else {
            written.push(write_word(word));
        }
    }
    if figures.iter().any(|figure| !figure.is_empty()) {
        let figures = figures.map(|figure| if figure == "native" { String::new() } else { figure });
        written.extend([format!("disks.own={}", figures.join(",").trim_end_matches(',')), "disk=own".to_owned()]);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    fn successor(line: &str) -> Option<String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        match find_translation(&words, Some("--x"))? {
            SettingsError::Moved { now, .. } => Some(now),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn a_gone_command_is_told_as_it_is_typed_now() {
        for (gone, now) in [
            ("steady run.txt --json", "pgthaw judge run.txt --json"),
            ("bench judge a.json b.json", "pgthaw judge a.json b.json"),
            ("bench sweep study.toml --dry-run", "pgthaw bench study.toml --dry-run"),
            ("demo --scale 10 -o x.html", "pgthaw bench demo scale=10 -o x.html"),
            ("bench warmup --scale=10 --disk gp3 --until-steady", "pgthaw bench warmup scale=10 disk=gp3 until=steady"),
            (
                "bench residency --loaders cat,vmtouch --print-study",
                "pgthaw bench residency strategy=cat,vmtouch --print",
            ),
            ("bench warmup --riops 1000 --rbps 100MiB", "pgthaw bench warmup disks.own=1000,100MiB disk=own"),
            ("bench forecast --named-disk san=9,1MB", "pgthaw bench forecast disks.san=9,1MB"),
            ("bench warmup --script $HOME/x,y.sql", "pgthaw bench warmup script='$HOME/x,y.sql'"),
        ] {
            assert_eq!(successor(gone).as_deref(), Some(now), "{gone}");
        }
        assert_eq!(successor("bench warmup --bogus"), None);
        assert_eq!(successor("map --scale 1"), None);
    }
}
