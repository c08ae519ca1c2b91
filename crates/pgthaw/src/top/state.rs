//! State of the screen and the effect of keys.

use std::cmp::Reverse;
use std::time::Duration;

use observe::top::{History, TopFrame, TopStatistic};
use terminal::Key;

type Figure = fn(&TopStatistic) -> Option<u64>;

/// Sort orders, named as the table's columns. Numbers sort in descending order.
const ORDERS: [(&str, Option<Figure>); 6] = [
    ("TOTAL", Some(|one| Some(one.named.statistic.total_ns))),
    ("COUNT", Some(|one| Some(one.named.statistic.count))),
    ("AVERAGE", Some(|one| one.named.average_ns)),
    ("MAX", Some(TopStatistic::longest_ns)),
    ("P99", Some(|one| one.named.p99_ns)),
    ("NAME", None),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Live,
    Record,
}

#[derive(Clone, Debug, Default)]
pub struct Title {
    pub subject: String,
    pub beside: Vec<String>,
}

const PARTS_WITHIN: usize = 20;

const JUMP_MS: i64 = 60_000;

const SPEEDS: [u32; 4] = [1, 4, 20, 100];

#[derive(Debug)]
pub struct LiveTop {
    pub title: Title,
    pub kind: Kind,
    pub history: History,
    /// The shown step. Parts that this step lacks are copied from earlier steps.
    pub shown: TopFrame,
    pub server_at_ms: i64,
    order: usize,
    pub with_idle: bool,
    pub with_locks: bool,
    pub is_help: bool,
    pub first: usize,
    /// Absolute number of the shown step; `None` follows the newest.
    at: Option<u64>,
    pub is_playing: bool,
    speed: usize,
}

impl LiveTop {
    pub fn new(title: Title, kind: Kind, history: History) -> LiveTop {
        let at = (kind == Kind::Record).then_some(history.dropped);
        let mut live = LiveTop {
            title,
            kind,
            history,
            shown: TopFrame::default(),
            server_at_ms: 0,
            order: 0,
            with_idle: false,
            with_locks: false,
            is_help: false,
            first: 0,
            at,
            is_playing: kind == Kind::Record,
            speed: 0,
        };
        live.show();
        live
    }

    pub fn take(&mut self, frame: &TopFrame) {
        self.history.push(frame);
        if self.at.is_none() {
            let before = std::mem::replace(&mut self.shown, frame.clone());
            let at_ms = if frame.server.is_some() { frame.at_ms } else { self.server_at_ms };
            self.borrow_from(&before, at_ms);
        }
    }

    pub fn place(&self) -> usize {
        let newest = self.history.len().saturating_sub(1);
        self.at.map_or(newest, |at| (at.saturating_sub(self.history.dropped) as usize).min(newest))
    }

    pub fn is_back(&self) -> bool {
        self.at.is_some()
    }

    /// Time until the next step of a record; `None` when paused.
    pub fn delay(&self) -> Option<Duration> {
        let next = self.history.briefs(self.place() + 1, self.place() + 2).next().filter(|_| self.is_playing)?;
        let length = Duration::from_nanos(next.length_ns).clamp(Duration::from_millis(50), Duration::from_secs(10));
        Some(length / SPEEDS[self.speed])
    }

    pub fn speed(&self) -> u32 {
        SPEEDS[self.speed]
    }

    pub fn play(&mut self) {
        self.go_to(self.place() + 1);
    }

    /// Returns true to quit.
    pub fn press(&mut self, key: Key) -> bool {
        match key {
            Key::CtrlC | Key::Char('q') => return true,
            Key::Escape if self.is_help => (self.is_help, self.first) = (false, 0),
            Key::Escape if self.with_locks => (self.with_locks, self.first) = (false, 0),
            Key::Escape if self.is_back() && self.kind == Kind::Live => self.go_now(),
            Key::Escape => return true,
            Key::Char('?') => (self.is_help, self.first) = (!self.is_help, 0),
            Key::ArrowUp | Key::Char('k') => self.first = self.first.saturating_sub(1),
            Key::ArrowDown | Key::Char('j') => self.first += 1,
            Key::ArrowLeft => self.step_to(self.place().saturating_sub(1)),
            Key::ArrowRight => self.step_to(self.place() + 1),
            Key::PageUp => self.step_to(self.find(-JUMP_MS)),
            Key::PageDown => self.step_to(self.find(JUMP_MS)),
            Key::Home => self.step_to(0),
            Key::End => match self.kind {
                Kind::Live => self.go_now(),
                Kind::Record => self.step_to(usize::MAX),
            },
            Key::Char('p' | ' ') => self.pause(),
            Key::Char('s') => (self.order, self.first) = ((self.order + 1) % ORDERS.len(), 0),
            Key::Char('i') => self.with_idle = !self.with_idle,
            Key::Char('l') => (self.with_locks, self.first) = (!self.with_locks, 0),
            Key::Char('f') if self.kind == Kind::Record => self.speed = (self.speed + 1) % SPEEDS.len(),
            _ => {}
        }
        false
    }

