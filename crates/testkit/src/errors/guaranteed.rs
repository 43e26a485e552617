//! Guarantees of a run: which values each key may hold now, after the process dies, and after a power cut.

use crate::runner::{PlainChange, plain_changes};
use crate::script::Edit;
use std::collections::BTreeMap;
use std::ops::RangeBounds;

/// The values that a key may hold: the last acknowledged one, and those of later writes that failed.
pub(super) type Possible = BTreeMap<(usize, Vec<u8>), Vec<Option<Vec<u8>>>>;

/// What the acknowledged writes of a run guarantee.
#[derive(Default)]
pub(super) struct GuaranteedState {
    /// While nothing is lost.
    pub(super) live: Possible,
    /// After the process dies, which takes unlogged writes.
    pub(super) process: Possible,
    /// After power is lost.
    pub(super) power: Possible,
}

impl GuaranteedState {
    /// The changes that edits may make: a range delete removes every key of its range that was ever written.
    pub(super) fn changes(&self, edits: &[Edit]) -> Vec<PlainChange> {
        plain_changes(edits, |of, range| {
            let known = self.process.keys().filter(|(space, _)| *space == of).map(|(_, key)| key);
            known.filter(|key| range.contains(*key)).cloned().collect()
        })
    }

    pub(super) fn note(&mut self, changes: &[PlainChange], acknowledged: bool) {
        self.note_written(changes, acknowledged, true);
    }

    /// Notes changes that were written, or, if not acknowledged, may have been.
    pub(super) fn note_written(&mut self, changes: &[PlainChange], acknowledged: bool, is_logged: bool) {
        let replaces = [acknowledged, acknowledged && is_logged, false];
        for (space, key, value) in changes {
            for (possible, replaces) in
                [&mut self.live, &mut self.process, &mut self.power].into_iter().zip(replaces)
            {
                let values = possible.entry((*space, key.clone())).or_insert_with(|| vec![None]);
                if replaces {
                    values.clear();
                }
                values.push(value.clone());
            }
        }
    }

    /// Notes that a keyspace was dropped, or, if not acknowledged, may have been.
    pub(super) fn note_drop(&mut self, space: usize, acknowledged: bool) {
        let keys: Vec<Vec<u8>> =
            self.process.keys().filter(|(of, _)| *of == space).map(|(_, key)| key.clone()).collect();
        let changes: Vec<PlainChange> = keys.into_iter().map(|key| (space, key, None)).collect();
        self.note(&changes, acknowledged);
    }

    /// Notes that a keyspace was renamed, or, if not acknowledged, may have been.
    pub(super) fn note_rename(&mut self, from: usize, to: usize, acknowledged: bool) {
        for possible in [&mut self.live, &mut self.process, &mut self.power] {
            let moved: Vec<_> = possible.extract_if(.., |(space, _), _| *space == from).collect();
            for ((_, key), mut values) in moved {
                let here = possible.entry((to, key.clone())).or_insert_with(|| vec![None]);
                if acknowledged {
                    here.clear();
                } else {
                    let mut there = values.clone();
                    there.push(None);
                    possible.insert((from, key.clone()), there);
                }
                possible.entry((to, key)).or_default().append(&mut values);
            }
        }
    }

    /// Everything logged so far survives a power cut from now on.
    pub(super) fn settle(&mut self) {
        self.power = self.process.clone();
    }

    /// The database was closed without success: what only memory had is gone.
    pub(super) fn reopen(&mut self) {
        self.live = self.process.clone();
    }

    /// Everything acknowledged so far survives any crash from now on.
    pub(super) fn settle_all(&mut self) {
        self.process = self.live.clone();
        self.settle();
    }
}
