use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::ForkMap;
use crate::fixtures::{map_of, relation};
use crate::trace::Wanted;
use host::files::Tree;

use host::units::BlockRange;
use observe::pages::WatchedFile;
use observe::time::ProbeCost;

#[derive(Default)]
struct Told {
    events: Vec<PageEvent>,
    roles: HashMap<u32, Role>,
    cleared: Vec<(u32, u64, u64)>,
}

struct FakeWatch {
    told: Arc<Mutex<Told>>,
    sees_requests: bool,
}

impl PageWatch for FakeWatch {
    fn blind_to_requests(&self) -> Option<&str> {
        (!self.sees_requests).then_some("an old kernel")
    }
    fn add(&mut self, _file: WatchedFile) -> Result<bool, observe::Error> {
        Ok(true)
    }
    fn make_room(&mut self, _file: u32) -> Result<bool, observe::Error> {
        Ok(false)
    }
    fn set_role(&mut self, pid: u32, role: Role) -> Result<(), observe::Error> {
        self.told.lock().unwrap().roles.insert(pid, role);
        Ok(())
    }
    fn forget(&mut self, _pid: u32) {}
    fn wait_for_arrivals(&mut self, _over: &Over, _at_most: Duration) -> Vec<u32> {
        Vec::new()
    }
    fn drain(&mut self, visit: &mut dyn FnMut(PageEvent)) {
        std::mem::take(&mut self.told.lock().unwrap().events).into_iter().for_each(visit);
    }
    fn clear(&mut self, file: u32, first_unit: u64, units: u64) {
        self.told.lock().unwrap().cleared.push((file, first_unit, units));
    }
    fn tell_again_below(&mut self, _below: u64) -> Result<(), observe::Error> {
        Ok(())
    }
    fn lost(&self) -> u64 {
        7
    }
    fn has_lost_others(&self) -> bool {
        false
    }
    fn cost(&self) -> Option<ProbeCost> {
        None
    }
}

fn requests(wanted: Wanted, own: Arc<Own>, sees_requests: bool) -> (Requests, Arc<Mutex<Told>>, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let map = map_of([1, 2].map(|number| relation(number, ForkMap::empty(Fork::Main, 200))).into());
    for one in &map.relations {
        let path = one.relation.path.segment_file(directory.path(), Fork::Main, 0);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, vec![0; 200 * 8192]).unwrap();
    }
    let (files, watched) = Files::new(&map, &Arc::new(Tree::open(directory.path(), &[]).unwrap()), 4096);
    assert_eq!(watched.iter().map(|file| file.units).collect::<Vec<_>>(), [200, 200]);
    let told = Arc::new(Mutex::new(Told::default()));
    let watch = Box::new(FakeWatch { told: Arc::clone(&told), sees_requests });
    let requests = Requests::new(watch, files, Whose::new(wanted, None), own).unwrap();
    (requests, told, directory)
}

fn event(kind: PageEventKind, file: u32, units: u64, pid: u32) -> PageEvent {
    let time = Duration::from_micros(5300);
    PageEvent { time, kind, file, first_unit: 64, units, fetched: 0, pid, pages: 0, pages_again: 0 }
}

/// Relation, blocks, kind, pid, part of the film, claim.
type Seen = (String, std::ops::Range<u64>, EventKind, u32, bool, Claim);

fn looked(requests: &mut Requests) -> Vec<Seen> {
    requests.look().unwrap().into_iter().map(seen_of).collect()
}

fn ended(requests: &mut Requests) -> (FilmHeader, Vec<u32>) {
    let mut header = FilmHeader::default();
    let touches = requests.end(&mut header).unwrap();
    (header, touches.iter().map(|touch| touch.event.pid).collect())
}

fn seen_of(touch: Touch) -> Seen {
    let Touch { event, is_of_film, claim } = touch;
    assert_eq!(event.time, Duration::from_millis(5));
    let BlockRange { start, end } = event.blocks;
    (event.relation.name.name.clone(), start..end, event.kind, event.pid, is_of_film, claim)
}

const PID: u32 = 4_000_000_000;

