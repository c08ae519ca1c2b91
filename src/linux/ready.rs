//! Waiting for what the kernel has to tell.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Waits until there is something to read, or for so long; sometimes a little less.
pub fn wait_until_readable(from: BorrowedFd<'_>, at_most: Duration) {
    let timeout = Timespec { tv_sec: at_most.as_secs() as _, tv_nsec: at_most.subsec_nanos().into() };
    // A signal ends it early, and whoever waits looks again.
    let _ = poll(&mut [PollFd::from_borrowed_fd(from, PollFlags::IN)], Some(&timeout));
}
