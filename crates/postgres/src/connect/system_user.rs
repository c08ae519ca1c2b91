use std::fs;
use std::future::Future;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

use host::files::OPEN_DIRECTORIES;
use nix::unistd::User;
use rustix::process::{Uid, geteuid};
use rustix::thread::set_thread_res_uid;

#[derive(Debug, thiserror::Error)]
#[error("the operating system has no user {who}")]
pub struct NoSuchUser {
    who: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemUser {
    pub uid: u32,
    pub name: String,
}

impl SystemUser {
    /// Like libpq, the effective user.
    pub fn current() -> Result<SystemUser, NoSuchUser> {
        let uid = geteuid().as_raw();
        SystemUser::of_uid(uid).ok_or_else(|| NoSuchUser { who: format!("with uid {uid}") })
    }

    pub fn named(name: &str) -> Result<SystemUser, NoSuchUser> {
        let found = User::from_name(name).ok().flatten();
        let found = found.map(|user| SystemUser { uid: user.uid.as_raw(), name: user.name });
        found.ok_or_else(|| NoSuchUser { who: format!("called \"{name}\"") })
    }

    /// Never returns root, who cannot run PostgreSQL. The user in a container may have another name on this host, or none.
    pub fn owner_of_socket(file: &Path) -> Option<SystemUser> {
        let user = match file.starts_with(OPEN_DIRECTORIES) {
            true => Some(SystemUser { uid: fs::metadata(file).ok()?.uid(), name: "postgres".into() }),
            false => SystemUser::of_uid(fs::symlink_metadata(file).ok()?.uid()),
        };
        user.filter(|user| user.uid != 0)
    }

    pub fn is_trusted_owner(file: &Path) -> bool {
        fs::symlink_metadata(file).is_ok_and(|found| SystemUser::is_trusted(found.uid()))
    }

    pub fn is_trusted(uid: u32) -> bool {
        uid == 0 || uid == geteuid().as_raw() || SystemUser::of_uid(uid).is_some_and(|user| user.name == "postgres")
    }

    pub fn of_uid(uid: u32) -> Option<SystemUser> {
        let user = User::from_uid(nix::unistd::Uid::from_raw(uid)).ok().flatten()?;
        Some(SystemUser { uid, name: user.name })
    }

    pub fn is_root() -> bool {
        geteuid().is_root()
    }

    pub fn can_be_taken(&self) -> bool {
        geteuid().is_root() || geteuid().as_raw() == self.uid
    }
}

/// Acts as another user during each poll: peer authentication reads the uid of the thread that calls `connect`.
pub struct ActingAs<F> {
    user: u32,
    inner: Pin<Box<F>>,
}

impl<F: Future> ActingAs<F> {
    /// Requires root unless `user` is this process's user.
    pub fn new(user: &SystemUser, inner: F) -> ActingAs<F> {
        ActingAs { user: user.uid, inner: Box::pin(inner) }
    }
}

impl<F: Future<Output = Result<T, sqlx::Error>>, T> Future for ActingAs<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let before = geteuid();
        // Changes only the effective uid, which can be restored.
        let unchanged = None::<Uid>;
        if let Err(error) = set_thread_res_uid(unchanged, Uid::from_raw(self.user), unchanged) {
            return Poll::Ready(Err(sqlx::Error::Io(error.into())));
        }
        let polled = self.inner.as_mut().poll(context);
        // Continuing as another user would be worse than a panic.
        set_thread_res_uid(unchanged, before, unchanged)
            .expect("pgthaw could not switch back to the operating-system user that it runs as");
        polled
    }
}

/// libpq's socket directories: Debian's, then PostgreSQL's.
pub const SOCKET_DIRECTORIES: [&str; 2] = ["/var/run/postgresql", "/tmp"];

pub const DEFAULT_PORT: u16 = 5432;

/// The directory with the port's socket, else psql's default. A socket in /tmp must belong to a trusted
/// user, because anyone can put one there to collect passwords.
pub fn default_host(port: u16) -> String {
    let has_socket = |directory: &&&str| {
        let socket = Path::new(directory).join(format!(".s.PGSQL.{port}"));
        socket.exists() && (**directory == SOCKET_DIRECTORIES[0] || SystemUser::is_trusted_owner(&socket))
    };
    SOCKET_DIRECTORIES.iter().find(has_socket).unwrap_or(&SOCKET_DIRECTORIES[0]).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_known_by_name_and_uid() {
        let me = SystemUser::current().unwrap();
        assert_eq!(SystemUser::named(&me.name).unwrap(), me);
        assert!(me.can_be_taken());
        let error = SystemUser::named("no such user").unwrap_err();
        assert!(error.to_string().contains("no such user"), "{error}");
    }

    #[test]
    fn a_future_acts_as_another_user_and_the_thread_does_not() {
        needs_root!();
        let nobody = SystemUser::named("nobody").unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let seen = runtime.block_on(ActingAs::new(&nobody, async {
            let first = geteuid().as_raw();
            tokio::task::yield_now().await;
            Ok((first, geteuid().as_raw()))
        }));
        assert_eq!(seen.unwrap(), (nobody.uid, nobody.uid));
        assert!(SystemUser::is_root());
    }
}
