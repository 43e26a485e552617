//! Generates random plans from a seed.

use crate::ingest::LoadMethod;
use crate::options::{Chosen, DATABASE, KEYSPACE};
use crate::script::{
    Action, At, Call, CopyMethod, CursorStep, Edit, Lifetime, Move, Op, PathChange, Plan, Step, WriteMethod,
};
use crate::{Filler, KEYS, Key, PREFIXES, SPACES};
use esker::Durability;
use esker::ingest::IngestMode;
use esker::parts::env::SeededRandom;
use std::ops::Bound;

/// Makes plans.
#[derive(Debug)]
pub struct Generator {
    random: SeededRandom,
    /// Keys that this plan prefers: few, so that versions pile up, or many.
    keys: Vec<Key>,
    /// Longest value, except for rare huge ones.
    value_bytes: u64,
    next_value: u32,
    /// Whether the plan puts values that expire.
    expires: bool,
    /// Whether the plan follows the change stream.
    follows: bool,
    /// In 1/100: how often an operation changes the tree or the database as a whole.
    structural_change: u64,
}

impl Generator {
    /// A generator for `seed`.
    pub fn new(seed: u64) -> Generator {
        let random = SeededRandom::new(seed ^ 0x0065_736b_6572);
        let count = [12, 60, 250, 600][random.below(4) as usize];
        let keys = (0..count).map(|_| pick_key(&random)).collect();
        let value_bytes = [4, 40, 200, 1_500][random.below(4) as usize];
        let structural_change = [2, 5, 15][random.below(3) as usize];
        let expires = random.below(3) > 0;
        let follows = random.below(2) > 0;
        Generator { random, keys, value_bytes, next_value: 0, expires, follows, structural_change }
    }

    /// A plan with so many operations, random options, and a full check at the end.
    pub fn plan(seed: u64, operations: usize) -> Plan {
        let mut generator = Generator::new(seed);
        let database = Chosen::random(DATABASE, &generator.random);
        let spaces = SPACES.map(|_| Chosen::random(KEYSPACE, &generator.random));
        let mut script: Vec<Op> = (0..operations).map(|_| generator.op()).collect();
        if generator.follows {
            script.insert(generator.random.below(10) as usize % script.len().max(1), generator.follow());
        }
        script.extend([Op::CheckAll, Op::Reopen { flush_on_close: true }, Op::CheckAll]);
        script.extend(generator.follows.then(|| generator.follow()));
        Plan { seed, database, spaces, script }
    }

    /// Writes, with some flushes, compactions, syncs and reopenings: the workload of crash tests.
    pub fn writes(seed: u64, operations: usize, structural_change: u64) -> Vec<Op> {
        let mut generator = Generator::new(seed);
        generator.value_bytes = generator.value_bytes.min(200);
        generator.structural_change = structural_change;
        let next = |_| match generator.random.below(100) {
            dice if dice < generator.structural_change => generator.structural_change(),
            dice if dice > 96 && generator.expires => generator.clock(),
            _ => generator.write(),
        };
        (0..operations).map(next).collect()
    }

    fn percent(&self, chance: u64) -> bool {
        self.random.below(100) < chance
    }

    fn key(&self) -> Key {
        if self.percent(90) {
            self.keys[self.random.below(self.keys.len() as u64) as usize]
        } else {
            pick_key(&self.random)
        }
    }

    fn space(&self) -> u8 {
        if self.percent(60) { 0 } else { self.random.below(SPACES.len() as u64) as u8 }
    }

    /// A keyspace for drops and renames, seldom the default one, which refuses both.
    fn other_space(&self) -> u8 {
        if self.percent(5) { 0 } else { 1 + self.random.below(SPACES.len() as u64 - 1) as u8 }
    }

    fn at(&self) -> At {
        self.percent(30).then(|| self.random.below(8) as u8)
    }

    fn bound(&self) -> Bound<Key> {
        match self.random.below(6) {
            0 => Bound::Unbounded,
            1..=3 => Bound::Included(self.key()),
            _ => Bound::Excluded(self.key()),
        }
    }

    fn value(&mut self) -> Filler {
        self.next_value += 1;
        let len = match self.random.below(400) {
            0 => 30_000 + self.random.below(20_000),
            1..=8 => self.random.below(6_000),
            9..=40 => 0,
            _ => self.random.below(self.value_bytes + 1),
        };
        Filler { number: self.next_value, len: len as u32 }
    }

    fn edit(&mut self) -> Edit {
        let action = match self.random.below(20) {
            // Mostly a few keys, sometimes all up to the end.
            0 if self.percent(10) => Action::DeleteUpTo(Bound::Unbounded),
            0 => Action::DeleteUpTo(self.bound()),
            1..=4 => Action::Delete,
            5..=8 if self.expires => Action::PutFor(self.value(), self.ttl_ms()),
            9 if self.expires => Action::MergeFor(self.value(), self.ttl_ms()),
            10..=14 => Action::Merge(self.value()),
            _ => Action::Put(self.value()),
        };
        Edit { space: self.space(), key: self.key(), action }
    }

