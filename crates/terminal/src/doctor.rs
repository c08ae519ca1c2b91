use std::collections::HashSet;

use console::style;
use serde_json::{Value, json};

use super::printable::printable;
use host::failure::{Capability, Missing, NEEDED, Readiness, Tiers};

const NEEDED_HEADING: &str = "needed for both caches";

pub fn render_doctor(capabilities: &[Capability], readiness: &Readiness) -> String {
    let sentence = render_readiness(readiness);
    let (first, rest) = sentence.split_at(sentence.find('\n').unwrap_or(sentence.len()));
    let mut needed: Vec<Capability> = capabilities.iter().filter(|one| NEEDED.contains(&one.name)).cloned().collect();
    needed.sort_by_key(|one| NEEDED.iter().position(|name| *name == one.name));
    let needed = needed.into_iter().map(|one| Capability { group: NEEDED_HEADING, ..one });
    let others = capabilities.iter().filter(|one| !NEEDED.contains(&one.name)).cloned();
    let all: Vec<Capability> = needed.chain(others).collect();
    format!("{}{rest}\n\n{}", style(first).bold(), render_capabilities(&all))
}

/// The verdict as first object of `--json`, with the same fields as the checks.
pub fn render_readiness_json(readiness: &Readiness) -> Value {
    let tiers = |tiers: Tiers| -> Vec<&str> {
        [(tiers.os, "os"), (tiers.buffers, "buffers")].into_iter().filter(|one| one.0).map(|one| one.1).collect()
    };
    let remedies: Vec<&str> = readiness.missing.iter().map(|one| one.remedy.as_str()).collect();
    json!({
        "name": VERDICT,
        "group": VERDICT,
        "ok": readiness.is_complete(),
        "detail": render_sentence(readiness),
        "remedy": (!remedies.is_empty()).then(|| remedies.join("; ")),
        "snapshot": tiers(readiness.snapshot),
        "restore": tiers(readiness.restore),
        "missing": readiness.missing,
    })
}

/// The verdict's name for `--require`.
pub const VERDICT: &str = "verdict";

fn render_readiness(readiness: &Readiness) -> String {
    let missing = told_once(&readiness.missing);
    let is_command = |one: &&&Missing| command_of(&one.remedy).is_some();
    let count = missing.len();
    let commands = missing.iter().filter(is_command).count();
    let told = match (count, commands) {
        (0, _) => "; nothing is missing".to_owned(),
        (1, 1) => "; one command is left to run:".to_owned(),
        (1, _) => "; one thing is left to do:".to_owned(),
        (_, _) if commands == count => format!("; {count} commands are left to run:"),
        _ => format!("; {count} things are left to do:"),
    };
    let lines = missing.iter().map(|one| match command_of(&one.remedy) {
        Some((command, "")) => format!("\n    `{}`", printable(command)),
        Some((command, around)) => format!("\n    `{}`\n      ({})", printable(command), printable(around)),
        None => format!("\n    {}: {}", one.name, printable(&one.remedy)),
    });
    format!("{}{told}{}", render_sentence(readiness), lines.collect::<String>())
}

fn told_once(missing: &[Missing]) -> Vec<&Missing> {
    let mut told = HashSet::new();
    missing.iter().filter(|one| command_of(&one.remedy).is_none_or(|(command, _)| told.insert(command))).collect()
}

fn command_of(remedy: &str) -> Option<(&str, &str)> {
    let (command, behind) = remedy.strip_prefix('`')?.split_once('`')?;
    let behind = behind.trim_start_matches([',', ';', ' ']);
    let inner = behind.strip_prefix('(').and_then(|behind| behind.strip_suffix(')')).unwrap_or(behind);
    Some((command, inner))
}

fn render_sentence(readiness: &Readiness) -> String {
    let Readiness { snapshot, restore, restores_some_buffers, .. } = *readiness;
    let tiers = |tiers: Tiers| match tiers {
        Tiers { os: true, buffers: true } => "both caches",
        Tiers { os: true, buffers: false } => "only the page cache",
        Tiers { os: false, buffers: true } => "only shared_buffers",
        Tiers { os: false, buffers: false } => "nothing",
    };
    let restored = match restore {
        Tiers { buffers: true, .. } => tiers(restore),
        Tiers { os: true, .. } if restores_some_buffers => "the page cache, and shared_buffers of some databases",
        Tiers { os: false, .. } if restores_some_buffers => "only shared_buffers of some databases",
        _ => tiers(restore),
    };
    match tiers(snapshot) {
        "nothing" if restored == "nothing" => "you can neither snapshot nor restore anything".to_owned(),
        kept if kept == restored => format!("you can snapshot and restore {kept}"),
        kept => format!("you can snapshot {kept} and restore {restored}"),
    }
}

