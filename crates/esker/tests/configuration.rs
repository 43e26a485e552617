//! Options from files and presets, in databases.

mod common;

use common::TestDir;
use esker::options::Preset;
use esker::parts::Cs265;
use esker::{Database, Keyspace, KeyspaceOptions, Options};

fn size(keyspace: &Keyspace) -> u64 {
    let values = keyspace.options().values();
    values
        .into_iter()
        .find(|value| value.name == "block_size")
        .and_then(|value| value.number)
        .expect("a size")
}

#[test]
fn keyspaces_get_configured_options_when_created_and_when_opened() {
    let dir = TestDir::new("configured");
    let open =
        |text: &str| Options::from_toml(text).and_then(|options| Database::open_with(dir.path(), options));
    let db = open("[keyspace.default]\nblock_size = 512\n[keyspace.a]\nblock_size = 1024").expect("opening");
    let a = db.keyspace("a").expect("a keyspace");
    let b = db.keyspace("b").expect("a keyspace");
    assert_eq!((size(db.default_keyspace()), size(&a), size(&b)), (512, 1024, 4096));
    a.put("k", "v").expect("a put");
    a.update_options(|options| options.level0_stop_runs(40)).expect("options");
    drop((a, b));
    db.close().expect("closing");
    drop(db);

    // Options that are not named stay; those of keyspaces that do not exist are kept until they are created.
    let text = "[keyspace.a]\nblock_size = 2048\nmerge_operator = \"max\"\n[keyspace.z]\nblock_size = 512";
    let db = open(text).expect("opening");
    let a = db.keyspace("a").expect("a keyspace");
    assert_eq!((size(&a), size(db.default_keyspace())), (2048, 512));
    assert!(a.options().named_values().contains(&("level0_stop_runs".to_owned(), "40".to_owned())));
    assert!(a.options().operator().is_some_and(|operator| operator.text() == "max"));
    assert_eq!(a.get("k").expect("a get").as_deref(), Some(&b"v"[..]));
    assert!(!db.keyspaces().contains(&"z".to_owned()));
    assert_eq!(size(&db.keyspace("z").expect("a keyspace")), 512);
    drop(a);
    db.close().expect("closing");
    drop(db);

    let told = open("[keyspace.a]\nmerge_operator = \"min\"").expect_err("it is kept").to_string();
    assert!(told.contains("options of keyspace \"a\" cannot be applied: merge_operator"), "{told}");
    let db = open("read_only = true\n[keyspace.a]\nblock_size = 512").expect("opening");
    assert_eq!(size(&db.keyspace("a").expect("a keyspace")), 2048, "opened for reading only");
}

#[test]
fn explicit_options_replace_configured_ones() {
    let dir = TestDir::new("configured-explicit");
    let options = Options::default().set_keyspace("a", "block_size", "1KiB").expect("an option");
    let db = Database::open_with(dir.path(), options).expect("opening");
    let a = db.keyspace_with("a", KeyspaceOptions::default().block_size(8192)).expect("a keyspace");
    assert_eq!(size(&a), 8192, "options that a program gives are whole");
}

fn opens_writes_and_reads(options: &Options, what: &str) {
    let dir = TestDir::new("preset");
    let db = Database::open_with(dir.path(), options.clone()).expect("opening");
    let data = db.default_keyspace();
    for round in 0..3 {
        for key in 0..200u32 {
            data.put(key.to_be_bytes(), format!("{what} {round}")).expect("a put");
        }
        data.flush().expect("a flush");
    }
    data.compact(..).expect("a compaction");
    db.close().expect("closing");
    drop(db);
    let db = Database::open_with(dir.path(), options.clone()).expect("opening");
    assert_eq!(db.default_keyspace().iter().count(), 200, "{what}");
    let value = db.default_keyspace().get(7u32.to_be_bytes()).expect("a get");
    assert_eq!(value.as_deref(), Some(format!("{what} 2").as_bytes()));
}

/// Whether this build has every codec that presets name.
const HAS_ALL_CODECS: bool =
    cfg!(all(feature = "lz4", feature = "snappy", feature = "zstd", feature = "lzma"));

/// The options work, or their error names a Cargo feature that this build is without.
fn work_or_name_a_feature(options: esker::Result<Options>, what: &str) {
    match options {
        Ok(options) => opens_writes_and_reads(&options, what),
        Err(error) => {
            assert!(!HAS_ALL_CODECS && error.to_string().contains("the Cargo feature"), "{what}: {error}");
        }
    }
}

#[test]
fn every_preset_opens_writes_and_reads() {
    for preset in Preset::ALL {
        work_or_name_a_feature(preset.options(), preset.name);
    }
}

#[test]
fn every_choice_of_the_cs265_parameters_opens_writes_and_reads() {
    for info in Cs265::list() {
        for value in info.allowed.split(", ").filter(|_| !info.allowed.starts_with("from ")) {
            let parameters = Cs265::default().set(info.name, value).expect("a value that is offered");
            work_or_name_a_feature(parameters.options(), value);
        }
    }
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the test writes what a user would")]
fn files_are_read_and_named() {
    let dir = TestDir::new("config-file");
    std::fs::create_dir_all(dir.path()).expect("a directory");
    let path = dir.path().join("esker.toml");
    let write = |bytes: &[u8]| std::fs::write(&path, bytes).expect("writing");
    write(b"memory_budget = \"64MiB\"");
    assert_eq!(Options::from_file(&path).expect("options").to_toml(), "memory_budget = \"64MiB\"\n");
    let told = || Options::from_file(&path).expect_err("something is wrong").to_string();
    write(b"\nx = 1");
    assert!(told().contains("esker.toml, line 2: there is no option x"), "{}", told());
    write(&vec![b'#'; 2 << 20]);
    assert!(told().contains("at most 1048576"), "{}", told());
    write(b"\xff");
    assert!(told().contains("not UTF-8"), "{}", told());
    assert!(Options::from_file(dir.path().join("none")).expect_err("it is missing").is_not_found());
}
