//! Edits of a script as changes of keys, and as entries of a batch.

use crate::script::{Action, Edit};
use esker::{Keyspace, WriteBatch};
use std::collections::BTreeSet;
use std::ops::{Bound, RangeBounds};

/// Keyspace, key, and the value or `None` for a delete.
pub(crate) type PlainChange = (usize, Vec<u8>, Option<Vec<u8>>);

/// What an edit is in a keyspace: without a merge operator, what would be merged is put.
pub(crate) fn effective(edit: &Edit, keyspace: &Keyspace) -> Edit {
    let action = match edit.action {
        Action::Merge(value) if keyspace.options().operator().is_none() => Action::Put(value),
        Action::MergeFor(value, ttl_ms) if keyspace.options().operator().is_none() => {
            Action::PutFor(value, ttl_ms)
        }
        action => action,
    };
    Edit { action, ..*edit }
}

/// An edit as a put or delete: expiring ones count as lasting, merges as puts.
pub(crate) fn plain_change(edit: &Edit) -> PlainChange {
    let value = match edit.action {
        Action::Put(value) | Action::PutFor(value, _) | Action::Merge(value) | Action::MergeFor(value, _) => {
            Some(value.bytes())
        }
        Action::Delete | Action::DeleteUpTo(_) => None,
    };
    (usize::from(edit.space), edit.key.bytes(), value)
}

pub(crate) type Range = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// Adds an edit to a batch; what expires is taken for what stays, and what is merged for what is put.
pub(crate) fn put_into(batch: &mut WriteBatch, keyspace: &Keyspace, edit: &Edit) {
    let key = edit.key.bytes();
    match (edit.action, range_of(edit)) {
        (
            Action::Put(value) | Action::PutFor(value, _) | Action::Merge(value) | Action::MergeFor(value, _),
            _,
        ) => {
            batch.put(keyspace, key, value.bytes());
        }
        (_, Some(range)) => batch.delete_range(keyspace, range),
        _ => batch.delete(keyspace, key),
    }
}

/// [`plain_change`] of edits key by key: a range delete removes the keys that are `there` in the range, and
/// those that edits before it put there.
pub(crate) fn plain_changes(
    edits: &[Edit],
    there: impl Fn(usize, &Range) -> Vec<Vec<u8>>,
) -> Vec<PlainChange> {
    let mut changes: Vec<PlainChange> = Vec::new();
    for edit in edits {
        let space = usize::from(edit.space);
        let Some(range) = range_of(edit) else {
            changes.push(plain_change(edit));
            continue;
        };
        let put = changes.iter().filter(|(of, key, _)| *of == space && range.contains(key));
        let gone: BTreeSet<Vec<u8>> =
            put.map(|(_, key, _)| key.clone()).chain(there(space, &range)).collect();
        changes.extend(gone.into_iter().map(|key| (space, key, None)));
    }
    changes
}

/// The range that an edit deletes, if it deletes one.
pub(crate) fn range_of(edit: &Edit) -> Option<Range> {
    let Action::DeleteUpTo(end) = edit.action else { return None };
    Some((Bound::Included(edit.key.bytes()), end.map(crate::Key::bytes)))
}

/// Whether no key can lie in the range that an edit deletes: then nothing is written.
pub(super) fn is_empty_range(edit: &Edit) -> bool {
    match range_of(edit) {
        Some((Bound::Included(low), Bound::Included(high))) => low > high,
        Some((Bound::Included(low), Bound::Excluded(high))) => low >= high,
        _ => false,
    }
}

pub(crate) fn key_bounds(
    lower: &Bound<crate::Key>,
    upper: &Bound<crate::Key>,
) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    (lower.map(crate::Key::bytes), upper.map(crate::Key::bytes))
}