    /// About the time by which [`Op::Clock`] moves the clock.
    fn ttl_ms(&self) -> u32 {
        [0, 1, 2, 10, 50, 1_000, 100_000][self.random.below(7) as usize]
    }

    fn lifetime(&self) -> Lifetime {
        match self.random.below(8) {
            0 | 1 => Lifetime::Default,
            2 => Lifetime::Never,
            3 if self.expires => Lifetime::At(self.ttl_ms() as i32 - 2),
            4..=6 if self.expires => Lifetime::After(self.ttl_ms()),
            _ => Lifetime::Keep,
        }
    }

    /// A lifetime of an operand, which has nothing to keep.
    fn operand_lifetime(&self) -> Lifetime {
        match self.lifetime() {
            Lifetime::Keep => Lifetime::Default,
            lifetime => lifetime,
        }
    }

    /// A write of one key with options, or an update of it.
    fn write_one(&mut self) -> Op {
        let (space, key, durability) = (self.space(), self.key(), self.durability());
        match self.random.below(3) {
            0 => Op::Put { space, key, value: self.value(), lifetime: self.lifetime(), durability },
            1 => {
                let (operand, lifetime) = (self.value(), self.operand_lifetime());
                Op::Merge { space, key, operand, lifetime, durability }
            }
            _ => {
                let value = if self.percent(80) { Some(self.value()) } else { None };
                let lifetime = if self.percent(50) { Lifetime::Default } else { self.lifetime() };
                Op::Update { space, key, value, lifetime }
            }
        }
    }

    fn clock(&self) -> Op {
        let by_ms = 1 + self.random.below([2, 12, 60, 1_100][self.random.below(4) as usize]) as i32;
        Op::Clock(if self.percent(20) { -by_ms } else { by_ms })
    }

    /// An ingest or bulk load: sorted or not, few entries or many, with little memory or enough.
    fn join(&mut self) -> Op {
        let count = 1 + self.random.below([4, 30, 200][self.random.below(3) as usize]);
        let mut edits: Vec<_> = (0..count)
            .map(|_| {
                let Edit { key, action, .. } = self.edit();
                (key, action)
            })
            .collect();
        if self.percent(40) {
            edits.sort_by_key(|(key, _)| key.bytes());
        }
        let load_method = if self.percent(50) {
            let mode = [IngestMode::Copy, IngestMode::Link, IngestMode::Move][self.random.below(3) as usize];
            LoadMethod::Tables { tables: 1 + self.random.below(5) as u8, mode }
        } else {
            LoadMethod::BulkLoad { sort_memory: [1 << 10, 4 << 10, 1 << 20][self.random.below(3) as usize] }
        };
        Op::Join { space: self.space(), edits, load_method }
    }

    fn durability(&self) -> Durability {
        match self.random.below(12) {
            0 => Durability::Power,
            1..=2 => Durability::None,
            _ => Durability::Process,
        }
    }

    fn write(&mut self) -> Op {
        let durability = self.durability();
        let (count, how) = match self.random.below(11) {
            4 => (1 + self.random.below(10), WriteMethod::Indexed),
            0 => (2 + self.random.below(20), WriteMethod::Batch),
            1 => (1 + self.random.below(5), WriteMethod::Try),
            2 => (1 + self.random.below(3), WriteMethod::Parsed),
            3 => (1 + self.random.below(6), WriteMethod::Transaction),
            _ => (1, WriteMethod::Plain),
        };
        let edits = (0..count).map(|_| self.edit()).collect();
        Op::Write { edits, how, durability }
    }

    fn read(&self) -> Op {
        let (space, at) = (self.space(), self.at());
        match self.random.below(12) {
            11 => {
                let (lower, upper) = (self.bound(), self.bound());
                Op::Size { space, lower, upper, parts: self.random.below(20) as u8 }
            }
            10 => Op::Ttl { space, key: self.key() },
            0..=4 => Op::Get { space, key: self.key(), at },
            5 => {
                Op::MultiGet { space, keys: (0..1 + self.random.below(50)).map(|_| self.key()).collect(), at }
            }
            6 | 7 => {
                let ends = [0, u64::MAX, self.random.below(u64::MAX)][self.random.below(3) as usize];
                Op::Range { space, lower: self.bound(), upper: self.bound(), ends, at }
            }
            8 => Op::Prefix { space, prefix: self.random.below(PREFIXES.len() as u64) as u8, at },
            _ => {
                let moves = (0..1 + self.random.below(20)).map(|_| self.cursor_move()).collect();
                let (lower, upper) = match self.percent(50) {
                    true => (Bound::Unbounded, Bound::Unbounded),
                    false => (self.bound(), self.bound()),
                };
                Op::Cursor { space, lower, upper, moves, at }
            }
        }
    }

