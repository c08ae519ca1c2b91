//! Finds the kind and the hint of whatever went wrong.

use super::steady::UnknownStrategy;
use super::{MeasuredError, NotALabServer, SettingsError};
use crate::failure::{ErrorKind, Explain};
use crate::{bench, cache, linux, model, observe, postgres, report, results, serve, warm};

/// The kind and hint of the first error in the chain that has them.
pub fn explain(error: &anyhow::Error) -> (ErrorKind, Option<String>) {
    error.chain().find_map(as_explain).map_or((ErrorKind::Failed, None), |found| (found.kind(), found.hint()))
}

/// What went wrong, and why: each cause once. Our own errors end with their cause's words, as do those of many
/// libraries, and name it as their source too.
pub fn describe(error: &anyhow::Error) -> String {
    let mut texts: Vec<String> = Vec::new();
    let mut is_told_whole = false;
    for cause in error.chain() {
        // These end with what the server said; what sqlx calls it adds only a line of the server's sources.
        if is_told_whole && cause.is::<sqlx::Error>() {
            break;
        }
        is_told_whole = cause.is::<postgres::Error>();
        let text = cause.to_string();
        if !texts.iter().any(|told| told.contains(&text)) {
            texts.push(text);
        }
    }
    texts.join(": ")
}

/// Every folder's error type stands here.
fn as_explain<'a>(cause: &'a (dyn std::error::Error + 'static)) -> Option<&'a dyn Explain> {
    fn cast<'a, E: Explain + 'static>(cause: &'a (dyn std::error::Error + 'static)) -> Option<&'a dyn Explain> {
        cause.downcast_ref::<E>().map(|error| error as &dyn Explain)
    }
    // One a line, so that two new ones seldom meet.
    cast::<linux::Error>(cause)
        .or_else(|| cast::<postgres::Error>(cause))
        .or_else(|| cast::<observe::Error>(cause))
        .or_else(|| cast::<bench::Error>(cause))
        .or_else(|| cast::<cache::Error>(cause))
        .or_else(|| cast::<warm::Error>(cause))
        .or_else(|| cast::<model::Error>(cause))
        .or_else(|| cast::<results::Error>(cause))
        .or_else(|| cast::<report::Error>(cause))
        .or_else(|| cast::<serve::Error>(cause))
        .or_else(|| cast::<NotALabServer>(cause))
        .or_else(|| cast::<MeasuredError>(cause))
        .or_else(|| cast::<SettingsError>(cause))
        .or_else(|| cast::<UnknownStrategy>(cause))
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;

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