#[test]
fn what_was_asked_for_is_told_by_kind_and_neighbours_are_one() {
    use PageEventKind::{Again, Fetched, Requested};
    let (mut requests, told, _directory) = requests(Wanted::Everybody, Arc::default(), true);
    told.lock().unwrap().events = vec![
        event(Fetched, 0, 0b0110, PID),
        PageEvent { fetched: 0b0110, pages: 8, ..event(Requested, 0, 0b1111, PID) },
        event(Requested, 0, 0b1_0000, PID),
        event(Again, 1, 1 << 63, PID),
    ];
    let names: Vec<String> =
        [1, 2].map(|number| relation(number, ForkMap::empty(Fork::Main, 1)).relation.name.name).into();
    let one = |blocks, kind, claim| (names[0].clone(), blocks, kind, PID, claim == Claim::Others, claim);
    let expected = [
        one(65..67, EventKind::Fetched, Claim::None),
        one(65..67, EventKind::Fetched, Claim::Others),
        one(64..65, EventKind::Requested, Claim::Others),
        one(67..69, EventKind::Requested, Claim::Others),
        (names[1].clone(), 127..128, EventKind::Again, PID, true, Claim::Others),
    ];
    assert_eq!(looked(&mut requests), expected);
    assert_eq!(requests.pages, 8);
    let (end, more) = ended(&mut requests);
    assert!(more.is_empty());
    assert_eq!((end.lost_events, end.sampling), (7, Some(Sampled { shift: 0, unit_blocks: 1 })));
}

#[test]
fn without_requests_what_comes_is_the_film() {
    let (mut requests, told, _directory) = requests(Wanted::Everybody, Arc::default(), false);
    told.lock().unwrap().events = vec![event(PageEventKind::Fetched, 0, 1, PID)];
    let seen = looked(&mut requests);
    assert_eq!((seen[0].2, seen[0].4, seen[0].5), (EventKind::Fetched, true, Claim::None));
    assert_eq!(ended(&mut requests).0.sampling, None);
}