    /// Transactions begin about as often as they end.
    fn transaction(&mut self) -> Op {
        let which = self.random.below(8) as u8;
        let space = self.space();
        let step = match self.random.below(26) {
            0..=2 => return Op::Begin { serializable: self.percent(60) },
            3..=4 => return Op::Finish { which, commit: self.percent(85) },
            5..=9 => Step::Change(self.edit()),
            10..=14 => Step::Get { space, key: self.key(), for_update: self.percent(20) },
            15..=17 => Step::Range {
                keys_only: self.percent(30),
                space,
                lower: self.bound(),
                upper: self.bound(),
                ends: [0, u64::MAX, self.random.below(u64::MAX)][self.random.below(3) as usize],
                count: if self.percent(20) { u8::MAX } else { self.random.below(6) as u8 },
            },
            18 => Step::Savepoint,
            19 => Step::RollbackTo(self.random.below(8) as u8),
            20 => Step::Put { space, key: self.key(), value: self.value(), lifetime: self.lifetime() },
            21 => {
                let (key, operand) = (self.key(), self.value());
                Step::Merge { space, key, operand, lifetime: self.operand_lifetime() }
            }
            22 => {
                let value = if self.percent(80) { Some(self.value()) } else { None };
                Step::Update { space, key: self.key(), value }
            }
            23 => Step::Ends { space },
            _ => self.cursor_in_transaction(space),
        };
        Op::InTransaction { which, step }
    }

    fn cursor_in_transaction(&mut self, space: u8) -> Step {
        let count = 1 + self.random.below(20);
        let steps = (0..count).map(|_| match self.random.below(8) {
            0 => CursorStep::Put(self.value()),
            1 => CursorStep::Delete,
            _ => CursorStep::Move(self.cursor_move()),
        });
        let steps = steps.collect();
        let (lower, upper) = match self.percent(50) {
            true => (Bound::Unbounded, Bound::Unbounded),
            false => (self.bound(), self.bound()),
        };
        Step::Cursor { space, lower, upper, steps }
    }

    fn cursor_move(&self) -> Move {
        match self.random.below(12) {
            0 => Move::First,
            1 => Move::Last,
            2 => Move::Seek(self.key()),
            3 => Move::SeekForPrev(self.key()),
            4..=7 => Move::Next,
            _ => Move::Prev,
        }
    }

    fn follow(&self) -> Op {
        let durability = if self.percent(50) { Durability::Power } else { Durability::Process };
        Op::Follow { anew: self.percent(50), durability, acknowledge: self.percent(40) }
    }

    fn structural_change(&mut self) -> Op {
        if self.follows && self.percent(20) {
            return self.follow();
        }
        match self.random.below(28) {
            // The change stream does not report the entries of an ingest, so a followed plan has none.
            24..=27 if self.follows => self.follow(),
            24..=27 => self.join(),
            20 => Op::DropKeyspace(self.other_space()),
            21 => Op::RenameKeyspace { from: self.other_space(), to: self.other_space() },
            22..=23 => {
                Op::SetOptions { space: self.space(), options: Chosen::random(KEYSPACE, &self.random) }
            }
            0..=4 => Op::Flush,
            5..=6 => Op::Sync,
            7..=9 => Op::Compact { space: self.space(), lower: self.bound(), upper: self.bound() },
            10 => Op::Drain,
            11..=15 => Op::Step(1 + self.random.below(6) as u8),
            _ => Op::Reopen { flush_on_close: self.percent(50) },
        }
    }

    /// Copies, handles that live on, callbacks that panic, and another database.
    fn surroundings(&mut self) -> Op {
        let which = self.random.below(8) as u8;
        match self.random.below(13) {
            12 => Op::ChangePath(PathChange::ALL[usize::from(which) % PathChange::ALL.len()]),
            0 => Op::Copy(CopyMethod::Checkpoint),
            1 | 2 => Op::Copy(CopyMethod::Backup),
            3 => Op::Copy(CopyMethod::Restore(which)),
            4 => Op::Copy(CopyMethod::Export),
            5 => Op::Outlive(self.random.below(256) as u8),
            6 => Op::OpenBeside,
            7 | 8 => Op::Neighbour { key: self.key(), value: self.value() },
            _ => Op::Panic { call: Call::ALL[usize::from(which)], space: self.space(), key: self.key() },
        }
    }

    fn op(&mut self) -> Op {
        if self.percent(self.structural_change) {
            return match self.random.below(14) {
                12 | 13 => self.surroundings(),
                0 => Op::CheckAll,
                1 if self.percent(20) => Op::ReopenReadOnly,
                2 | 3 => Op::Snapshot,
                4 => Op::Release(self.random.below(8) as u8),
                _ => self.structural_change(),
            };
        }
        if self.expires && self.percent(4) {
            let ttl_ms = (!self.percent(30)).then(|| self.ttl_ms());
            let touch = Op::Touch { space: self.space(), key: self.key(), ttl_ms };
            return if self.percent(60) { self.clock() } else { touch };
        }
        match self.random.below(100) {
            0..=38 => self.write(),
            39..=44 => self.write_one(),
            45..=64 => self.transaction(),
            _ => self.read(),
        }
    }
}

/// Any key, but long ones seldom: they fill a memtable of the smallest size at once.
fn pick_key(random: &SeededRandom) -> Key {
    loop {
        let number = random.below(u64::from(KEYS)) as u16;
        if !(24..=31).contains(&number) || random.below(8) == 0 {
            return Key(number);
        }
    }
}
