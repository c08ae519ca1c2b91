//! What this host lets pgthaw do: each answer is tried, not deduced from versions.

mod cache_checks;
mod host_target;
mod kernel_checks;
mod limit_checks;
mod read_checks;

use std::env;
use std::path::PathBuf;

use crate::failure::Capability;

pub use host_target::HostTarget;
pub use kernel_checks::{BPF_REMEDY, counts_program_time};

const OTHER_TOOLS: &str = "other tools";

/// Programs that pgthaw is compared with, and the Debian packages that have them.
const PROGRAMS: [(&str, &str); 2] = [("vmtouch", "vmtouch"), ("fio", "fio")];

/// Makes every check. Changes nothing but a scratch file and an empty cgroup of its own; takes well under a second.
pub fn check_host(target: &HostTarget) -> Vec<Capability> {
    vec![
        cache_checks::check_residency(target),
        cache_checks::check_eviction(target),
        cache_checks::check_activity(),
        cache_checks::check_drop_caches(),
        limit_checks::check_memory(target),
        read_checks::check_direct_io(target),
        read_checks::check_io_uring(),
        limit_checks::check_device(target),
        limit_checks::check_disk_limit(target),
        kernel_checks::check_bpf(),
        kernel_checks::check_tracepoints(),
        kernel_checks::check_pressure(),
    ]
}

/// Looks for other tools that pgthaw is compared with.
pub fn check_programs() -> Vec<Capability> {
    let check = |(name, package): (&'static str, &str)| match find_program(name) {
        Some(path) => Capability::yes(OTHER_TOOLS, name, path.display().to_string()),
        None => Capability::no(OTHER_TOOLS, name, "not in PATH", format!("`apt-get install {package}`")),
    };
    PROGRAMS.into_iter().map(check).collect()
}

fn find_program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|directory| directory.join(name)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_says_what_to_do() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let file = directory.path().join("1262");
        std::fs::write(&file, vec![7; 8192]).unwrap();
        let targets = [
            HostTarget::default(),
            HostTarget {
                data_directory: Some(directory.path().to_owned()),
                data_file: Some(file),
                files: None,
                server_pid: Some(std::process::id()),
            },
        ];
        for target in targets {
            for capability in check_host(&target) {
                assert!(!capability.detail.is_empty(), "{capability:?}");
                assert_eq!(capability.ok, capability.remedy.is_none(), "{capability:?}");
            }
        }
    }

    #[test]
    fn an_own_file_is_visible_and_evictable() {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let file = directory.path().join("1262");
        std::fs::write(&file, vec![7; 8192]).unwrap();
        let target = HostTarget {
            data_directory: Some(directory.path().to_owned()),
            data_file: Some(file),
            ..HostTarget::default()
        };
        let residency = cache_checks::check_residency(&target);
        assert!(residency.ok, "{residency:?}");
        let eviction = cache_checks::check_eviction(&target);
        assert!(eviction.ok, "{eviction:?}");
    }
}
