//! What this host lets pgthaw do: each answer is tried, not deduced from versions.

mod cache_checks;
mod kernel_checks;
mod limit_checks;
mod program_checks;
mod read_checks;

use std::path::PathBuf;
use std::sync::Arc;

use super::page_cache::SystemPageCache;
use crate::failure::Capability;
use crate::files::Tree;

/// What the checks are made on.
#[derive(Clone, Debug, Default)]
pub struct HostTarget {
    /// The directory that holds the data; `None` when it is not known or not readable.
    pub data_directory: Option<PathBuf>,
    /// A file in it that is representative of the others, and not empty.
    pub data_file: Option<PathBuf>,
    /// The data directory when it is PostgreSQL's: what is opened of it is opened through this.
    pub files: Option<Arc<Tree>>,
    /// The server's process, when it runs on this host.
    pub server_pid: Option<u32>,
}

impl HostTarget {
    fn page_cache(&self) -> SystemPageCache {
        self.files.as_ref().map_or_else(SystemPageCache::new, SystemPageCache::of)
    }
}

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
    program_checks::check_programs()
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
