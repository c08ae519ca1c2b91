//! Compiles the kernel programs. Without clang, pgthaw is built without them and reports that on use.
#![allow(clippy::print_stdout)]

use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::Command;

/// Has `NAME/NAME.bpf.c` for each program, and shared headers. Code that includes the objects needs `cfg(probes)`.
const PROBES_DIRECTORY: &str = "src/probes";

const PROBES: [&str; 2] = ["pages", "time"];

fn main() {
    println!("cargo::rustc-check-cfg=cfg(probes)");
    println!("cargo::rerun-if-changed={PROBES_DIRECTORY}");
    if std::env::var_os("CARGO_FEATURE_EBPF").is_some() && PROBES.iter().all(|name| compile_probe(name)) {
        println!("cargo::rustc-cfg=probes");
    }
}

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
                "cargo::warning=clang is missing, so pgthaw is built without its BPF programs: apt-get install clang; touch crates/observe/build.rs"
            );
        }
        Err(error) => println!("cargo::error=clang cannot be run: {error}"),
    }
    false
}
