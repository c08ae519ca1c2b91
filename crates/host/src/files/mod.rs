//! Files in places where others may write: opened once, checked by what was opened, acted on by the descriptor.
//!
//! A name is looked up once. What is then read, written or removed is what the descriptor holds, however often somebody
//! renames things meanwhile; a symbolic link below an opened directory is an error, and so is a pipe, a socket or a device
//! where a file is expected, at once and without waiting for it.

mod directory;
mod draft;
mod mode;
mod owner;
mod regular;
mod tree;

pub use directory::{Directory, Entry, EntryKind, directory_of};
pub use draft::{Draft, draft_beside, remove_abandoned_drafts, write_whole};
pub use mode::{DIRECTORY_MODE, FILE_MODE, FileMode, with_given_umask};
pub use owner::{MADE_UP_CHARACTERS, OwnDirectory};
pub use owner::{as_owner_of, has_foreign_owner};
pub use regular::{
    open_regular, open_regular_or_pipe, open_regular_with, read_at_most, read_open_at_most, read_open_text_at_most,
    read_text_at_most,
};
pub use tree::Tree;

/// Bytes that a file of settings, a lock, a token or the like may have.
pub const SMALL_FILE_BYTES_MAX: u64 = 1 << 20;
