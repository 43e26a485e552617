use super::*;
use crate::host::create_directory;
use std::collections::HashSet;

fn mixed() -> DslWorkload {
    DslWorkload {
        puts: 2_000,
        gets: 1_000,
        ranges: 100,
        deletes: 300,
        gets_misses_ratio: 0.3,
        gets_skewness: 0.2,
        ..DslWorkload::default()
    }
}

/// Each operation beside whether a get finds its key, by a plain set.
fn replay(workload: &DslWorkload) -> (Vec<Operation>, Counts, Counts) {
    let mut operations = workload.operations().expect("the settings are valid");
    let made: Vec<Operation> = operations.by_ref().collect();
    let (mut stored, mut asked, mut seen) = (HashSet::new(), HashSet::new(), Counts::default());
    for operation in &made {
        match operation {
            Operation::Put { key, .. } => {
                stored.insert(*key);
                seen.puts += 1;
            }
            Operation::Get { key } => {
                if stored.contains(key) {
                    seen.hits += 1;
                } else {
                    seen.misses += 1;
                }
                seen.repeated += u64::from(!asked.insert(*key));
            }
            Operation::Range { .. } => seen.ranges += 1,
            Operation::Delete { key } => {
                assert!(stored.remove(key), "a delete of a key that is not stored");
                seen.deletes += 1;
            }
        }
    }
    (made, operations.counts(), seen)
}

#[test]
fn counts_and_shares_are_exact() {
    let (made, told, seen) = replay(&mixed());
    assert_eq!(made.len(), 3_400);
    assert_eq!((seen.puts, seen.ranges, seen.deletes), (2_000, 100, 300));
    assert_eq!((seen.hits, seen.misses), (700, 300));
    assert_eq!((told.hits, told.misses, told.puts), (700, 300, 2_000));
    // A few fresh hits draw a key that was read before.
    assert!(told.repeated >= 190 && told.repeated <= 200, "{told:?}");
    assert!(seen.repeated >= told.repeated && seen.repeated < 500, "{seen:?}");
}

#[test]
fn operations_of_all_kinds_are_mixed_over_the_whole_file() {
    let (made, ..) = replay(&mixed());
    for part in made.chunks(850) {
        let gets = part.iter().filter(|operation| matches!(operation, Operation::Get { .. })).count();
        assert!((150..350).contains(&gets), "{gets} gets of 850 operations");
    }
}

#[test]
fn equal_seeds_give_equal_operations_and_others_do_not() {
    let (first, ..) = replay(&mixed());
    assert_eq!(first, replay(&mixed()).0);
    assert_ne!(first, replay(&DslWorkload { seed: 2, ..mixed() }).0);
}

#[test]
fn puts_come_first_if_they_are_to() {
    let (made, ..) = replay(&DslWorkload { puts_first: true, ..mixed() });
    assert!(made.iter().take(2_000).all(|operation| matches!(operation, Operation::Put { .. })));
}

#[test]
fn numbers_and_ranges_stay_within_their_limits() {
    for range_starts in [RangeStarts::Uniform, RangeStarts::Gaussian] {
        let workload =
            DslWorkload { range_starts, ranges: 5_000, max_number: 10_000, max_range_size: 50, ..mixed() };
        let (made, ..) = replay(&workload);
        let mut starts = Vec::new();
        for operation in made {
            match operation {
                Operation::Put { key, value } => assert!(key.abs() <= 10_000 && value.abs() <= 10_000),
                Operation::Range { start, end } => {
                    assert!(start >= -10_000 && end <= 10_001 && end > start && end - start <= 50);
                    starts.push(start);
                }
                _ => {}
            }
        }
        let inner = starts.iter().filter(|start| start.abs() < 3_333).count();
        // Within one deviation of the middle lie 68 % of a normal distribution, and a third of a uniform one.
        let share = inner as f64 / starts.len() as f64;
        let expected = if range_starts == RangeStarts::Gaussian { 0.68 } else { 0.33 };
        assert!((share - expected).abs() < 0.04, "{range_starts:?}: {share}");
    }
}

#[test]
fn impossible_settings_are_refused_by_name() {
    let refused = |workload: DslWorkload| workload.operations().map(|_| ()).unwrap_err().to_string();
    assert!(refused(DslWorkload { gets_misses_ratio: 1.5, ..mixed() }).contains("gets-misses-ratio is 1.5"));
    assert!(refused(DslWorkload { gets_skewness: f64::NAN, ..mixed() }).contains("gets-skewness is NaN"));
    assert!(refused(DslWorkload { max_range_size: 0, ..mixed() }).contains("max-range-size is 0"));
    assert!(refused(DslWorkload { max_number: -1, ..mixed() }).contains("max-number is -1"));
    assert!(refused(DslWorkload { puts: 0, ..mixed() }).contains("no puts"));
    assert!(
        refused(DslWorkload { max_number: 1_000, ..mixed() }).contains("more than half of the 2001 keys")
    );
}

#[test]
fn deletes_of_everything_leave_gets_that_miss() {
    let workload =
        DslWorkload { puts: 5, deletes: 50, gets: 50, gets_misses_ratio: 0.5, ..DslWorkload::default() };
    let made: Vec<Operation> = workload.operations().expect("the settings are valid").collect();
    assert_eq!(made.len(), 105);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test reads the files that it had written")]
fn files_of_puts_hold_every_pair_and_are_loaded_in_order() {
    let directory = std::env::temp_dir().join(format!("esker-external-{}", std::process::id()));
    create_directory(&directory).expect("a directory for temporary files");
    let workload = DslWorkload { puts: 25, gets: 10, puts_first: true, ..DslWorkload::default() };
    let mut files = ExternalFiles::new(&directory, 10).expect("a plain name");
    let mut out = Vec::new();
    let made: Vec<Operation> = workload.operations().expect("the settings are valid").collect();
    for operation in &made {
        files.take(*operation, &mut out).expect("the file is written");
    }
    files.finish(&mut out).expect("the file is written");
    let text = String::from_utf8(out).expect("commands are text");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3 + 10);
    let mut pairs = Vec::new();
    for line in lines.iter().take(3) {
        let path =
            line.strip_prefix("l \"").and_then(|rest| rest.strip_suffix('"')).expect("a command that loads");
        pairs.extend(
            esker_protocol::pairs::decode(&std::fs::read(path).expect("the file is there"))
                .collect::<Vec<_>>(),
        );
    }
    let puts = made.iter().filter_map(|operation| match operation {
        Operation::Put { key, value } => Some((*key as i32, *value as i32)),
        _ => None,
    });
    assert_eq!(pairs, puts.collect::<Vec<_>>());
    std::fs::remove_dir_all(&directory).expect("the directory is removed");
    let wide = Operation::Put { key: 1 << 40, value: 0 };
    assert!(files.take(wide, &mut Vec::new()).unwrap_err().to_string().contains("32-bit"));
    assert!(ExternalFiles::new(std::path::Path::new("a\"b"), 1).unwrap_err().to_string().contains("quotes"));
}
