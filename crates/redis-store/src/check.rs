//! A check of the whole store: walks all entries and names what breaks an invariant.
//!
//! It takes time in the number of entries, and memory for eight bytes an object. The data are read as they
//! are at one moment, so clients can go on.

use crate::layout::{PhysicalDb, Space, expiry_key, number, system, user_key};
use crate::locks::Held;
use crate::notifications::Interest;
use crate::record::Record;
use crate::store::{CountKind, Store, count_key};
use crate::txn::Txn;
use esker::{Result, Value};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// Findings that are named; further ones are counted.
const FINDINGS: usize = 100;

/// Numbers of keys of one database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Walked {
    keys: i64,
    expiring: i64,
    expiries: i64,
}

#[derive(Debug, Default)]
struct Findings {
    named: Vec<String>,
    more: usize,
}

impl Findings {
    fn add(&mut self, finding: String) {
        if self.named.len() < FINDINGS {
            self.named.push(finding);
        } else {
            self.more += 1;
        }
    }
}

impl Store {
    /// Checks all entries against the invariants KR1 to KR4, and the numbers of keys in memory against those
    /// that are stored. Returns what is wrong, in sentences.
    ///
    /// # Errors
    /// Those of reading.
    pub fn check(&self) -> Result<Vec<String>> {
        let mut held = Held::new(&self.stripes);
        held.wait_for_all();
        let mut txn = Txn::new(self, Interest::default());
        txn.freeze();
        let in_memory: Vec<(i64, i64)> = (0..self.physical_databases())
            .map(|db| {
                let counts = self.counts(PhysicalDb(db));
                (counts.keys.load(Ordering::Relaxed), counts.expiring.load(Ordering::Relaxed))
            })
            .collect();
        held.free();
        let mut findings = Findings::default();
        let (mut walked, objects) = check_records(&txn, &mut findings)?;
        check_expiries(&txn, &mut walked, &mut findings)?;
        check_counts(&txn, &walked, &in_memory, &mut findings)?;
        check_objects(&txn, objects, &mut findings)?;
        if findings.more > 0 {
            findings.named.push(format!("{} more findings", findings.more));
        }
        Ok(findings.named)
    }
}

fn database_of(key: &[u8]) -> u16 {
    key.get(..2).and_then(|bytes| bytes.try_into().ok()).map_or(0, u16::from_be_bytes)
}

/// Walks the records. Returns numbers by physical database, and the objects in ascending order.
fn check_records(txn: &Txn<'_>, findings: &mut Findings) -> Result<(BTreeMap<u16, Walked>, Vec<u64>)> {
    let (mut walked, mut objects) = (BTreeMap::<u16, Walked>::new(), Vec::new());
    let next = txn.get(Space::System, system::NEXT_COUNTER)?.as_ref().and_then(number).unwrap_or(1);
    for entry in txn.range(Space::Keys, ..) {
        let (key, value) = entry?;
        let (db, name) = (database_of(&key), user_key(&key));
        let Ok(record) = Record::decode(value) else {
            findings.add(format!("key {} of database {db}: its value is no record", name.escape_ascii()));
            continue;
        };
        let counts = walked.entry(db).or_default();
        counts.keys += 1;
        if let Some(expiry_ms) = record.expiry_ms() {
            counts.expiring += 1;
            if !txn.contains(Space::Expiries, &expiry_key(PhysicalDb(db), expiry_ms, name))? {
                let name = name.escape_ascii();
                findings.add(format!(
                    "key {name} of database {db} expires at {expiry_ms} without an entry (KR1)"
                ));
            }
        }
        if let Some(object) = record.object() {
            objects.push(object);
            if object >> 48 != u64::from(db) || object & ((1 << 48) - 1) >= next {
                let name = name.escape_ascii();
                findings
                    .add(format!("key {name} of database {db} has the object {object:#x}, never given out"));
            }
        }
    }
    objects.sort_unstable();
    for pair in objects.windows(2).filter(|pair| pair[0] == pair[1]) {
        findings.add(format!("two keys have the object {:#x} (KR3)", pair[0]));
    }
    Ok((walked, objects))
}

/// Each record with an expiry has an entry, so the same number of entries leaves none without a record.
fn check_expiries(txn: &Txn<'_>, walked: &mut BTreeMap<u16, Walked>, findings: &mut Findings) -> Result<()> {
    for entry in txn.range(Space::Expiries, ..) {
        walked.entry(database_of(&entry?.0)).or_default().expiries += 1;
    }
    for (db, counts) in walked {
        if counts.expiries != counts.expiring {
            let Walked { expiring, expiries, .. } = counts;
            findings.add(format!("database {db}: {expiring} keys expire, {expiries} entries say so (KR1)"));
        }
    }
    Ok(())
}

fn check_counts(
    txn: &Txn<'_>,
    walked: &BTreeMap<u16, Walked>,
    in_memory: &[(i64, i64)],
    findings: &mut Findings,
) -> Result<()> {
    let known = walked.keys().copied().chain(0..in_memory.len() as u16);
    let databases: std::collections::BTreeSet<u16> = known.collect();
    for db in databases {
        let counts = walked.get(&db).copied().unwrap_or_default();
        let stored = |kind| -> Result<i64> {
            let text: Option<Value> = txn.get(Space::Counts, &count_key(kind, PhysicalDb(db)))?;
            Ok(text.and_then(|text| esker_resp::integer::parse_integer(&text)).unwrap_or(0))
        };
        let stored = (stored(CountKind::Keys)?, stored(CountKind::Expiring)?);
        let there = (counts.keys, counts.expiring);
        let in_memory = in_memory.get(usize::from(db)).copied().unwrap_or(stored);
        if stored != there || in_memory != there {
            findings.add(format!(
                "database {db} has {there:?} keys and expiring ones; stored is {stored:?}, in memory \
                 {in_memory:?} (KR2)"
            ));
        }
    }
    Ok(())
}

/// Each entry of an object is either an element of a key or garbage that is listed.
fn check_objects(txn: &Txn<'_>, objects: Vec<u64>, findings: &mut Findings) -> Result<()> {
    let mut known = objects;
    let live = known.len();
    for entry in txn.range(Space::System, vec![system::GARBAGE]..vec![system::GARBAGE + 1]) {
        let Some(object) = object_of(entry?.0.get(1..).unwrap_or_default()) else { continue };
        if known[..live].binary_search(&object).is_ok() {
            findings.add(format!("the object {object:#x} of a key is in the garbage list (KR4)"));
        }
        known.push(object);
    }
    known.sort_unstable();
    for space in [Space::Elements, Space::Orders] {
        let mut from = vec![0];
        while let Some((key, _)) = txn.range(space, from..).next().transpose()? {
            let object = object_of(&key).unwrap_or_default();
            if known.binary_search(&object).is_err() {
                let name = space.name();
                findings.add(format!("{name} has entries of the object {object:#x}, which no key has (KR4)"));
            }
            from = object.saturating_add(1).to_be_bytes().to_vec();
        }
    }
    Ok(())
}

/// The object with which a key of an entry begins.
fn object_of(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(key.get(..8)?.try_into().ok()?))
}
