//! The anomalies of the Hermitage suite (Martin Kleppmann, github.com/ept/hermitage), each with the level
//! that forbids it.
//!
//! The table of the suite, `test (id, value)` with the rows (1, 10) and (2, 20), is a keyspace of two keys.
//! Each test runs at both levels. Where a level allows what a test tries, the test shows that it does.

#![expect(clippy::unwrap_used, reason = "helpers of tests, outside the test functions")]

mod common;

use common::TestDir;
use esker::transaction::Isolation;
use esker::{Database, Error, Keyspace, Transaction, TransactionOptions};

const LEVELS: [Isolation; 2] = [Isolation::Snapshot, Isolation::Serializable];

struct IsolationTest {
    db: Database,
    test: Keyspace,
    level: Isolation,
    _dir: TestDir,
}

impl IsolationTest {
    fn begin(&self) -> Transaction {
        self.db.transaction_with(TransactionOptions::default().isolation(self.level))
    }

    fn get(&self, tx: &Transaction, id: u8) -> Option<u8> {
        tx.get(&self.test, [id]).unwrap().map(|value| value[0])
    }

    fn set(&self, tx: &mut Transaction, id: u8, value: u8) {
        tx.put(&self.test, [id], [value]).unwrap();
    }

    /// The rows that match `is_wanted`. Every row is read, as for a condition without an index.
    fn select(&self, tx: &Transaction, is_wanted: impl Fn(u8) -> bool) -> Vec<(u8, u8)> {
        let rows = tx.range(&self.test, ..).map(|row| row.unwrap());
        rows.map(|(id, value)| (id[0], value[0])).filter(|(_, value)| is_wanted(*value)).collect()
    }

    fn rows(&self) -> Vec<(u8, u8)> {
        self.select(&self.begin(), |_| true)
    }
}

/// Runs `test` at both levels, each time on the two rows.
fn at_both_levels(test: impl Fn(&IsolationTest)) {
    for level in LEVELS {
        let dir = TestDir::new("anomalies");
        let db = Database::open(dir.path()).unwrap();
        let table = db.keyspace("test").unwrap();
        table.put([1], [10]).unwrap();
        table.put([2], [20]).unwrap();
        test(&IsolationTest { db, test: table, level, _dir: dir });
    }
}

/// The commit fails, and names this row.
fn conflicts_on(tx: Transaction, id: u8) {
    match tx.commit() {
        Err(Error::Conflict(conflict)) => {
            assert_eq!((&*conflict.keyspace, &*conflict.key), ("test", [id].as_slice()));
            assert!(conflict.seqno > conflict.snapshot);
        }
        other => panic!("a conflict on row {id} was expected: {other:?}"),
    }
}

/// Only the serializable level forbids this: on row `id`.
fn conflicts_if_serializable(test_db: &IsolationTest, tx: Transaction, id: u8) {
    match test_db.level {
        Isolation::Serializable => conflicts_on(tx, id),
        Isolation::Snapshot => drop(tx.commit().unwrap()),
    }
}

/// Forbidden at both levels.
#[test]
fn g0_write_cycles() {
    at_both_levels(|test_db| {
        let (mut t1, mut t2) = (test_db.begin(), test_db.begin());
        test_db.set(&mut t1, 1, 11);
        test_db.set(&mut t2, 1, 12);
        test_db.set(&mut t1, 2, 21);
        t1.commit().unwrap();
        assert_eq!(test_db.rows(), [(1, 11), (2, 21)]);
        test_db.set(&mut t2, 2, 22);
        conflicts_on(t2, 1);
        assert_eq!(test_db.rows(), [(1, 11), (2, 21)]);
    });
}

/// Forbidden at both levels.
#[test]
fn g1a_aborted_reads() {
    at_both_levels(|test_db| {
        let (mut t1, t2) = (test_db.begin(), test_db.begin());
        test_db.set(&mut t1, 1, 101);
        assert_eq!(test_db.select(&t2, |_| true), [(1, 10), (2, 20)]);
        t1.rollback();
        assert_eq!(test_db.select(&t2, |_| true), [(1, 10), (2, 20)]);
        t2.commit().unwrap();
    });
}

