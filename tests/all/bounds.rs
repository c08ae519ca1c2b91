//! What somebody else's input may cost: snapshots that unpack to far more than they are, and programs that get few threads
//! or descriptors.

use std::collections::HashMap;
use std::fs::{self, Permissions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use cache::trace::{Event, EventKind, FilmHeader, FilmRelation, FilmWriter, Sampled};
use cache::{ForkMap, HeatSource, Map, MapSource, RelationMap, Snapshot, TierState};
use host::files::draft_beside;
use host::units::{BlockRange, Bytes, Fork};
use postgres::{Relation, RelationKind, RelationName, RelationPath, StopMode};
use roaring::RoaringBitmap;
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, setrlimit};

use crate::serve::{Served, serve};
use crate::servers::{self, Home, Output};
use crate::synthetic_sweep::{self, Shape};
use crate::{report_sweep, results, synthetic_run};

/// What reading any snapshot may take, whatever its size.
const MEMORY_BYTES: u64 = 256 << 20;

/// The program with its libraries, its threads' stacks and what it knows of time zones, in bytes; a debug build has more.
const PROGRAM_BYTES: u64 = 64 << 20;

/// What each byte of its file justifies: 48 for the rows that are read, and four times as much for what a restore says of each.
const JUSTIFIED_BYTES: u64 = 5 * 48;

const SYSTEM_IDENTIFIER: u64 = 7_123_456_789_012_345_678;

fn snapshot_of(relations: Vec<RelationMap>, system_identifier: u64) -> Snapshot {
    let map = Map {
        taken_at: "2026-11-21T23:30:05Z".parse().unwrap(),
        source: MapSource {
            system_identifier,
            version_num: 150_018,
            block_size: 8192,
            segment_blocks: 131_072,
            data_directory: None,
            lsn: "0/1A2B3C4".to_owned(),
            timeline: 1,
        },
        os: TierState::Measured,
        buffers: TierState::Measured,
        os_heat: HeatSource::None,
        relations,
        empty: Vec::new(),
        partitioned: Vec::new(),
        lookups: Default::default(),
        remarks: Vec::new(),
    };
    Snapshot::new(map, None)
}

fn relation(number: u32, fork: ForkMap) -> RelationMap {
    let relation = Relation {
        name: RelationName { database: "app".into(), schema: "public".into(), name: format!("relation_{number}") },
        kind: RelationKind::Table,
        oid: number,
        path: RelationPath::base(5, number),
        tablespace: "pg_default".into(),
        parent: None,
        is_system: false,
    };
    RelationMap { relation, forks: vec![fork] }
}

/// Every third block of each relation, in bitmaps of 8 kB that are all alike: 190 MB that pack to next to nothing.
fn bitmaps() -> Vec<RelationMap> {
    let blocks: RoaringBitmap = (0..1 << 20).step_by(3).collect();
    let fork = ForkMap { os: blocks, ..ForkMap::empty(Fork::Main, 1 << 20) };
    (16_384..16_384 + 1500).map(|number| relation(number, fork.clone())).collect()
}

/// Some of the largest relations that there can be, resident as a whole.
fn largest() -> Vec<RelationMap> {
    let mut fork = ForkMap::empty(Fork::Main, u32::MAX.into());
    fork.os.insert_range(0..u32::MAX);
    fork.os.optimize();
    (16_384..16_384 + 1).map(|number| relation(number, fork.clone())).collect()
}

/// Of each 1024 blocks of large relations a few are in shared_buffers, more from one stretch to the next: as many heats as there
/// can be.
fn heats() -> Vec<RelationMap> {
    let mut fork = ForkMap::empty(Fork::Main, 1 << 24);
    fork.os.insert_range(0..1 << 24);
    for window in 0..1_u32 << 14 {
        fork.buffers[window as usize % 6].insert_range(window << 10..(window << 10) + (1 << (window % 10)));
    }
    fork.os.optimize();
    fork.buffers.iter_mut().for_each(|blocks| _ = blocks.optimize());
    (16_384..16_384 + 20).map(|number| relation(number, fork.clone())).collect()
}

