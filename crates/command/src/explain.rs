//! Finds the kind and hint of an error.

use std::io;
use std::path::Path;
use std::sync::OnceLock;

use super::{NoThreads, NotALabServer, Panicked, SettingsError, document, http, table};
use host::failure::{ErrorKind, Explain, FullDisk};
use host::linux::machine::{is_without_inodes, read_free_bytes, read_mount};
use host::units::Bytes;

use host::linux;

use cache::{trace, warm};

pub fn explain(error: &anyhow::Error) -> (ErrorKind, Option<String>) {
    let own = OWN.get().copied().unwrap_or_default();
    let as_explain = |cause| SHARED.iter().chain(own).find_map(|cast| cast(cause));
    let Some(found) = error.chain().find_map(as_explain) else {
        let source = error.chain().find_map(|cause| cause.downcast_ref::<io::Error>());
        let full = source.and_then(|source| FullDisk::of_file(source, Path::new(""), None));
        return (ErrorKind::Failed, full.map(|full| describe_full_disk(&full)));
    };
    let full = found.full_disk().map(|full| describe_full_disk(&full));
    (found.kind(), full.or_else(|| found.hint()))
}

/// Above this free space, the disk is not full now: files were deleted since, or a quota was reached.
const FREE_OF_FULL_DISK: Bytes = Bytes(1 << 30);

fn describe_full_disk(full: &FullDisk) -> String {
    let there = full.path.iter().flat_map(|path| path.ancestors()).find(|path| path.exists());
    let instead = full.instead.map(|instead| format!(", or use another disk with {instead}")).unwrap_or_default();
    let disk = there.and_then(|path| Some((path, read_free_bytes(path).ok()?, read_mount(path).ok()?.mount_point)));
    let Some((path, free, point)) = disk else { return format!("free some space{instead}") };
    let point = point.display();
    if is_without_inodes(path) {
        format!("{point} has no inode left for a new file (although {free} are free); remove files{instead}")
    } else if free > FREE_OF_FULL_DISK {
        format!("{point} was full or a quota was reached ({free} are free now); free some space{instead}")
    } else {
        format!("{point} is full ({free} are free); free some space{instead}")
    }
}

/// Message and causes, each once: many errors repeat their source's text.
pub fn describe(error: &anyhow::Error) -> String {
    let mut texts: Vec<String> = Vec::new();
    let mut is_told_whole = false;
    for cause in error.chain() {
        // The text already ends with the server's message.
        if is_told_whole && cause.is::<sqlx::Error>() {
            break;
        }
        is_told_whole = cause.is::<postgres::Error>();
        let text = cause.to_string();
        if !texts.iter().any(|told| told.contains(&text)) {
            texts.push(text);
        }
    }
    // A server's message has no length limit.
    let mut told = texts.join(": ");
    if let Some((end, _)) = told.char_indices().nth(TOLD_CHARACTERS) {
        told.truncate(end);
        told.push('…');
    }
    // The message may quote a command with its password.
    postgres::keep_text(told)
}

const TOLD_CHARACTERS: usize = 10_000;

pub type Cast = for<'a> fn(&'a (dyn std::error::Error + 'static)) -> Option<&'a dyn Explain>;

pub fn cast<'a, E: Explain + 'static>(cause: &'a (dyn std::error::Error + 'static)) -> Option<&'a dyn Explain> {
    cause.downcast_ref::<E>().map(|error| error as &dyn Explain)
}

/// Error types that both programs have.
const SHARED: &[Cast] = &[
    cast::<linux::Error>,
    cast::<postgres::Error>,
    cast::<observe::Error>,
    cast::<cache::Error>,
    cast::<warm::Error>,
    cast::<trace::Error>,
    cast::<model::Error>,
    cast::<document::Error>,
    cast::<http::Error>,
    cast::<table::Error>,
    cast::<Panicked>,
    cast::<NoThreads>,
    cast::<NotALabServer>,
    cast::<SettingsError>,
];

static OWN: OnceLock<&'static [Cast]> = OnceLock::new();

/// Adds a program's own error types. Only the first call counts.
pub fn explain_also(own: &'static [Cast]) {
    OWN.get_or_init(|| own);
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn a_cause_is_told_once() {
        let cause = || io::Error::from_raw_os_error(2);
        let told = "cannot open /x: No such file or directory (os error 2)";
        assert_eq!(describe(&cache::Error::file("open", Path::new("/x"), cause()).into()), told);
        let within = postgres::Error::Connect { address: "/tmp:1".into(), source: sqlx::Error::Io(cause()) };
        let told = "cannot connect to /tmp:1: No such file or directory (os error 2)";
        assert_eq!(describe(&within.into()), told);
        let context = Err::<(), _>(cause()).context("cannot write manual pages").unwrap_err();
        assert_eq!(describe(&context), "cannot write manual pages: No such file or directory (os error 2)");
    }
}
