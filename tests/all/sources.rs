//! docs/sources.md: its commands are pgthaw's, its verdicts and metrics have these names, its studies are there.

use std::path::Path;

use crate::servers::{Home, Output};

/// What stands in backticks on the page, or between them: every word with a meaning of its own.
fn quoted(text: &str) -> Vec<String> {
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2).map(str::to_owned)).collect()
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn read(file: &str) -> String {
    std::fs::read_to_string(root().join(file)).unwrap()
}

/// Does it need neither a server nor minutes?
fn is_quick(words: &[&str]) -> bool {
    words.starts_with(&["predict"]) && words.iter().any(|word| word.starts_with("pages="))
        || (words.starts_with(&["bench"]) && (words.contains(&"--dry-run") || words.contains(&"--print")))
}

#[test]
fn every_command_of_the_page_is_one() {
    let home = Home::new();
    let page = read("docs/sources.md");
    let commands: Vec<String> = quoted(&page).into_iter().filter(|text| text.starts_with("pgthaw ")).collect();
    assert!(commands.len() > 40, "{commands:?}");
    for command in commands {
        let mut words: Vec<&str> = command.split_whitespace().skip(1).collect();
        // So that its keys are looked at.
        if words.starts_with(&["bench"]) && words.len() > 1 && !words.contains(&"--dry-run") {
            words.push("--print");
        }
        if is_quick(&words) {
            let output = home.command(&words).current_dir(root()).output().unwrap();
            assert!(Output::from(output).ok().stdout.len() > 20, "{command}");
            continue;
        }
        let name: Vec<&str> = words.iter().copied().take_while(|word| !word.starts_with('-')).collect();
        let help = home.pgthaw(&[&name[..], &["--help"]].concat()).ok().stdout;
        for option in words.iter().filter(|word| word.starts_with("--")) {
            assert!(help.contains(option), "{command}: no {option} in {help}");
        }
    }
}

#[test]
fn every_row_is_there_once_and_every_study_too() {
    let page = read("docs/sources.md");
    let rows: Vec<(&str, &str)> =
        page.lines().filter_map(|line| line.strip_prefix("- **")?.split_once("** ")).collect();
    for (letter, count) in [("C", 25), ("V", 19), ("S", 39), ("B", 43)] {
        let found: Vec<&str> = rows.iter().map(|row| row.0).filter(|name| name.starts_with(letter)).collect();
        let expected: Vec<String> = (1..=count).map(|number| format!("{letter}{number}")).collect();
        assert_eq!(found, expected);
    }
    let studies =
        page.split(|letter: char| letter == '`' || letter.is_whitespace()).filter(|word| word.starts_with("lab/"));
    for study in studies {
        assert!(root().join(study).exists(), "{study}");
    }
    for (name, text) in rows {
        let is_stated = !text.starts_with('(') || text.starts_with("(part) ") || text.starts_with("(no) ");
        assert!(is_stated && text.starts_with("(no) ") != text.contains(": "), "{name} {text}");
    }
}

#[test]
fn its_verdicts_and_metrics_have_these_names() {
    let page = read("docs/sources.md");
    let measures = read("docs/measures.md");
    let told = |line: &str, word: &str| line.contains(&format!("{word} `")) || line.contains(&format!("{word}s `"));
    for line in page.lines().filter(|line| told(line, "verdict") || told(line, "metric")) {
        for name in quoted(line).into_iter().filter(|text| !text.contains([' ', '[', '=']) && !text.starts_with('-')) {
            assert!(measures.contains(&format!("`{name}`")), "{name} is not in docs/measures.md: {line}");
        }
    }
}

#[test]
fn every_promise_of_the_security_page_names_tests_that_are_there() {
    let page = read("docs/security.md");
    let promises = page.split("## Promises").nth(1).unwrap().split("\n\n").nth(2).unwrap();
    for promise in promises.split("\n- ") {
        let named = promise.trim_end().strip_suffix(')').and_then(|text| text.rsplit_once('('));
        let named = quoted(&named.unwrap_or_else(|| panic!("{promise} names no test")).1.replace('\n', " "));
        assert!(!named.is_empty(), "{promise}");
        for name in named {
            let parts: Vec<&str> = name.trim_end_matches('…').split("::").collect();
            let places = ["tests/all/", "tests/"].map(|folder| format!("{folder}{}", parts.join("/")));
            let is_module = places.iter().flat_map(|place| [format!("{place}.rs"), format!("{place}/mod.rs")]);
            let is_there = is_module.map(|file| root().join(file)).any(|file| file.exists());
            let is_function = || read(&format!("tests/all/{}.rs", parts[0])).contains(&format!("fn {}", parts[1]));
            assert!(is_there || (parts.len() == 2 && is_function()), "{name} of {promise}");
        }
    }
}
