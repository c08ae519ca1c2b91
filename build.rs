//! Makes what the program embeds: the report's front end (`web/dist/`) when it is missing or older than its sources, and the
//! programs that it loads into the kernel. A package that carries `web/dist/` needs no npm. Where clang is missing, pgthaw is built
//! without programs in the kernel, and says so when somebody asks for one.
#![allow(clippy::print_stdout)]

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// What the bundle is made from.
const SOURCES: [&str; 4] = ["web/src", "web/build.mjs", "web/package.json", "web/package-lock.json"];

/// What the program embeds; written last, so that it dates the bundle.
const BUNDLE: &str = "web/dist/report.js.sha256";

const INSTALLED: &str = "web/node_modules/.package-lock.json";

/// Where the programs in the kernel are: of each name `NAME/NAME.bpf.c`, and what they share. Whoever includes what they are compiled to
/// does so under the condition `probes`.
const PROBES_DIRECTORY: &str = "src/observe/probes";

const PROBES: [&str; 2] = ["pages", "time"];

fn main() {
    embed_bundle();
    println!("cargo::rustc-check-cfg=cfg(probes)");
    println!("cargo::rerun-if-changed={PROBES_DIRECTORY}");
    if std::env::var_os("CARGO_FEATURE_EBPF").is_some() && PROBES.iter().all(|name| compile_probe(name)) {
        println!("cargo::rustc-cfg=probes");
    }
}

fn embed_bundle() {
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

/// The newest modification of a file, or of anything below a directory. `None` when it is not there.
fn newest_change(path: &Path) -> Option<SystemTime> {
    let facts = path.metadata().ok()?;
    if facts.is_dir() {
        let entries = path.read_dir().ok()?;
        return entries.filter_map(|entry| newest_change(&entry.ok()?.path())).max();
    }
    facts.modified().ok()
}

fn make_bundle() -> Result<(), String> {
    if newest_change(Path::new(INSTALLED)) < newest_change(Path::new("web/package-lock.json")) {
        run_npm(&["ci", "--ignore-scripts", "--no-audit", "--no-fund"])?;
    }
    run_npm(&["run", "build"])
}

fn run_npm(arguments: &[&str]) -> Result<(), String> {
    let command = format!("`npm {}` in web/", arguments.join(" "));
    let output = Command::new("npm").args(arguments).current_dir("web").output();
    let output = output.map_err(|error| format!("{command} cannot be run: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
    Err(format!("{command} failed: {said}"))
}

/// Compiles the program of this name. `false` where that cannot be done, which is said.
fn compile_probe(name: &str) -> bool {
    let source = format!("{PROBES_DIRECTORY}/{name}/{name}.bpf.c");
    let object = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default()).join(format!("{name}.bpf.o"));
    let clang = Command::new("clang")
        .args(["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-Werror", "-c", &source, "-o"])
        .arg(object)
        .output();
    match clang {
        Ok(output) if output.status.success() => return true,
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
            println!("cargo::error=clang cannot compile {source}: {said}");
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            println!(
                "cargo::warning=clang is missing, so pgthaw will have no programs in the kernel: apt-get install clang; touch build.rs"
            );
        }
        Err(error) => println!("cargo::error=clang cannot be run: {error}"),
    }
    false
}
