//! Results that others measured, as one file.
#![no_main]

use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::sync::{LazyLock, Mutex};

use libfuzzer_sys::fuzz_target;
use pgthaw_lab::study::{ImportOptions, read_import};
use pgthaw_lab::verdict::TrialOutline;
use rustix::fs::{MemfdFlags, memfd_create};

static FILE: LazyLock<Mutex<File>> =
    LazyLock::new(|| Mutex::new(memfd_create("import", MemfdFlags::CLOEXEC).unwrap().into()));

fuzz_target!(|bytes: &[u8]| {
    let mut file = FILE.lock().unwrap();
    file.set_len(0).unwrap();
    file.rewind().unwrap();
    file.write_all(bytes).unwrap();
    let path = format!("/proc/self/fd/{}", file.as_raw_fd()).into();
    let options = ImportOptions { paths: vec![path], ..ImportOptions::default() };
    if let Ok(imported) = read_import(&options) {
        assert_eq!(imported.trials.len(), 1);
        let outline = TrialOutline::from(&imported.trials[0]);
        assert!(serde_json::to_string(&outline).is_ok());
    }
});
