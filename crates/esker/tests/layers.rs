//! Layers: what memory and each level hold on their own.
#![expect(clippy::unwrap_used, reason = "helpers of tests, outside the test functions")]

mod common;

use esker::{Database, Keyspace};

/// Depth and pairs of every layer.
fn layers(db: &Database, keyspace: &Keyspace) -> Vec<(usize, String)> {
    let snapshot = db.snapshot();
    let layers = keyspace.at(&snapshot).layers().unwrap();
    let pairs = |layer: &esker::metrics::Layer| {
        let mut cursor = layer.cursor();
        let mut pairs = Vec::new();
        cursor.seek_to_first().unwrap();
        while let Some((key, value)) = cursor.entry() {
            pairs.push(format!("{}={}", key.escape_ascii(), value.escape_ascii()));
            cursor.advance().unwrap();
        }
        pairs.join(" ")
    };
    layers.iter().map(|layer| (layer.depth(), pairs(layer))).collect()
}

#[test]
fn every_layer_shows_its_own_pairs() {
    let dir = common::TestDir::new("layers");
    let db = Database::open(dir.path()).unwrap();
    let keyspace = db.default_keyspace();
    assert_eq!(layers(&db, keyspace), []);
    keyspace.put("a", "1").unwrap();
    keyspace.put("b", "1").unwrap();
    keyspace.put("b", "2").unwrap();
    assert_eq!(layers(&db, keyspace), [(0, "a=1 b=2".into())]);
    db.compact_all().unwrap();
    assert_eq!(layers(&db, keyspace), [(1, "a=1 b=2".into())], "the last level right below memory");
    keyspace.put("b", "3").unwrap();
    keyspace.delete("a").unwrap();
    let before = db.snapshot();
    keyspace.put("c", "4").unwrap();
    assert_eq!(layers(&db, keyspace), [(0, "b=3 c=4".into()), (1, "a=1 b=2".into())]);
    let seen = keyspace.at(&before).layers().unwrap();
    let mut cursor = seen[0].cursor();
    cursor.seek("c").unwrap();
    assert_eq!(cursor.entry(), None, "the snapshot does not see it");
    db.flush().unwrap();
    let flushed = layers(&db, keyspace);
    assert_eq!(flushed.last(), Some(&(flushed.last().unwrap().0, "a=1 b=2".to_owned())));
    assert_eq!(flushed[0].1, "b=3 c=4");
    assert_eq!(keyspace.get("a").unwrap(), None);
}
