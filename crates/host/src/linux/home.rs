//! Whose home it is where a program keeps its state.

use std::env::var_os;
use std::path::{Path, PathBuf};

use nix::unistd::User;
use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::process::geteuid;

/// `$XDG_STATE_HOME`, by default `~/.local/state`; `None` for who has no home.
pub fn state_home() -> Option<PathBuf> {
    absolute("XDG_STATE_HOME").or_else(|| home().as_deref().map(state_in))
}

/// Where programs keep the state of a user with this home, unless he said otherwise.
pub fn state_in(home: &Path) -> PathBuf {
    home.join(".local/state")
}

/// `$HOME`; where this user may not write there (`runuser -u postgres` leaves root's), that of the password database.
pub fn home() -> Option<PathBuf> {
    let named = absolute("HOME");
    if named.as_deref().is_some_and(|named| !is_foreign(named)) {
        return named;
    }
    own_home().or(named)
}

fn absolute(name: &str) -> Option<PathBuf> {
    var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

fn is_foreign(home: &Path) -> bool {
    let access = accessat(CWD, home, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS);
    access.is_err_and(|error| error == rustix::io::Errno::ACCESS)
}

/// The home that the password database has for the user of this process.
fn own_home() -> Option<PathBuf> {
    home_of(geteuid().as_raw()).filter(|home| home.is_dir() && !is_foreign(home))
}

/// The home that the password database has for a user.
pub fn home_of(uid: u32) -> Option<PathBuf> {
    User::from_uid(nix::unistd::Uid::from_raw(uid)).ok().flatten().map(|user| user.dir)
}
