//! Explanations of bounded length: the smallest steps become one.

use super::{Figure, Step, Unit};
use std::cmp::Reverse;

/// Leaves at most `most` steps in each step, in their order.
pub(super) fn shorten(step: &mut Step, most: usize) {
    if step.steps.len() > most {
        let mut order: Vec<usize> = (0..step.steps.len()).collect();
        order.sort_by_key(|at| Reverse(size(&step.steps[*at])));
        let mut is_kept = vec![false; step.steps.len()];
        order[..most - 1].iter().for_each(|at| is_kept[*at] = true);
        let (mut kept, mut others) = (Vec::with_capacity(most), Vec::new());
        for (below, is_kept) in std::mem::take(&mut step.steps).into_iter().zip(is_kept) {
            if is_kept { kept.push(below) } else { others.push(below) }
        }
        kept.push(sum_of(&others));
        step.steps = kept;
    }
    step.steps.iter_mut().for_each(|below| shorten(below, most));
}

/// The first figure as a whole number: what the steps of a whole are compared by.
fn size(step: &Step) -> u64 {
    step.measures.first().and_then(|measure| measure.actual).map_or(0, |actual| actual as u64)
}

/// One step for several. Figures that are multiples of something have no sum.
fn sum_of(steps: &[Step]) -> Step {
    let mut sum = Step::new(format!("{} others", steps.len()), "");
    let mut figures: Vec<Figure> = Vec::new();
    for measure in steps.iter().flat_map(|step| &step.measures) {
        if measure.figure.unit() != Unit::Times && !figures.contains(&measure.figure) {
            figures.push(measure.figure);
        }
    }
    for figure in figures {
        sum.add(figure, steps.iter().filter_map(|step| step.actual(figure)).sum::<f64>() as u64);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_steps_become_one_and_no_byte_is_lost() {
        let part = |name: &str, bytes: u64| Step::new(name, "").with(Figure::DiskBytes, bytes);
        let mut root = part("all", 115);
        root.steps = [("a", 5), ("b", 50), ("c", 10), ("d", 30), ("e", 20)]
            .map(|(name, bytes)| part(name, bytes))
            .to_vec();
        let names = |step: &Step| step.steps.iter().map(|step| step.what.clone()).collect::<Vec<_>>();
        let bytes =
            |step: &Step| step.steps.iter().filter_map(|step| step.actual(Figure::DiskBytes)).sum::<f64>();
        let mut same = root.clone();
        shorten(&mut same, 5);
        assert_eq!(same, root);
        root.steps[1].steps = root.steps.clone();
        shorten(&mut root, 3);
        assert_eq!(names(&root), ["b", "d", "3 others"]);
        assert_eq!(bytes(&root), 115.0);
        assert_eq!(names(&root.steps[0]), ["b", "d", "3 others"]);
        shorten(&mut root, 1);
        assert_eq!((names(&root), bytes(&root)), (vec!["3 others".to_owned()], 115.0));
    }
}
