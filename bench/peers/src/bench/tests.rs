//! The harness must find wrong answers, and none where there is none.

use super::{Bench, Choice, Result};
use crate::adapters::{self, Adapter, Fault};
use crate::data::{KeyForm, ValueForm};
use crate::record::Record;
use crate::settings::RunSettings;
use clap::Parser;
use std::path::{Path, PathBuf};

#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    settings: RunSettings,
}

fn directory(name: &str) -> PathBuf {
    let directory = std::env::temp_dir().join(format!("peers-bench-{name}-{}", std::process::id()));
    std::fs::remove_dir_all(&directory).ok();
    std::fs::create_dir_all(&directory).unwrap();
    directory
}

fn settings(directory: &Path, engine: &str) -> RunSettings {
    let (data, out) = (directory.join("data"), directory.join("records"));
    let small = "--records 3000 --operations 2000 --scans 300 --durable-writes 20 --batch 100 \
                 --max-seconds 60 --max-fill-seconds 60 --max-settle-seconds 0 --skip reopen";
    let arguments = ["peers", "--engine", engine, "--data"].into_iter().map(str::to_owned);
    let arguments =
        arguments.chain([data.display().to_string(), "--out".to_owned(), out.display().to_string()]);
    Arguments::parse_from(arguments.chain(small.split_whitespace().map(str::to_owned))).settings
}

fn run(settings: RunSettings, adapter: &'static Adapter) -> Result<u64> {
    Bench { adapter, ..Bench::new(settings)? }.run()
}

/// Static, because an adapter lives as long as the program.
static FAULTS: [(Fault, Adapter); 11] = Fault::ALL;

#[test]
fn every_fault_is_seen() {
    let directory = directory("faults");
    for (fault, adapter) in &FAULTS {
        let errors = run(settings(&directory, "btreemap"), adapter).unwrap();
        assert_eq!(errors > 0, *fault != Fault::Nothing, "{fault:?}: {errors} wrong results were seen");
    }
    std::fs::remove_dir_all(directory).unwrap();
}

/// Changes settings to a shape of data.
type Shape = fn(&mut RunSettings);

/// Shapes other than that of most tests, by the configurations that have them.
const SHAPES: [(&str, Shape); 4] = [
    ("kilobyte", |settings| (settings.key_bytes, settings.value_bytes) = (24, 1_000)),
    ("page", |settings| settings.value_bytes = 4_096),
    ("text", |settings| (settings.keys, settings.values) = (KeyForm::Text, ValueForm::Json)),
    ("log", |settings| {
        (settings.log, settings.gap_bits, settings.values) = (true, 20, ValueForm::Json);
        settings.threads = vec![1, 3];
    }),
];

/// The workload that sees a fault; the fill that all others use sees lost puts.
fn workload_that_sees(fault: Fault, is_log: bool) -> &'static str {
    match fault {
        Fault::Nothing => "_",
        Fault::PutIsLost => "fill_",
        Fault::GetFindsNothing | Fault::GetFindsAnother => "get_uniform",
        Fault::AbsentIsFound => "get_absent",
        Fault::MultiGetIsInAnotherOrder => "multi_get_32",
        Fault::ScanLeavesOut => "seek_10",
        Fault::BackwardScanLeavesOut => "scan_backward",
        Fault::OverwriteIsLost => "overwrite",
        Fault::DeleteIsIgnored | Fault::DeleteHitsAnother if is_log => "log_append",
        Fault::DeleteIsIgnored | Fault::DeleteHitsAnother => "delete",
    }
}

#[test]
fn every_fault_is_seen_in_every_shape() {
    let directory = directory("shape-faults");
    for (name, shape) in SHAPES {
        for (fault, adapter) in &FAULTS {
            let mut settings = settings(&directory, "btreemap");
            (settings.records, settings.threads) = (1_000, vec![1]);
            settings.skip.extend(["fill_power", "ycsb", "fill_batch", "first", "_100"].map(str::to_owned));
            shape(&mut settings);
            settings.only = vec![workload_that_sees(*fault, settings.log).to_owned()];
            // No log is updated.
            let is_seen = *fault != Fault::Nothing && !(settings.log && *fault == Fault::OverwriteIsLost);
            let errors = run(settings, adapter).unwrap();
            assert_eq!(errors > 0, is_seen, "{name}, {fault:?}: {errors} wrong results were seen");
        }
    }
    std::fs::remove_dir_all(directory).unwrap();
}