/// A program's end, and the most memory that it took, in bytes: as often as one can look.
fn run_measured(mut command: Command) -> (Output, u64) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let read = |stream: Option<Box<dyn std::io::Read + Send>>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            stream.unwrap().read_to_end(&mut bytes).unwrap();
            bytes
        })
    };
    let stdout = read(child.stdout.take().map(|stream| Box::new(stream) as _));
    let stderr = read(child.stderr.take().map(|stream| Box::new(stream) as _));
    let mut most = 0;
    let status = loop {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("0 kB");
        most = most.max(line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024);
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let (stdout, stderr) = (stdout.join().unwrap(), stderr.join().unwrap());
    (std::process::Output { status, stdout, stderr }.into(), most)
}

fn write(home: &Home, name: &str, snapshot: &Snapshot) -> (PathBuf, u64) {
    let path = home.path().join(name);
    snapshot.write(&path).unwrap();
    let bytes = fs::metadata(&path).unwrap().len();
    (path, bytes)
}

/// Has everything that reads a snapshot read this one, over a data directory that has none of its files.
fn check_memory(name: &str, relations: Vec<RelationMap>) {
    let mut server = servers::start_any(&[]);
    let identifier = server.psql("SELECT system_identifier FROM pg_control_system()").trim().parse().unwrap();
    server.cluster.stop(StopMode::Fast).unwrap();
    let directory = server.data_directory();
    let directory = directory.to_str().unwrap();
    let home = Home::new();
    let (path, bytes) = write(&home, name, &snapshot_of(relations, identifier));
    let path = path.to_str().unwrap();
    for arguments in [
        &["snapshot", "list", "--verify", path][..],
        &["snapshot", "show", path],
        &["snapshot", "diff", path, path],
        &["restore", "--dry-run", path, "-D", directory, "--json"],
    ] {
        let (output, most) = run_measured(home.command(arguments));
        assert!([0, 1, 2, 3].contains(&output.status), "{} {}", output.status, output.stderr);
        assert!(!output.stderr.contains("panicked"), "{}", output.stderr);
        assert!(
            most < MEMORY_BYTES + PROGRAM_BYTES + JUSTIFIED_BYTES * bytes,
            "{most} bytes for {arguments:?} of {bytes}"
        );
    }
}

#[test]
fn bitmaps_that_are_all_alike_cost_no_more_than_their_file_justifies() {
    check_memory("bitmaps.parquet", bitmaps());
}

#[test]
fn the_largest_relations_cost_no_more_than_their_file_justifies() {
    check_memory("largest.parquet", largest());
}

#[test]
fn as_many_heats_as_can_be_cost_no_more_than_their_file_justifies() {
    check_memory("heats.parquet", heats());
}

/// Small relations, of which nothing differs but their numbers: some three bytes of a file each.
fn small(count: u32) -> Vec<RelationMap> {
    let mut fork = ForkMap::empty(Fork::Main, 1);
    fork.os.insert(0);
    (16_384..16_384 + count).map(|number| relation(number, fork.clone())).collect()
}

#[test]
fn more_small_relations_than_their_file_justifies_are_refused() {
    check_memory("rows.parquet", small(150_000));
}

#[test]
fn a_hundred_thousand_small_relations_are_read() {
    check_memory("small.parquet", small(100_000));
    let home = Home::new();
    let (path, _) = write(&home, "small.parquet", &snapshot_of(small(100_000), SYSTEM_IDENTIFIER));
    home.pgthaw(&["snapshot", "list", "--verify", path.to_str().unwrap()]).ok();
}

/// Blocks of a relation that a film has: at which second, which relation, from which block to which.
type Touch = (u64, u32, u64, u64, EventKind);

