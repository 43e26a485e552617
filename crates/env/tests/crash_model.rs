//! Random workloads against a model of the guarantee: at every cut and for every kind of crash, each sector
//! of a durably named file has its contents at the last sync or a later version, and a killed process loses
//! nothing.
#![allow(clippy::unwrap_used, reason = "a test may fail anywhere")]

use esker_env::fault::{Crash, Event, StrictFs};
use esker_env::{File, FileSystem, Mapping, OpenMode, Random, SeededRandom};
use std::collections::BTreeSet;
use std::sync::Arc;

const SECTOR: usize = 512;
const SECTORS: usize = 24;
const FILES: usize = 3;

/// Possible contents of each sector of a file after a power loss, the live version last; a version is the
/// number that fills the sector.
type Versions = Vec<Vec<u64>>;

/// One file of the workload.
struct Subject {
    file: Arc<dyn File>,
    map: Mapping,
}

fn path(file: usize) -> String {
    format!("/dir/{file}")
}

fn sector(version: u64) -> [u8; SECTOR] {
    let mut bytes = [0; SECTOR];
    for word in bytes.chunks_mut(8) {
        word.copy_from_slice(&version.to_le_bytes());
    }
    bytes
}

/// Runs a workload; returns the model's state after each event.
fn run(fs: &StrictFs, random: &SeededRandom, steps: usize) -> Vec<Vec<Versions>> {
    let mut model: Vec<Versions> = vec![vec![vec![0]; SECTORS]; FILES];
    let mut states = Vec::new();
    fs.create_dir_all("/dir".as_ref()).unwrap();
    fs.sync_dir("/".as_ref()).unwrap();
    let mut subjects = Vec::new();
    for file in 0..FILES {
        let file = fs.open(path(file).as_ref(), OpenMode::CreateNew).unwrap();
        assert!(file.allocate(0, (SECTORS * SECTOR) as u64, false).unwrap());
        file.sync_data().unwrap();
        let map = file.map_writable(SECTORS * SECTOR).unwrap();
        subjects.push(Subject { file, map });
    }
    fs.sync_dir("/dir".as_ref()).unwrap();
    fs.forget_trace();
    states.push(model.clone());
    for step in 1..=steps as u64 {
        let number = random.below(FILES as u64) as usize;
        let (subject, versions) = (&mut subjects[number], &mut model[number]);
        let first = random.below(SECTORS as u64) as usize;
        let count = 1 + random.below((SECTORS - first).min(6) as u64) as usize;
        match random.below(8) {
            0 => {
                subject.file.sync_data().unwrap();
                for versions in versions.iter_mut() {
                    let live = *versions.last().unwrap();
                    *versions = vec![live];
                }
            }
            choice => {
                let bytes = sector(step).repeat(count);
                if choice < 4 {
                    subject.map.write(first * SECTOR, &bytes);
                } else {
                    subject.file.write_at(&bytes, (first * SECTOR) as u64).unwrap();
                }
                for versions in &mut versions[first..first + count] {
                    versions.push(step);
                }
            }
        }
        states.push(model.clone());
    }
    states
}

fn read(fs: &StrictFs, file: usize) -> Vec<u8> {
    let file = fs.open(path(file).as_ref(), OpenMode::Read).unwrap();
    let mut bytes = vec![0; SECTORS * SECTOR];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(file.len().unwrap() as usize, bytes.len());
    bytes
}

/// Whether a sector is one of these versions, or the beginning of one before the rest of an older one: a
/// store into a mapping that the device read half done.
fn is_possible(found: &[u8], versions: &[u64]) -> bool {
    let whole: Vec<[u8; SECTOR]> = versions.iter().map(|&version| sector(version)).collect();
    let torn = |newer: usize| {
        let same = found.iter().zip(&whole[newer]).take_while(|(found, byte)| found == byte).count();
        whole[..newer].iter().any(|older| {
            let different = found.iter().zip(older).rposition(|(found, byte)| found != byte);
            different.is_none_or(|last| last < same)
        })
    };
    (0..whole.len()).any(|version| found == whole[version] || torn(version))
}

fn check(image: &StrictFs, model: &[Versions], crash: Crash, cut: usize, seed: u64) {
    for (file, sectors) in model.iter().enumerate() {
        for (number, (found, versions)) in read(image, file).chunks(SECTOR).zip(sectors).enumerate() {
            let live = *versions.last().unwrap();
            let possible = match crash {
                Crash::Process | Crash::PowerNoneLost => found == sector(live),
                Crash::PowerAllLost => found == sector(versions[0]),
                _ => is_possible(found, versions),
            };
            assert!(possible, "seed {seed}, cut {cut}, {crash:?}: sector {number} of file {file}");
        }
    }
}

