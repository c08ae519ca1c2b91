use std::ops::Range;

use console::measure_text_width;

use super::commands::{bare_command, find_commands};

/// Minimum width in cells, even on a narrower terminal.
const NARROWEST: usize = 20;

/// Indentation of continuation lines, unless the first line has its own margin.
const INDENT: usize = 2;

/// Maximum indentation of a command that is wider than the terminal.
const COMMAND_INDENT: usize = 4;

/// Wraps lines wider than `width` and indents their continuation. Never breaks a command; one that does not fit gets
/// its own line. Without `width` (file or pipe), changes no line.
pub fn wrap_text(text: &str, width: Option<usize>) -> String {
    let width = width.map_or(usize::MAX, |width| width.max(NARROWEST));
    let wrap = |line: &str| match measure_text_width(line) <= width {
        true => without_marks(line),
        false => wrap_line(line, width).join("\n"),
    };
    text.split('\n').map(wrap).collect::<Vec<_>>().join("\n")
}

fn without_marks(line: &str) -> String {
    let margin = line.len() - line.trim_start_matches([' ', '→']).len();
    bare_command(&line[margin..]).map_or(line.to_owned(), |command| format!("{}{command}", &line[..margin]))
}

fn wrap_line(line: &str, width: usize) -> Vec<String> {
    let wrapped = break_line(line, width);
    // Keeps a closing bracket from being alone on the line after a command.
    let is_end = |last: &&String| last.trim().trim_end_matches('.') == ")";
    match wrapped.last().filter(is_end).and_then(|_| without_last_bracket(line)) {
        Some(line) => break_line(&line, width),
        None => wrapped,
    }
}

/// Turns a trailing bracket into a clause: `a (b)` becomes `a; b`.
fn without_last_bracket(line: &str) -> Option<String> {
    let inside = line.trim_end_matches('.').strip_suffix(')')?;
    let mut depth = 1;
    let is_begin = |character: char| {
        depth += i32::from(character == ')') - i32::from(character == '(');
        depth == 0
    };
    let begin = inside.rfind(is_begin)?;
    Some(format!("{}; {}", inside[..begin].strip_suffix(' ')?, &inside[begin + 1..]))
}

fn break_line(line: &str, width: usize) -> Vec<String> {
    let (margin, indent) = margin(line, width);
    let (head, body) = line.split_at(margin);
    let mut wrapped = Wrapped { width, indent, lines: Vec::new(), line: head.to_owned(), is_empty: true };
    for piece in split_pieces(body) {
        wrapped.add(&piece);
    }
    wrapped.end_line();
    wrapped.lines
}

/// Bytes of the first line's margin, and indentation of continuation lines. A prefix such as `warning  ` belongs to the
/// margin if enough room remains.
fn margin(line: &str, width: usize) -> (usize, usize) {
    let blank = line.len() - line.trim_start().len();
    let widest = width * 2 / 5;
    let sentence_end = find_commands(line).first().map_or(line.len(), |command| command.start);
    let gaps = line[blank..sentence_end.max(blank)].match_indices("  ").map(|(at, _)| at + blank);
    let ends = gaps.map(|at| at + (line[at..].len() - line[at..].trim_start().len()));
    let fitting = ends.filter(|end| measure_text_width(&line[..*end]) <= widest).last();
    match fitting {
        Some(bytes) => (bytes, measure_text_width(&line[..bytes])),
        None => (blank, blank.min(widest) + INDENT),
    }
}

struct Piece<'a> {
    gap: &'a str,
    before: &'a str,
    text: &'a str,
    behind: &'a str,
    is_command: bool,
}

