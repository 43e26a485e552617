//! Properties of every option with a row, and the stored form from before there were rows.

use super::schema::{self, Scope};
use super::stored::{self, Field};
use super::*;
use esker_base::Error;
use esker_codec::Codec;
use esker_memtable::MemtableKind;
use esker_sst::BlockLayout;

/// Calls `check` with each option's name and `options` in which it alone differs from the default.
fn with_each_changed<O: Scope>(mut check: impl FnMut(&OptionInfo, &str, O)) {
    for info in schema::describe::<O>() {
        // Allowed values are in the description: a name, the end of a range or a word.
        let words = info.allowed.split([' ', ',']).map(|word| word.trim_end_matches(';'));
        let sizes = ["4KiB", "16KiB", "64KiB", "8MiB", "1GiB", "3h", "17"];
        let mut changed = 0;
        for text in words.chain(sizes) {
            let mut options = O::default();
            let accepted = schema::set(&mut options, info.name, text).is_ok();
            let now = value(&options, info.name);
            if accepted && now != info.default {
                changed += 1;
                check(&info, &now, options);
            } else if !accepted {
                assert_eq!(now, info.default, "{} = {text} was refused", info.name);
            }
        }
        assert!(changed > 0, "no other value of {} was found in {:?}", info.name, info.allowed);
    }
}

fn value<O: Scope>(options: &O, name: &str) -> String {
    schema::values(options).into_iter().find(|value| value.name == name).unwrap().text
}

fn each_option_is_its_own<O: Scope>() {
    let default = schema::values(&O::default());
    with_each_changed::<O>(|info, _, options| {
        for (before, after) in default.iter().zip(schema::values(&options)) {
            assert_eq!(*before == after, before.name != info.name, "{} changed {}", info.name, before.name);
        }
    });
}

#[test]
fn setting_an_option_changes_it_and_no_other() {
    each_option_is_its_own::<KeyspaceOptions>();
    each_option_is_its_own::<Options>();
}

fn texts_come_back<O: Scope>() {
    with_each_changed::<O>(|info, text, options| {
        for name in [info.name].iter().chain(info.aliases) {
            let mut again = O::default();
            schema::set(&mut again, name, text).unwrap();
            assert_eq!(schema::values(&again), schema::values(&options), "{name}");
        }
        let mut default = options;
        schema::set(&mut default, info.name, &info.default).unwrap();
        assert_eq!(schema::values(&default), schema::values(&O::default()), "{}", info.name);
    });
}

#[test]
fn a_value_that_is_shown_can_be_set_under_every_name() {
    texts_come_back::<KeyspaceOptions>();
    texts_come_back::<Options>();
}

#[test]
fn every_value_is_stored() {
    with_each_changed::<KeyspaceOptions>(|info, text, options| {
        assert_eq!(KeyspaceOptions::decode(&options.encode()).unwrap(), options, "{} = {text}", info.name);
    });
}

/// Commas inside a value are kept, in the stored form and in a file.
#[test]
fn weights_of_shards_come_back() {
    let mut options = KeyspaceOptions::default();
    schema::set(&mut options, "memtable", "sharded:4:64:1,2,1,4").unwrap();
    assert_eq!(value(&options, "memtable"), "sharded:4:64:1,2,1,4");
    assert_eq!(KeyspaceOptions::decode(&options.encode()).unwrap(), options);
    let all = Options::default().keyspace_options(options.clone());
    let again = Options::from_toml(&all.to_toml()).unwrap();
    assert_eq!(again.keyspace_defaults(), &options);
    let told = schema::set(&mut KeyspaceOptions::default(), "memtable", "sharded:4:64:1,2").unwrap_err();
    assert!(told.to_string().contains("2 weights for 4 shards"), "{told}");
}

#[test]
fn every_option_says_what_it_is() {
    for info in KeyspaceOptions::list().into_iter().chain(Options::list()) {
        assert!(info.help.ends_with('.') && info.help.len() < 120, "{}: {}", info.name, info.help);
        assert!(!info.default.is_empty() && !info.allowed.is_empty(), "{}", info.name);
        assert_eq!(info.scope == OptionScope::Keyspace, info.change.is_online(), "{}", info.name);
    }
}

