//! The report agrees with the sizes of tables and with a count of the lookups.

use crate::options::PerLevel;
use crate::{Database, KeyspaceOptions, Options};
use esker_base::checksum::key_hash;
use esker_codec::Codec;
use esker_engine::amplification::{Amplification, Cause, CauseInfo};
use esker_env::Env;
use esker_env::fault::StrictFs;
use esker_filter::watch::is_sampled;
use esker_strategy::{Reason, Strategy};
use std::sync::Arc;

const KEYS: u64 = 20_000;

fn open() -> Database {
    let keyspace =
        KeyspaceOptions::default().strategy(Strategy::None).compression(PerLevel::all(Codec::None));
    let options = Options::default().memory_budget(64 << 20).keyspace_options(keyspace);
    Database::open_with("/db", options.env(Env::simulated(Arc::new(StrictFs::new()), 1)))
        .expect("a new database")
}

fn key(number: u64) -> String {
    format!("key {number:08}")
}

/// Puts these keys, flushes them, and returns their bytes.
fn flush(db: &Database, numbers: impl Iterator<Item = u64>) -> u64 {
    let mut bytes = 0;
    for number in numbers {
        let (key, value) = (key(number), [7; 40]);
        bytes += (key.len() + value.len()) as u64;
        db.default_keyspace().put(key, value).expect("a put");
    }
    db.flush().expect("a flush");
    bytes
}

fn told(db: &Database) -> Amplification {
    db.metrics().keyspaces[0].amplification.clone()
}

fn table_bytes(db: &Database) -> u64 {
    db.levels()[0]
        .levels
        .iter()
        .flat_map(|level| &level.runs)
        .flat_map(|run| &run.tables)
        .map(|t| t.bytes)
        .sum()
}

fn of(told: &Amplification, cause: Cause) -> CauseInfo {
    *told.causes.iter().find(|info| info.cause == cause).expect("a cause")
}

#[test]
fn every_byte_of_a_table_has_a_cause_and_a_level() {
    let db = open();
    let first_bytes = flush(&db, 0..KEYS);
    let after_first = table_bytes(&db);
    let user_bytes = first_bytes + flush(&db, 0..KEYS / 2);
    let before = table_bytes(&db);
    let seen = told(&db);
    assert_eq!((seen.user_bytes(), seen.written_bytes()), (user_bytes, before));
    assert_eq!(of(&seen, Cause::Flush).jobs, 2);
    assert_eq!(of(&seen, Cause::Flush).largest_job_bytes, after_first);
    assert_eq!(seen.write(), Some(before as f64 / user_bytes as f64));

    db.compact_all().expect("a compaction");
    let merged = told(&db);
    let compaction = of(&merged, Cause::Compaction(Reason::Manual));
    assert_eq!((compaction.jobs, compaction.read_bytes), (1, before));
    assert_eq!(compaction.written_bytes, table_bytes(&db));
    assert_eq!(merged.written_bytes(), before + table_bytes(&db));
    let by_level: u64 = merged.levels.iter().map(|level| level.written_bytes).sum();
    assert_eq!(by_level, merged.written_bytes(), "levels and causes count the same bytes");
    assert_eq!(merged.levels.iter().map(|level| level.read_bytes).sum::<u64>(), before);
}

#[test]
fn the_space_estimate_agrees_with_a_full_compaction() {
    let db = open();
    flush(&db, 0..KEYS);
    assert_eq!(told(&db).space.ratio(), Some(1.0), "what lies above nothing replaces nothing");
    flush(&db, 0..KEYS / 2);
    let cautious = told(&db).space;
    assert!(!cautious.is_measured && cautious.overwritten_share == 1.0);
    assert_eq!(cautious.ratio(), None, "no merge has shown what is alive");
    assert!(cautious.at_most().is_some_and(|most| most > 1.4), "{cautious:?}");
    let guessed = cautious.live_bytes;
    db.compact_all().expect("a compaction");
    let (exact, compacted) = (told(&db).space, table_bytes(&db));
    assert_eq!((exact.ratio(), exact.live_bytes), (Some(1.0), compacted));
    assert!(
        exact.is_measured && exact.overwritten_share == 1.0,
        "all of the second flush replaced something"
    );
    // Sequence numbers of zero take less space.
    let apart = guessed.abs_diff(compacted) as f64 / compacted as f64;
    assert!(apart < 0.03, "guessed {guessed}, found {compacted}");

    // Half of the next overwrites, half is new, twice: the second is estimated by the result of the first
    // merge.
    let half_new = |from: u64| (0..KEYS / 4).chain(from..from + KEYS / 4);
    flush(&db, half_new(KEYS));
    db.compact_all().expect("a compaction");
    let share = told(&db).space.overwritten_share;
    assert!((0.5..0.8).contains(&share), "what lies longer ago counts less: {share}");
    for round in 0..12 {
        flush(&db, half_new(KEYS + (round + 1) * KEYS / 4));
        db.compact_all().expect("a compaction");
    }
    flush(&db, half_new(9 * KEYS));
    let guessed = told(&db).space;
    db.compact_all().expect("a compaction");
    let apart = guessed.live_bytes.abs_diff(table_bytes(&db)) as f64 / table_bytes(&db) as f64;
    assert!(apart < 0.03, "guessed {guessed:?}, found {}", table_bytes(&db));
}

