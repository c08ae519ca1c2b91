use std::io::{self, PipeReader, PipeWriter, pipe};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{iter, thread};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Locks even if a thread that held the lock panicked: the panic is reported elsewhere.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Thread number 0 is the caller's, so the work is done even if no other thread starts.
pub fn on_threads<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<thread::Result<T>> {
    let work = &work;
    thread::scope(|scope| {
        let start = |number: usize| thread::Builder::new().spawn_scoped(scope, move || work(number)).ok();
        let others: Vec<_> = (1..count).map_while(start).collect();
        let own = catch_unwind(AssertUnwindSafe(|| work(0)));
        iter::once(own).chain(others.into_iter().map(thread::ScopedJoinHandle::join)).collect()
    })
}

/// Number of processors that this process may use; 1 if unknown.
pub fn count_processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

pub fn map_on_threads<T: Send>(count: usize, threads: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let places = || iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed)).take_while(|at| *at < count);
    let work_some = |_| places().map(|at| (at, work(at))).collect::<Vec<_>>();
    let done = on_threads(threads, work_some).into_iter();
    let mut done: Vec<(usize, T)> = done.flat_map(|done| done.unwrap_or_else(|panic| resume_unwind(panic))).collect();
    done.sort_unstable_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, done)| done).collect()
}

/// # Errors
/// If `count` threads cannot start now (such as EAGAIN).
pub fn check_room(count: usize) -> io::Result<()> {
    let (mut ends, mut threads) = (Vec::new(), Vec::new());
    let mut start = || {
        let (end, ended) = channel::<()>();
        ends.push(end);
        thread::Builder::new().spawn(move || _ = ended.recv()).map(|thread| threads.push(thread))
    };
    let started = (0..count).try_for_each(|_| start());
    drop(ends);
    threads.into_iter().for_each(|thread| _ = thread.join());
    started
}

/// Held while an activity runs; dropping it ends the wait in `Over`.
#[derive(Debug)]
pub struct Going {
    _held: PipeWriter,
}

#[derive(Debug)]
pub struct Over(PipeReader);

impl Going {
    /// Child processes do not inherit the pipe.
    pub fn begin() -> io::Result<(Going, Over)> {
        let (reader, held) = pipe()?;
        Ok((Going { _held: held }, Over(reader)))
    }
}

impl Over {
    /// Returns whether the activity ended.
    pub fn wait(&self, at_most: Duration) -> bool {
        self.wait_beside(None, at_most)
    }

    /// Also returns when `from` is readable.
    pub fn wait_or_readable(&self, from: BorrowedFd<'_>, at_most: Duration) -> bool {
        self.wait_beside(Some(from), at_most)
    }

    fn wait_beside(&self, from: Option<BorrowedFd<'_>>, at_most: Duration) -> bool {
        let timeout = Timespec { tv_sec: at_most.as_secs() as _, tv_nsec: at_most.subsec_nanos().into() };
        let all = [Some(self.0.as_fd()), from].into_iter().flatten();
        let mut all: Vec<PollFd<'_>> = all.map(|one| PollFd::from_borrowed_fd(one, PollFlags::IN)).collect();
        // A signal ends the wait early; the caller checks again.
        poll(&mut all, Some(&timeout)).is_ok() && !all[0].revents().is_empty()
    }
}

#[cfg(test)]
mod threads_tests {
    use super::*;

    #[test]
    fn all_do_their_part_and_a_panic_is_told() {
        let done = on_threads(4, |number| number * 2);
        assert_eq!(done.into_iter().map(Result::unwrap).collect::<Vec<_>>(), [0, 2, 4, 6]);
        assert_eq!(on_threads(0, |number| number).len(), 1, "this thread is always there");
        let done = on_threads(2, |number| assert!(number > 0, "the first"));
        assert!(done[0].is_err() && done[1].is_ok());
    }

    #[test]
    fn everything_is_done_once_and_in_order() {
        let squares: Vec<usize> = (0..1000).map(|at| at * at).collect();
        assert_eq!(map_on_threads(1000, 7, |at| at * at), squares);
        assert_eq!(map_on_threads(0, 7, |at| at), Vec::<usize>::new());
    }

    #[test]
    fn there_is_room_for_some() {
        assert!(check_room(4).is_ok());
    }
}

#[cfg(test)]
mod ready_tests {
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
