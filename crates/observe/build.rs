//! Compiles the programs that pgthaw loads into the kernel. Where clang is missing, pgthaw is built without them, and says so when
//! somebody asks for one.
#![allow(clippy::print_stdout)]

use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::Command;

/// Where the programs in the kernel are: of each name `NAME/NAME.bpf.c`, and what they share. Whoever includes what they are compiled to
/// does so under the condition `probes`.
const PROBES_DIRECTORY: &str = "src/probes";

const PROBES: [&str; 2] = ["pages", "time"];

fn main() {
    println!("cargo::rustc-check-cfg=cfg(probes)");
    println!("cargo::rerun-if-changed={PROBES_DIRECTORY}");
    if std::env::var_os("CARGO_FEATURE_EBPF").is_some() && PROBES.iter().all(|name| compile_probe(name)) {
        println!("cargo::rustc-cfg=probes");
    }
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
                "cargo::warning=clang is missing, so pgthaw will have no programs in the kernel: apt-get install clang; touch crates/observe/build.rs"
            );
        }
        Err(error) => println!("cargo::error=clang cannot be run: {error}"),
    }
    false
}
