//! Mistakes and what is printed: tests/all/mistakes/README.md is made by this test, which makes each mistake, mends it as the text says
//! and looks whether that helps. `PGTHAW_UPDATE_DOCS=1 cargo nextest run mistakes` writes the file anew.

mod redaction;
mod table;
mod world;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use redaction::Redaction;
use table::{GROUPS, Mend, Mistake};
use world::World;

use crate::servers::Output;

const DOCUMENT: &str = "tests/all/mistakes/README.md";
const UPDATE: &str = "PGTHAW_UPDATE_DOCS";

const HEAD: &str = "\
# Mistakes, and what is printed

Each mistake below is made by a test, which compares what is printed with this page, then does what mends it and runs the
command again. Paths, ports, numbers and times are those of the example. `$` is what was typed, `→` the exit status: 1
failed, 2 usage, 3 a privilege or capability is missing.
";

/// Nothing that was typed as a password is ever printed.
pub const PLANTED: &str = "planted-secret";

#[test]
fn every_mistake_is_told_with_its_reason_and_mended_by_what_is_said() {
    let Some(world) = World::make() else { return };
    let redaction = Redaction::of(&world);
    let mut document = HEAD.to_owned();
    let mut complaints = Vec::new();
    for (heading, mistakes) in GROUPS {
        let _ = write!(document, "\n## {heading}\n");
        for mistake in *mistakes {
            let made = world.sh(mistake.command);
            complaints.extend(find_complaints(mistake, &made));
            let _ = write!(document, "\n{}\n\n{}", mistake.what, describe(mistake, &made, &redaction));
            complaints.extend(mend(&world, mistake));
        }
    }
    // Nothing half-written stays where there was no room: directories at most, and what has no content.
    let left =
        world.sh("find full -type f -size +0 ! -name ballast; find full -name '.pgthaw*'; find full -name 'pgthaw-*'");
    if !left.stdout.is_empty() {
        complaints.push(format!("left on the full disk:\n{}", left.stdout));
    }
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(DOCUMENT);
    if std::env::var_os(UPDATE).is_some() {
        fs::write(&path, &document).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    let differing = document.lines().zip(kept.lines()).find(|(now, kept)| now != kept);
    if document != kept {
        complaints.push(format!("{DOCUMENT} has changed ({differing:?}): {UPDATE}=1 writes it anew"));
    }
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n\n"));
}

#[test]
fn there_are_at_least_sixty_and_none_twice() {
    let commands: Vec<&str> = GROUPS.iter().flat_map(|(_, mistakes)| *mistakes).map(|one| one.command).collect();
    assert!(commands.len() >= 60, "{}", commands.len());
    let mut once = commands.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), commands.len());
}

/// The paragraph of a mistake: what was typed, what was printed, what mends it.
fn describe(mistake: &Mistake, made: &Output, redaction: &Redaction) -> String {
    let printed = redaction.apply(&format!("$ {}\n{}{}→ {}", mistake.command, made.stdout, made.stderr, made.status));
    let indented: String = printed.lines().map(|line| format!("    {line}\n").replace("    \n", "\n")).collect();
    let mended = match mistake.mend {
        Mend::First(command) => format!("\nMended by `{}`; the same command works then.\n", redaction.apply(command)),
        Mend::Instead(command) => format!("\nWhat works: `{}`\n", redaction.apply(command)),
        Mend::Untried(why) => format!("\nNot tried here: {why}.\n"),
    };
    indented + &mended
}

/// What is wrong with how a mistake is told.
fn find_complaints(mistake: &Mistake, made: &Output) -> Vec<String> {
    let told = format!("$ {}\n{}{}→ {}", mistake.command, made.stdout, made.stderr, made.status);
    let mut complaints = Vec::new();
    let mut complain = |what: &str| complaints.push(format!("{what}: {told}"));
    if !(1..=3).contains(&made.status) {
        complain("no failure");
    }
    // clap's own words for what was mistyped end with where help is.
    let is_explained =
        made.stderr.contains("hint: ") || made.stderr.contains("tip: ") || made.stderr.contains("--help");
    if !made.stderr.contains("pgthaw: ") && !made.stderr.contains("error: ") {
        complain("it does not say what happened");
    }
    if !is_explained {
        complain("it does not say what to do");
    }
    if made.stderr.contains("panicked") || made.stderr.contains("RUST_BACKTRACE") {
        complain("a panic");
    }
    if told.replacen(mistake.command, "", 1).contains(PLANTED) {
        complain("a password is printed");
    }
    complaints
}

/// Mends it, and says when that did not help.
fn mend(world: &World, mistake: &Mistake) -> Option<String> {
    let output = match mistake.mend {
        Mend::First(command) => {
            let mended = world.sh(command);
            if mended.status != 0 {
                return Some(format!("$ {command}\n{}{}", mended.stdout, mended.stderr));
            }
            world.sh(mistake.command)
        }
        Mend::Instead(command) => world.sh(command),
        Mend::Untried(_) => return None,
    };
    let is_mended = output.status == 0;
    (!is_mended)
        .then(|| format!("{}: not mended by {:?}:\n{}{}", mistake.what, mistake.mend, output.stdout, output.stderr))
}