/// The stored form of default options by builds before the table of options.
fn first_form() -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut text = |name, text| stored::put(&mut bytes, name, &Field::Text(text));
    text("memtable", "art");
    stored::put(&mut bytes, "write_buffer_size", &Field::Number(0));
    stored::put(&mut bytes, "write_buffer_entries", &Field::Number(0));
    stored::put(&mut bytes, "block_layout", &Field::Text("flat"));
    stored::put(&mut bytes, "block_layout_last", &Field::Text("flat"));
    stored::put(&mut bytes, "block_size", &Field::Number(4096));
    for (name, text) in [
        ("compression", "none"),
        ("compression_last", "lz4"),
        ("filter", "blocked-bloom:10"),
        ("strategy", "partitioned"),
    ] {
        stored::put(&mut bytes, name, &Field::Text(text));
    }
    stored::put(&mut bytes, "table_size", &Field::Number(0));
    stored::put(&mut bytes, "level0_stop_runs", &Field::Number(24));
    bytes
}

#[test]
fn the_first_stored_form_is_still_written_and_read() {
    assert_eq!(KeyspaceOptions::default().encode(), first_form());
    assert_eq!(KeyspaceOptions::decode(&first_form()).unwrap(), KeyspaceOptions::default());
    let mut bytes = first_form();
    stored::put(&mut bytes, "default_ttl_ms", &Field::Number(1500));
    stored::put(&mut bytes, "merge_operator", &Field::Text("append:, "));
    stored::put(&mut bytes, "blob_threshold", &Field::Number(1000));
    stored::put(&mut bytes, "blob_file_size", &Field::Number(1 << 20));
    stored::put(&mut bytes, "blob_space_amp_permille", &Field::Number(1250));
    let options = KeyspaceOptions::default()
        .default_ttl(Duration::from_millis(1500))
        .merge_operator(MergeOperator::append(", "))
        .blob_threshold(1000)
        .blob_file_size(1 << 20)
        .blob_space_amp(1.25);
    assert_eq!(KeyspaceOptions::decode(&bytes).unwrap(), options);
    assert_eq!(options.encode(), bytes);
}

/// An unset limit is stored as before, 24, and read as unset; a set one, 24 too, is read as set.
#[test]
fn a_set_limit_of_level_0_differs_from_an_unset_one() {
    for chosen in [None, Some(2), Some(23), Some(24), Some(25)] {
        let plain = KeyspaceOptions::default().strategy("tiered:32".parse().unwrap());
        let options = chosen.map_or(plain.clone(), |runs| plain.level0_stop_runs(runs));
        let read = KeyspaceOptions::decode(&options.encode()).unwrap();
        assert_eq!(read, options);
        assert_eq!(read.level0_limits().1, chosen.unwrap_or(36), "{chosen:?}");
        let named = options.named_values();
        let word = chosen.map_or("auto".to_owned(), |runs| runs.to_string());
        assert!(named.contains(&("level0_stop_runs".to_owned(), word)), "{named:?}");
    }
    let options = KeyspaceOptions::default().level0_stop_runs(24).set("level0_stop_runs", "auto").unwrap();
    assert_eq!(options, KeyspaceOptions::default());
}

#[test]
fn stored_form_round_trips() {
    let options = KeyspaceOptions::default()
        .memtable(MemtableKind::Skiplist)
        .write_buffer_size(1 << 20)
        .write_buffer_entries(77)
        .block_size(512)
        .block_layout(PerLevel::split(BlockLayout::Flat, BlockLayout::Delta))
        .compression(PerLevel::levels([Codec::None, Codec::Lz4, Codec::Zstd { level: 7 }]))
        .table_size(1 << 20)
        .level0_stop_runs(9)
        .merge_operator(MergeOperator::append(", "))
        .default_ttl(Duration::from_secs(3));
    assert_eq!(KeyspaceOptions::decode(&options.encode()).unwrap(), options);
}

#[test]
fn options_are_set_by_name() {
    let mut options = KeyspaceOptions::default();
    for (name, value) in KeyspaceOptions::default().table_size(1 << 20).block_size(512).named_values() {
        options = options.set(&name, &value).unwrap();
    }
    assert_eq!(options, KeyspaceOptions::default().table_size(1 << 20).block_size(512));
    let same = |name, value| KeyspaceOptions::default().set(name, value).unwrap();
    assert_eq!(same("default_ttl_ms", "1500"), same("ttl", "1.5s"));
    assert_eq!(same("blob_space_amp_permille", "1500"), same("blob_space_amp", "1.5"));
    assert_eq!(same("compression", " none, lz4,zstd"), same("compression_per_level", "none,lz4,zstd:3"));
}

