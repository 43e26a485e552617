//! Many keyspaces, with rows of options: every entry of every keyspace is right after flushes, reopenings,
//! renames, drops, changes of options and copies.
//!
//! `ESKER_KEYSPACES=n` makes n keyspaces instead of some hundreds.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside the test functions")]

use esker::parts::env::fault::{StrictFs, StrictOptions};
use esker::parts::env::{Env, SeededRandom};
use esker::{Database, Error, Keyspace, KeyspaceOptions, Options};
use esker_testkit::Runner;
use esker_testkit::options::{Chosen, DATABASE, KEYSPACE};
use esker_testkit::script::Plan;
use std::collections::BTreeMap;
use std::sync::Arc;

const DIR: &str = "/db";
const KEYSPACES: usize = 300;
/// Plans of database options.
const ROWS: u64 = 6;
/// Different options of keyspaces in one database.
const KINDS: usize = 12;
const ROUNDS: u32 = 6;

fn keyspaces() -> usize {
    let chosen = std::env::var("ESKER_KEYSPACES").ok();
    chosen.map_or(KEYSPACES, |text| text.parse().unwrap_or_else(|_| panic!("ESKER_KEYSPACES={text}")))
}

/// A keyspace under test.
struct Expected {
    name: String,
    entries: BTreeMap<Vec<u8>, Vec<u8>>,
}

struct World {
    plan: Plan,
    env: Env,
    random: SeededRandom,
    kinds: Vec<Chosen>,
    expected: Vec<Expected>,
    db: Database,
}

fn options(plan: &Plan, env: &Env) -> Options {
    Runner::options(plan, env.clone()).flush_on_close(plan.seed.is_multiple_of(2))
}

impl World {
    fn new(seed: u64, count: usize) -> World {
        let random = SeededRandom::new(seed);
        // What expires is the model's to test.
        let kind = |_| Chosen::random(KEYSPACE, &random).with(KEYSPACE, "default ttl", "none");
        let kinds: Vec<Chosen> = (0..KINDS).map(kind).collect();
        let plain = Chosen::plain(KEYSPACE);
        let plan = Plan {
            seed,
            database: Chosen::random(DATABASE, &random),
            spaces: std::array::from_fn(|_| plain.clone()),
            script: Vec::new(),
        };
        let fs = StrictFs::with_options(StrictOptions { record_trace: false, ..StrictOptions::default() });
        let env = Env::simulated(Arc::new(fs), seed);
        let db = Database::open_with(DIR, options(&plan, &env)).unwrap();
        let mut world = World { plan, env, random, kinds, expected: Vec::new(), db };
        for number in 0..count {
            let (name, kind) = (format!("space {number:05}"), number % KINDS);
            world.db.keyspace_with(&name, world.options_of(kind)).unwrap();
            world.expected.push(Expected { name, entries: BTreeMap::new() });
        }
        world
    }

    fn options_of(&self, kind: usize) -> KeyspaceOptions {
        self.kinds[kind].apply(KEYSPACE, KeyspaceOptions::default())
    }

    fn keyspace(&self, at: usize) -> Keyspace {
        self.db.open_keyspace(&self.expected[at].name).unwrap()
    }

    /// One batch for every few keyspaces: a put, a delete, and now and then a range delete.
    fn write_everywhere(&mut self, round: u32) {
        let keyspaces: Vec<Keyspace> = (0..self.expected.len()).map(|at| self.keyspace(at)).collect();
        for (some, expected) in keyspaces.chunks(16).zip(self.expected.chunks_mut(16)) {
            let mut batch = self.db.batch();
            for (keyspace, expected) in some.iter().zip(expected) {
                let key = format!("key {}", self.random.below(8)).into_bytes();
                let value = format!("{} in round {round}", expected.name).repeat(1 + round as usize);
                if self.random.below(12) == 0 {
                    batch.delete_range(keyspace, b"key 2".as_slice()..b"key 5".as_slice());
                    expected.entries.retain(|key, _| !(b"key 2".as_slice()..b"key 5").contains(&&**key));
                }
                batch.put(keyspace, &key, value.as_bytes());
                expected.entries.insert(key, value.into_bytes());
                let gone = format!("key {}", self.random.below(8)).into_bytes();
                batch.delete(keyspace, &gone);
                expected.entries.remove(&gone);
            }
            self.db.write(&batch).unwrap();
        }
    }

    fn reopen(&mut self) {
        self.db.close().unwrap();
        self.db = Database::open_with(DIR, options(&self.plan, &self.env)).unwrap();
    }

    /// Some keyspaces are dropped, renamed, given other options, compacted.
    fn restructure(&mut self, round: u32) {
        for _ in 0..10 {
            let at = self.random.below(self.expected.len() as u64) as usize;
            let name = self.expected[at].name.clone();
            match self.random.below(4) {
                0 => {
                    self.db.drop_keyspace(&name).unwrap();
                    self.expected.swap_remove(at);
                    assert!(matches!(self.db.open_keyspace(&name), Err(Error::NotFound(_))));
                }
                1 => {
                    let to = format!("{name}, renamed in round {round}");
                    self.db.rename_keyspace(&name, &to).unwrap();
                    self.expected[at].name = to;
                }
                2 => self.give_other_options(at),
                _ => self.keyspace(at).compact(..).unwrap(),
            }
        }
    }

    fn give_other_options(&self, at: usize) {
        let keyspace = self.keyspace(at);
        let mut options = self.options_of(self.random.below(KINDS as u64) as usize);
        // There may be operands of the operator, so it stays.
        if let Some(operator) = keyspace.options().operator().cloned() {
            options = options.merge_operator(operator);
        }
        match keyspace.update_options(|_| options.clone()) {
            Ok(_) => {}
            Err(Error::InvalidArgument(text)) if text.contains("cannot be kept") => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn check(&self, db: &Database, when: &str) {
        assert_eq!(db.keyspaces().len(), self.expected.len() + 1, "{when}");
        for expected in &self.expected {
            let keyspace = db.open_keyspace(&expected.name).unwrap();
            let found =
                keyspace.iter().map(|entry| entry.map(|(key, value)| (key.into_vec(), value.into_vec())));
            let found: BTreeMap<_, _> = found.collect::<Result<_, _>>().unwrap();
            assert!(found == expected.entries, "{when}: keyspace {:?} holds {found:?}", expected.name);
        }
    }

    fn check_copy(&self) {
        let target = format!("{DIR}-copy");
        self.db.checkpoint(&target).unwrap();
        let copy = Database::open_with(&target, options(&self.plan, &self.env)).unwrap();
        self.check(&copy, "a checkpoint");
        copy.close().unwrap();
    }
}

#[test]
fn every_entry_of_many_keyspaces_is_right() {
    for seed in 0..ROWS {
        let mut world = World::new(seed, keyspaces());
        for round in 0..ROUNDS {
            world.write_everywhere(round);
            world.restructure(round);
            match round {
                1 => world.db.flush().unwrap(),
                3 => world.db.drain().unwrap(),
                _ => world.reopen(),
            }
            world.check(&world.db, &format!("seed {seed}, round {round}"));
        }
        world.check_copy();
        assert!(world.db.verify().unwrap().is_clean(), "seed {seed}: verify found damage");
        world.db.close().unwrap();
    }
}