    fn pause(&mut self) {
        match self.kind {
            Kind::Record => self.is_playing = !self.is_playing,
            Kind::Live if self.is_back() => self.go_now(),
            Kind::Live => self.go_to(self.place()),
        }
    }

    fn step_to(&mut self, place: usize) {
        self.is_playing = false;
        self.go_to(place);
    }

    fn go_to(&mut self, place: usize) {
        let place = place.min(self.history.len().saturating_sub(1));
        self.at = Some(self.history.dropped + place as u64);
        self.show();
    }

    fn go_now(&mut self) {
        self.at = None;
        self.show();
    }

    pub fn step_to_time(&mut self, at_ms: i64) {
        self.step_to(self.history.briefs(0, usize::MAX).take_while(|brief| brief.at_ms < at_ms).count());
    }

    /// Index of the step `later_ms` after the shown one; negative is earlier.
    fn find(&self, later_ms: i64) -> usize {
        let wanted = self.shown.at_ms.saturating_add(later_ms);
        let place = self.place();
        match later_ms < 0 {
            true => {
                let before = self.history.briefs(0, place).rev();
                place - before.take_while(|brief| brief.at_ms >= wanted).count()
            }
            false => {
                let after = self.history.briefs(place + 1, usize::MAX);
                place + after.take_while(|brief| brief.at_ms <= wanted).count()
            }
        }
    }

    fn show(&mut self) {
        let place = self.place();
        let Some(frame) = self.history.frame(place) else { return };
        (self.server_at_ms, self.shown) = (frame.at_ms, frame);
        for place in (place.saturating_sub(PARTS_WITHIN)..place).rev() {
            let is_whole = self.shown.server.is_some() && self.shown.machine.is_some();
            let Some(before) = self.history.frame(place).filter(|_| !is_whole) else { return };
            let at_ms = if self.shown.server.is_some() { self.server_at_ms } else { before.at_ms };
            self.borrow_from(&before, at_ms);
        }
    }

    /// Fills missing parts from an earlier step. Figures from before an outage are not reused.
    fn borrow_from(&mut self, before: &TopFrame, at_ms: i64) {
        if self.shown.failure.is_some() || before.failure.is_some() {
            return;
        }
        self.server_at_ms = at_ms;
        self.shown.server = self.shown.server.or(before.server);
        self.shown.checkpoint = self.shown.checkpoint.or(before.checkpoint);
        if self.shown.machine.is_none() {
            self.shown.machine.clone_from(&before.machine);
        }
    }

    pub fn rows(&self) -> Vec<&TopStatistic> {
        let is_meant = |one: &&TopStatistic| self.with_idle || !one.named.is_aside();
        let mut rows: Vec<&TopStatistic> = self.shown.statistics.iter().filter(is_meant).collect();
        rows.sort_by(|one, other| one.named.name.cmp(&other.named.name));
        if let Some(figure) = ORDERS[self.order].1 {
            // Ties and unknown figures are sorted by total time.
            rows.sort_by_key(|one| Reverse((figure(one), one.named.statistic.total_ns)));
        }
        rows
    }