fn split_pieces(body: &str) -> Vec<Piece<'_>> {
    let mut commands = find_commands(body).into_iter().peekable();
    let mut pieces = Vec::new();
    let mut at = 0;
    while let Some(space) = body[at..].find(|one: char| !one.is_whitespace()) {
        let begin = at + space;
        let word_end = |from: usize| body[from..].find(char::is_whitespace).map_or(body.len(), |space| from + space);
        let of_word = commands.next_if(|command: &Range<usize>| command.start < word_end(begin));
        let text = of_word.clone().unwrap_or(begin..word_end(begin));
        let end = word_end(text.end);
        pieces.push(Piece {
            gap: &body[at..begin],
            before: &body[begin..text.start],
            text: &body[text.clone()],
            behind: &body[text.end..end],
            is_command: of_word.is_some(),
        });
        at = end;
    }
    pieces
}

struct Wrapped {
    width: usize,
    indent: usize,
    lines: Vec<String>,
    line: String,
    is_empty: bool,
}

impl Wrapped {
    fn add(&mut self, piece: &Piece<'_>) {
        let Piece { gap, before, text, behind, is_command } = piece;
        let gap = if self.is_empty { "" } else { gap };
        let width = measure_text_width(text);
        let whole = measure_text_width(gap) + measure_text_width(before) + width + measure_text_width(behind);
        if measure_text_width(&self.line) + whole <= self.width {
            self.line += gap;
        } else if *is_command && measure_text_width(text.trim_matches('`')) > self.width / 2 {
            return self.add_alone(piece);
        } else if !self.is_empty {
            self.end_line();
        }
        self.line.extend([*before, text, behind]);
        self.is_empty = false;
    }

    fn add_alone(&mut self, piece: &Piece<'_>) {
        let is_in_brackets = piece.before == "(" && piece.behind.starts_with(')');
        let before = format!("{}{}", piece.gap, piece.before);
        if !is_in_brackets && measure_text_width(&self.line) + measure_text_width(&before) <= self.width {
            self.line += &before;
        }
        self.end_line();
        let command = piece.text.trim_matches('`');
        let indent = match self.indent + measure_text_width(command) <= self.width {
            true => self.indent,
            false => self.indent.min(COMMAND_INDENT),
        };
        self.line = format!("{:indent$}{command}", "");
        self.end_line();
        let behind = if is_in_brackets { &piece.behind[1..] } else { piece.behind };
        let behind = behind.trim_start_matches([',', ';', ':', '.']);
        self.line += behind;
        self.is_empty = behind.is_empty();
    }