/// Films whose numbers stand for far more than their file has, each with what is said of it; nothing where it is read.
fn hostile_films() -> [(&'static str, &'static str, Vec<Touch>); 8] {
    use EventKind::{Again, Buffers, Fetched, Requested};
    const ALL: u64 = u32::MAX as u64;
    let whole = |kind| (0..1000).map(move |number| (number, number as u32, 0, ALL, kind)).collect();
    let every = |step: u64, count: u64| (0..count).map(move |at| (0, 1, at * step, at * step + 1, Fetched));
    let pair = |chunk: u64| {
        let first = chunk << 16;
        [(0, 1, first, first + 1, Fetched), (0, 1, first + 9, first + 5000, Requested)]
    };
    let relations = |number: u32| (0, number, 7, 8, Fetched);
    let filled = every(2, 50_000).chain((0..200).map(|at| (1, 1, at, 100_000, Fetched)));
    [
        ("whole relations", "blocks in", whole(Requested)),
        ("whole relations in shared_buffers", "blocks in", whole(Buffers)),
        ("one stretch again and again", "blocks in", (0..9000).map(|at| (at / 9, 1, 0, 100_000, Again)).collect()),
        ("gaps that are filled", "", filled.collect()),
        ("two stretches of each 65,536 blocks", "of memory", (0..12_000).flat_map(pair).collect()),
        ("rows that pack to nothing", "events in", every(1, 600_000).collect()),
        ("relations", "relations", (0..140_000).map(relations).collect()),
        ("pictures", "", (0..60_000).map(|at| (at / 600, (at % 600) as u32, 0, 32, Again)).collect()),
    ]
}

/// Writes a film of a cluster, with the checksum that it should have.
fn write_film(path: &Path, touches: &[Touch], system_identifier: u64) {
    let mut writer = FilmWriter::begin(draft_beside(path).unwrap(), path).unwrap();
    let mut relations = HashMap::new();
    for (second, number, start, end, kind) in touches {
        let of = relations.entry(*number).or_insert_with(|| {
            let path = RelationPath::base(5, 16_384 + number);
            let (database, schema) = ("app".to_owned(), "public".to_owned());
            Arc::new(FilmRelation { name: RelationName { database, schema, name: format!("relation_{number}") }, path })
        });
        let event = Event {
            time: Duration::from_secs(*second),
            relation: Arc::clone(of),
            fork: Fork::Main,
            blocks: BlockRange::new(*start, *end),
            kind: *kind,
            pid: 7,
            job_bytes: Bytes(0),
        };
        writer.push(&event).unwrap();
    }
    let source = MapSource { system_identifier, ..snapshot_of(Vec::new(), 0).map.source };
    let sampling = Some(Sampled { shift: 0, unit_blocks: 1 });
    let header = FilmHeader { label: Some("x".into()), seconds: 1000.0, source, sampling, ..FilmHeader::default() };
    writer.finish(header).unwrap().draft.place(path.file_name().unwrap()).unwrap();
}

/// Seconds of a processor that any film may take; a program that was not optimized takes more.
const FILM_SECONDS: u64 = if cfg!(debug_assertions) { 40 } else { 10 };

