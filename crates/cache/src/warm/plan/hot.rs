//! The hot part of a plan: its steps with much more heat per second than the rest.

use super::merge::Link;

/// The hot part ends at a drop, where heat per second falls by at least this factor.
const DROP_MIN: f64 = 32.0;

/// Maximum duration of the drop from hot to cold steps, as a share of the plan's seconds. Steps of medium heat, such as
/// catalogs, may lie between them.
const DROP_WITHIN: f64 = 0.02;

/// Maximum share of the plan's heat after the hot part. With a higher limit, the hot part could end after a very hot
/// index, which is useless without its table.
const LEFT_HEAT_MAX: f64 = 0.125;

/// If heat per second drops several times, the hot part may extend from one drop to a later drop. The steps between the
/// two drops must have at least this share of the plan's heat. The share is low, because a very hot index before these
/// steps may have nearly all heat.
const MORE_HEAT_MIN: f64 = 1.0 / 16.0;

/// `Hot::is_begun` does not require all steps of the hot part. Steps with at most this share of the hot part's seconds
/// may be missing, because small catalogs may be read late.
const LEFT_MAX: f64 = 0.06;

#[derive(Clone, Copy, Debug)]
pub struct Hot {
    /// Heat per second of the coldest step.
    pub least: f64,
    /// Seconds of all steps, and of those not begun.
    seconds: f64,
    left: f64,
}

impl Hot {
    /// `None` if heat declines gradually or not at all.
    pub fn of<'a>(steps: impl Iterator<Item = &'a Link>) -> Option<Hot> {
        let mut hottest_first: Vec<&Link> = steps.collect();
        hottest_first.sort_unstable_by(|one, other| other.density().total_cmp(&one.density()));
        let ends: Vec<f64> = cumulated(hottest_first.iter().map(|link| link.seconds)).collect();
        let heats: Vec<f64> = cumulated(hottest_first.iter().map(|link| link.heat)).collect();
        let (within, all_heat) = (ends.last()? * DROP_WITHIN, *heats.last()?);
        let drops = hottest_first.iter().zip(&ends).zip(&heats).filter_map(|((link, seconds), heat)| {
            // First step that ends at least `within` seconds after this one. Without such a step, there is no drop.
            let beyond = hottest_first.get(ends.partition_point(|end| end - seconds < within))?;
            let least = link.density();
            let is_drop = least > beyond.density() * DROP_MIN && all_heat - heat <= all_heat * LEFT_HEAT_MAX;
            is_drop.then_some((Hot { least, seconds: *seconds, left: *seconds }, *heat))
        });
        let end = drops.reduce(|end, next| {
            let is_same = next.0.seconds - end.0.seconds < within;
            if is_same || next.1 - end.1 >= all_heat * MORE_HEAT_MIN { next } else { end }
        });
        end.map(|(hot, _)| hot)
    }

    /// Rest of an earlier plan's hot part. The new plan's costs may differ, so somewhat colder steps count too.
    pub fn left_of<'a>(earlier_least: f64, steps: impl Iterator<Item = &'a Link>) -> Hot {
        let least = earlier_least / DROP_MIN.sqrt();
        let seconds = steps.filter(|link| link.density() >= least).map(|link| link.seconds).sum();
        Hot { least, seconds, left: seconds }
    }

    pub fn begin(&mut self, link: &Link) {
        if link.density() >= self.least {
            self.left -= link.seconds;
        }
    }

    pub fn is_begun(&self) -> bool {
        self.left <= self.seconds * LEFT_MAX
    }
}

fn cumulated(values: impl Iterator<Item = f64>) -> impl Iterator<Item = f64> {
    values.scan(0.0, |sum, value| {
        *sum += value;
        Some(*sum)
    })
}

#[cfg(test)]
mod tests {
    use super::super::merge::{Cost, Merging};
    use super::*;

    fn link((density, seconds): &(f64, f64)) -> Link {
        let (merging, cost) = (Merging::default(), Cost::default());
        Link { coldest: 0, merging, cost, wanted_blocks: 0, heat: density * seconds, seconds: *seconds }
    }

    fn count(steps: &[(f64, f64)]) -> Option<usize> {
        let links: Vec<Link> = steps.iter().map(link).collect();
        let mut hot = Hot::of(links.iter())?;
        let begun = links.iter().position(|link| {
            hot.begin(link);
            hot.is_begun()
        });
        begun.map(|last| last + 1)
    }

    fn alike(density: f64, steps: usize) -> Vec<(f64, f64)> {
        vec![(density, 0.1); steps]
    }

    #[test]
    fn an_index_and_its_table_are_hot_and_what_is_hardly_used_is_not() {
        // The newest tenth of a table is used, as in pg_buffercache.
        let (catalogs, index) = (vec![(65_000.0, 0.05), (2_500.0, 0.001)], vec![(1_600_000.0, 0.1), (220_000.0, 0.1)]);
        let (table, late, cold) = (alike(33_000.0, 17), vec![(4_200.0, 0.001); 30], alike(185.0, 110));
        let steps = [&catalogs[..], &index, &table, &late, &cold].concat();
        assert_eq!(count(&steps), Some(2 + 2 + 16), "the last step may as well be on its way");
        let steps = [&cold[..50], &table, &late, &cold[50..], &index, &catalogs].concat();
        assert_eq!(count(&steps), Some(50 + 17 + 30 + 60 + 2), "whatever the order");
    }

    #[test]
    fn where_heat_falls_off_gently_there_is_none() {
        assert_eq!(count(&alike(0.2, 50)), None);
        assert_eq!(count(&alike(0.0, 50)), None);
        assert_eq!(count(&[]), None);
        let zipfian: Vec<(f64, f64)> = (1..1000).map(|rank| (1.0 / f64::from(rank), 0.1)).collect();
        assert_eq!(count(&zipfian), None);
        let half_of_the_heat_is_left = [alike(40_000.0, 1), alike(1000.0, 40)].concat();
        assert_eq!(count(&half_of_the_heat_is_left), None);
        assert_eq!(
            count(&[alike(40_000.0, 1), alike(1000.0, 5)].concat()),
            Some(1),
            "an eighth is, and few steps are enough"
        );
    }

    #[test]
    fn an_odd_step_at_the_end_does_not_hide_where_the_hot_part_ends() {
        let steps = [alike(33_000.0, 17), alike(185.0, 110)].concat();
        assert_eq!(count(&steps), Some(16));
        for odd in [vec![(0.001, 0.001)], vec![(0.0, 0.1)], alike(0.5, 40)] {
            assert_eq!(count(&[&steps[..], &odd].concat()), Some(16), "{odd:?}");
        }
        assert_eq!(count(&[alike(33_000.0, 17), vec![(0.1, 0.001)]].concat()), None, "all of it is hot");
    }

    #[test]
    fn what_is_left_of_an_earlier_hot_part_is_known_by_its_heat() {
        let (table, cold): (Vec<_>, Vec<_>) = (alike(33_000.0, 3), alike(185.0, 110));
        let links = |steps: &[(f64, f64)]| steps.iter().map(link).collect::<Vec<Link>>();
        let rest = links(&[&table[..], &cold].concat());
        let mut hot = Hot::left_of(60_000.0, rest.iter());
        assert!(!hot.is_begun());
        rest[..3].iter().for_each(|link| hot.begin(link));
        assert!(hot.is_begun());
        assert!(Hot::left_of(60_000.0, links(&cold).iter()).is_begun(), "nothing is left of it");
    }
}
