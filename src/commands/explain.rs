//! Finds the kind and the hint of whatever went wrong.

use super::{NotALabServer, SettingsError};
use crate::failure::{ErrorKind, Explain};
use crate::{bench, cache, linux, observe, postgres, report, results, warm};

/// The kind and hint of the first error in the chain that has them.
pub fn explain(error: &anyhow::Error) -> (ErrorKind, Option<String>) {
    error.chain().find_map(as_explain).map_or((ErrorKind::Failed, None), |found| (found.kind(), found.hint()))
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
        .or_else(|| cast::<results::Error>(cause))
        .or_else(|| cast::<report::Error>(cause))
        .or_else(|| cast::<NotALabServer>(cause))
        .or_else(|| cast::<SettingsError>(cause))
}
