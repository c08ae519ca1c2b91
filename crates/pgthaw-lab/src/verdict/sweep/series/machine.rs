//! What the machine did in the spans of a trial.

use std::collections::BTreeMap;

use super::column::{Column, mean_of, most_of, round};
use crate::study::{Join, MEASURES};
use observe::OsSample;

/// The columns of the measures that have one, by their names; `None` in a span that was not gauged. A span may be empty.
pub fn compute_machine_series(spans: &[&[OsSample]]) -> BTreeMap<String, Column> {
    let mut series = BTreeMap::new();
    for measure in MEASURES {
        let Some(name) = measure.column else { continue };
        let column = |of: &dyn Fn(&[OsSample]) -> Option<f64>| spans.iter().map(|span| of(span)).collect::<Column>();
        let most = column(&|span| most_of(span, measure.of).map(f64::round));
        if measure.join == Join::Most {
            series.insert(name.to_owned(), most);
            continue;
        }
        series.insert(name.to_owned(), column(&|span| mean_of(span, measure.of).map(round)));
        if measure.join == Join::Band {
            let least = |span: &[OsSample]| most_of(span, |one| (measure.of)(one).map(|value| -value));
            series.insert(format!("{name}_min"), column(&|span| least(span).map(|value| -value)));
            series.insert(format!("{name}_max"), most);
        }
    }
    series
}
