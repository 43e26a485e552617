//! Every preset consists of existing options and values, and works.

use super::*;
use esker_version::LevelIndex;

#[test]
fn every_preset_sets_what_it_says() {
    for preset in Preset::ALL {
        preset.options().unwrap().validate().unwrap_or_else(|error| panic!("{}: {error}", preset.name));
        assert!(preset.help.ends_with('.'), "{}", preset.name);
        // Its settings are applied, and differ from preset to preset.
        let values = preset.options().unwrap().keyspace.values();
        for (name, value) in preset.keyspace_settings() {
            let same = KeyspaceOptions::default().set(&name, &value).unwrap();
            let found = values.iter().find(|value| value.name == name).unwrap();
            assert_eq!(same.values().into_iter().find(|value| value.name == name).as_ref(), Some(found));
        }
        let of_its_name = Preset::ALL.iter().filter(|other| other.name == preset.name).count();
        assert_eq!(of_its_name, 1, "{}", preset.name);
    }
    let told = Options::preset("fast").unwrap_err().to_string();
    assert!(told.contains("there is no preset \"fast\"; there are cs265, "), "{told}");
}

#[test]
fn the_parameters_of_the_report_have_its_names_defaults_and_ranges() {
    let told: Vec<String> =
        Cs265::list().iter().map(|info| format!("{} {} {}", info.name, info.default, info.allowed)).collect();
    for line in [
        "buffer_size 1048576 from 65,536 to 16,777,216",
        "fanout 4 from 2 to 10",
        "compaction_policy Tiered Tiered, Leveled, LazyLeveled, Partial",
        "block_size 4096 from 512 to 65,536",
        "bloom_bits_per_key 10 from 4 to 20",
        "cache_size_mb 128 from 8 to 1,024",
        "compression LZ4 None, LZ4, Snappy, BitPack, Delta, Dictionary",
        "memtable_implementation Sharded Sharded, LockFree",
        "fence_pointers Standard Standard, FastLane, Eytzinger",
    ] {
        assert!(told.contains(&line.to_owned()), "{line}: {told:?}");
    }
    let named = Cs265::default().options().unwrap().keyspace.named_values();
    for (name, value) in [
        ("write_buffer_entries", "1048576"),
        ("strategy", "tiered:4"),
        ("block_size", "4KiB"),
        ("filter", "double-probe-bloom:10"),
        ("memtable", "sharded:16:64"),
        ("compression", "lz4"),
        ("compression_last", "lz4"),
        ("index_type", "sorted-array"),
    ] {
        assert!(named.contains(&(name.to_owned(), value.to_owned())), "{name}: {named:?}");
    }
}

/// The tables of 2.7.3 and 2.7.4, and that the last level has the strongest codec.
#[test]
fn compression_by_level_is_that_of_the_report() {
    for (preset, expected) in [
        ("cs265-by-level", ["lz4", "snappy", "snappy", "zstd:3", "zstd:3", "zstd:3", "zstd:10", "zstd:10"]),
        (
            "cs265-mixed-codecs",
            ["lz4", "snappy", "snappy", "zstd:3", "zstd:7", "zstd:19", "zstd:19", "zstd:19"],
        ),
    ] {
        let options = Options::preset(preset).unwrap().keyspace;
        let of_level = |level| options.compression.pick(level).to_string();
        let levels: Vec<String> = (0..8).map(|level| of_level(LevelIndex::new(level).unwrap())).collect();
        assert_eq!(levels, expected.map(str::to_owned), "{preset}");
        assert_eq!(of_level(LevelIndex::LAST), expected[7], "{preset}");
    }
}

