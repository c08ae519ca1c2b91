//! Waiting for what the kernel has to tell, and for the end of what goes on.

use std::io::{self, PipeReader, PipeWriter, pipe};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Is held while something goes on: it is over when this is dropped.
#[derive(Debug)]
pub struct Going {
    _held: PipeWriter,
}

/// By which it is known at once that something is over.
#[derive(Debug)]
pub struct Over(PipeReader);

impl Going {
    /// Something begins. What this process starts does not hold it.
    pub fn begin() -> io::Result<(Going, Over)> {
        let (reader, held) = pipe()?;
        Ok((Going { _held: held }, Over(reader)))
    }
}

impl Over {
    /// Waits until it is over, or for so long; sometimes a little less. Is it over?
    pub fn wait(&self, at_most: Duration) -> bool {
        self.wait_beside(None, at_most)
    }

    /// The same, but only until there is something to read.
    pub fn wait_or_readable(&self, from: BorrowedFd<'_>, at_most: Duration) -> bool {
        self.wait_beside(Some(from), at_most)
    }

    fn wait_beside(&self, from: Option<BorrowedFd<'_>>, at_most: Duration) -> bool {
        let timeout = Timespec { tv_sec: at_most.as_secs() as _, tv_nsec: at_most.subsec_nanos().into() };
        let all = [Some(self.0.as_fd()), from].into_iter().flatten();
        let mut all: Vec<PollFd<'_>> = all.map(|one| PollFd::from_borrowed_fd(one, PollFlags::IN)).collect();
        // A signal ends it early, and whoever waits looks again.
        poll(&mut all, Some(&timeout)).is_ok() && !all[0].revents().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::time::Instant;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn the_end_is_heard_at_once_and_so_is_what_can_be_read() {
        let (going, over) = Going::begin().unwrap();
        assert!(!over.wait(Duration::from_millis(1)));
        let (reader, mut writer) = pipe().unwrap();
        assert!(!over.wait_or_readable(reader.as_fd(), Duration::from_millis(1)));
        writer.write_all(b"x").unwrap();
        let begun = Instant::now();
        assert!(!over.wait_or_readable(reader.as_fd(), LONG), "there is something to read");
        let other = std::thread::spawn(move || over.wait(LONG));
        drop(going);
        assert!(other.join().unwrap() && begun.elapsed() < LONG / 2);
    }
}
