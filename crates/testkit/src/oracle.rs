//! The oracle: what a database must contain. It keeps every version of every key, by the number of the commit
//! that wrote it.
//!
//! The state after a number of commits has a fingerprint, the sum of a hash of each entry, updated with each
//! commit. So to find the prefix of the history that equals a given content takes one comparison of numbers
//! per candidate, and one exact comparison at the end.
//!
//! A keyspace keeps its history across renames: reads of the present and at snapshots use the keyspace that
//! has the name *now* ([`Oracle::get`], [`Oracle::range`], [`Oracle::content_at`]), while a database
//! recovered from a crash also shows the names of its time ([`Oracle::content`]).

use crate::SPACES;
use crate::operators::Operator;
use esker_base::checksum;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds, RangeInclusive};

/// The effect of a commit on a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// Sets this value.
    Put(Vec<u8>),
    /// Sets this value until a time, in milliseconds since 1970.
    Expiring(Vec<u8>, u64),
    /// Adds an operand for this operator, until a time if there is one.
    Merge(Operator, Vec<u8>, Option<u64>),
    /// Deletes the key.
    Delete,
}

/// One change of a commit: keyspace (an index into [`SPACES`]), key, and what is written.
pub type Change = (usize, Vec<u8>, Written);

/// The state that a reader sees: after so many commits, at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The number of commits.
    pub commit: usize,
    /// The time against which entries expire, in milliseconds since 1970.
    pub time_ms: u64,
}

/// Everything in the keyspaces of [`SPACES`], in their order.
pub type Content = Vec<BTreeMap<Vec<u8>, Vec<u8>>>;

/// A version of a key with its commit.
type Version = (usize, Written);

/// The versions of a key, oldest first.
type Versions = Vec<Version>;

/// The history of a database.
#[derive(Clone, Debug)]
pub struct Oracle {
    /// Every keyspace that ever existed.
    keyspaces: Vec<BTreeMap<Vec<u8>, Versions>>,
    /// Which of them has each name of [`SPACES`], and from which commit on.
    keyspace_of_name: Vec<(usize, KeyspaceOfName)>,
    /// The fingerprint after each number of commits, from zero on; kept as long as nothing expires.
    fingerprints: Vec<u64>,
    /// Whether a state depends on more than the newest versions: on time or older versions.
    is_more: bool,
    /// Ranges that were deleted, in commit order.
    deleted: Vec<Deleted>,
    /// Commits that were not logged, each with its keyspace, in commit order.
    unlogged: Vec<(usize, usize)>,
}

/// A deleted range: commit, keyspace, bounds.
type Deleted = (usize, Option<usize>, (Bound<Vec<u8>>, Bound<Vec<u8>>));

/// The keyspace that has each name of [`SPACES`].
type KeyspaceOfName = [Option<usize>; SPACES.len()];

impl Default for Oracle {
    fn default() -> Oracle {
        let keyspace_of_name = vec![(0, KeyspaceOfName::default())];
        Oracle {
            keyspaces: Vec::new(),
            keyspace_of_name,
            fingerprints: vec![0],
            is_more: false,
            deleted: Vec::new(),
            unlogged: Vec::new(),
        }
    }
}

impl Oracle {
    /// The number of commits so far, which also identifies the present state.
    pub fn now(&self) -> usize {
        self.fingerprints.len() - 1
    }

    /// Records a commit; returns its number. Later changes of a commit override earlier ones.
    pub fn commit(&mut self, changes: &[Change]) -> usize {
        let commit = self.fingerprints.len();
        let mut fingerprint = self.fingerprints[commit - 1];
        for (space, key, written) in changes {
            self.is_more |= matches!(written, Written::Expiring(..) | Written::Merge(..));
            let keyspace = self.keyspace_or_new(*space);
            let versions = self.keyspaces[keyspace].entry(key.clone()).or_default();
            if let Some((_, Written::Put(old))) = versions.last() {
                fingerprint = fingerprint.wrapping_sub(entry_hash(*space, key, old));
            }
            if let Written::Put(new) = written {
                fingerprint = fingerprint.wrapping_add(entry_hash(*space, key, new));
            }
            while !matches!(written, Written::Merge(..))
                && versions.last().is_some_and(|(last, _)| *last == commit)
            {
                versions.pop();
            }
            versions.push((commit, written.clone()));
        }
        self.fingerprints.push(fingerprint);
        commit
    }

