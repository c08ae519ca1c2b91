//! How long the databases of a study took to make.

use crate::study::DatabaseMaking;
use terminal::printable;

/// Databases that are shown; `--json` has all of them.
const SHOWN_MAX: usize = 10;

/// A line for each database: `made     scale 10 in 3.2 s: client-side generate 2.1 s, vacuum 0.1 s, …`.
pub fn render_makings(all: &[DatabaseMaking]) -> Vec<String> {
    let mut lines: Vec<String> = all.iter().take(SHOWN_MAX).map(|one| render_making(one, all)).collect();
    if all.len() > SHOWN_MAX {
        lines.push(format!("made     … {} more: --json", all.len() - SHOWN_MAX));
    }
    lines
}

/// What a database has in common with others, or not.
type Part = fn(&DatabaseMaking) -> &str;

/// Named by what it does not have in common with the others.
fn render_making(making: &DatabaseMaking, all: &[DatabaseMaking]) -> String {
    let differ = |of: Part| all.iter().any(|one| of(one) != of(making));
    let mut name = format!("scale {}", making.scale);
    let parts: [(&str, Part); 3] =
        [("database", |one| &one.database), ("file system", |one| &one.file_system), ("server", |one| &one.server)];
    for (word, of) in parts {
        if differ(of) {
            name.push_str(&format!(", {word} {}", printable(of(making))));
        }
    }
    let steps: Vec<String> =
        making.steps.iter().map(|step| format!("{} {:.2} s", printable(&step.step), step.seconds)).collect();
    let steps = if steps.is_empty() { String::new() } else { format!(": {}", steps.join(", ")) };
    format!("made     {name} in {:.2} s{steps}", making.seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::MakingStep;

    fn making(scale: u32, server: &str) -> DatabaseMaking {
        DatabaseMaking {
            database: "default".into(),
            scale,
            file_system: "native".into(),
            server: server.into(),
            seconds: 3.456,
            steps: vec![MakingStep { step: "vacuum".into(), seconds: 0.1 }],
        }
    }

    #[test]
    fn databases_are_named_by_what_they_differ_in() {
        assert_eq!(render_makings(&[making(10, "default")]), ["made     scale 10 in 3.46 s: vacuum 0.10 s"]);
        let two = render_makings(&[making(10, "15"), making(10, "17")]);
        assert_eq!(two[1], "made     scale 10, server 17 in 3.46 s: vacuum 0.10 s");
        let many: Vec<DatabaseMaking> = (1..=12).map(|scale| making(scale, "15")).collect();
        assert_eq!(render_makings(&many).last().unwrap(), "made     … 2 more: --json");
    }
}