#[test]
fn refused_values_are_named_with_the_allowed_ones() {
    let told = |name, value| KeyspaceOptions::default().set(name, value).unwrap_err().to_string();
    for (name, value, parts) in [
        ("colour", "green", &["no option colour; there are memtable, "][..]),
        ("blok_size", "1", &["did you mean block_size?"]),
        ("max_open_files", "1", &["max_open_files is an option of a database, not of a keyspace"]),
        ("block_size", "big", &["\"big\" is no value of block_size", "from 512 B to 64 KiB"]),
        ("block_size", "1", &["block_size is 1 B", "from 512 B to 64 KiB"]),
        ("block_size", "18446744073709551616", &["no value of block_size"]),
        ("compression", "green", &["\"green\" is no value of compression", "lz4"]),
        ("compression", "zstd:99", &["zstd has levels 1 to 22, not 99"]),
        ("default_ttl", "10", &["\"10\" is no value of default_ttl", "10s", "or none"]),
        ("table_size", "1 KiB", &["table_size is 1 KiB", "from 4 KiB to 4 GiB, or auto"]),
        ("level0_stop_runs", "1", &["level0_stop_runs is 1", "from 2 to 10,000"]),
    ] {
        let told = told(name, value);
        assert!(parts.iter().all(|part| told.contains(part)), "{told}");
    }
    let told = |name, value| Options::default().set(name, value).unwrap_err().to_string();
    for (name, value, part) in [
        ("memory_budget", "1MiB", "memory_budget is 1 MiB, it must be at least 8 MiB, or auto"),
        ("wal_segment_size", "20000", "multiple of 4096"),
        ("read_only", "perhaps", "it may be true or false"),
        ("durability", "high", "it may be none, process or power"),
        ("compaction_threads", "0", "it must be from 1 to 64"),
    ] {
        let told = told(name, value);
        assert!(told.contains(part), "{told}");
    }
}

#[test]
fn values_that_methods_set_are_validated_as_well() {
    let refused = |options: KeyspaceOptions, part: &str| {
        let told = options.validate().unwrap_err().to_string();
        assert!(told.contains(part), "{told}");
    };
    let options = KeyspaceOptions::default;
    refused(options().block_size(100), "block_size is 100 B, it must be from 512 B");
    refused(options().write_buffer_entries(0), "write_buffer_entries is 0");
    refused(options().default_ttl(Duration::ZERO), "default_ttl is 0 ms, it must be at least 1 ms");
    refused(options().compression(PerLevel::all(Codec::Zstd { level: 99 })), "levels 1 to 22");
    refused(options().blob_space_amp(1.0), "blob_space_amp is 1, it must be from 1.1 to 100");
    let told = Options::default().memory_budget(5).validate().unwrap_err().to_string();
    assert!(told.contains("memory_budget is 5 B"), "{told}");
}

#[test]
fn unknown_options_and_damaged_bytes_are_refused() {
    let with = |name: &str, field: Field<'_>| {
        let mut bytes = KeyspaceOptions::default().encode();
        stored::put(&mut bytes, name, &field);
        KeyspaceOptions::decode(&bytes).unwrap_err()
    };
    for (name, field) in [
        ("colour", Field::Text("green")),
        // Stored names only: others are for users.
        ("bottommost_compression", Field::Text("lz4")),
        ("block_size", Field::Text("4096")),
        ("block_size", Field::Number(1)),
        ("compression", Field::Number(1)),
        ("level0_stop_runs", Field::Number(u64::MAX)),
    ] {
        let error = with(name, field);
        assert!(matches!(&error, Error::Unsupported(text) if text.contains(name)), "{error}");
    }
    let bytes = KeyspaceOptions::default().encode();
    for len in 1..bytes.len() - 1 {
        // Truncated anywhere: refused, or a shorter list of whole fields.
        let _ = KeyspaceOptions::decode(&bytes[..len]);
    }
}