    /// Notes that the last commit changed this keyspace alone and was not logged: a crash may take it, and
    /// all unlogged commits of the keyspace behind it.
    pub fn note_unlogged(&mut self, space: usize) {
        let keyspace = self.keyspace_or_new(space);
        self.unlogged.push((self.now(), keyspace));
    }

    /// Records the drop of a keyspace as a commit; returns its number.
    pub fn drop_keyspace(&mut self, space: usize) -> usize {
        self.change_names(|keyspace_of_name| keyspace_of_name[space] = None)
    }

    /// Records the rename of a keyspace as a commit; returns its number.
    pub fn rename_keyspace(&mut self, from: usize, to: usize) -> usize {
        self.change_names(|keyspace_of_name| keyspace_of_name[to] = keyspace_of_name[from].take())
    }

    fn change_names(&mut self, change: impl FnOnce(&mut KeyspaceOfName)) -> usize {
        let commit = self.fingerprints.len();
        let mut keyspace_of_name = self.keyspaces_at(commit);
        change(&mut keyspace_of_name);
        self.keyspace_of_name.push((commit, keyspace_of_name));
        self.fingerprints.push(0);
        self.fingerprints[commit] = fingerprint(&self.content(Moment { commit, time_ms: 0 }));
        commit
    }

    fn keyspaces_at(&self, at: usize) -> KeyspaceOfName {
        let behind = self.keyspace_of_name.partition_point(|(since, _)| *since <= at);
        self.keyspace_of_name[behind - 1].1
    }

    /// The keyspace that has a name; if there is none, a new one, which was empty at every earlier commit.
    fn keyspace_or_new(&mut self, space: usize) -> usize {
        let last = self.keyspace_of_name.len() - 1;
        *self.keyspace_of_name[last].1[space].get_or_insert_with(|| {
            self.keyspaces.push(BTreeMap::new());
            self.keyspaces.len() - 1
        })
    }

