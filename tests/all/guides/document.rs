//! What a guide has its reader do, and whether a program printed what the guide shows.

/// A fenced block, in the order of the guide.
#[derive(Debug, PartialEq, Eq)]
pub enum Block {
    /// Commands to type, after `<!-- test: SITUATION -->` has been brought about.
    Console { situation: Option<String>, commands: Vec<Shown> },
    /// A file that the reader writes: the line before the block ends with its name and a colon.
    File { name: String, text: String },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    Root,
    Postgres,
}

/// A command and the lines of its output that the guide shows.
#[derive(Debug, PartialEq, Eq)]
pub struct Shown {
    pub user: User,
    pub command: String,
    pub output: Vec<String>,
}

/// Left-out lines of an output.
const LEFT_OUT: &str = "...";

/// Returns the blocks of a guide. Blocks marked `skip`, and files without a name, are no part of the test.
pub fn parse(guide: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let (mut situation, mut line_before) = (None, "");
    let mut lines = guide.lines();
    while let Some(line) = lines.next() {
        if let Some(kind) = line.strip_prefix("```") {
            let body: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            blocks.extend(parse_block(kind, &body, situation.take(), line_before));
        } else if let Some(named) = line.strip_prefix("<!-- test: ") {
            situation = Some(named.strip_suffix(" -->").unwrap_or_else(|| panic!("{line:?}")).to_owned());
        } else if !line.is_empty() {
            assert_eq!(situation, None, "no block follows this situation at once: {line:?}");
            line_before = line;
        }
    }
    blocks
}

fn parse_block(kind: &str, body: &[&str], situation: Option<String>, line_before: &str) -> Option<Block> {
    match kind {
        _ if situation.as_deref() == Some("skip") => None,
        "console" => Some(Block::Console { situation, commands: parse_commands(body) }),
        "sql" | "toml" | "ini" => {
            let name = line_before.strip_suffix(':')?.rsplit(' ').next()?.trim_matches('`');
            let is_path = name.contains(['.', '/']);
            is_path.then(|| Block::File { name: name.to_owned(), text: body.join("\n") + "\n" })
        }
        _ => panic!("a block of kind {kind:?}, which this test does not understand"),
    }
}

fn parse_commands(body: &[&str]) -> Vec<Shown> {
    let mut commands: Vec<Shown> = Vec::new();
    let mut lines = body.iter();
    while let Some(line) = lines.next() {
        let typed = [("# ", User::Root), ("$ ", User::Postgres)];
        let typed = typed.into_iter().find_map(|(prompt, user)| Some((line.strip_prefix(prompt)?, user)));
        let Some((first, user)) = typed else {
            let command = commands.last_mut().unwrap_or_else(|| panic!("output of no command: {line:?}"));
            command.output.push((*line).to_owned());
            continue;
        };
        let mut command = first.to_owned();
        while command.ends_with('\\') {
            command = format!("{command}\n{}", lines.next().expect("a command goes on after its block"));
        }
        commands.push(Shown { user, command, output: Vec::new() });
    }
    commands
}

/// Returns the first line shown that a program did not print behind those before it.
pub fn find_missing<'a>(shown: &'a [String], printed: &str) -> Option<&'a str> {
    let printed: Vec<String> = printed.lines().map(normalize).collect();
    let mut printed = printed.iter();
    let shown = shown.iter().filter(|line| *line != LEFT_OUT);
    shown.map(String::as_str).find(|line| {
        let line = normalize(line);
        !printed.any(|one| *one == line)
    })
}

/// What a program wrote to a terminal, without colours, and with each piece that it put somewhere on a line of its own.
pub fn without_escapes(written: &str) -> String {
    let placed = regex::Regex::new(r"\x1b\[[0-9;]*H|\r").unwrap().replace_all(written, "\n").into_owned();
    regex::Regex::new(r"\x1b\[[0-9;?]*[a-zA-Z]").unwrap().replace_all(&placed, "").into_owned()
}

/// What stands for one number or several.
const NUMBER: &str = "#";

