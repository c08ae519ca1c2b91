//! Also makes cargo build the program beside pgthaw, whose tests run it.
#![allow(clippy::unwrap_used)]

#[test]
fn it_tells_its_version() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_pgthaw-lab")).arg("--version").output().unwrap();
    assert!(output.status.success() && output.stdout.ends_with(b"\n"), "{output:?}");
}