    /// The value of a key at a moment, in the keyspace that has the name now.
    pub fn get(&self, space: usize, key: &[u8], at: Moment) -> Option<Cow<'_, [u8]>> {
        self.look_up(space, key, at).map(|(value, _)| value)
    }

    /// The expiry of the key's value at a moment: no value, a time, or never.
    pub fn end(&self, space: usize, key: &[u8], at: Moment) -> Option<Option<u64>> {
        self.look_up(space, key, at).map(|(_, end)| end)
    }

    /// The value of a key and its expiry at a moment, in the keyspace that has the name now.
    pub(crate) fn look_up(&self, space: usize, key: &[u8], at: Moment) -> Living<'_> {
        visible(self.keyspaces[self.keyspaces_at(self.now())[space]?].get(key)?, at)
    }

    /// The entries of a range at a moment, in order, in the keyspace that has the name now.
    pub fn range<'a>(
        &'a self,
        space: usize,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        at: Moment,
    ) -> impl DoubleEndedIterator<Item = (&'a [u8], Cow<'a, [u8]>)> + use<'a> {
        self.range_of(self.keyspaces_at(self.now())[space], bounds, at)
    }

    fn range_of<'a>(
        &'a self,
        keyspace: Option<usize>,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        at: Moment,
    ) -> impl DoubleEndedIterator<Item = (&'a [u8], Cow<'a, [u8]>)> + use<'a> {
        let found = keyspace.map(|keyspace| self.keyspaces[keyspace].range::<[u8], _>(in_order(bounds)));
        found
            .into_iter()
            .flatten()
            .filter_map(move |(key, versions)| Some((key.as_slice(), visible(versions, at)?.0)))
    }

    /// Whether a key was changed after so many commits, in the keyspace that has the name now.
    pub fn is_changed(&self, space: usize, key: &[u8], after: usize) -> bool {
        let keyspace = self.keyspaces_at(self.now())[space];
        let versions = keyspace.and_then(|keyspace| self.keyspaces[keyspace].get(key));
        let is_deleted = |(commit, of, range): &(usize, _, (_, _))| {
            *commit > after && *of == keyspace && RangeBounds::<Vec<u8>>::contains(range, &key.to_vec())
        };
        versions.and_then(|versions| versions.last()).is_some_and(|(last, _)| *last > after)
            || self.deleted.iter().any(is_deleted)
    }

    /// The keys of a range that were ever written, whether or not they have a value.
    pub fn known_in<'a>(
        &'a self,
        space: usize,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
    ) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let keyspace = self.keyspaces_at(self.now())[space];
        let found = keyspace.map(|keyspace| self.keyspaces[keyspace].range::<[u8], _>(in_order(bounds)));
        found.into_iter().flatten().map(|(key, _)| key.as_slice())
    }

    /// Notes that the last commit deleted a range, with or without keys in it.
    pub fn note_deleted(&mut self, space: usize, range: (Bound<Vec<u8>>, Bound<Vec<u8>>)) {
        // The keyspace may never have been written to; later writes must go to the same one.
        let keyspace = self.keyspace_or_new(space);
        self.deleted.push((self.now(), Some(keyspace), range));
    }

    /// Whether a range deleted after this many commits may overlap this one, even without keys.
    pub fn is_deleted_in(&self, space: usize, bounds: (Bound<&[u8]>, Bound<&[u8]>), after: usize) -> bool {
        let keyspace = self.keyspaces_at(self.now())[space];
        let ends_before = |upper: Bound<&[u8]>, lower: Bound<&[u8]>| match (upper, lower) {
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
            (Bound::Included(high) | Bound::Excluded(high), Bound::Included(low) | Bound::Excluded(low)) => {
                high < low
            }
        };
        self.deleted.iter().any(|(commit, of, (lower, upper))| {
            let (lower, upper) = (lower.as_ref().map(Vec::as_slice), upper.as_ref().map(Vec::as_slice));
            let apart = ends_before(upper, bounds.0) || ends_before(bounds.1, lower);
            *commit > after && *of == keyspace && !apart
        })
    }

    /// The keys of a range that were changed after so many commits, whether or not they have a value.
    pub fn changed_in<'a>(
        &'a self,
        space: usize,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        after: usize,
    ) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let keyspace = self.keyspaces_at(self.now())[space];
        let found = keyspace.map(|keyspace| self.keyspaces[keyspace].range::<[u8], _>(in_order(bounds)));
        let keys = found.into_iter().flatten().map(|(key, _)| key.as_slice());
        keys.filter(move |key| self.is_changed(space, key, after))
    }

    /// All entries at a moment, under the names of that moment.
    pub fn content(&self, at: Moment) -> Content {
        self.content_of(self.keyspaces_at(at.commit), at)
    }

    /// The entries at a moment of the keyspaces that exist now: what an older snapshot shows.
    pub fn content_at(&self, at: Moment) -> Content {
        self.content_of(self.keyspaces_at(self.now()), at)
    }

    fn content_of(&self, keyspace_of_name: KeyspaceOfName, at: Moment) -> Content {
        let everything = (Bound::Unbounded, Bound::Unbounded);
        let owned = |(key, value): (&[u8], Cow<'_, [u8]>)| (key.to_vec(), value.into_owned());
        keyspace_of_name.map(|keyspace| self.range_of(keyspace, everything, at).map(owned).collect()).to_vec()
    }

    /// The number of commits, within `allowed`, after which the database contained exactly `found`, at this
    /// time. Unlogged commits behind `kept` may be missing, in each keyspace from some commit on.
    ///
    /// # Errors
    /// A sentence with the first differences to both ends of `allowed`, if the content equals no allowed
    /// state.
    pub fn find(
        &self,
        found: &Content,
        allowed: RangeInclusive<usize>,
        kept: usize,
        time_ms: u64,
    ) -> Result<usize, String> {
        let fingerprint = fingerprint(found);
        let (low, high) = (*allowed.start(), (*allowed.end()).min(self.now()));
        let content = |commit| self.content(Moment { commit, time_ms });
        let may_be = |commit: &usize| self.is_more || self.fingerprints[*commit] == fingerprint;
        if let Some(at) = (low..=high).rev().filter(may_be).find(|&at| content(at) == *found) {
            return Ok(at);
        }
        let may_lack = |commit: &usize| {
            self.unlogged.iter().any(|(unlogged, _)| (kept + 1..=*commit).contains(unlogged))
        };
        let is_state = |&commit: &usize| self.is_without_unlogged(found, Moment { commit, time_ms }, kept);
        if let Some(at) = (low..=high).rev().filter(may_lack).find(is_state) {
            return Ok(at);
        }
        let elsewhere = (0..=self.now()).filter(may_be).find(|&at| content(at) == *found);
        let elsewhere = elsewhere.map_or(String::new(), |at| format!("; it is the state after commit {at}"));
        let (from_low, from_high) = (difference(found, &content(low)), difference(found, &content(high)));
        Err(format!(
            "the content is no state between commit {low} and commit {high}{elsewhere}; against the former {from_low}; against the latter {from_high}"
        ))
    }
}