#[test]
fn what_pgthaw_brings_is_told_from_what_it_reads_over() {
    let own = Arc::new(Own::default());
    own.add(0, Fork::Main, BlockRange::new(64, 66), &[64].into_iter().collect());
    let (mut requests, told, _directory) = requests(Wanted::Everybody, own, true);
    let me = std::process::id();
    told.lock().unwrap().events = vec![
        event(PageEventKind::Fetched, 0, 0b11, me),
        PageEvent { fetched: 0b111, ..event(PageEventKind::Requested, 0, 0b111, PID) },
    ];
    let seen: Vec<_> =
        looked(&mut requests).into_iter().map(|(_, blocks, kind, pid, film, _)| (blocks, kind, pid, film)).collect();
    let expected = [
        (65..66, EventKind::Fetched, me, false),
        (64..65, EventKind::Fetched, me, true),
        (66..67, EventKind::Fetched, PID, true),
        (64..66, EventKind::Requested, PID, true),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn what_others_do_is_left_out_once_the_command_was_seen() {
    let command = Arc::new(AtomicU32::new(0));
    let (mut requests, told, _directory) = requests(Wanted::command(&command), Arc::default(), true);
    let of = |kind, units, pid| event(kind, 0, units, pid);
    told.lock().unwrap().events = vec![of(PageEventKind::Fetched, 1, 1), of(PageEventKind::Requested, 1, 1)];
    assert_eq!(looked(&mut requests), []);
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    command.store(child.id(), Ordering::Release);
    told.lock().unwrap().events = vec![of(PageEventKind::Fetched, 2, child.id()), of(PageEventKind::Again, 2, 1)];
    let seen: Vec<_> = looked(&mut requests).into_iter().map(|one| (one.1, one.3, one.4, one.5)).collect();
    let expected =
        [(64..65, 1, false, Claim::Others), (65..66, child.id(), false, Claim::Job), (65..66, 1, false, Claim::Others)];
    assert_eq!(seen, expected, "another asked for both, and one of them came for the command");
    let Told { roles, cleared, .. } = std::mem::take(&mut *told.lock().unwrap());
    assert_eq!((roles[&1], roles[&child.id()], cleared), (Role::Other, Role::Wanted, vec![(0, 64, 1)]));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(ended(&mut requests).0.remarks.is_empty());
}

#[test]
fn where_the_command_is_never_seen_it_is_all_of_the_cluster() {
    let command = Arc::new(AtomicU32::new(std::process::id()));
    let (mut requests, told, _directory) = requests(Wanted::command(&command), Arc::default(), true);
    told.lock().unwrap().events = vec![event(PageEventKind::Requested, 0, 1, 1)];
    assert_eq!(looked(&mut requests), []);
    let (end, seen) = ended(&mut requests);
    assert_eq!(seen, [1]);
    assert!(end.remarks[0].contains("requests of the whole cluster"), "{:?}", end.remarks);
}

#[test]
fn a_command_that_asked_for_nothing_is_told() {
    let command = Arc::new(AtomicU32::new(std::process::id()));
    let (mut requests, _told, _directory) = requests(Wanted::command(&command), Arc::default(), true);
    assert_eq!(looked(&mut requests), []);
    let (end, seen) = ended(&mut requests);
    assert!(seen.is_empty());
    assert!(end.remarks[0].contains("nothing was requested from the page cache"), "{:?}", end.remarks);
    assert_eq!(end.remarks.len(), 1);
}

#[test]
fn a_process_that_ended_before_anybody_could_look_is_the_commands_if_there_was_no_other() {
    let (short, earlier) = (PID, PID + 1);
    let cases = [
        (vec![], vec![], vec![short]),
        (vec![], vec![1], vec![short, 1]),
        (vec![earlier], vec![], vec![earlier, short]),
    ];
    for (before, others, expected) in cases {
        let command = Arc::new(AtomicU32::new(0));
        let (mut requests, told, _directory) = requests(Wanted::command(&command), Arc::default(), true);
        let of = |pid: &u32| event(PageEventKind::Requested, (*pid != short).into(), 1, *pid);
        told.lock().unwrap().events = before.iter().map(of).collect();
        assert_eq!(looked(&mut requests), []);
        command.store(std::process::id(), Ordering::Release);
        told.lock().unwrap().events = [short].iter().chain(&others).map(of).collect();
        assert_eq!(looked(&mut requests), []);
        let (end, seen) = ended(&mut requests);
        assert_eq!(seen, expected);
        let why = "count as the command's, because no other process requested anything";
        let is_its = end.guessed.iter().any(|one| one.contains(why)) && end.job_seen == JobSeen::Yes;
        let is_all = end.remarks.iter().any(|one| one.contains("requests of the whole cluster"));
        assert_eq!((is_its, is_all), (expected == [short], expected != [short]), "{end:?}");
        assert_eq!(is_all, end.job_seen == JobSeen::Everybody);
    }
}

#[test]
fn a_file_that_cannot_be_followed_to_its_end_is_told() {
    let (mut requests, told, _directory) = requests(Wanted::Everybody, Arc::default(), true);
    told.lock().unwrap().events = vec![event(PageEventKind::Grown, 0, 0, PID)];
    assert_eq!(looked(&mut requests), []);
    assert!(ended(&mut requests).0.remarks[0].contains("1 file that grew or appeared"));
}

#[test]
fn runs_of_bits_are_maximal() {
    let found = |bits| bit_runs(bits).collect::<Vec<_>>();
    assert_eq!(found(0), []);
    assert_eq!(found(u64::MAX).first(), Some(&(0..64)));
    assert_eq!(found(1 << 63 | 0b1011), [0..2, 3..4, 63..64]);
}

#[test]
fn what_comes_again_is_counted_of_each_process() {
    use PageEventKind::{Again, Fetched, Requested};
    let (mut requests, told, _directory) = requests(Wanted::Everybody, Arc::default(), true);
    let again = |kind, pages_again, pid| PageEvent { pages_again, ..event(kind, 0, 1, pid) };
    told.lock().unwrap().events =
        vec![again(Requested, -1, PID), again(Again, 6, PID), again(Again, 4, PID - 1), again(Fetched, 0, PID)];
    requests.look().unwrap();
    assert_eq!(requests.fetched_again(), Bytes(10 * 4096));
    assert_eq!(ended(&mut requests).0.fetched_again, Some(Bytes(10 * 4096)));
}
