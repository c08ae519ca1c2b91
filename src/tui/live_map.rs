//! What the live map shows, and what each key does to it. Nothing here touches the terminal.

use std::collections::HashSet;
use std::time::Duration;

use super::keys::{Key, Next};
use super::rows::{Look, Order, Row, RowKey, RowsAsked, compute_rows};
use crate::cache::{Map, RolledUp};

/// How the map is first shown.
#[derive(Clone, Copy, Debug, Default)]
pub struct LiveView {
    pub rolled_up: RolledUp,
    pub with_forks: bool,
    pub with_system: bool,
    /// From the end of a look to the next one.
    pub pause: Duration,
}

/// The live map.
#[derive(Debug)]
pub struct LiveMap {
    pub look: Look,
    /// Why the last look failed. What is shown is older then.
    pub failure: Option<String>,
    pub view: LiveView,
    pub order: Order,
    pub filter: String,
    /// Do keys go to the filter?
    pub is_typing: bool,
    pub is_paused: bool,
    pub rows: Vec<Row>,
    /// The row under the cursor.
    pub selected: usize,
    /// The first row on the screen, and how many fit.
    pub first: usize,
    pub fitting: usize,
    unfolded: HashSet<RowKey>,
}

impl LiveMap {
    /// Begins with a first look.
    pub fn new(map: Map, places: Vec<usize>, view: LiveView) -> LiveMap {
        let mut live = LiveMap {
            look: Look::new(None, map, places),
            failure: None,
            view,
            order: Order::default(),
            filter: String::new(),
            is_typing: false,
            is_paused: false,
            rows: Vec::new(),
            selected: 0,
            first: 0,
            fitting: 1,
            unfolded: HashSet::new(),
        };
        live.arrange();
        live
    }

    /// Takes another look, or why there is none.
    pub fn take(&mut self, looked: Result<(Map, Vec<usize>), String>) {
        match looked {
            Ok((map, places)) => {
                self.look = Look::new(Some(&self.look.map), map, places);
                self.failure = None;
                self.arrange();
            }
            Err(reason) => self.failure = Some(reason),
        }
    }

    /// Does what a key stands for.
    pub fn press(&mut self, key: Key) -> Next {
        match key {
            Key::Interrupt => return Next::Quit,
            Key::Redraw => return Next::GoOn,
            _ if self.is_typing => self.type_filter(key),
            Key::Character('q') => return Next::Quit,
            Key::Escape if self.filter.is_empty() => return Next::Quit,
            Key::Escape => {
                self.filter.clear();
                self.arrange();
            }
            Key::Up | Key::Character('k') => self.select(self.selected.saturating_sub(1)),
            Key::Down | Key::Character('j') => self.select(self.selected + 1),
            Key::PageUp => self.select(self.selected.saturating_sub(self.fitting)),
            Key::PageDown => self.select(self.selected + self.fitting),
            Key::Home => self.select(0),
            Key::End => self.select(usize::MAX),
            Key::Enter | Key::Character(' ') => self.unfold(None),
            Key::Right => self.unfold(Some(true)),
            Key::Left => self.unfold(Some(false)),
            Key::Character(character) => self.press_letter(character),
            Key::Backspace => {}
        }
        Next::GoOn
    }

    fn press_letter(&mut self, letter: char) {
        let LiveView { rolled_up, with_forks, with_system, .. } = &mut self.view;
        match letter {
            's' => self.order = self.order.next(),
            'b' => {
                *rolled_up = match rolled_up {
                    RolledUp::Not => RolledUp::ToTable,
                    _ => rolled_up.unfolded(),
                }
            }
            'f' => *with_forks = !*with_forks,
            'c' => *with_system = !*with_system,
            'p' => self.is_paused = !self.is_paused,
            '/' => self.is_typing = true,
            _ => return,
        }
        self.arrange();
    }

    fn type_filter(&mut self, key: Key) {
        match key {
            Key::Enter => self.is_typing = false,
            Key::Escape => {
                self.is_typing = false;
                self.filter.clear();
            }
            Key::Backspace => {
                self.filter.pop();
            }
            Key::Character(character) => self.filter.push(character),
            _ => return,
        }
        self.arrange();
    }

    fn select(&mut self, row: usize) {
        self.selected = row.min(self.rows.len().saturating_sub(1));
    }

    /// Unfolds or folds the row under the cursor; without `wanted` what it is not. Folding within what was unfolded folds
    /// that.
    fn unfold(&mut self, wanted: Option<bool>) {
        let Some(row) = self.rows.get(self.selected) else { return };
        let mut place = self.selected;
        let is_unfolded = row.is_unfolded;
        if !wanted.unwrap_or(!is_unfolded) && !is_unfolded {
            let depth = row.key.depth;
            place = (0..place).rev().find(|above| self.rows[*above].key.depth < depth).unwrap_or(place);
        }
        let key = self.rows[place].key.clone();
        match wanted.unwrap_or(!is_unfolded) {
            true => self.unfolded.insert(key),
            false => self.unfolded.remove(&key),
        };
        self.select(place);
        self.arrange();
    }

