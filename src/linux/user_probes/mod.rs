//! Probes that a program brings with it (USDT): read from its notes, and attached to.

mod attach;
mod notes;

pub use attach::{AttachedProbe, attach_user_probe};
pub use notes::{ArgumentPlace, UserProbe, read_user_probes};
