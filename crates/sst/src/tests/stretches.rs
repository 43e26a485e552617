//! How far a walk may go without a look at keys.

use super::{options, table};
use crate::ReadPurpose;
use crate::testing::{SHAPES, Shape, entries, key_of};
use esker_env::SeededRandom;
use esker_iter::{Cursor, Lead, Then};

#[test]
fn a_stretch_ends_before_the_bound_in_either_direction() {
    let random = SeededRandom::new(5);
    let (mut longest, mut told) = (0, 0);
    for shape in SHAPES.into_iter().filter(|shape| *shape != Shape::Giant) {
        let mut entries = entries(shape, 600, 40, &random);
        entries.dedup_by(|older, newer| older.key == newer.key);
        let table = table(&entries, options());
        let mut cursor = table.cursor(ReadPurpose::Scan);
        let is_at =
            |cursor: &crate::TableCursor, at: usize| cursor.is_valid() && cursor.key() == entries[at].key;
        cursor.seek_to_first().unwrap();
        for at in 0..entries.len() {
            assert!(is_at(&cursor, at));
            let bound = match random.below(3) {
                0 => None,
                1 => Some(entries[random.below(entries.len() as u64) as usize].key.clone()),
                _ => Some(key_of(shape, 600, &random)),
            };
            let bound = bound.as_deref();
            let (forward, after) = lead(&cursor.lead::<false>(bound));
            let is_before = |at: usize| bound.is_none_or(|bound| entries[at].key.as_slice() < bound);
            assert!((at..at + forward).all(is_before), "{shape:?} {at} {forward} {bound:?}");
            let (backward, before) = lead(&cursor.lead::<true>(bound));
            let is_behind = |at: usize| bound.is_none_or(|bound| entries[at].key.as_slice() > bound);
            assert!((at + 1 - backward..=at).all(is_behind), "{shape:?} {at} {backward} {bound:?}");
            // The last step of each leads to an entry of the block, and what is told to follow is there.
            let follows = |then: Then, at: Option<usize>, is_behind: &dyn Fn(&[u8], &[u8]) -> bool| {
                let key = || entries[at.expect("an entry follows")].key.as_slice();
                match then {
                    Then::Unknown => {}
                    Then::OnBound => assert_eq!(Some(key()), bound, "{shape:?} {at:?}"),
                    Then::Behind => {
                        assert!(is_behind(key(), bound.expect("there is one")), "{shape:?} {at:?}");
                    }
                }
            };
            follows(after, Some(at + forward), &|key, bound| key > bound);
            follows(before, at.checked_sub(backward), &|key, bound| key < bound);
            told += usize::from(after == Then::OnBound) + usize::from(before == Then::OnBound);
            let forward_steps = (forward + usize::from(after != Then::Unknown)).saturating_sub(1);
            let backward_steps = (backward + usize::from(before != Then::Unknown)).saturating_sub(1);
            (0..forward_steps).for_each(|_| assert!(cursor.step()));
            (0..forward_steps).for_each(|_| assert!(cursor.step_back()));
            (0..backward_steps).for_each(|_| assert!(cursor.step_back()));
            (0..backward_steps).for_each(|_| assert!(cursor.step()));
            assert!(is_at(&cursor, at));
            longest = longest.max(forward.min(backward));
            cursor.next().unwrap();
        }
    }
    assert!(longest > 8, "the test met no stretch longer than {longest}");
    assert!(told > 50, "the test met the bound's key only {told} times");
}

fn lead(lead: &Lead) -> (usize, Then) {
    (lead.entries as usize, lead.then)
}
