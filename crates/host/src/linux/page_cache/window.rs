//! How far the kernel reads ahead of who reads in order.

use crate::units::Bytes;

/// A longer window gains little, and is on its way for long after a stop. Far below the pipe that anybody may have
/// (/proc/sys/fs/pipe-max-size).
const WINDOW_MAX: Bytes = Bytes(256 << 10);

/// Below this reading in order gains little.
const WINDOW_MIN: Bytes = Bytes(64 << 10);

/// A reader touches a window's first page, and the kernel begins the next one: there are at most the rest of one and one more.
const WINDOWS_AHEAD: u64 = 2;

/// How far the kernel reads ahead at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    bytes: Bytes,
    /// POSIX_FADV_SEQUENTIAL is told, which makes it twice that of the disk.
    is_doubled: bool,
}

impl Window {
    /// The window of a disk with this read-ahead; `None` where it is too long, or hardly any.
    pub fn of(read_ahead: Bytes) -> Option<Window> {
        let doubled = Bytes(2 * read_ahead.0);
        let is_doubled = doubled <= WINDOW_MAX;
        let bytes = if is_doubled { doubled } else { read_ahead };
        (WINDOW_MIN..=WINDOW_MAX).contains(&bytes).then_some(Window { bytes, is_doubled })
    }

    pub fn bytes(self) -> Bytes {
        self.bytes
    }

    /// Is POSIX_FADV_SEQUENTIAL to be told?
    pub fn is_doubled(self) -> bool {
        self.is_doubled
    }

    /// The device is asked for so much at a time, the largest folio of a window. No folio lies across a multiple of it, so what is read in
    /// such pieces is used once.
    pub fn piece(self) -> Bytes {
        Bytes(1 << self.bytes.0.ilog2())
    }

    /// Beyond what was asked for, so much may come at most.
    pub fn reach(self) -> Bytes {
        Bytes(WINDOWS_AHEAD * self.bytes.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_fits_into_a_pipe() {
        let of = |read_ahead: u64| {
            Window::of(Bytes(read_ahead << 10)).map(|window| (window.bytes.0 >> 10, window.is_doubled))
        };
        assert_eq!([0, 16, 32, 128].map(of), [None, None, Some((64, true)), Some((256, true))]);
        assert_eq!([192, 256, 512].map(of), [Some((192, false)), Some((256, false)), None]);
    }
}