/// Forbidden at both levels.
#[test]
fn g1b_intermediate_reads() {
    at_both_levels(|test_db| {
        let (mut t1, t2) = (test_db.begin(), test_db.begin());
        test_db.set(&mut t1, 1, 101);
        assert_eq!(test_db.select(&t2, |_| true), [(1, 10), (2, 20)]);
        test_db.set(&mut t1, 1, 11);
        t1.commit().unwrap();
        assert_eq!(test_db.select(&t2, |_| true), [(1, 10), (2, 20)]);
        t2.commit().unwrap();
    });
}

/// Forbidden at both levels: neither sees uncommitted changes of the other. That both then commit is write
/// skew.
#[test]
fn g1c_circular_information_flow() {
    at_both_levels(|test_db| {
        let (mut t1, mut t2) = (test_db.begin(), test_db.begin());
        test_db.set(&mut t1, 1, 11);
        test_db.set(&mut t2, 2, 22);
        assert_eq!(test_db.get(&t1, 2), Some(20));
        assert_eq!(test_db.get(&t2, 1), Some(10));
        t1.commit().unwrap();
        conflicts_if_serializable(test_db, t2, 1);
    });
}

/// Forbidden at both levels.
#[test]
fn otv_observed_transaction_vanishes() {
    at_both_levels(|test_db| {
        let (mut t1, mut t2) = (test_db.begin(), test_db.begin());
        test_db.set(&mut t1, 1, 11);
        test_db.set(&mut t1, 2, 19);
        test_db.set(&mut t2, 1, 12);
        t1.commit().unwrap();
        let t3 = test_db.begin();
        assert_eq!(test_db.get(&t3, 1), Some(11));
        test_db.set(&mut t2, 2, 18);
        assert_eq!(test_db.get(&t3, 2), Some(19));
        conflicts_on(t2, 1);
        assert_eq!((test_db.get(&t3, 2), test_db.get(&t3, 1)), (Some(19), Some(11)));
        t3.commit().unwrap();
    });
}

/// Forbidden at both levels.
#[test]
fn pmp_predicate_many_preceders() {
    at_both_levels(|test_db| {
        let (t1, mut t2) = (test_db.begin(), test_db.begin());
        assert_eq!(test_db.select(&t1, |value| value == 30), []);
        test_db.set(&mut t2, 3, 30);
        t2.commit().unwrap();
        assert_eq!(test_db.select(&t1, |value| value % 3 == 0), []);
        t1.commit().unwrap();
    });
}

/// Forbidden at both levels.
#[test]
fn pmp_for_a_predicate_that_decides_a_write() {
    at_both_levels(|test_db| {
        let (mut t1, mut t2) = (test_db.begin(), test_db.begin());
        for (id, value) in test_db.select(&t1, |_| true) {
            test_db.set(&mut t1, id, value + 10);
        }
        for (id, _) in test_db.select(&t2, |value| value == 20) {
            t2.delete(&test_db.test, [id]).unwrap();
        }
        t1.commit().unwrap();
        conflicts_on(t2, 2);
        assert_eq!(test_db.rows(), [(1, 20), (2, 30)]);
    });
}

/// Forbidden at both levels.
#[test]
fn p4_lost_update() {
    at_both_levels(|test_db| {
        let (mut t1, mut t2) = (test_db.begin(), test_db.begin());
        assert_eq!((test_db.get(&t1, 1), test_db.get(&t2, 1)), (Some(10), Some(10)));
        test_db.set(&mut t1, 1, 11);
        test_db.set(&mut t2, 1, 11);
        t1.commit().unwrap();
        conflicts_on(t2, 1);
    });
}

/// Forbidden at both levels.
#[test]
fn g_single_read_skew() {
    at_both_levels(|test_db| {
        let (t1, mut t2) = (test_db.begin(), test_db.begin());
        assert_eq!(test_db.get(&t1, 1), Some(10));
        assert_eq!((test_db.get(&t2, 1), test_db.get(&t2, 2)), (Some(10), Some(20)));
        test_db.set(&mut t2, 1, 12);
        test_db.set(&mut t2, 2, 18);
        t2.commit().unwrap();
        assert_eq!(test_db.get(&t1, 2), Some(20));
        t1.commit().unwrap();
    });
}

