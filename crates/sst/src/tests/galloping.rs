//! Galloping: how far a walk may go without comparing keys.

use super::{options, table};
use crate::testing::{SHAPES, Shape, entries, key_of};
use crate::{ReadPurpose, TableCursor};
use esker_env::SeededRandom;
use esker_iter::{BoundOrder, Cursor};

/// How often each bound_order was returned, and the most steps of one walk.
#[derive(Default)]
struct Met {
    before: usize,
    near: usize,
    behind: usize,
    most_steps: usize,
}

impl Met {
    fn check<const BACKWARD: bool>(&mut self, bound_order: BoundOrder, key: &[u8], bound: Option<&[u8]>) {
        let order = bound.map(|bound| if BACKWARD { bound.cmp(key) } else { key.cmp(bound) });
        let context = || format!("{bound_order:?} {BACKWARD} {} {bound:?}", key.escape_ascii());
        match bound_order {
            BoundOrder::Before => {
                assert!(order.is_none_or(|order| order.is_lt()), "{}", context());
                self.before += 1;
            }
            BoundOrder::Near => self.near += 1,
            BoundOrder::Behind => {
                assert!(order.is_some_and(|order| order.is_gt()), "{}", context());
                self.behind += 1;
            }
            BoundOrder::Unknown => {}
        }
    }

    /// Walks towards a bound as long as the bound_order is known, and back.
    fn walk<const BACKWARD: bool>(
        &mut self,
        cursor: &mut TableCursor,
        keys: &[&[u8]],
        at: usize,
        bound: Option<&[u8]>,
    ) {
        let (bound_order, word) = cursor.bound_order_of_only::<BACKWARD>(bound);
        self.check::<BACKWARD>(bound_order, keys[at], bound);
        let mut steps = 0;
        loop {
            let bound_order = match bound_order {
                BoundOrder::Unknown => BoundOrder::Unknown,
                _ => cursor.step_to_only::<BACKWARD>(word),
            };
            if bound_order == BoundOrder::Unknown {
                break;
            }
            steps += 1;
            let key = keys[if BACKWARD { at - steps } else { at + steps }];
            assert_eq!(cursor.key(), key, "one entry further");
            self.check::<BACKWARD>(bound_order, key, bound);
        }
        (0..steps).for_each(|_| assert!(if BACKWARD { cursor.step() } else { cursor.step_back() }));
        assert_eq!(cursor.key(), keys[at], "nothing happens where nothing is told");
        self.most_steps = self.most_steps.max(steps);
    }
}

#[test]
fn standing_matches_comparison_in_both_directions() {
    let random = SeededRandom::new(5);
    let mut met = Met::default();
    for shape in SHAPES.into_iter().filter(|shape| *shape != Shape::Giant) {
        let mut entries = entries(shape, 600, 40, &random);
        entries.dedup_by(|older, newer| older.key == newer.key);
        let keys: Vec<&[u8]> = entries.iter().map(|entry| &*entry.key).collect();
        let table = table(&entries, options());
        let mut cursor = table.cursor(ReadPurpose::Scan);
        cursor.seek_to_first().unwrap();
        for at in 0..entries.len() {
            assert_eq!(cursor.key(), keys[at], "{shape:?}");
            let bound = match random.below(4) {
                0 => None,
                1 => Some(keys[random.below(keys.len() as u64) as usize].to_vec()),
                // In the same block, mostly.
                2 => Some(keys[(at + random.below(20) as usize).min(keys.len() - 1)].to_vec()),
                _ => Some(key_of(shape, 600, &random)),
            };
            met.walk::<false>(&mut cursor, &keys, at, bound.as_deref());
            met.walk::<true>(&mut cursor, &keys, at, bound.as_deref());
            cursor.next().unwrap();
        }
    }
    let Met { before, near, behind, most_steps } = met;
    assert!(most_steps > 16, "the test met no walk longer than {most_steps}");
    assert!(before > 5_000 && near > 100 && behind > 5_000, "{before} before, {near} near, {behind} behind");
}