#[test]
fn films_of_extreme_numbers_are_read_or_refused_soon_and_in_little_memory() {
    let server = servers::start_any(&[]);
    let identifier = server.psql("SELECT system_identifier FROM pg_control_system()").trim().parse().unwrap();
    // Films named x are in the directory of this one.
    let recorded = ["film", "record", "--seconds", "1", "--source", "polling", "--like", "x", "--json"];
    let recorded = server.pgthaw(&recorded).ok().json();
    let film = recorded["path"].as_str().unwrap();
    let (store, stem) = (Path::new(film).parent().unwrap(), Path::new(film).file_stem().unwrap().to_str().unwrap());
    for (name, told, touches) in hostile_films() {
        for other in fs::read_dir(store).unwrap() {
            fs::remove_file(other.unwrap().path()).unwrap();
        }
        write_film(film.as_ref(), &touches, identifier);
        drop(touches);
        for arguments in [
            &["film", "show", film, "--html", "film.html"][..],
            &["predict", "--film", film, "--what-if", "memory=1GB"],
            &["run", "--film", film, "--", "true"],
            &["run", "--like", "x", "--json", "--", "true"],
        ] {
            let (output, most) = run_measured(limited(server.command(arguments), Resource::Cpu, FILM_SECONDS));
            let said = format!("{name}: {arguments:?}: {most} bytes, {} {}", output.status, output.stderr);
            let is_right = match arguments[1] {
                // The job runs, without its film if that cannot be used.
                "--like" => output.status == 0 && output.stderr.contains(stem),
                _ if told.is_empty() => output.status == 0,
                _ => output.status == 1 && output.stderr.contains(told),
            };
            assert!(is_right, "{said}");
            assert!(most < 512 << 20 && !output.stderr.contains("panicked"), "{said}");
        }
    }
}

/// A server of a store with a run.
fn served() -> (Home, Served) {
    let home = Home::new();
    let (run, trials) = synthetic_run::make(1, 3);
    results::keep(&home.path().join("state/pgthaw/results.sqlite"), &run, &trials);
    let served = serve(&home, &[]);
    (home, served)
}

