//! Restores of one cluster at once: each reads what the other does, and says so.

use cache::trace::{Journal, Journals};

/// That a restore reads, and who else does.
pub struct AtOnce {
    journals: Journals,
    restoring: Journal,
    others: Vec<u32>,
}

impl AtOnce {
    /// `None` where it cannot be noted: a restore does not fail for that.
    pub fn begin(journals: Journals) -> Option<AtOnce> {
        let (restoring, others) = journals.begin_restore().ok()?;
        Some(AtOnce { journals, restoring, others })
    }

    /// Who else reads.
    pub fn remark(&self) -> Option<String> {
        let others: Vec<String> = self.others.iter().map(u32::to_string).collect();
        let told = match others.as_slice() {
            [] => return None,
            [one] => format!("another `pgthaw restore` of this server (process {one}) is reading already"),
            more => format!("other pgthaw restores of this server (processes {}) are reading already", more.join(", ")),
        };
        Some(format!("{told}: both share the device, and read the same"))
    }

    /// It has read.
    pub fn end(self) {
        self.journals.end_restore(self.restoring);
    }
}