/// The workloads of a log alone, in which what the reads before them see is not seen.
#[test]
fn faults_are_seen_in_the_workloads_of_a_log() {
    let directory = directory("log-faults");
    for (workload, faults) in [
        ("log_append", [Fault::PutIsLost, Fault::DeleteIsIgnored, Fault::DeleteHitsAnother]),
        ("log_newest", [Fault::PutIsLost, Fault::DeleteIsIgnored, Fault::ScanLeavesOut]),
    ] {
        for fault in faults {
            let mut settings = settings(&directory, "btreemap");
            SHAPES[3].1(&mut settings);
            (settings.only, settings.scans) = (vec![workload.to_owned()], 1_000);
            let out = directory.join(format!("{workload}-{fault:?}"));
            settings.out = Some(out.clone());
            let (_, adapter) = FAULTS.iter().find(|(kind, _)| *kind == fault).unwrap();
            run(settings, adapter).unwrap();
            for record in Record::read(&out).unwrap().iter().filter(|record| record.workload == workload) {
                assert!(record.errors > 0, "{fault:?} in {workload}, {} threads", record.threads);
            }
        }
    }
    std::fs::remove_dir_all(directory).unwrap();
}

/// The last versions of what was put beside the gets are looked for, and each get is checked.
#[test]
fn faults_are_seen_in_gets_beside_puts() {
    let directory = directory("beside");
    for fault in [Fault::Nothing, Fault::OverwriteIsLost, Fault::GetFindsNothing, Fault::GetFindsAnother] {
        let mut settings = settings(&directory, "btreemap");
        // A tenth of a second or more, in which 2,000 puts are due; one in 97 is lost.
        (settings.only, settings.operations) = (vec!["get_beside_puts".to_owned()], 200_000);
        settings.max_seconds = 1.0;
        let out = directory.join(format!("{fault:?}"));
        settings.out = Some(out.clone());
        let (_, adapter) = FAULTS.iter().find(|(kind, _)| *kind == fault).unwrap();
        run(settings, adapter).unwrap();
        let records = Record::read(&out).unwrap();
        let record = records.iter().find(|record| record.workload == "get_beside_puts").unwrap();
        assert_eq!(record.errors > 0, fault != Fault::Nothing, "{fault:?}: {} errors", record.errors);
        assert!(record.note.starts_with("beside ") && record.samples == record.count, "{}", record.note);
    }
    std::fs::remove_dir_all(directory).unwrap();
}