impl Oracle {
    /// Whether `found` is the state at a moment if each keyspace has lost a suffix of its unlogged commits
    /// behind `kept`.
    fn is_without_unlogged(&self, found: &Content, at: Moment, kept: usize) -> bool {
        found.iter().zip(self.keyspaces_at(at.commit)).all(|(found, keyspace)| {
            let Some(keyspace) = keyspace else { return found.is_empty() };
            let of_keyspace = self.unlogged.iter().filter(|(commit, of)| *commit > kept && *of == keyspace);
            let commits: Vec<usize> = of_keyspace.map(|(commit, _)| *commit).collect();
            (0..=commits.len()).any(|survive| {
                let lost = &commits[survive..];
                let mut expected = self.keyspaces[keyspace].iter().filter_map(|(key, versions)| {
                    let is_left =
                        |(commit, _): &&Version| *commit <= at.commit && lost.binary_search(commit).is_err();
                    Some((key, resolve(versions.iter().filter(is_left), at.time_ms)?.0))
                });
                let mut found = found.iter();
                let is_same = found.by_ref().all(|(key, value)| {
                    expected.next().is_some_and(|(known, has)| (known, &*has) == (key, value.as_slice()))
                });
                is_same && expected.next().is_none()
            })
        })
    }
}

/// The same bounds, valid for `BTreeMap`, which panics at an inverted range; that is empty.
fn in_order<'b>(bounds: (Bound<&'b [u8]>, Bound<&'b [u8]>)) -> (Bound<&'b [u8]>, Bound<&'b [u8]>) {
    let is_empty = match bounds {
        (Bound::Included(low), Bound::Included(high)) => low > high,
        (Bound::Included(low) | Bound::Excluded(low), Bound::Included(high) | Bound::Excluded(high)) => {
            low >= high
        }
        _ => false,
    };
    if is_empty { (Bound::Included([].as_slice()), Bound::Excluded([].as_slice())) } else { bounds }
}

/// The value of a key and its expiry, if it has one.
pub(crate) type Living<'a> = Option<(Cow<'a, [u8]>, Option<u64>)>;

/// The value of a key at a moment, and its expiry if it has one.
fn visible(versions: &Versions, at: Moment) -> Living<'_> {
    let behind = versions.partition_point(|(commit, _)| *commit <= at.commit);
    resolve(versions[..behind].iter(), at.time_ms)
}

/// What these versions of a key, oldest first, are to a reader at this time.
fn resolve<'a>(versions: impl DoubleEndedIterator<Item = &'a Version> + Clone, time_ms: u64) -> Living<'a> {
    let is_merge = |(_, written): &&Version| matches!(written, Written::Merge(..));
    let operands = versions.clone().rev().take_while(is_merge).count();
    let from = versions.clone().count().saturating_sub(operands + 1);
    versions.skip(from).fold(None, |below, (_, written)| over(below, written, time_ms))
}

