//! Databases that need Cargo features, opened by builds with and without them.
//!
//! `fixtures/features` holds two, written by `make.rs.txt` there with all features: one has the codec zstd in
//! the options of a keyspace, the other has tables of several codecs and none in its options. Both are opened
//! for reading only, so the stored files stay as they are.

use esker::{Database, Error, Options};
use std::path::Path;

/// The codecs that need a feature, and whether this build has it.
const CODECS: [(&str, bool); 2] = [("zstd", cfg!(feature = "zstd")), ("lzma", cfg!(feature = "lzma"))];

fn open(name: &str) -> esker::Result<Database> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/features").join(name);
    Database::open_with(dir, Options::default().read_only(true))
}

fn has(codec: &str) -> bool {
    CODECS.contains(&(codec, true))
}

fn names(error: &Error, feature: &str) -> bool {
    matches!(error, Error::Unsupported(text) if text.contains(&format!("the Cargo feature \"{feature}\"")))
}

#[test]
fn a_missing_feature_of_the_options_is_named_by_open() {
    match open("in-options") {
        Ok(db) => {
            assert!(has("zstd"), "opened without the codec of its options");
            let found = db.open_keyspace("events").unwrap().get("key").unwrap();
            assert_eq!(found.unwrap(), "value");
        }
        Err(error) => {
            assert!(!has("zstd"), "{error}");
            assert!(names(&error, "zstd") && error.to_string().contains("\"events\""), "{error}");
        }
    }
}

#[test]
fn a_missing_feature_of_the_tables_is_named_by_get_range_and_verify() {
    let db = open("in-tables").unwrap();
    let plain = db.open_keyspace("none").unwrap();
    assert_eq!(plain.get("key-07").unwrap().unwrap(), "the value of number 07", "other tables are readable");
    let report = db.verify().unwrap();
    for (codec, is_there) in CODECS {
        let keyspace = db.open_keyspace(codec).unwrap();
        let got = keyspace.get("key-07");
        let listed: esker::Result<Vec<_>> = keyspace.iter().collect();
        let damage = report.damage.iter().find(|damage| damage.keyspace == codec);
        if is_there {
            assert_eq!(got.unwrap().unwrap(), "the value of number 07");
            assert_eq!(listed.unwrap().len(), 50);
            assert!(damage.is_none(), "{damage:?}");
        } else {
            assert!(names(&got.unwrap_err(), codec));
            assert!(names(&listed.unwrap_err(), codec));
            assert!(names(&damage.unwrap().error, codec), "{damage:?}");
        }
    }
    assert_eq!(report.is_clean(), CODECS.iter().all(|(_, is_there)| *is_there));
}