/// As `beyond-memory` does, but for the limit, which needs root: one fill, in order.
#[test]
fn data_filled_in_order_are_kept_and_read_again() {
    let directory = directory("existing");
    for adapter in adapters::ADAPTERS.iter().filter(|adapter| ["esker", "lmdb"].contains(&adapter.name)) {
        let workloads_of = |change: fn(&mut RunSettings)| {
            let mut settings = settings(&directory, adapter.name);
            let out = directory.join("workloads");
            (settings.out, settings.ascending) = (Some(out.clone()), true);
            settings.only = ["fill_", "disk", "get_uniform", "scan_forward_first"].map(str::to_owned).into();
            SHAPES[2].1(&mut settings);
            change(&mut settings);
            assert_eq!(run(settings, adapter).unwrap(), 0, "{}", adapter.name);
            let workloads: Vec<String> =
                Record::read(&out).unwrap().into_iter().map(|record| record.workload).collect();
            std::fs::remove_file(out).unwrap();
            workloads
        };
        let filled = workloads_of(|settings| settings.keep = true);
        assert_eq!(filled.iter().filter(|name| name.starts_with("fill_")).collect::<Vec<_>>(), ["fill_seq"]);
        let read = workloads_of(|settings| settings.existing = true);
        assert!(read.iter().any(|name| name == "scan_forward_first"), "{read:?}");
        assert!(!read.iter().any(|name| name.starts_with("fill_") || name == "compaction"), "{read:?}");
    }
    let mut settings = settings(&directory.join("elsewhere"), "btreemap");
    settings.existing = true;
    let error = Bench::new(settings).unwrap().run().unwrap_err().to_string();
    assert!(error.contains("--keep"), "{error}");
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn every_engine_answers_correctly_in_every_shape() {
    let directory = directory("shapes");
    for (name, shape) in SHAPES {
        for adapter in adapters::ADAPTERS {
            let mut settings = settings(&directory, adapter.name);
            let out = directory.join(format!("{name}-{}", adapter.name));
            (settings.out, settings.records, settings.threads) = (Some(out.clone()), 1_000, vec![1]);
            settings.skip.extend(["fill_power", "ycsb_c", "after", "first", "_100"].map(str::to_owned));
            shape(&mut settings);
            let (is_log, threads) = (settings.log, settings.threads.clone());
            if adapter.name == "array" && (settings.values == ValueForm::Json) {
                assert!(run(settings, adapter).unwrap_err().to_string().contains("one length"));
                continue;
            }
            assert_eq!(run(settings, adapter).unwrap(), 0, "{} in {name}", adapter.name);
            let records = Record::read(&out).unwrap();
            let of = |workload: &str| {
                let records = records.iter().filter(|record| record.workload == workload);
                records.map(|record| record.threads).collect::<Vec<_>>()
            };
            let is_append = ["raw-write", "raw-map", "memcpy"].contains(&adapter.name);
            for workload in ["log_append", "log_newest"] {
                let is_expected = is_log && !is_append && adapter.takes_part(workload);
                assert_eq!(of(workload), if is_expected { threads.clone() } else { Vec::new() });
            }
            assert_eq!(of("overwrite").is_empty(), is_log || !adapter.takes_part("overwrite"));
        }
    }
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn every_engine_answers_correctly_and_has_rows() {
    let directory = directory("engines");
    for adapter in adapters::ADAPTERS {
        let mut settings = settings(&directory, adapter.name);
        let out = directory.join(adapter.name);
        settings.out = Some(out.clone());
        assert_eq!(run(settings, adapter).unwrap(), 0, "{}", adapter.name);
        let records = Record::read(&out).unwrap();
        let has = |workload: &str| records.iter().any(|record| record.workload == workload);
        for workload in
            ["fill_seq", "fill_random", "get_uniform", "multi_get_32", "scan_backward", "ycsb_e_after_a"]
        {
            let is_append = ["raw-write", "raw-map", "memcpy"].contains(&adapter.name);
            let is_expected = adapter.takes_part(workload) && (workload.starts_with("fill_") || !is_append);
            assert_eq!(has(workload), is_expected, "{workload} of {}", adapter.name);
        }
        assert!(has(crate::record::RUN_ENDED));
    }
    std::fs::remove_dir_all(directory).unwrap();
}

/// Peaks of memory are reported without it; see `Bench::drive`.
#[test]
fn memory_kept_for_the_next_workload_is_counted() {
    let directory = directory("chosen");
    let bench = Bench::new(settings(&directory, "btreemap")).unwrap();
    let lists = [(Choice::Uniform, 1000), (Choice::Zipf, 3000)];
    let lists = lists.map(|(choice, count)| bench.choose(choice, count, 1));
    let bytes: usize = lists.iter().map(|list| list.capacity() * size_of::<u32>()).sum();
    assert!(bench.chosen_bytes.take() == bytes && bytes >= 16_000);
    std::fs::remove_dir_all(directory).unwrap();
}

#[test]
fn invalid_settings_are_refused_with_the_allowed_ones() {
    let directory = directory("refused");
    let refused = |change: fn(&mut RunSettings)| {
        let mut settings = settings(&directory, "btreemap");
        change(&mut settings);
        Bench::new(settings).err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert!(refused(|settings| settings.key_bytes = 7).contains("8 to 64"));
    assert!(refused(|settings| settings.value_bytes = 7).contains("they have 8"));
    assert!(refused(|settings| settings.threads = vec![]).contains("1,2"));
    assert!(refused(|settings| settings.batch = 0).contains("at least 1"));
    assert!(refused(|settings| settings.engine = "oracle".to_owned()).contains("it has"));
    std::fs::remove_dir_all(directory).unwrap();
}
