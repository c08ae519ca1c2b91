//! The one-file HTML report.