/// What a change makes of what is below it, for a reader at this time.
pub(crate) fn over<'a>(below: Living<'a>, written: &'a Written, time_ms: u64) -> Living<'a> {
    match written {
        Written::Delete => None,
        Written::Put(value) => Some((Cow::Borrowed(value.as_slice()), None)),
        Written::Expiring(value, expiry_ms) => {
            (*expiry_ms > time_ms).then_some((Cow::Borrowed(value.as_slice()), Some(*expiry_ms)))
        }
        Written::Merge(_, _, Some(end_ms)) if *end_ms <= time_ms => below,
        Written::Merge(operator, operand, end_ms) => {
            // The key lives as long as the last of its pieces; one that never expires counts as the latest.
            let end_ms = match &below {
                Some((_, end)) => end.zip(*end_ms).map(|(a, b)| a.max(b)),
                None => *end_ms,
            };
            let below = below.map(|(value, _)| value.into_owned());
            Some((Cow::Owned(operator.apply(below, operand)), end_ms))
        }
    }
}

fn entry_hash(space: usize, key: &[u8], value: &[u8]) -> u64 {
    let mut bytes = Vec::with_capacity(key.len() + value.len() + 16);
    bytes.extend_from_slice(&(space as u64).to_le_bytes());
    bytes.extend_from_slice(&(key.len() as u64).to_le_bytes());
    bytes.extend_from_slice(key);
    bytes.extend_from_slice(value);
    checksum::xxh3_64(&bytes)
}

fn fingerprint(content: &Content) -> u64 {
    let of_space = |(space, entries): (usize, &BTreeMap<Vec<u8>, Vec<u8>>)| {
        entries.iter().fold(0u64, |sum, (key, value)| sum.wrapping_add(entry_hash(space, key, value)))
    };
    content.iter().enumerate().map(of_space).fold(0, u64::wrapping_add)
}

/// The first difference between what was found and what was expected, and how many there are.
pub fn difference(found: &Content, expected: &Content) -> String {
    let mut first = None;
    let mut count = 0;
    for (space, (found, expected)) in found.iter().zip(expected).enumerate() {
        let keys: std::collections::BTreeSet<&Vec<u8>> = found.keys().chain(expected.keys()).collect();
        for key in keys {
            let (has, wants) = (found.get(key), expected.get(key));
            if has != wants {
                count += 1;
                first.get_or_insert((SPACES[space], key, has, wants));
            }
        }
    }
    let Some((space, key, has, wants)) = first else { return "no entry differs".to_owned() };
    let (has, wants) = (brief(has.map(Vec::as_slice)), brief(wants.map(Vec::as_slice)));
    format!("{count} entries differ, first {} in {space}: found {has}, expected {wants}", brief(Some(key)))
}

