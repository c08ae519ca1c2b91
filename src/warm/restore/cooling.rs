//! When most of what is hot has been read, so that the server may flow from now on.

/// The first time that the server is asked because of what was read: when this part of the heat is left. Before, more than one request
/// in eight finds its block missing.
const FIRST_ASKED_AT: f64 = 0.125;

/// How much of the heat of a restore is left to read.
#[derive(Clone, Copy, Debug)]
pub struct Cooling {
    /// Of the first plan.
    all: f64,
    left: f64,
    /// The part of `all` below which the server is asked next.
    next: f64,
}

impl Default for Cooling {
    fn default() -> Cooling {
        Cooling { all: 0.0, left: 0.0, next: FIRST_ASKED_AT }
    }
}

impl Cooling {
    /// A plan of so much heat begins; a later one has what is left of the first.
    pub fn begin(&mut self, heat: f64) {
        self.all = self.all.max(heat);
        self.left = heat;
    }

    /// So much of it nobody has begun to read.
    pub fn note(&mut self, left: f64) {
        self.left = left;
    }

    /// Is so much less left than when this was said last, that it is worth asking the server? Half as much is.
    pub fn take_change(&mut self) -> bool {
        if self.all <= 0.0 || self.left >= self.next * self.all {
            return false;
        }
        while self.left < self.next * self.all {
            // With nothing left it comes to 0 in the end, and is never reached again.
            self.next /= 2.0;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_told_each_time_that_half_as_much_is_left() {
        let mut cooling = Cooling::default();
        assert!(!cooling.take_change(), "nothing is planned");
        cooling.begin(1000.0);
        let told = (0..=1000).rev().filter(|left| {
            cooling.note(f64::from(*left));
            cooling.take_change()
        });
        assert_eq!(told.collect::<Vec<_>>(), [124, 62, 31, 15, 7, 3, 1, 0]);
        assert!(!cooling.take_change(), "once each");
    }

    #[test]
    fn a_plan_of_the_rest_does_not_begin_anew() {
        let mut cooling = Cooling::default();
        cooling.begin(1000.0);
        cooling.note(100.0);
        assert!(cooling.take_change());
        cooling.begin(100.0);
        assert!(!cooling.take_change());
        cooling.note(60.0);
        assert!(cooling.take_change());
    }
}