    pub fn order(&self) -> &'static str {
        ORDERS[self.order].0
    }

    pub fn scroll(&mut self, fitting: usize, lines: usize) {
        self.first = self.first.min(lines.saturating_sub(fitting));
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::frame;
    use super::*;

    fn live(seconds: i64) -> LiveTop {
        let mut live = LiveTop::new(Title::default(), Kind::Live, History::live());
        (0..seconds).for_each(|second| live.take(&frame(second)));
        live
    }

    fn press(live: &mut LiveTop, keys: &[Key]) -> Vec<i64> {
        let shown = |live: &mut LiveTop, key: &Key| {
            assert!(!live.press(key.clone()));
            live.shown.at_ms / 1000
        };
        keys.iter().map(|key| shown(live, key)).collect()
    }

    #[test]
    fn keys_look_back_and_return_to_now() {
        let mut live = live(200);
        use Key::{ArrowLeft as Left, ArrowRight as Right, Char, End, Escape, Home, PageDown, PageUp};
        assert_eq!(press(&mut live, &[Left, Left, PageUp, PageUp, Right, PageDown]), [198, 197, 137, 77, 78, 138]);
        assert_eq!(press(&mut live, &[Home, Left, End]), [0, 0, 199]);
        assert!(!live.is_back());
        assert_eq!(press(&mut live, &[Char('p')]), [199]);
        live.take(&frame(200));
        assert_eq!((live.shown.at_ms, live.is_back()), (199_000, true), "paused: it stays, and goes on behind");
        assert_eq!(press(&mut live, &[Right, Char(' '), Left, Escape]), [200, 200, 199, 200]);
        assert_eq!((live.press(Escape), live.press(Key::CtrlC)), (true, true));
    }

    #[test]
    fn what_is_looked_at_stays_until_it_is_too_old() {
        let mut live = live(3600);
        press(&mut live, &[Key::Home, Key::ArrowRight]);
        live.take(&frame(3600));
        assert_eq!((live.shown.at_ms, live.place()), (1000, 0));
        (3601..3700).for_each(|second| live.take(&frame(second)));
        assert_eq!(press(&mut live, &[Key::ArrowRight]), [101]);
    }

    #[test]
    fn a_part_that_was_not_asked_for_is_the_last_known() {
        let mut live = live(5);
        let told = live.shown.server;
        let mut without = frame(5);
        (without.server, without.machine) = (None, None);
        live.take(&without);
        assert_eq!((live.shown.server, live.server_at_ms), (told, 4000));
        assert!(live.shown.machine.is_some());
        live.take(&frame(6));
        assert_eq!(press(&mut live, &[Key::ArrowLeft]), [5]);
        assert_eq!((live.shown.server, live.server_at_ms), (told, 4000), "looked back at it is the same");
        let gone = TopFrame { failure: Some("gone".into()), ..TopFrame::default() };
        press(&mut live, &[Key::End]);
        live.take(&gone);
        assert_eq!(live.shown.server, None);
    }

    #[test]
    fn names_are_sorted_by_key() {
        let mut live = live(1);
        let first = |live: &LiveTop| live.rows()[0].named.name.clone();
        assert_eq!(first(&live), "client backend::Lock::transactionid");
        press(&mut live, &[Key::Char('s')]);
        assert_eq!((live.order(), first(&live).as_str()), ("COUNT", "client backend::processor::running"));
        press(&mut live, &[Key::Char('s'), Key::Char('s')]);
        assert_eq!((live.order(), first(&live).as_str()), ("MAX", "client backend::Lock::transactionid"));
        press(&mut live, &[Key::Char('s'), Key::Char('s'), Key::Char('s')]);
        assert_eq!(live.order(), "TOTAL");
        let few = live.rows().len();
        press(&mut live, &[Key::Char('i')]);
        assert!(live.rows().len() > few && live.rows().iter().any(|one| one.named.place == "checkpointer"));
    }

    #[test]
    fn a_record_plays_by_itself_and_stops_where_a_key_leads() {
        let mut history = History::of_record();
        (0..100).for_each(|second| history.push(&frame(second)));
        let mut live = LiveTop::new(Title::default(), Kind::Record, history);
        assert_eq!((live.shown.at_ms, live.delay()), (0, Some(Duration::from_secs(1))));
        live.play();
        assert_eq!(press(&mut live, &[Key::Char('f')]), [1]);
        assert_eq!((live.speed(), live.delay()), (4, Some(Duration::from_millis(250))));
        assert_eq!(press(&mut live, &[Key::ArrowRight]), [2]);
        assert_eq!(live.delay(), None);
        press(&mut live, &[Key::Char('p')]);
        assert!(live.delay().is_some());
        assert_eq!(press(&mut live, &[Key::End]), [99]);
        press(&mut live, &[Key::Char('p')]);
        assert_eq!(live.delay(), None, "nothing follows");
    }
}