/// The beginning of a key or a value, for messages.
pub fn brief(bytes: Option<&[u8]>) -> String {
    match bytes {
        None => "nothing".to_owned(),
        Some(bytes) if bytes.len() <= 24 => format!("b\"{}\"", bytes.escape_ascii()),
        Some(bytes) => format!("b\"{}\".. ({} bytes)", bytes[..24].escape_ascii(), bytes.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(key: &[u8], value: &[u8]) -> Change {
        (0, key.to_vec(), Written::Put(value.to_vec()))
    }

    fn at(commit: usize) -> Moment {
        Moment { commit, time_ms: 10 }
    }

    #[test]
    fn states_are_found_by_their_content() {
        let mut oracle = Oracle::default();
        oracle.commit(&[put(b"a", b"1"), put(b"b", b"1")]);
        oracle
            .commit(&[(0, b"a".to_vec(), Written::Delete), (1, b"a".to_vec(), Written::Put(b"x".to_vec()))]);
        oracle.commit(&[put(b"b", b"2"), put(b"b", b"3")]);
        for commit in 0..=3 {
            assert_eq!(oracle.find(&oracle.content(at(commit)), 0..=3, 0, 10), Ok(commit));
        }
        let found = oracle.find(&oracle.content(at(1)), 2..=3, 0, 10);
        assert!(found.unwrap_err().contains("state after commit 1"));
        let mut hole = oracle.content(at(3));
        hole[1].clear();
        assert!(
            oracle.find(&hole, 0..=3, 0, 10).unwrap_err().contains("in one: found nothing, expected b\"x\"")
        );
        assert_eq!(oracle.get(0, b"a", at(1)).as_deref(), Some(b"1".as_slice()));
        assert_eq!(oracle.get(0, b"a", at(2)), None);
    }

    #[test]
    fn entries_expire_as_time_passes() {
        let mut oracle = Oracle::default();
        oracle.commit(&[put(b"a", b"1")]);
        oracle.commit(&[(0, b"a".to_vec(), Written::Expiring(b"2".to_vec(), 11))]);
        let late = Moment { commit: 2, time_ms: 11 };
        assert_eq!(oracle.get(0, b"a", at(2)).as_deref(), Some(b"2".as_slice()));
        assert_eq!(oracle.get(0, b"a", late), None);
        assert_eq!((oracle.end(0, b"a", at(1)), oracle.end(0, b"a", at(2))), (Some(None), Some(Some(11))));
        assert_eq!(oracle.find(&oracle.content(late), 0..=2, 0, 11), Ok(2));
        assert!(oracle.find(&oracle.content(late), 1..=2, 0, 10).is_err());
    }

    #[test]
    fn operands_count_from_the_last_value_on_and_each_as_long_as_it_lives() {
        let mut oracle = Oracle::default();
        let merge = |operand: &[u8], end_ms| {
            (0, b"a".to_vec(), Written::Merge(Operator::Append, operand.to_vec(), end_ms))
        };
        oracle.commit(&[merge(b"0", None), put(b"a", b"1"), merge(b"2", Some(11)), merge(b"3", None)]);
        oracle.commit(&[(0, b"a".to_vec(), Written::Delete), merge(b"4", Some(12))]);
        let seen = |commit, time_ms| {
            let at = Moment { commit, time_ms };
            (oracle.get(0, b"a", at).map(Cow::into_owned), oracle.end(0, b"a", at))
        };
        assert_eq!(seen(1, 10), (Some(b"1,2,3".to_vec()), Some(None)));
        assert_eq!(seen(1, 11), (Some(b"1,3".to_vec()), Some(None)));
        assert_eq!((seen(2, 11), seen(2, 12)), ((Some(b"4".to_vec()), Some(Some(12))), (None, None)));
    }

    #[test]
    fn keyspaces_keep_their_history_under_another_name() {
        let mut oracle = Oracle::default();
        let put_in_one = |value: &[u8]| (1, b"a".to_vec(), Written::Put(value.to_vec()));
        oracle.commit(&[put_in_one(b"old")]);
        assert_eq!(oracle.rename_keyspace(1, 2), 2);
        oracle.commit(&[put_in_one(b"new")]);
        let first = at(1);
        assert_eq!(oracle.get(2, b"a", first).as_deref(), Some(b"old".as_slice()));
        assert_eq!(oracle.get(1, b"a", first), None);
        assert_eq!(oracle.drop_keyspace(2), 4);
        assert_eq!(oracle.get(2, b"a", at(3)), None);
        assert_eq!(oracle.content_at(first), vec![BTreeMap::new(); 3]);
        for commit in 0..=4 {
            assert_eq!(oracle.find(&oracle.content(at(commit)), 0..=4, 0, 10), Ok(commit));
        }
    }

    #[test]
    fn ranges_show_one_sequence_number() {
        let mut oracle = Oracle::default();
        for key in [b"a", b"b", b"c"] {
            oracle.commit(&[put(key, b"v")]);
        }
        let keys =
            |bounds, commit| oracle.range(0, bounds, at(commit)).map(|(key, _)| key[0]).collect::<Vec<u8>>();
        let (a, b) = (b"a".as_slice(), b"b".as_slice());
        assert_eq!(keys((Bound::Unbounded, Bound::Unbounded), 2), b"ab");
        assert_eq!(keys((Bound::Excluded(a), Bound::Unbounded), 3), b"bc");
        assert_eq!(keys((Bound::Included(b), Bound::Excluded(a)), 3), b"");
        assert_eq!(keys((Bound::Excluded(a), Bound::Excluded(a)), 3), b"");
    }
}