    fn end_line(&mut self) {
        let ended = std::mem::replace(&mut self.line, " ".repeat(self.indent));
        if !matches!(ended.trim(), "" | "→") {
            self.lines.push(ended.trim_end().to_owned());
        }
        self.is_empty = true;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_break_between_words_and_hang_below_their_sentence() {
        let text = "warning  the server wrote while it was read, and that is told here\nshort";
        let wrapped = "warning  the server wrote while it was\n         read, and that is told here\nshort";
        assert_eq!(wrap_text(text, Some(40)), wrapped);
        assert_eq!(wrap_text(text, None), text);
        let hint = "  hint: take one of the user that has it, or another one";
        assert_eq!(wrap_text(hint, Some(40)), "  hint: take one of the user that has\n    it, or another one");
    }

    #[test]
    fn a_command_that_does_not_fit_has_a_line_of_its_own() {
        let command = "psql -h /tmp -p 5433 -d shop -c 'CREATE EXTENSION pg_prewarm'";
        let hint = format!("  hint: `{command}`, or connect as a superuser");
        assert_eq!(
            wrap_text(&hint, Some(64)),
            format!("  hint:\n  {command}\n    or connect as a superuser").replace("\n  psql", "\n    psql")
        );
        let within = format!("connect as a superuser, who may do it (`{command}`), or not");
        assert_eq!(
            wrap_text(&within, Some(70)),
            format!("connect as a superuser, who may do it\n  {command}\n  or not")
        );
        let short = "take an older one, as there are some (`pgthaw snapshot list`), or not";
        let wrapped = "take an older one, as there are some\n  (`pgthaw snapshot list`), or not";
        assert_eq!(wrap_text(short, Some(44)), wrapped);
    }

    #[test]
    fn an_arrow_is_not_left_alone() {
        let command = format!("psql -d shop -c '{}'", "x".repeat(60));
        let line = format!("{:29}→ `{command}` (as a superuser)", "");
        assert_eq!(wrap_text(&line, Some(80)), format!("    {command}\n{:31}(as a superuser)", ""));
    }

    #[test]
    fn a_command_keeps_its_own_brackets() {
        let command = "setcap cap_bpf,cap_perfmon,cap_sys_ptrace+ep $(command -v pgthaw)";
        let line = format!("not seen  waits that do not sleep (run pgthaw as root, or: `{command}`)");
        let wrapped = format!("not seen  waits that do not sleep; run pgthaw as root, or:\n    {command}");
        assert_eq!(wrap_text(&line, Some(72)), wrapped);
        let path = "'/home/a user/with a long name/.local/state/pgthaw/snapshots/1.parquet'";
        assert_eq!(wrap_text(&format!("kept {path} (10 kB)"), Some(74)), format!("kept\n  {path}\n  (10 kB)"));
    }

    #[test]
    fn what_begins_in_brackets_ends_in_them() {
        let command = "setcap cap_bpf,cap_perfmon,cap_sys_ptrace+ep $(command -v pgthaw)";
        let line = format!("some waits are not seen (as root they are, or after this: `{command}`).");
        for width in [40, 80] {
            let wrapped = wrap_text(&line, Some(width));
            assert!(wrapped.starts_with("some waits are not seen; as root they"), "{wrapped}");
            assert!(wrapped.ends_with(&format!("this:\n  {command}")), "{wrapped}");
        }
        let line = format!("some waits are not seen (as root, or: `{command}`), and that is told");
        let wrapped = format!("some waits are not seen (as root, or:\n  {command}\n  ), and that is told");
        assert_eq!(wrap_text(&line, Some(70)), wrapped);
        let unlike = format!("the file 'a)b' (of: `{command}`)");
        assert_eq!(wrap_text(&unlike, Some(70)), format!("the file 'a)b'; of:\n  {command}"));
    }

    proptest! {
        #[test]
        fn no_bracket_loses_its_end(before in "[a-z ]{0,60}", first in "[a-z ]{0,60}", name in "[a-z0-9]{1,50}", last in "[a-z ]{0,30}", end in "[.,]?( [a-z]{1,9})?", narrow in any::<bool>()) {
            let text = format!("it {before} ({first} `psql -d '{name}' -c 'CREATE EXTENSION x'` {last}){end}");
            let wrapped = wrap_text(&text, Some(if narrow { 40 } else { 80 }));
            prop_assert_eq!(wrapped.matches('(').count(), wrapped.matches(')').count(), "{}", wrapped);
        }

        #[test]
        fn no_line_is_too_wide_and_no_word_is_lost(words in proptest::collection::vec("[a-zé表]{1,9}", 1..60), width in 20_usize..120, margin in "( {0,8}|[a-z]{1,7}  )") {
            let text = format!("{margin}{}", words.join(" "));
            let wrapped = wrap_text(&text, Some(width));
            for line in wrapped.lines() {
                let body = line.strip_prefix(&*margin).unwrap_or(line);
                let is_one_word = body.split_whitespace().count() == 1;
                prop_assert!(measure_text_width(line) <= width || is_one_word, "{width}: {line}");
            }
            let told = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            prop_assert_eq!(told(&wrapped), told(&text));
        }

        #[test]
        fn a_command_stays_whole(before in "[a-z ]{0,60}", name in "[a-z0-9 ]{1,60}", behind in "[a-z ]{0,60}", width in 20_usize..120) {
            let command = format!("psql -d '{name}' -c 'CREATE EXTENSION x'");
            let wrapped = wrap_text(&format!("{before} `{command}` ({behind})"), Some(width));
            prop_assert!(wrapped.lines().any(|line| line.contains(&command)), "{wrapped}");
        }
    }
}