#[test]
fn deleted_data_is_not_taken_for_alive() {
    let db = open();
    flush(&db, 0..KEYS);
    (0..KEYS / 2).for_each(|number| db.default_keyspace().delete(key(number)).expect("a delete"));
    db.flush().expect("a flush");
    let guessed = told(&db).space.live_bytes;
    db.compact_all().expect("a compaction");
    let apart = guessed.abs_diff(table_bytes(&db)) as f64 / table_bytes(&db) as f64;
    assert!(apart < 0.03, "guessed {guessed}, found {}", table_bytes(&db));
}

#[test]
fn nothing_is_searched_in_vain_where_nothing_is() {
    let reads = told(&open()).reads;
    assert_eq!(format!("{:.4}", reads.expected_absent), "0.0000");
}

#[test]
fn one_lookup_in_sixty_four_is_followed_through_memtable_and_runs() {
    let db = open();
    flush(&db, 0..KEYS);
    flush(&db, (0..KEYS).step_by(2));
    let sampled = |key: &String| is_sampled(key_hash(key.as_bytes()));
    let absent = |number: u64| format!("{}x", key(number));
    for number in 0..KEYS {
        assert!(db.default_keyspace().get(key(number)).expect("a get").is_some());
    }
    let present = told(&db).reads;
    let followed = (0..KEYS).map(key).filter(sampled).count() as u64;
    let followed_odd = (1..KEYS).step_by(2).map(key).filter(sampled).count() as u64;
    assert_eq!((present.lookups, present.memtables_probed), (followed, followed));
    assert_eq!((present.found_in_tables, present.runs), (followed, 2));
    // The last odd key is beyond the newer run.
    let probed = followed + followed_odd;
    assert!((probed - 1..=probed).contains(&present.tables_probed), "{present:?}, {probed}");
    let misses = present.tables_searched - present.found_in_tables;
    assert!(misses <= followed_odd / 10, "filters keep lookups away: {present:?}");

    for number in 0..KEYS {
        assert!(db.default_keyspace().get(absent(number)).expect("a get").is_none());
    }
    let both = told(&db).reads;
    let followed_absent = (0..KEYS).map(absent).filter(sampled).count() as u64;
    assert_eq!(both.lookups - present.lookups, followed_absent);
    assert_eq!(both.found_in_tables, present.found_in_tables);
    // Two filters of 1 % each.
    assert!((0.01..0.04).contains(&both.expected_absent), "{both:?}");
    let expected_present = 1.0 + both.expected_absent / 2.0 * 2.0 / 3.0;
    assert!((both.expected_present - expected_present).abs() < 0.002, "{both:?}");
    let levels = told(&db).levels;
    assert_eq!(levels.iter().map(|level| level.probed).sum::<u64>(), both.tables_probed);
    assert_eq!(levels.iter().map(|level| level.searched).sum::<u64>(), both.tables_searched);
    assert!(
        (levels.iter().map(|level| level.expected_misses).sum::<f64>() - both.expected_absent).abs() < 1e-9
    );
}

#[test]
fn a_table_that_is_ingested_is_brought_by_a_user() {
    let db = open();
    let mut loader = db.default_keyspace().bulk_load().expect("a loader");
    (0..KEYS).for_each(|number| loader.add(key(number), [7; 40]).expect("an entry"));
    loader.finish().expect("a load");
    db.flush().expect("the tables are installed");
    let seen = told(&db);
    assert_eq!((seen.put_bytes, seen.ingested_bytes), (0, KEYS * 52));
    assert_eq!(of(&seen, Cause::Ingest).written_bytes, table_bytes(&db));
    assert!(seen.write().is_some_and(|write| write < 1.2), "{seen:?}");
}
