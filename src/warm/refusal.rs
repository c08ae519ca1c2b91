//! Why a server or a directory is of no use, as the receipt tells it.

use super::receipt::SkipReason;
use crate::failure::{ErrorKind, Explain as _};
use crate::linux;
use crate::postgres::Error;

/// A reason, with its cause in words for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub reason: SkipReason,
    /// What happened, and what would mend it. `None` when the reason says it all.
    pub detail: Option<String>,
}

impl Refusal {
    /// A reason that says it all.
    pub fn because(reason: SkipReason) -> Refusal {
        Refusal { reason, detail: None }
    }

    /// A reason with its cause.
    pub fn with_detail(reason: SkipReason, detail: impl Into<String>) -> Refusal {
        Refusal { reason, detail: Some(detail.into()) }
    }

    /// Why the server did not do what it was asked.
    pub fn of(error: &Error) -> Refusal {
        let reason = match (error, error.kind()) {
            (Error::ExtensionMissing { .. }, _) => SkipReason::NoPrewarm,
            (Error::Connect { .. }, ErrorKind::Privilege) => SkipReason::LoginRefused,
            (_, ErrorKind::Privilege) => SkipReason::NoPrivilege,
            _ if error.is_too_few_files() => SkipReason::TooFewFiles,
            _ if error.is_server_gone() => SkipReason::ServerGone,
            (Error::Connect { .. }, _) if error.is_closed_database() => SkipReason::DatabaseUnreachable,
            _ => SkipReason::ReadFailed,
        };
        // The reason of too few files says what to do.
        let hint = error.hint().filter(|_| reason != SkipReason::TooFewFiles);
        let hint = hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
        Refusal::with_detail(reason, format!("{error}{hint}"))
    }

    /// Why a file could not be read.
    pub fn of_read(error: &linux::Error) -> Refusal {
        let reason = if error.is_too_few_files() { SkipReason::TooFewFiles } else { SkipReason::ReadFailed };
        Refusal::with_detail(reason, error.to_string())
    }
}
