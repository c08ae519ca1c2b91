//! No target: writes what the others begin with to $PGTHAW_FUZZ_SEEDS, by the program's own writers where it has some, and
//! ends. It stands among the targets because all that is built for fuzzing needs the fuzzer's runtime.
#![no_main]
// It ends before the target begins.
#![allow(unreachable_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hdrhistogram::Histogram;
use cache::fuzzing::{RawRow, read_rows};
use cache::trace::{Event, EventKind, FilmHeader, FilmRelation, FilmWriter, Sampled};
use cache::{HeatSource, Snapshot};
use host::files::draft_beside;
use host::units::{BlockRange, Bytes, Fork};
use observe::top::TopFrame;
use pgthaw_lab::study::LatencyHistogram;
use pgthaw_fuzz::map_of;
use postgres::RelationName;
use roaring::RoaringBitmap;

#[path = "../../tests/all/synthetic_host.rs"]
#[allow(dead_code)]
mod synthetic_host;
#[path = "../../tests/all/synthetic_run.rs"]
#[allow(dead_code)]
mod synthetic_run;
#[path = "../../tests/all/synthetic_sweep.rs"]
#[allow(dead_code)]
mod synthetic_sweep;

libfuzzer_sys::fuzz_target!(
    init: {
        write_seeds(&PathBuf::from(std::env::var_os("PGTHAW_FUZZ_SEEDS").unwrap()));
        std::process::exit(0);
    },
    |_bytes: &[u8]| {}
);

fn write_seeds(root: &Path) {
    let write = |target: &str, name: &str, bytes: &[u8]| {
        fs::create_dir_all(root.join(target)).unwrap();
        fs::write(root.join(target).join(name), bytes).unwrap();
    };
    for (name, snapshot) in snapshots() {
        fs::create_dir_all(root.join("snapshot_bytes")).unwrap();
        let path = root.join("snapshot_bytes").join(name);
        let _ = fs::remove_file(&path);
        snapshot.write(&path).unwrap();
    }
    for (name, events) in films() {
        fs::create_dir_all(root.join("film_bytes")).unwrap();
        write_film(&root.join("film_bytes").join(name), &events);
    }
    for (place, text) in LOGS.into_iter().enumerate() {
        write("pgbench_logs", &format!("log{place}"), text.as_bytes());
        write("imports", &format!("log{place}"), text.as_bytes());
    }
    for (place, text) in STUDIES.into_iter().enumerate() {
        write("study_specs", &format!("study{place}"), text.as_bytes());
    }
    let (run, trials) = synthetic_run::make(1, 3);
    let shape = synthetic_sweep::Shape {
        scales: &[1],
        clients: &[1],
        buffers: &["128MB"],
        strategies: &[],
        repeats: 1,
        seconds: 2,
    };
    let (sweep, sweep_trials) = synthetic_sweep::make(&shape);
    write("documents", "run", &serde_json::to_vec(&serde_json::json!({ "sweep": run, "trials": trials[..1] })).unwrap());
    write(
        "documents",
        "sweep",
        &serde_json::to_vec(&serde_json::json!({ "sweep": sweep, "trials": sweep_trials })).unwrap(),
    );
    write("documents", "edited_run", &[0, 40, 0, 3, 7, 0, 0, 0, 0, 0, 0, 0]);
    write("documents", "edited_sweep", &[1, 200, 0, 5, 0, 0, 0, 0, 0, 0, 0xf0, 0x7f]);
    for most in [1_u64, 1000, 10_000_000] {
        let mut histogram = Histogram::<u64>::new(3).unwrap();
        (0..200).for_each(|step| histogram.record(most * step / 200).unwrap());
        write("histograms", &format!("histogram{most}"), &LatencyHistogram::new(&histogram).encoded);
    }
    for (place, request) in REQUESTS.into_iter().enumerate() {
        write("http_requests", &format!("open{place}"), format!("0{request}").as_bytes());
        write("http_requests", &format!("closed{place}"), format!("1{request}").as_bytes());
    }
    for (place, text) in CONNECTIONS.into_iter().enumerate() {
        write("connection_strings", &format!("string{place}"), text.as_bytes());
    }
    write(
        "server_files",
        "postmaster",
        b"4242\n/data\n1700000000\n5433\n/var/run/postgresql\nlocalhost\n  6 0\nready   \n",
    );
    write("server_files", "pgpass", b"db.example:5432:app:me:a\\:secret\n*:*:*:*:other\n");
    write("server_files", "control", &control_file());
    let step = serde_json::to_vec(&TopFrame { at_ms: 1, length_ns: 2, ..TopFrame::default() }).unwrap();
    write("top_records", "step", &[&step[..], b"\n", &step[..], b"\n"].concat());
    for target in ["snapshot_rows", "restore_plan", "catalog_names"] {
        // What an arbitrary value is made of is no format: the fuzzer finds its own.
        write(target, "zeros", &[0; 256]);
        write(target, "ones", &[1; 256]);
        write(target, "ramp", &(0..=255).collect::<Vec<u8>>());
    }
}

