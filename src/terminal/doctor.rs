//! What is possible here, as a list under headings.

use console::style;

use crate::failure::Capability;

/// A line for each capability: a mark, its name, what was found; what mends it on the next line.
pub fn render_doctor(capabilities: &[Capability]) -> String {
    let width = capabilities.iter().map(|one| one.name.len()).max().unwrap_or(0);
    let mut groups: Vec<&str> = Vec::new();
    for one in capabilities {
        if !groups.contains(&one.group) {
            groups.push(one.group);
        }
    }
    let render_group = |group: &&str| {
        let members = capabilities.iter().filter(|one| one.group == *group);
        let lines: Vec<String> = members.map(|one| render_line(one, width)).collect();
        format!("{}\n{}", style(group).bold(), lines.join("\n"))
    };
    groups.iter().map(render_group).collect::<Vec<_>>().join("\n\n")
}

fn render_line(one: &Capability, width: usize) -> String {
    // The words, not only marks and colours: for who pipes it into a file or cannot see them.
    let answer = if one.ok { style("✓ yes").green() } else { style("✗ no:").red() };
    let line = format!("  {answer}  {:width$}  {}", one.name, one.detail);
    match &one.remedy {
        Some(remedy) => format!("{line}\n{:indent$}→ {remedy}", "", indent = width + 11),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_align_and_remedies_follow() {
        let capabilities = [
            Capability::yes("server", "server", "PostgreSQL 15"),
            Capability::no("page cache", "evict", "read only", "mount -o remount,rw /"),
            Capability::yes("server", "role", "x is a superuser"),
        ];
        let text = console::strip_ansi_codes(&render_doctor(&capabilities)).into_owned();
        let expected = "server\n  ✓ yes  server  PostgreSQL 15\n  ✓ yes  role    x is a superuser\n\npage cache\n  ✗ no:  evict   read only\n                 → mount -o remount,rw /";
        assert_eq!(text, expected);
    }
}