/// The list in 4.7.1 of the report.
#[test]
fn the_configuration_that_the_report_found_best_is_whole() {
    let options = Options::preset("cs265-optimal").unwrap();
    // Values that are defaults are written shorter than they are set.
    let written = |options: &KeyspaceOptions, name: &str| {
        options.named_values().into_iter().find(|(other, _)| other == name).unwrap()
    };
    for (name, value) in [
        ("memtable", "skiplist"),
        ("write_buffer_size", "64MiB"),
        ("strategy", "tiered-leveled:4"),
        ("block_size", "4KiB"),
        ("compression", "adaptive:mode=speed:sample=1000"),
        ("compression_last", "adaptive:mode=speed:sample=1000"),
        ("filter_allocation", "dynamic:0.001,0.005,0.01,0.02,0.05,0.1,0.15,0.2"),
    ] {
        let asked = KeyspaceOptions::default().set(name, value).unwrap();
        assert_eq!(written(&options.keyspace, name), written(&asked, name));
    }
    let named = options.named_values();
    assert!(named.contains(&("cache_kind".to_owned(), "slots".to_owned())), "{named:?}");
}

/// Each word of the report means one of ours, and each a different one.
#[test]
fn the_words_of_the_report_mean_kinds_of_ours() {
    for (parameter, option, words) in [
        (
            "fence_pointers",
            "index_type",
            &[("Standard", "sorted-array"), ("FastLane", "fast-lane"), ("Eytzinger", "eytzinger")][..],
        ),
        (
            "compression",
            "compression",
            &[
                ("None", "none"),
                ("LZ4", "lz4"),
                ("Snappy", "snappy"),
                ("BitPack", "bit-packing"),
                ("Delta", "delta"),
                ("Dictionary", "dictionary"),
            ][..],
        ),
    ] {
        for (theirs, ours) in words {
            let named =
                Cs265::default().set(parameter, theirs).unwrap().options().unwrap().keyspace.named_values();
            assert!(named.contains(&(option.to_owned(), (*ours).to_owned())), "{theirs}: {named:?}");
        }
    }
    for profile in ["read-heavy", "range-heavy"] {
        let named = Options::preset(profile).unwrap().keyspace.named_values();
        assert!(named.contains(&("index_type".to_owned(), "eytzinger".to_owned())), "{profile}: {named:?}");
    }
}

#[test]
fn every_value_of_the_reports_parameters_is_one_of_ours() {
    for info in Cs265::list() {
        for value in [0, 1].into_iter().filter_map(|at| end_of(&info, at)) {
            let set = Cs265::default().set(info.name, &value).unwrap();
            set.options()
                .unwrap()
                .validate()
                .unwrap_or_else(|error| panic!("{} = {value}: {error}", info.name));
        }
    }
    for name in ["compaction_policy", "compression"] {
        let info = Cs265::list().into_iter().find(|info| info.name == name).unwrap();
        for value in info.allowed.split(", ") {
            let parameters = Cs265::default().set(name, value).unwrap();
            parameters.options().unwrap().validate().unwrap_or_else(|error| panic!("{value}: {error}"));
        }
    }
    let told = Cs265::default().set("fanout", "11").unwrap_err().to_string();
    assert!(told.contains("fanout is 11, it must be from 2 to 10"), "{told}");
    let told = Cs265::default().set("fanuot", "3").unwrap_err().to_string();
    assert!(told.contains("did you mean fanout?"), "{told}");
}

/// One end of a number's range.
fn end_of(info: &OptionInfo, at: usize) -> Option<String> {
    let range = info.allowed.strip_prefix("from ")?;
    range.split(" to ").nth(at).map(|end| end.replace(',', ""))
}

/// The table of the reports' values, beside this file.
const REPORTS: &str = include_str!("reports.md");

#[test]
fn presets_set_what_their_reports_say() {
    let rows: Vec<Vec<&str>> = REPORTS
        .lines()
        .filter(|line| line.starts_with("| byron") || line.starts_with("| csc443"))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    for preset in ["byron", "csc443", "csc443-basic"].map(|name| Preset::find(name).unwrap()) {
        let told: Vec<(&str, &str)> =
            rows.iter().filter(|row| row[0] == preset.name).map(|row| (row[1], row[2])).collect();
        assert_eq!(told, [preset.database, preset.keyspace].concat(), "{}", preset.name);
    }
    // A value without a place in its report says so.
    for row in &rows {
        let has_place = !row[4].is_empty();
        assert!(
            has_place || row[3].starts_with("no value: ") || row[3].starts_with("nothing is "),
            "{row:?}"
        );
    }
}