pub fn render_capabilities(capabilities: &[Capability]) -> String {
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
    // Prints words beside marks and colours, for files and screen readers.
    let answer = if one.ok { style("✓ yes").green() } else { style("✗ no:").red() };
    // Detail and remedy contain names, in which a line feed could fake an answer.
    let line = format!("  {answer}  {:width$}  {}", one.name, printable(&one.detail));
    match &one.remedy {
        Some(remedy) => format!("{line}\n{:indent$}→ {}", "", printable(remedy), indent = width + 11),
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
        let text = console::strip_ansi_codes(&render_capabilities(&capabilities)).into_owned();
        let expected = "server\n  ✓ yes  server  PostgreSQL 15\n  ✓ yes  role    x is a superuser\n\npage cache\n  ✗ no:  evict   read only\n                 → mount -o remount,rw /";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_databases_name_begins_no_line_of_its_own() {
        let name = "x\n  ✓ yes  evict   all is well";
        let detail = format!("{name}: no pg_prewarm");
        let forged = [Capability::no("page cache", "evict", detail, format!("psql -d '{name}'"))];
        assert_eq!(render_capabilities(&forged).lines().count(), 3);
        let remedy = format!("`psql -d '{name}' -c 'CREATE EXTENSION pg_prewarm'`");
        assert_eq!(render_readiness(&ready(Tiers::BOTH, Tiers::BOTH, &[&remedy])).lines().count(), 2);
    }

    #[test]
    fn no_width_cuts_a_command() {
        let several =
            "`for d in postgres shop 'my app' billing; do psql -d \"$d\" -c 'CREATE EXTENSION pg_prewarm'; done`";
        let owner = "`sudo -u postgres pgthaw doctor` (as the owner of the data directory)";
        let or = "`psql -d shop -c 'GRANT pg_monitor TO \"bob\"'` (as a superuser), or `pgthaw doctor -D DIRECTORY` (as its owner)";
        let prose =
            "run pgthaw as root (in a container: `docker run --privileged --volume /srv/postgresql:/srv/postgresql`)";
        let text = render_readiness(&ready(Tiers::BOTH, Tiers::BOTH, &[several, owner, or, prose]));
        let commands = [several, owner, or, prose].into_iter().flat_map(|one| one.split('`').skip(1).step_by(2));
        let commands: Vec<&str> = commands.collect();
        for width in 20..200 {
            let shown = crate::wrap_text(&text, Some(width));
            for command in &commands {
                assert!(shown.contains(command), "{width}: {command}\n{shown}");
            }
        }
    }

    fn ready(snapshot: Tiers, restore: Tiers, missing: &[&str]) -> Readiness {
        let missing = missing.iter().map(|remedy| Missing { name: "what", remedy: (*remedy).to_owned() }).collect();
        Readiness { snapshot, restore, restores_some_buffers: false, missing }
    }

    #[test]
    fn the_answer_is_one_sentence_and_commands_stand_alone() {
        const OS: Tiers = Tiers { os: true, buffers: false };
        const NONE: Tiers = Tiers { os: false, buffers: false };
        let all = ready(Tiers::BOTH, Tiers::BOTH, &[]);
        assert_eq!(render_readiness(&all), "you can snapshot and restore both caches; nothing is missing");
        let command = "`psql -d shop -c 'CREATE EXTENSION pg_prewarm'`";
        let one = ready(Tiers::BOTH, OS, &[command]);
        let expected = format!(
            "you can snapshot both caches and restore only the page cache; one command is left to run:\n    {command}"
        );
        assert_eq!(render_readiness(&one), expected);
        let some = Readiness { restores_some_buffers: true, ..one };
        assert!(render_readiness(&some).contains("restore the page cache, and shared_buffers of some databases; one"));
        let privilege = format!("{command} (as a superuser)");
        let two = ready(OS, OS, &[&privilege, "`pgthaw doctor --probe`"]);
        let expected = format!(
            "you can snapshot and restore only the page cache; 2 commands are left to run:\n    {command}\n      (as a superuser)\n    \
             `pgthaw doctor --probe`"
        );
        assert_eq!(render_readiness(&two), expected);
        let otherwise = format!("{command}, or connect as a superuser");
        let told = render_readiness(&ready(OS, OS, &[&otherwise, &privilege]));
        assert!(told.contains("one command is left to run") && told.matches(command).count() == 1, "{told}");
        let advice = ready(NONE, NONE, &["start the server"]);
        let expected =
            "you can neither snapshot nor restore anything; one thing is left to do:\n    what: start the server";
        assert_eq!(render_readiness(&advice), expected);
    }

    #[test]
    fn programs_get_the_answer_with_the_fields_of_a_check() {
        let json = render_readiness_json(&ready(Tiers::BOTH, Tiers { os: false, buffers: true }, &["a", "b"]));
        assert_eq!(json["name"], "verdict");
        assert_eq!(json["remedy"], "a; b");
        assert_eq!(json["restore"], json!(["buffers"]));
        assert_eq!(json["missing"][1], json!({ "name": "what", "remedy": "b" }));
        let done = render_readiness_json(&ready(Tiers::BOTH, Tiers::BOTH, &[]));
        assert_eq!((&done["ok"], &done["remedy"]), (&json!(true), &Value::Null));
    }
}