/// None, one relation and several, with every tier.
fn snapshots() -> Vec<(String, Snapshot)> {
    let relations = |count: usize| {
        let mut bytes = Vec::new();
        let blocks: RoaringBitmap = (0..1000).step_by(3).collect();
        blocks.serialize_into(&mut bytes).unwrap();
        let names: Vec<String> = (0..count).map(|number| format!("relation_{number}")).collect();
        let paths: Vec<String> = (0..count).map(|number| format!("base/5/{}", 16384 + number)).collect();
        let tiers: [(&[u8], i32); 3] = [(b"os", 0), (b"buffers", 1), (b"buffers", 5)];
        let rows = (0..count).map(|number| {
            let (tier, heat) = tiers[number % 3];
            RawRow {
                database: b"app",
                schema: b"public",
                name: names[number].as_bytes(),
                kind: b"table",
                oid: 16384 + number as i64,
                parent: b"",
                path: paths[number].as_bytes(),
                relfilenumber: 16384 + number as i64,
                tablespace: b"pg_default",
                is_system: number % 2 == 0,
                fork: b"main",
                relation_blocks: 1000,
                tier,
                heat,
                blocks: blocks.len() as i64,
                bitmap: bytes.clone(),
            }
        });
        read_rows(rows).unwrap()
    };
    [0, 1, 4]
        .into_iter()
        .map(|count| {
            let map = map_of(relations(count), HeatSource::PageFlags);
            (format!("snapshot{count}"), Snapshot::new(map, Some("a label".into())))
        })
        .collect()
}