    /// Computes the rows again. The cursor stays on its row, wherever that is now.
    fn arrange(&mut self) {
        let key = self.rows.get(self.selected).map(|row| row.key.clone());
        let asked = RowsAsked {
            rolled_up: self.view.rolled_up,
            order: self.order,
            filter: &self.filter,
            with_system: self.view.with_system,
            with_forks: self.view.with_forks,
            unfolded: &self.unfolded,
        };
        self.rows = compute_rows(&self.look, &asked);
        // Who has not moved looks at the top.
        let found = key.filter(|_| self.selected > 0).and_then(|key| self.rows.iter().position(|row| row.key == key));
        self.select(found.unwrap_or(self.selected));
    }

    /// Keeps the cursor on a screen on which so many rows fit.
    pub fn scroll(&mut self, fitting: usize) {
        self.fitting = fitting.max(1);
        let last_first = self.rows.len().saturating_sub(self.fitting);
        let lowest = (self.selected + 1).saturating_sub(self.fitting);
        self.first = self.first.clamp(lowest, self.selected.max(lowest)).min(last_first);
    }
}

#[cfg(test)]
mod tests {
    use super::super::rows_fixture::{grown, map};
    use super::*;

    fn live() -> LiveMap {
        let map = map();
        let places = (0..map.relations.len()).collect();
        LiveMap::new(map, places, LiveView::default())
    }

    fn texts(live: &LiveMap) -> Vec<String> {
        live.rows.iter().map(|row| format!("{}{}", "  ".repeat(row.key.depth), row.text)).collect()
    }

    fn press(live: &mut LiveMap, keys: &str) {
        keys.chars().for_each(|key| assert_eq!(live.press(Key::Character(key)), Next::GoOn));
    }

    #[test]
    fn a_row_unfolds_to_what_it_sums_and_folds_again() {
        let mut live = live();
        assert_eq!(texts(&live), ["public.orders (2 partitions)", "public.lone"]);
        live.press(Key::Enter);
        assert_eq!(
            texts(&live),
            ["public.orders (2 partitions)", "  public.orders_2", "  public.orders_1", "public.lone"]
        );
        press(&mut live, "jj ");
        assert_eq!(texts(&live)[3..5], ["    public.orders_1", "    public.orders_1_pkey"]);
        press(&mut live, "j");
        live.press(Key::Left);
        assert_eq!(live.rows[live.selected].text, "public.orders_1");
        live.press(Key::Home);
        live.press(Key::Left);
        assert_eq!(texts(&live).len(), 2);
    }

    #[test]
    fn keys_sort_and_roll_up() {
        let mut live = live();
        press(&mut live, "b");
        assert_eq!(texts(&live), ["public.orders_2", "public.orders_1", "public.lone"]);
        press(&mut live, "b");
        assert_eq!(texts(&live).len(), 4);
        press(&mut live, "sssss");
        assert_eq!(live.order, Order::Name);
        assert_eq!(texts(&live)[0], "public.lone");
        press(&mut live, "bc");
        assert_eq!(texts(&live)[0], "pg_catalog.pg_class");
    }

    #[test]
    fn a_filter_is_typed_and_left() {
        let mut live = live();
        press(&mut live, "/ONEq");
        assert_eq!(texts(&live), Vec::<String>::new());
        live.press(Key::Backspace);
        assert_eq!(texts(&live), ["public.lone"]);
        live.press(Key::Enter);
        press(&mut live, "s");
        assert_eq!(live.press(Key::Escape), Next::GoOn);
        assert_eq!(texts(&live).len(), 2);
        assert_eq!(live.press(Key::Character('q')), Next::Quit);
        assert_eq!(live.press(Key::Interrupt), Next::Quit);
    }

    #[test]
    fn changes_are_those_since_the_look_before_and_a_failed_one_changes_nothing() {
        let mut live = live();
        let after = grown(live.look.map.clone());
        let places: Vec<usize> = (0..after.relations.len()).collect();
        live.take(Ok((after.clone(), places.clone())));
        let orders = live.rows[0].changed;
        assert_eq!((orders.os.gained, orders.os.lost), (30, 5));
        live.take(Err("the server is shutting down".into()));
        assert_eq!(live.rows[0].changed, orders);
        assert!(live.failure.is_some());
        live.take(Ok((after, places)));
        assert_eq!((live.rows[0].changed.blocks(), &live.failure), (0, &None));
    }

    #[test]
    fn the_cursor_stays_on_its_row_and_on_the_screen() {
        let mut live = live();
        live.press(Key::Down);
        press(&mut live, "s");
        assert_eq!(live.rows[live.selected].text, "public.lone");
        press(&mut live, "bb");
        live.press(Key::End);
        live.scroll(2);
        assert_eq!((live.selected, live.first), (3, 2));
        live.press(Key::PageUp);
        live.scroll(2);
        assert_eq!((live.selected, live.first), (1, 1));
        live.press(Key::Home);
        live.scroll(9);
        assert_eq!((live.selected, live.first), (0, 0));
    }
}
