//! What the checks come to: what can be kept and brought back here, and what stands in the way of the rest.

use serde::Serialize;

use super::Capability;

/// The checks that decide it, in the order in which one needs the other.
pub const NEEDED: [&str; 8] = ["server", "data-dir", "ownership", "os", "buffered-io", "role", "buffers", "pg_prewarm"];

/// Which of the two caches are meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tiers {
    /// The page cache.
    pub os: bool,
    /// shared_buffers.
    pub buffers: bool,
}

impl Tiers {
    pub const BOTH: Tiers = Tiers { os: true, buffers: true };
}

/// What stands in the way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// The check's name.
    pub name: &'static str,
    /// The command or the advice that mends it.
    pub remedy: String,
}

/// The answer that all the checks give together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readiness {
    pub snapshot: Tiers,
    pub restore: Tiers,
    /// Not all of shared_buffers, but that of some databases can be restored.
    pub restores_some_buffers: bool,
    /// The first thing that is missing for each; what follows from it is not told again.
    pub missing: Vec<Missing>,
}

impl Readiness {
    /// Is all of it possible?
    pub fn is_complete(&self) -> bool {
        self.snapshot == Tiers::BOTH && self.restore == Tiers::BOTH
    }

    /// Is any of it possible?
    pub fn is_anything_possible(&self) -> bool {
        self.snapshot != Tiers::default() || self.restore != Tiers::default() || self.restores_some_buffers
    }
}

/// Draws the conclusion from the checks.
pub fn compute_readiness(capabilities: &[Capability]) -> Readiness {
    let find = |name: &str| capabilities.iter().find(|one| one.name == name);
    let is_ok = |name: &str| find(name).is_some_and(|one| one.ok);
    let (has_server, has_os) = (is_ok("server"), is_ok("os"));
    // A stopped server's way of reading is not known, and the page cache can be filled for it.
    let is_os_used = !has_server || is_ok("buffered-io");
    let for_os = match () {
        () if has_os && is_os_used => None,
        () if has_os => Some("buffered-io"),
        // Neither a server that says where its directory is nor a directory.
        () if !has_server && !is_ok("data-dir") => Some("server"),
        () => ["data-dir", "ownership", "os"].into_iter().find(|name| !is_ok(name)),
    };
    let for_buffers = match has_server {
        true => ["buffers", "pg_prewarm"].into_iter().filter(|name| !is_ok(name)).collect(),
        false => vec!["server"],
    };
    let mut missing: Vec<Missing> = Vec::new();
    for name in for_os.into_iter().chain(for_buffers) {
        let remedy = find(name).map(|one| one.remedy.clone().unwrap_or_else(|| one.detail.clone())).unwrap_or_default();
        // One command may mend several.
        if !missing.iter().any(|known| known.name == name || known.remedy == remedy) {
            missing.push(Missing { name, remedy });
        }
    }
    Readiness {
        snapshot: Tiers { os: has_os, buffers: is_ok("buffers") },
        restore: Tiers { os: has_os && is_os_used, buffers: is_ok("pg_prewarm") },
        restores_some_buffers: find("pg_prewarm").is_some_and(|one| one.is_partly),
        missing,
    }
}

impl Tiers {
    /// For messages.
    pub fn words(self) -> &'static str {
        match self {
            Tiers { os: true, buffers: false } => "the page cache",
            Tiers { os: false, buffers: true } => "shared_buffers",
            _ => "either tier",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Tiers = Tiers { os: false, buffers: false };
    const OS: Tiers = Tiers { os: true, buffers: false };
    const BUFFERS: Tiers = Tiers { os: false, buffers: true };

    /// All is well but for these.
    fn without(lacking: &[&str]) -> Readiness {
        let capability = |name: &'static str| match lacking.contains(&name) {
            true => Capability::no("group", name, "why", format!("mend {name}")),
            false => Capability::yes("group", name, "found"),
        };
        compute_readiness(&NEEDED.map(capability))
    }

    #[track_caller]
    fn assert_ready(lacking: &[&str], snapshot: Tiers, restore: Tiers, missing: &[&str]) {
        let readiness = without(lacking);
        assert_eq!((readiness.snapshot, readiness.restore), (snapshot, restore), "{lacking:?}");
        let names: Vec<&str> = readiness.missing.iter().map(|one| one.name).collect();
        assert_eq!(names, missing, "{lacking:?}");
        assert_eq!(readiness.is_complete(), missing.is_empty(), "{lacking:?}");
    }

    #[test]
    fn what_is_missing_is_told_once_and_by_its_cause() {
        assert_ready(&[], Tiers::BOTH, Tiers::BOTH, &[]);
        assert_ready(&["buffers"], OS, Tiers::BOTH, &["buffers"]);
        assert_ready(&["pg_prewarm"], Tiers::BOTH, OS, &["pg_prewarm"]);
        assert_ready(&["buffers", "pg_prewarm"], OS, OS, &["buffers", "pg_prewarm"]);
        // A role that is no superuser may do all the same what the other checks found.
        assert_ready(&["role"], Tiers::BOTH, Tiers::BOTH, &[]);
        // Run by a stranger, who cannot open the directory.
        assert_ready(&["data-dir", "ownership", "os"], BUFFERS, BUFFERS, &["data-dir"]);
        assert_ready(&["ownership", "os"], BUFFERS, BUFFERS, &["ownership"]);
        assert_ready(&["os"], BUFFERS, BUFFERS, &["os"]);
        // A directory that another user owns is no obstacle where its pages can be seen.
        assert_ready(&["ownership"], Tiers::BOTH, Tiers::BOTH, &[]);
        assert_ready(&["buffered-io"], Tiers::BOTH, BUFFERS, &["buffered-io"]);
    }

    #[test]
    fn without_a_server_its_directory_is_enough_for_the_page_cache() {
        let of_server = ["server", "role", "buffered-io", "buffers", "pg_prewarm"];
        assert_ready(&of_server, OS, OS, &["server"]);
        assert_ready(&NEEDED, NONE, NONE, &["server"]);
    }

    #[test]
    fn one_command_that_mends_two_is_told_once() {
        let both = ["buffers", "pg_prewarm"].map(|name| Capability::no("group", name, "why", "the same"));
        let server = [Capability::yes("group", "server", ""), Capability::yes("group", "os", "")];
        let server = server.into_iter().chain([Capability::yes("group", "buffered-io", "")]);
        assert_eq!(compute_readiness(&server.chain(both).collect::<Vec<_>>()).missing.len(), 1);
    }

    #[test]
    fn some_databases_are_not_all() {
        let partly = Capability { is_partly: true, ..Capability::no("group", "pg_prewarm", "", "") };
        assert!(compute_readiness(&[partly]).restores_some_buffers);
        assert!(!without(&["pg_prewarm"]).restores_some_buffers);
    }
}