/// A line without everything that differs between runs: numbers with sign, unit, span and popularity, empty columns, drawings,
/// ports, `less` for `more`, `within` for `after`, and parts of tables and receipts that are not always there.
fn normalize(line: &str) -> String {
    let replace =
        |line: &str, pattern: &str, by: &str| regex::Regex::new(pattern).unwrap().replace_all(line, by).into_owned();
    let line = replace(line, "[▁-▟·]+", " ");
    // Some commands may end in the second in which a stall begins.
    let line = replace(&line, r"[0-9]+ commands? a second for ([0-9.]+ s), usually [0-9]+\.", "no command for $1.");
    // Then the clients are slow instead of silent.
    let line = line.replace("the clients, or the network to them, were slow", "the clients sent nothing");
    let line = line.replace("backends waited for their client.", "backends waited for them.");
    let units = r"(?: ?(?:%|(?:bytes|k|[kMGT]B|[KMGT]iB|ns|µs|ms|s|min|h)(?-u:\b)))?";
    let line = replace(&line, &format!(r"[<±+-]?(?-u:\b)u?[0-9][0-9.,:–-]*{units}(?: ?\+)?"), NUMBER);
    let line = replace(&line, r"(?:,? -p #)+", "");
    let line = replace(&line, r"\(# to #\)", NUMBER);
    // A receipt names its parts only where pgthaw's own work took a moment.
    let line = line.replace("the same as forecast", "# more than forecast");
    let line = replace(&line, "# in total: # before the job, # for the job, # after it", "the job took #");
    // How much of a preload the job requested stands there only if not all of it.
    let line = replace(&line, r" \(# of them in the new film, which [^)]*\)", "");
    // Columns that are left out where they would be empty.
    let line = replace(&line, r"(?-u:\b)(?:dirty|in buffers)(?-u:\b)", "");
    let words = line.split_whitespace().map(|word| match word {
        "-" | "+" => NUMBER,
        "less" => "more",
        "within" => "after",
        word => word,
    });
    let mut words: Vec<&str> = words.collect();
    words.dedup_by(|later, earlier| *later == NUMBER && *earlier == NUMBER);
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guide_is_read_as_files_and_commands_with_their_output() {
        let guide = "# Title\n\nA study, in `a.toml`:\n\n```toml\nscale = 1\n```\n\n<!-- test: it rains -->\n```console\n\
            # pgthaw a \\\n    b\none\n...\n$ psql\n```\n\n<!-- test: skip -->\n```console\n# reboot\n```\n\nEnd it:\n\n\
            ```sql\nSELECT 1;\n```\n";
        let shown = |user, command: &str, output: &[&str]| Shown {
            user,
            command: command.to_owned(),
            output: output.iter().map(|&line| line.to_owned()).collect(),
        };
        let commands =
            vec![shown(User::Root, "pgthaw a \\\n    b", &["one", "..."]), shown(User::Postgres, "psql", &[])];
        let file = Block::File { name: "a.toml".into(), text: "scale = 1\n".into() };
        assert_eq!(parse(guide), [file, Block::Console { situation: Some("it rains".into()), commands }]);
    }

    #[test]
    fn lines_of_a_screen_have_no_escapes() {
        assert_eq!(without_escapes("\x1b[?25l\x1b[2;1Hone\x1b[K\x1b[3;1H\x1b[1mtwo\x1b[0m\r\n"), "\none\ntwo\n\n");
    }

    #[test]
    fn lines_are_found_whole_and_in_their_order() {
        let missing = |shown: &[&str], printed: &str| {
            let shown: Vec<String> = shown.iter().map(|&line| line.to_owned()).collect();
            find_missing(&shown, printed).map(str::to_owned)
        };
        assert_eq!(missing(&["a 1", "...", "c"], "a 2\nb\nc\n"), None);
        assert_eq!(missing(&["c", "a 1"], "a 2\nb\nc\n").as_deref(), Some("a 1"));
        assert_eq!(missing(&["a"], "a b\n").as_deref(), Some("a"));
        assert_eq!(missing(&["a", "a"], "a\n").as_deref(), Some("a"));
    }

    #[test]
    fn what_differs_between_runs_is_no_difference() {
        for (one, other) in [
            ("read 1.2 MB in 3 reads, 4 %", "read 999 kB in 1,200 reads, 12 %"),
            ("taken 2026-11-29 10:18:06 UTC", "taken 2027-01-02 03:04:05 UTC"),
            ("20261129-101806.349.3-cron  6.09 MB", "20270102-030405.1.22-cron    5 kB"),
            ("1.7 s less than forecast", "12 ms more than forecast"),
            ("50 % within 0.1 s", "50 % after 3 s"),
            ("the job took 0.01 s; x", "0.9 s in total: 1 s before the job, 7 ms for the job, 14 s after it; x"),
            ("first, s  last, s", "first, s  last, s  in buffers"),
            ("t  1  1.83 s  1.81 s+  -  -", "t  2  30 ms  3.1 ms  4  8.19 kB"),
            ("warm  2.9 s (2.5 to 3.4 s)  4 s", "warm  0.2 s  0.2 s"),
            ("steady  676  3549", "steady  609  11.6k"),
            ("orders  40 MB  0%  0%  0%  ····", "orders  9 MB  1%  <1%  9%  u5 61% u4 14%  ▁█·"),
            ("listen at -p 5432).", "listen at -p 5433, -p 40123)."),
        ] {
            assert_eq!(normalize(one), normalize(other));
        }
        for (one, other) in [
            ("4 wait", "4 waited"),
            ("a 2 b 3", "a 2 c 3"),
            ("locks  4 wait", "locks  wait"),
            ("disk=gp3", "disk=gp2"),
            ("* a", "a"),
        ] {
            assert_ne!(normalize(one), normalize(other));
        }
    }
}
