//! Builds the report's front end (`web/dist/`) if it is missing or older than its sources.
#![allow(clippy::print_stdout)]

use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

const SOURCES: [&str; 4] =
    ["../../web/src", "../../web/build.mjs", "../../web/package.json", "../../web/package-lock.json"];

/// npm's build writes this checksum last, so its modification time is that of the whole bundle.
const BUNDLE: &str = "../../web/dist/report.js.sha256";

const INSTALLED: &str = "../../web/node_modules/.package-lock.json";

fn main() {
    for source in SOURCES.into_iter().chain([BUNDLE]) {
        println!("cargo::rerun-if-changed={source}");
    }
    let newest_source = SOURCES.iter().filter_map(|source| newest_change(Path::new(source))).max();
    if newest_change(Path::new(BUNDLE)) >= newest_source {
        return;
    }
    if let Err(reason) = make_bundle() {
        println!("cargo::error=the report's front end in web/dist is missing or out of date, and {reason}");
        println!("cargo::error=run: make web (it needs Node.js 18 or newer with npm: apt-get install nodejs npm)");
    }
}

fn newest_change(path: &Path) -> Option<SystemTime> {
    let facts = path.metadata().ok()?;
    if facts.is_dir() {
        let entries = path.read_dir().ok()?;
        return entries.filter_map(|entry| newest_change(&entry.ok()?.path())).max();
    }
    facts.modified().ok()
}

fn make_bundle() -> Result<(), String> {
    if newest_change(Path::new(INSTALLED)) < newest_change(Path::new("../../web/package-lock.json")) {
        run_npm(&["ci", "--ignore-scripts", "--no-audit", "--no-fund"])?;
    }
    run_npm(&["run", "build"])
}

fn run_npm(arguments: &[&str]) -> Result<(), String> {
    let command = format!("`npm {}` in web/", arguments.join(" "));
    let output = Command::new("npm").args(arguments).current_dir("../../web").output();
    let output = output.map_err(|error| format!("{command} cannot be run: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
    Err(format!("{command} failed: {said}"))
}
