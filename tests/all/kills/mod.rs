//! Kills and faults: whatever ends pgthaw, and whatever a system call answers it, no snapshot and no finished trial is
//! lost or doubled, nothing stays behind after the next run, and nothing panics.
//!
//! Everything is seen from the command line. A few of each run in `make test`; `lab/no_harm/run` asks for many by
//! PGTHAW_KILLS_TAKE, _RESTORE, _STUDY, _FAULTS and _UNDONE, and collects the figures. PGTHAW_KILLS_SEED gives other moments.

mod faults;
mod figures;
mod litter;
pub mod moments;
mod restore;
pub mod strace;
mod study;
mod take;
mod undone;
