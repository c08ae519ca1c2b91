//! What differs from machine to machine and from time to time, as the document has it.

use super::world::World;

/// Texts that stand for others, in the order in which they are looked for.
pub struct Redaction(Vec<(String, String)>);

impl Redaction {
    pub fn of(world: &World) -> Redaction {
        let address = world.shop.cluster.connect_options("postgres");
        let stopped = world.stopped.cluster.connect_options("postgres");
        let major = "/var/lib/postgresql/19";
        let known = [
            (world.shop.data_directory().display().to_string(), format!("{major}/main")),
            (world.stopped.data_directory().display().to_string(), format!("{major}/spare")),
            (address.host.unwrap(), "/var/run/postgresql".to_owned()),
            (stopped.host.unwrap(), "/var/run/spare".to_owned()),
            (world.shop.home().display().to_string(), "/home/you".to_owned()),
        ];
        let mut texts: Vec<(String, String)> = known.into_iter().collect();
        if let Some(port) = address.port {
            texts.push((format!(":{port}"), ":5432".to_owned()));
        }
        Redaction(texts)
    }

    pub fn apply(&self, text: &str) -> String {
        let known = self.0.iter().fold(text.to_owned(), |text, (found, shown)| text.replace(found, shown));
        hide_chance(&known).lines().map(replace_numbers).collect::<Vec<_>>().join("\n")
    }
}

/// How a hint begins where no server answers. Then come where others listen, or that there are none.
const NO_SERVER: &str =
    "  hint: no server listens at this address: start the server, or read its files with --data-dir;";

/// Names that are made up by chance, and lines of PostgreSQL's sources.
fn hide_chance(text: &str) -> String {
    let mut shown = text.to_owned();
    for prefix in ["pgthaw-lab-", ".pgthaw-report", ".pgthaw-export", ".pgthaw-taking-", ".pgthaw-man", "pgthaw-bench-"]
    {
        let mut parts = shown.split(prefix).map(str::to_owned);
        let first = parts.next().unwrap_or_default();
        shown = parts.fold(first, |text, part| format!("{text}{prefix}XXXXXX{}", part.get(6..).unwrap_or_default()));
    }
    let without_line = |line: &str| match line.rsplit_once(" at line ") {
        // Which servers this machine has beside the test's is its own affair.
        _ if line.starts_with(NO_SERVER) => format!("{NO_SERVER} other servers of this machine listen at -p 5433"),
        Some((told, number)) if number.parse::<u32>().is_ok() => told.to_owned(),
        _ => line.to_owned(),
    };
    shown.lines().map(|line| without_line(line) + "\n").collect()
}

/// Digits in a row that name a cluster, a moment or a process; all of a kind are shown as one.
fn replace_numbers(line: &str) -> String {
    let mut shown = String::new();
    let mut rest = line;
    while let Some(begin) = rest.find(|c: char| c.is_ascii_digit()) {
        let digits = rest[begin..].find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len() - begin);
        let (number, after) = (&rest[begin..begin + digits], &rest[begin + digits..]);
        shown.push_str(&rest[..begin]);
        // 20261121-233005.123 and 2026-11-21 23:30:05: with all that belongs to it.
        let is_moment = number.len() == 8 && number.starts_with("20") && after.starts_with('-');
        match number.len() {
            18..=20 => shown.push_str("7391827364501928374"),
            8 if is_moment => {
                shown.push_str("20261121-233005.123");
                let moment = after.trim_start_matches(|c: char| c.is_ascii_digit() || c == '-');
                let thousandths =
                    moment.strip_prefix('.').filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
                rest = thousandths.map_or(moment, |rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
                continue;
            }
            _ => shown.push_str(number),
        }
        rest = after;
    }
    shown + rest
}

#[test]
fn moments_and_clusters_are_shown_alike() {
    assert_eq!(replace_numbers("a 20260102-030405.678-one b 17 c"), "a 20261121-233005.123-one b 17 c");
    assert_eq!(replace_numbers("20260102-030405.678.parquet"), "20261121-233005.123.parquet");
    assert_eq!(hide_chance("a pgthaw-lab-xY12z3/data b\n"), "a pgthaw-lab-XXXXXX/data b\n");
    assert_eq!(hide_chance("role x does not exist at line 802\n"), "role x does not exist\n");
    assert_eq!(replace_numbers("7000000000000000001."), "7391827364501928374.");
}