/// The first line of what is answered.
fn say(served: &Served, said: &str) -> String {
    let mut stream = TcpStream::connect(&served.host).unwrap();
    stream.write_all(said.as_bytes()).unwrap();
    let mut answered = String::new();
    stream.read_to_string(&mut answered).unwrap();
    answered.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn a_request_names_one_host() {
    let (_home, served) = served();
    let ask = |first: &str, headers: &str| say(&served, &format!("{first}\r\n{headers}Connection: close\r\n\r\n"));
    for (first, headers, status) in [
        ("GET /api/live HTTP/1.1", "Host: localhost\r\n", "200"),
        ("GET http://localhost/api/live HTTP/1.1", "Host: localhost\r\n", "200"),
        ("GET /api/live HTTP/1.1", "Host: localhost\r\nHost: evil.example\r\n", "400"),
        ("GET /api/live HTTP/1.1", "Host: localhost\r\nHost: localhost\r\n", "400"),
        ("GET http://evil.example/api/live HTTP/1.1", "Host: localhost\r\n", "400"),
        ("GET http://localhost/api/live HTTP/1.1", "Host: evil.example\r\n", "400"),
        ("GET http://evil.example/api/live HTTP/1.1", "Host: evil.example\r\n", "403"),
        ("GET /api/live HTTP/1.1", "Host: evil.example\r\n", "403"),
        ("GET /api/live HTTP/1.1", "", "403"),
        ("GET /api/live HTTP/1.0", "", "403"),
        ("GET /api/live HTTP/1.1", "Host: local\u{f6}host\r\n", "400"),
    ] {
        let answered = ask(first, headers);
        assert_eq!(answered.split(' ').nth(1), Some(status), "{first} {headers:?}: {answered}");
    }
}

#[test]
fn no_more_than_so_many_connections_are_held() {
    let (_home, served) = served();
    let connect = || TcpStream::connect(&served.host).unwrap();
    let begin = || {
        let mut stream = connect();
        stream.write_all(b"GET /api/live HTTP/1.1\r\nHost: loc").unwrap();
        stream
    };
    let mut held: Vec<TcpStream> = (0..64).map(|_| begin()).collect();
    let mut late = connect();
    late.write_all(b"GET /api/live HTTP/1.0\r\nHost: localhost\r\n\r\n").unwrap();
    late.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let mut byte = [0];
    assert_eq!(late.read(&mut byte).unwrap_err().kind(), ErrorKind::WouldBlock, "it is answered before there is room");
    // One goes, and whoever waited is answered.
    held.pop();
    late.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    assert_eq!((late.read(&mut byte).unwrap(), byte[0]), (1, b'H'));
}

#[test]
fn both_signals_end_it_whoever_is_connected() {
    for signal in [Signal::INT, Signal::TERM] {
        let (_home, mut served) = served();
        let mut slow = TcpStream::connect(&served.host).unwrap();
        slow.write_all(b"GET / HTTP/1.1\r\nHost: loc").unwrap();
        let idle = TcpStream::connect(&served.host).unwrap();
        // Both have been accepted when a later one is answered.
        assert!(say(&served, "GET /api/live HTTP/1.0\r\nHost: localhost\r\n\r\n").contains("200"));
        kill_process(Pid::from_child(&served.child), signal).unwrap();
        let status = served.child.wait().unwrap();
        assert!(status.success(), "{status}");
        drop((slow, idle));
    }
}

#[test]
fn who_is_not_let_in_gives_his_seat_to_others() {
    let (home, served) = served();
    let token = home.path().join("token");
    fs::write(&token, "0123456789abcdef").unwrap();
    fs::set_permissions(&token, Permissions::from_mode(0o600)).unwrap();
    let asks_for_token = serve(&home, &["--token-file", token.to_str().unwrap()]);
    for (served, refused, let_in, status) in [
        (&served, "/ HTTP/1.1\r\nHost: evil.example", "Host: localhost", "403"),
        (&served, "/ HTTP/1.1\r\nHost: localhost\r\nHost: localhost", "Host: localhost", "400"),
        (&served, "/api/studies/none HTTP/1.1\r\nHost: localhost", "Host: localhost", "404"),
        (&asks_for_token, "/ HTTP/1.1\r\nHost: localhost", "Authorization: Bearer 0123456789abcdef", "401"),
    ] {
        // They take no answer, and keep their ends.
        let ask = |_| {
            let mut stream = TcpStream::connect(&served.host).unwrap();
            stream.write_all(format!("GET {refused}\r\n\r\n").as_bytes()).unwrap();
            stream
        };
        let held: Vec<TcpStream> = (0..2 * 64).map(ask).collect();
        let mut late = TcpStream::connect(&served.host).unwrap();
        // Less than an idle one may stay.
        late.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        late.write_all(format!("GET /api/live HTTP/1.0\r\n{let_in}\r\n\r\n").as_bytes()).unwrap();
        let mut answered = String::new();
        late.read_to_string(&mut answered).unwrap();
        assert!(answered.starts_with("HTTP/1.0 200"), "{status}: {answered}");
        for mut stream in held {
            let mut answered = String::new();
            stream.read_to_string(&mut answered).unwrap();
            assert!(answered.starts_with(&format!("HTTP/1.1 {status}")), "{answered}");
            assert!(answered.to_lowercase().contains("connection: close\r\n"), "{answered}");
        }
    }
}

#[test]
fn files_with_holes_cost_hydrate_no_memory() {
    let mut server = servers::start_any(&[]);
    server.cluster.stop(StopMode::Fast).unwrap();
    let directory = server.data_directory();
    let owner = fs::metadata(&directory).unwrap().uid();
    for number in 0..33 {
        let path = directory.join(format!("base/5/{}", 990_000 + number));
        // 264 TB in all.
        if fs::File::create(&path).unwrap().set_len(8 << 40).is_err() {
            untested!(machine: "this file system has no such large files");
        }
        chown(&path, Some(owner), None).unwrap();
    }
    let (output, most) = run_measured(server.home.command(&["hydrate", "-D", directory.to_str().unwrap()]));
    assert!(output.status != 0 && output.stderr.contains("some are sparse"), "{} {}", output.status, output.stderr);
    assert!(most < PROGRAM_BYTES, "{most} bytes");
}

#[test]
fn histograms_that_unpack_to_more_than_any_are_refused() {
    let home = Home::new();
    let store = home.path().join("state/pgthaw/results.sqlite");
    let shape = Shape { scales: &[1], clients: &[4], buffers: &["16MB"], strategies: &[], repeats: 1, seconds: 3 };
    let (run, trials) = synthetic_sweep::make(&shape);
    report_sweep::keep(&store, &run, &trials);
    let bomb = {
        let mut writer = flate2::write::ZlibEncoder::new(vec![0; 8], flate2::Compression::fast());
        // What it is, and that two gigabytes follow.
        writer.write_all(&[0x1c, 0x84, 0x93, 0x13, 0x7f, 0xff, 0xff, 0xff]).unwrap();
        (0..64).for_each(|_| writer.write_all(&[0; 1 << 20]).unwrap());
        writer.finish().unwrap()
    };
    let hex: String = bomb.iter().map(|byte| format!("{byte:02x}")).collect();
    results::sqlite(&store, &format!("UPDATE sweep_trials SET latency = x'{hex}'"));
    for (arguments, status) in [(&["results", "show", "--json"][..], 1), (&["report"], 1), (&["results", "show"], 0)] {
        let (output, most) = run_measured(home.command(arguments));
        assert_eq!(output.status, status, "{arguments:?}: {}", output.stderr);
        assert!(status == 0 || output.stderr.contains("the latency histogram is unreadable"), "{}", output.stderr);
        assert!(most < PROGRAM_BYTES + (16 << 20), "{most} bytes for {arguments:?}");
    }
}

#[test]
fn a_results_file_in_which_a_view_stands_for_a_table_is_refused() {
    for (place, plant) in [
        ("view sweeps", "ALTER TABLE sweeps RENAME TO old; CREATE VIEW sweeps AS {endless} SELECT old.* FROM old, n"),
        ("view Sweeps", "ALTER TABLE sweeps RENAME TO old; CREATE VIEW Sweeps AS {endless} SELECT old.* FROM old, n"),
        ("view all_runs", "DROP VIEW all_runs; CREATE VIEW all_runs AS {endless} SELECT i AS id FROM n"),
        (
            "view _sqlx_migrations",
            "ALTER TABLE _sqlx_migrations RENAME TO old; \
             CREATE VIEW _sqlx_migrations AS {endless} SELECT old.* FROM old, n",
        ),
        (
            "trigger more",
            "CREATE TRIGGER more AFTER DELETE ON sweeps BEGIN SELECT count(*) FROM (SELECT * FROM sweep_samples); END",
        ),
    ] {
        let home = Home::new();
        let store = home.path().join("state/pgthaw/results.sqlite");
        let (run, trials) = synthetic_run::make(1, 3);
        results::keep(&store, &run, &trials);
        // A view of one's own harms nobody.
        results::sqlite(&store, "CREATE VIEW mine AS SELECT id FROM sweeps");
        home.pgthaw(&["results", "show"]).ok();
        let endless = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)";
        // What refers to a table keeps its name.
        let plant = plant.replace("{endless}", endless);
        results::sqlite(&store, &format!("PRAGMA foreign_keys = OFF; PRAGMA legacy_alter_table = ON; {plant}"));
        for arguments in [&["results"][..], &["results", "show", "--json"], &["report"]] {
            let (output, _) = run_measured(limited(home.command(arguments), Resource::Cpu, 20));
            let told = format!("its {place} was not created by this version of pgthaw");
            assert!(output.status == 1 && output.stderr.contains(&told), "{arguments:?}: {}", output.stderr);
        }
    }
}