#[test]
fn every_crash_at_every_cut_leaves_a_possible_state() {
    for seed in 1..=12 {
        let fs = StrictFs::new();
        let random = SeededRandom::new(seed);
        let states = run(&fs, &random, 60);
        assert_eq!(fs.trace_len() + 1, states.len());
        let mut replayer = fs.replayer();
        for (cut, model) in states.iter().enumerate() {
            for crash in [Crash::Process, Crash::PowerAllLost, Crash::PowerNoneLost] {
                check(&replayer.image(crash), model, crash, cut, seed);
            }
            for _ in 0..4 {
                let crash = Crash::PowerRandom { seed: random.next_u64() };
                let image = replayer.image(crash);
                check(&image, model, crash, cut, seed);
                // Surviving data is on the disk now, and stays there.
                let dump = |fs: &StrictFs| (0..FILES).map(|file| read(fs, file)).collect::<Vec<_>>();
                assert_eq!(dump(&image.crash(Crash::PowerAllLost)), dump(&image), "seed {seed}, cut {cut}");
            }
            if cut > 0 {
                // Killed, then power lost before anything was written back: the two crashes add up.
                let torn = replayer.image(Crash::ProcessTorn { keep_bytes: 700 });
                let crash = Crash::PowerRandom { seed: random.next_u64() };
                check_torn(&torn.crash(crash), &states[cut - 1], model, seed, cut);
            }
            replayer.step();
        }
    }
}

/// After a torn last event each sector has a version before it, after it, or torn in between.
fn check_torn(image: &StrictFs, before: &[Versions], after: &[Versions], seed: u64, cut: usize) {
    for file in 0..FILES {
        for (number, found) in read(image, file).chunks(SECTOR).enumerate() {
            let mut versions = before[file][number].clone();
            let newest = *after[file][number].last().unwrap();
            if !versions.contains(&newest) {
                versions.push(newest);
            }
            assert!(is_possible(found, &versions), "seed {seed}, cut {cut}: sector {number} of file {file}");
        }
    }
}

/// The same seed gives the same image, and different seeds give different ones.
#[test]
fn random_losses_are_a_function_of_their_seed() {
    let fs = StrictFs::new();
    run(&fs, &SeededRandom::new(3), 40);
    let image = |seed| {
        let image = fs.crash(Crash::PowerRandom { seed });
        (0..FILES).map(|file| read(&image, file)).collect::<Vec<_>>()
    };
    assert_eq!(image(5), image(5));
    let different: BTreeSet<_> = (0..20).map(image).collect();
    assert!(different.len() > 10, "{} of 20", different.len());
}

/// CP3 under SIGKILL: a thread that saw a record's publication and acknowledges leaves a trace in which every
/// store of the earlier records precedes the acknowledgement, at whichever event the process is cut.
#[test]
fn an_acknowledgement_comes_after_all_earlier_stores_of_other_threads() {
    use std::sync::atomic::{AtomicU64, Ordering};
    const RECORDS: u64 = 200;
    let fs = StrictFs::new();
    let file = fs.open("/log".as_ref(), OpenMode::CreateNew).unwrap();
    assert!(file.allocate(0, RECORDS * 8, false).unwrap());
    let mut map = file.map_writable((RECORDS * 8) as usize).unwrap();
    let visible = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for record in 1..=RECORDS {
                map.write((record as usize - 1) * 8, &record.to_le_bytes());
                visible.store(record, Ordering::Release);
            }
        });
        scope.spawn(|| {
            let mut acknowledged = 0;
            while acknowledged < RECORDS {
                let seen = visible.load(Ordering::Acquire);
                if seen > acknowledged {
                    acknowledged = seen;
                    fs.mark(seen);
                } else {
                    std::thread::yield_now();
                }
            }
        });
    });
    let mut replayer = fs.replayer();
    while replayer.step().is_some() {
        if replayer.last_event().and_then(Event::mark).is_none() {
            continue;
        }
        let acknowledged = *replayer.marks().last().unwrap();
        let image = replayer.image(Crash::Process);
        let mut bytes = vec![0; (acknowledged * 8) as usize];
        image.open("/log".as_ref(), OpenMode::Read).unwrap().read_exact_at(&mut bytes, 0).unwrap();
        for (index, record) in bytes.chunks(8).enumerate() {
            assert_eq!(record, (index as u64 + 1).to_le_bytes(), "acknowledged {acknowledged}");
        }
    }
    assert_eq!(replayer.marks().last(), Some(&RECORDS));
}