/// No events, some of each kind, and as many blocks as a relation can have.
fn films() -> [(&'static str, Vec<(u64, u64, EventKind)>); 3] {
    use EventKind::{Again, Buffers, Fetched, Requested};
    let some = [(0, 9, Buffers), (0, 3, Requested), (7, 70, Fetched), (0, 3, Again), (5, 8, Fetched)];
    let most = u32::MAX.into();
    [("none", Vec::new()), ("some", some.to_vec()), ("most", vec![(0, most, Fetched), (most - 1, most, Again)])]
}

fn write_film(path: &Path, events: &[(u64, u64, EventKind)]) {
    let _ = fs::remove_file(path);
    let mut writer = FilmWriter::begin(draft_beside(path).unwrap(), path).unwrap();
    for (at, (start, end, kind)) in events.iter().enumerate() {
        let name = RelationName { database: "app".into(), schema: "public".into(), name: "t".into() };
        let relation = Arc::new(FilmRelation { name, path: "base/5/16384".parse().unwrap() });
        let time = Duration::from_millis(at as u64);
        let blocks = BlockRange::new(*start, *end);
        let event = Event { time, relation, fork: Fork::Main, blocks, kind: *kind, pid: 7, job_bytes: Bytes(0) };
        writer.push(&event).unwrap();
    }
    let source = map_of(Vec::new(), HeatSource::None).source;
    let sampling = Some(Sampled { shift: 0, unit_blocks: 1 });
    let header = FilmHeader { seconds: 1.0, source, sampling, ..FilmHeader::default() };
    writer.finish(header).unwrap().draft.place(path.file_name().unwrap()).unwrap();
}

fn control_file() -> Vec<u8> {
    let mut contents = vec![0; 256];
    contents[0..8].copy_from_slice(&7_u64.to_ne_bytes());
    contents[8..12].copy_from_slice(&1300_u32.to_ne_bytes());
    contents[16..20].copy_from_slice(&6_u32.to_ne_bytes());
    contents[208..216].copy_from_slice(&1234567.0_f64.to_ne_bytes());
    contents[216..220].copy_from_slice(&8192_u32.to_ne_bytes());
    contents[220..224].copy_from_slice(&131_072_u32.to_ne_bytes());
    contents
}

const LOGS: [&str; 8] = [
    "0 199 2241 0 1175850568 995598\n0 200 2465 0 1175850569 998079\n1 1 failed 0 1175850569 9\n1 2 skipped 0 1175850570 9 5217\n",
    "1650260552 5178 26171317 177284491527 1136 44462 2647617 7321113867 0 9866\n1650260562 4808 25573984 220121792172 1171 62083 3037380 9666800914 0 9998\n1650260572 30 6000 1200800 40 900\n",
    "pgbench (15.18 (Debian 15.18-0+deb12u1))\nprogress: 5.0 s, 1234.5 tps, lat 3.2 ms stddev 1.0, 0 failed\nprogress: 10.0 s, 0.0 tps, lat -nan ms stddev -nan, 0 failed\ntransaction type: <builtin: TPC-B (sort of)>\nscaling factor: 10\nnumber of clients: 8\nnumber of threads: 2\nduration: 10 s\nnumber of transactions actually processed: 6172\nnumber of failed transactions: 0 (0.000%)\nlatency average = 3.2 ms\ninitial connection time = 9.1 ms\ntps = 617.2 (without initial connection time)\n",
    "progress: 1700000001.5 s, 33.4 tps, lat 29.882 ms stddev 18.185, lag 0.2 ms, 1 skipped, 4 retried, 5 retries\nprogress: 1700000002.5 s, 30 tps, lat 29,882 ms stddev 18,185\nprogress: 1700000003.5 s, 30\n",
    "collected,samples,min_latency,avg_latency,max_latency\n1650260552,500,0.1,0.2,7.5\n1650260553,501,0.1,0.2,7.5\n",
    "time,tps,reads\n1,500,3\n2,500,3\n3,NaN,2\n4,1,1\n",
    "Zeit;x\n1,5;500,0\n2,5;500,0\n3,5;500,0\n",
    "1000.100 [7] LOG:  checkpoint starting: time\n1003.500 [7] LOG:  checkpoint complete: wrote 1040 buffers (6.3%); 0 WAL file(s) added, 0 removed, 3 recycled; write=3.301 s, sync=0.050 s, total=3.400 s; sync files=9, longest=0.041 s, average=0.001 s; distance=1 kB\n",
];

const STUDIES: [&str; 8] = [
    include_str!("../../lab/aa/study.toml"),
    include_str!("../../lab/checkpoint/study.toml"),
    include_str!("../../lab/cold_warm/study.toml"),
    include_str!("../../lab/commit_delay/study.toml"),
    include_str!("../../lab/filesystems/study.toml"),
    include_str!("../../lab/overload/study.toml"),
    include_str!("../../lab/saturation/study.toml"),
    "question = \"q\"\nrepeats = 2\nseed = 7\naa = true\nlogged_share = 0.1\nmax_tries = 3\n[points]\nscale = [1, 10]\nclients = { from = 1, to = 64, factor = 2 }\nscript = [\"select-only\"]\nseconds = 10\nstart = [\"cold\", \"warm\"]\n[settings]\nshared_buffers = [\"1GB\", \"2GB\"]\n[variables]\nx = [1, 2]\n[disks]\nd = \"1000:50MB\"\n",
];

const REQUESTS: [&str; 8] = [
    "GET / HTTP/1.1\r\nHost: localhost:8432\r\n\r\n",
    "GET /api/studies HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/html\r\n\r\n",
    "GET /api/compare?a=clients%3D4&b=newest%3Aclients%3D8&metric=tps HTTP/1.1\r\nHost: [::1]:8432\r\nConnection: close\r\n\r\n",
    "GET /api/studies/newest/trials/0/1 HTTP/1.1\r\nHost: localhost\r\nCookie: a=b; pgthaw_token=7468652073656372\r\n\r\n",
    "GET /runs/20261121-233005-4f2a?token=the+secret+of+those+who+know HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "POST /api/live HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nAuthorization: Bearer the secret of those who know\r\n\r\nhello",
    "GET http://localhost/nothing HTTP/1.0\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
];

const CONNECTIONS: [&str; 9] = [
    "host=localhost port=5432 dbname=app user='a user' password=it\\'s sslmode=verify-full",
    "postgresql://me:secret@[::1]:5433,db.example:5434/app?sslmode=require&target_session_attrs=any",
    "postgres:///app?host=/var/run/postgresql&connect_timeout=3",
    "--dbname=postgres://me:p%40ss@host/db",
    "-dhost=a password=b",
    "base/5/16384",
    "pg_tblspc/16390/PG_15_202209061/5/17000",
    "512MB",
    "global/1262",
];