/// A user that has no other process.
const LONELY_UID: u32 = 54_321;

/// The command with at most so much of something.
fn limited(command: Command, resource: Resource, most: u64) -> Command {
    limited_at_first(command, resource, most, most)
}

/// The command with so much of something, which it may raise.
fn limited_at_first(mut command: Command, resource: Resource, first: u64, most: u64) -> Command {
    let limit = Rlimit { current: Some(first), maximum: Some(most) };
    // SAFETY: between fork and exec one system call is made.
    unsafe { command.pre_exec(move || Ok(setrlimit(resource, limit)?)) };
    command
}

#[test]
fn where_no_thread_can_be_started_that_is_said() {
    needs_root!();
    let home = Home::new();
    let program = home.path().join("pgthaw");
    servers::copy_programs(home.path());
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    for arguments in [&["map"][..], &["snapshot", "take"], &["restore"], &["serve", "--listen", "0"], &["results"]] {
        let mut command = Command::new(&program);
        command.args(arguments).current_dir(home.path()).env("HOME", home.path()).uid(LONELY_UID).gid(LONELY_UID);
        let output = servers::output_of(&mut limited(command, Resource::Nproc, 1)).ends_with(1);
        assert!(!output.stderr.contains("panicked"), "{}", output.stderr);
        assert!(
            output.stderr.contains("cannot start the threads") && output.stderr.contains("ulimit -u"),
            "{}",
            output.stderr
        );
    }
}