/// Forbidden at both levels.
#[test]
fn g_single_with_conditions() {
    at_both_levels(|test_db| {
        let (t1, mut t2) = (test_db.begin(), test_db.begin());
        assert_eq!(test_db.select(&t1, |value| value % 5 == 0), [(1, 10), (2, 20)]);
        for (id, _) in test_db.select(&t2, |value| value == 10) {
            test_db.set(&mut t2, id, 12);
        }
        t2.commit().unwrap();
        assert_eq!(test_db.select(&t1, |value| value % 3 == 0), []);
        t1.commit().unwrap();
    });
}

/// Forbidden at both levels.
#[test]
fn g_single_when_a_write_follows() {
    at_both_levels(|test_db| {
        let (mut t1, mut t2) = (test_db.begin(), test_db.begin());
        assert_eq!(test_db.get(&t1, 1), Some(10));
        test_db.set(&mut t2, 1, 12);
        test_db.set(&mut t2, 2, 18);
        t2.commit().unwrap();
        for (id, _) in test_db.select(&t1, |value| value == 20) {
            t1.delete(&test_db.test, [id]).unwrap();
        }
        conflicts_on(t1, if test_db.level == Isolation::Serializable { 1 } else { 2 });
    });
}

/// Forbidden by the serializable level; at the snapshot level write skew happens, unless the reads are for
/// update.
#[test]
fn g2_item_write_skew() {
    at_both_levels(|test_db| {
        let (mut t1, mut t2) = (test_db.begin(), test_db.begin());
        for tx in [&t1, &t2] {
            assert_eq!((test_db.get(tx, 1), test_db.get(tx, 2)), (Some(10), Some(20)));
        }
        test_db.set(&mut t1, 1, 11);
        test_db.set(&mut t2, 2, 21);
        t1.commit().unwrap();
        let expected =
            if test_db.level == Isolation::Snapshot { [(1, 11), (2, 21)] } else { [(1, 11), (2, 20)] };
        conflicts_if_serializable(test_db, t2, 1);
        assert_eq!(test_db.rows(), expected);
    });
    at_both_levels(|test_db| {
        let (mut t1, mut t2) = (test_db.begin(), test_db.begin());
        t1.get_for_update(&test_db.test, [2]).unwrap();
        t2.get_for_update(&test_db.test, [1]).unwrap();
        test_db.set(&mut t1, 1, 11);
        test_db.set(&mut t2, 2, 21);
        t1.commit().unwrap();
        conflicts_on(t2, 1);
    });
}

/// Forbidden by the serializable level; at the snapshot level write skew over a condition happens.
#[test]
fn g2_anti_dependency_cycles() {
    at_both_levels(|test_db| {
        let (mut t1, mut t2) = (test_db.begin(), test_db.begin());
        assert_eq!(test_db.select(&t1, |value| value % 3 == 0), []);
        assert_eq!(test_db.select(&t2, |value| value % 3 == 0), []);
        test_db.set(&mut t1, 3, 30);
        test_db.set(&mut t2, 4, 42);
        t1.commit().unwrap();
        conflicts_if_serializable(test_db, t2, 3);
        let divisible = test_db.select(&test_db.begin(), |value| value % 3 == 0).len();
        assert_eq!(divisible, if test_db.level == Isolation::Snapshot { 2 } else { 1 });
    });
}

/// Forbidden by the serializable level: the cycle goes through a transaction that only reads (Fekete, O'Neil,
/// O'Neil).
#[test]
fn g2_with_a_reader_in_the_cycle() {
    at_both_levels(|test_db| {
        let mut t1 = test_db.begin();
        assert_eq!(test_db.select(&t1, |_| true), [(1, 10), (2, 20)]);
        let mut t2 = test_db.begin();
        test_db.set(&mut t2, 2, 25);
        t2.commit().unwrap();
        let t3 = test_db.begin();
        assert_eq!(test_db.select(&t3, |_| true), [(1, 10), (2, 25)]);
        t3.commit().unwrap();
        test_db.set(&mut t1, 1, 0);
        conflicts_if_serializable(test_db, t1, 2);
    });
}
