//! The machine and the server that made-up runs and sweeps were measured on.

use std::path::PathBuf;

use host::units::Bytes;
use pgthaw_lab::study::{Device, Machine};
use postgres::ServerFacts;

pub fn make_machine() -> Machine {
    Machine {
        hostname: "lab-7".into(),
        kernel: "6.18.0-amd64".into(),
        cpu_model: "Example CPU @ 2.60GHz".into(),
        cores: 8,
        memory_bytes: Bytes(34_359_738_368),
        file_system: "ext4".into(),
        device: Device {
            name: "nvme0n1".into(),
            major_minor: "259:0".into(),
            rotational: false,
            read_ahead_bytes: Bytes(131_072),
            model: "Example SSD".into(),
            drivers: vec!["nvme".into()],
            write_cache: "write back".into(),
        },
    }
}

pub fn make_server() -> ServerFacts {
    ServerFacts {
        version_num: 150_018,
        version: "15.18 (Debian 15.18-0+deb12u1)".into(),
        // Beyond what a browser's numbers hold exactly.
        system_identifier: 7_575_839_201_123_456_789,
        block_size: 8192,
        segment_blocks: 131_072,
        shared_buffers_bytes: Bytes(134_217_728),
        data_directory: Some(PathBuf::from("/srv/lab/data")),
        cluster_name: "pgthaw-lab".into(),
        io_direct: false,
        io_method: None,
        in_recovery: false,
        lsn: "0/5A0001C8".into(),
        timeline: 1,
        role: "postgres".into(),
        is_superuser: true,
        postmaster_pid: Some(4711),
    }
}