#[test]
fn where_descriptors_run_out_that_is_said() {
    let server = servers::start_any(&[]);
    server.psql("CREATE EXTENSION pg_buffercache; CREATE EXTENSION pg_prewarm");
    server.pgthaw(&["snapshot", "take"]).ok();
    for descriptors in [5, 8, 12, 16, 24, 64] {
        for arguments in [&["map", "--json"][..], &["snapshot", "take"], &["restore"], &["snapshot", "list"]] {
            let command = limited(server.command(arguments), Resource::Nofile, descriptors);
            let output = servers::output_of(&mut { command });
            assert!(
                [0, 1, 3].contains(&output.status),
                "{descriptors} {arguments:?} {} {}",
                output.status,
                output.stderr
            );
            assert!(!output.stderr.contains("panicked"), "{descriptors} {arguments:?} {}", output.stderr);
            assert!(descriptors < 64 || output.status == 0, "{arguments:?} {}", output.stderr);
        }
    }
}

/// More files than may be open: those that were read are closed for others, and what may be raised is.
#[test]
fn a_restore_of_many_files_needs_few_of_them_open() {
    let server = servers::start_any(&[]);
    server.psql(
        "DO $$ BEGIN FOR i IN 1..300 LOOP \
         EXECUTE format('CREATE TABLE many_%s AS SELECT generate_series(1, 1000) AS i', i); END LOOP; END $$; CHECKPOINT",
    );
    server.pgthaw(&["snapshot", "take"]).ok();
    for (first, most) in [(64, 64), (20, 1024)] {
        server.pgthaw(&["evict", "--all", "--tier", "os"]).ok();
        let command = server.command(&["restore", "--tier", "os", "--threads", "16", "--json"]);
        let receipt = servers::output_of(&mut limited_at_first(command, Resource::Nofile, first, most)).ok().json();
        // Others may have the kernel evict a page that was read.
        let mut skipped = receipt["skipped"].as_array().unwrap().iter();
        assert!(skipped.all(|one| one["reason"] == "did_not_stay"), "{first} {most} {receipt:#}");
        assert!(receipt["os"]["read_bytes"].as_u64().unwrap() > 300 * 8192, "{receipt:#}");
    }
    for descriptors in [16, 20, 24, 28, 32] {
        let command = limited(server.command(&["restore", "--budget", "buffers=8MB"]), Resource::Nofile, descriptors);
        let Output { stdout, stderr, .. } = servers::output_of(&mut { command });
        let told = format!("{stdout}{stderr}");
        let is_wrong = ["stopped or", "could not be read", "connection broke"].iter().any(|wrong| told.contains(wrong));
        assert!(
            !is_wrong && (!told.contains("Too many open files") || told.contains("ulimit -n")),
            "{descriptors} {told}"
        );
    }
    let command = limited(server.command(&["restore"]), Resource::Nofile, 8);
    let output = servers::output_of(&mut { command });
    assert!(output.status == 0 || output.stderr.contains("ulimit -n"), "{output:?}");
}
