//! Configurations that are read, refused, and written.

use crate::{KeyspaceOptions, Options};
use esker_env::SeededRandom;

const WHOLE: &str = r#"
# A comment.
preset = "write-heavy"
memory_budget = "512MiB"
stall_limit = "10s"
compaction_threads = 2
create_if_missing = true
change_history_limit = 0x100

[keyspace_defaults]
block_size = 8192
compression = ["none", "lz4", "zstd:3"]

[keyspace.default]
bottommost_compression = "same"

[keyspace."users of \"x\""]
profile = "read-heavy"
block_size = "1KiB"
default_ttl = "30d"
blob_space_amp = 2.5
"#;

#[test]
fn a_whole_configuration_is_read() {
    let options = Options::from_toml(WHOLE).unwrap();
    let has = |values: Vec<(String, String)>, name: &str, value: &str| {
        assert!(values.contains(&(name.to_owned(), value.to_owned())), "{name} = {value}: {values:?}");
    };
    for (name, value) in [
        ("memory_budget", "512MiB"),
        ("stall_limit", "10s"),
        ("compaction_threads", "2"),
        ("change_history_limit", "256"),
    ] {
        has(options.named_values(), name, value);
    }
    for (name, value) in
        [("block_size", "8KiB"), ("strategy", "tiered:10"), ("compression", "none,lz4,zstd:3")]
    {
        has(options.keyspace.named_values(), name, value);
    }
    let users = options.named.applied("users of \"x\"", KeyspaceOptions::default()).unwrap();
    for (name, value) in [
        ("block_size", "1KiB"),
        ("strategy", "leveled:10"),
        ("default_ttl", "30d"),
        ("blob_space_amp", "2.5"),
    ] {
        has(users.named_values(), name, value);
    }
    has(options.default_keyspace().unwrap().named_values(), "compression_last", "same");
    let parameters = Options::from_toml("[cs265]\nfanout = 6\nblock_size = 512").unwrap();
    has(parameters.keyspace.named_values(), "strategy", "tiered:6");
    assert!(Options::from_toml("").unwrap().values().iter().all(|value| value.is_default));
}

#[test]
fn mistakes_are_reported_with_line_and_suggestion() {
    for (text, line, part) in [
        ("memory_budget = \"1MiB\"", 1, "memory_budget is 1 MiB, it must be at least 8 MiB"),
        ("\nmemory_bugdet = \"1GiB\"", 2, "there is no option memory_bugdet; did you mean memory_budget?"),
        (
            "block_size = 4096",
            1,
            "is an option of a keyspace, not of a database; it stands below [keyspace_defaults]",
        ),
        ("\n\nstall_limit = 10", 3, "a time with a unit is needed"),
        ("durability = [[1]]", 1, "durability is no text, number, or list of them"),
        ("a = ", 1, ""),
        ("stall_limit = \"1s\"\nstall_limit = \"2s\"", 2, "duplicate"),
        ("[keyspaces.x]\nblock_size = 512", 1, "did you mean [keyspace.NAME]?"),
        ("[strange]", 1, "there are [keyspace_defaults], [keyspace.NAME] and [cs265]"),
        ("[keyspace]\nblock_size = 512", 2, "options of all keyspaces stand below [keyspace_defaults]"),
        ("keyspace = 1", 1, "[keyspace.NAME] is a section"),
        ("[keyspace.a]\n\nblock_size = 1", 3, "block_size is 1 B, it must be from 512 B to 64 KiB"),
        (
            "[keyspace.a]\nstall_limit = \"1s\"",
            2,
            "stall_limit is an option of a database, not of a keyspace",
        ),
        ("[keyspace_defaults]\ncompression = [\"green\"]", 2, "\"green\" is no value of compression"),
        ("preset = \"green\"", 1, "there is no preset \"green\"; there are cs265"),
        ("preset = \"byron\"\nprofile = \"mixed\"", 2, "one preset only"),
        ("[cs265]\nfanout = 1", 2, "fanout is 1, it must be from 2 to 10"),
        (
            "[keyspace.a]\nmerge_operator = \"append:\\u002c\"\nwrite_buffer_size = -1",
            3,
            "\"-1\" is no value",
        ),
    ] {
        let told = Options::from_toml(text).unwrap_err().to_string();
        assert!(told.contains(&format!("line {line}: ")) && told.contains(part), "{text:?}: {told}");
    }
}

#[test]
fn hostile_texts_are_refused_without_harm() {
    let nested = format!("a = {}", "[".repeat(100_000));
    let keys = format!("{} = 1", vec!["a"; 50_000].join("."));
    for text in [nested.as_str(), &keys, "\0", "\u{feff}", "a", "=", "[", "[[keyspace]]\n", "\"\"=1"] {
        let _refused_or_not = Options::from_toml(text);
    }
    let random = SeededRandom::new(1);
    for _ in 0..2000 {
        // Truncated, and with a byte changed.
        let mut bytes = WHOLE.as_bytes()[..random.below(WHOLE.len() as u64) as usize].to_vec();
        if !bytes.is_empty() {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = random.below(128) as u8;
        }
        let _refused_or_not = Options::from_toml(&String::from_utf8(bytes).unwrap());
    }
}

#[test]
fn a_written_configuration_reads_back() {
    let random = SeededRandom::new(7);
    let words = |info: &crate::OptionInfo| {
        let words = info.allowed.split([' ', ',']).map(|word| word.trim_end_matches(';').to_owned());
        let sizes = [
            "4KiB",
            "16KiB",
            "8MiB",
            "3h",
            "17",
            "12345",
            "1.25",
            "append:\\n\"quoted\" # = [",
            "delta,flat",
        ];
        words.chain(sizes.map(str::to_owned)).collect::<Vec<String>>()
    };
    for _ in 0..300 {
        let mut options = Options::default();
        for info in Options::list().iter().chain(&KeyspaceOptions::list()) {
            let words = words(info);
            let word = &words[random.below(words.len() as u64) as usize];
            let set = match random.below(4) {
                0 => options.clone().set(info.name, word),
                1 => {
                    options.clone().keyspace.set(info.name, word).map(|k| options.clone().keyspace_options(k))
                }
                2 => options.clone().set_keyspace("a", info.name, word),
                _ => options.clone().set_keyspace("b \"c\"\n.d", info.name, word),
            };
            options = set.unwrap_or(options);
        }
        let text = options.to_toml();
        let again = Options::from_toml(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(again.to_toml(), text);
        assert_eq!(
            (again.values(), again.keyspace.values()),
            (options.values(), options.keyspace.values()),
            "{text}"
        );
        for name in ["a", "b \"c\"\n.d"] {
            let of = |options: &Options| options.named.applied(name, KeyspaceOptions::default()).unwrap();
            assert_eq!(of(&again), of(&options), "{text}");
        }
    }
    let whole = Options::from_toml(WHOLE).unwrap();
    assert_eq!(Options::from_toml(&whole.to_toml()).unwrap().to_toml(), whole.to_toml());
}
