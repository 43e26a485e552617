//! Every decoder over its corpus, over fresh valid encodings, and over seeded mutations of both.
//!
//! A failure prints the target and the input in hexadecimal. Keep such an input: put it into the target's
//! corpus under a name that says what it showed.

use esker_env::{FileSystem, OpenMode, SeededRandom, StdFileSystem};
use esker_testkit::decoders::{ALL, Decoder, mutate::mutate};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

fn corpus_dir(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name)
}

/// File names and contents of a target's corpus.
fn corpus(name: &str) -> Vec<(String, Vec<u8>)> {
    let fs = StdFileSystem;
    let dir = corpus_dir(name);
    let files = fs.list(&dir).unwrap_or_else(|error| panic!("the corpus of {name}: {error}"));
    let read = |file: &str| {
        let file = fs.open(&dir.join(file), OpenMode::Read).expect("it was listed");
        let mut bytes = vec![0; file.len().expect("it is open") as usize];
        file.read_exact_at(&mut bytes, 0).expect("it is as long as it says");
        bytes
    };
    files.into_iter().map(|entry| (entry.name.clone(), read(&entry.name))).collect()
}

/// Mutations of each target; some seconds for all of them. Long runs are the fuzzer's job.
const MUTATIONS: usize = 25_000;

thread_local! {
    /// Largest allocation of this thread since it was last set to zero.
    static LARGEST_REQUEST: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator with a maximum recorded: damaged bytes must not cause a large allocation.
struct Watched;

fn note(bytes: usize) {
    // Missing while the thread ends, when nothing is measured.
    let _ = LARGEST_REQUEST.try_with(|largest| largest.set(largest.get().max(bytes)));
}

// SAFETY: every method passes its arguments to the system's allocator unchanged, so its guarantees hold.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller upholds the contract of this method, which is that of the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        note(new_size);
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, new_size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Watched = Watched;

/// Largest allocation that a target may make: some copies of the input, and what the targets permit
/// themselves (blocks of a mebibyte, error texts that quote the longest key).
fn permitted_request(input: &[u8]) -> usize {
    (2 << 20) + 64 * input.len()
}

/// Runs a target; returns whether it accepts the input, or panics with the input.
fn run(decoder: &Decoder, input: &[u8], origin: &str) -> bool {
    LARGEST_REQUEST.set(0);
    let answer = catch_unwind(AssertUnwindSafe(|| (decoder.accepts)(input)));
    let largest = LARGEST_REQUEST.get();
    let hex = || input.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    match answer {
        Ok(accepted) => {
            let permitted = permitted_request(input);
            assert!(
                largest <= permitted,
                "{}, {origin}: {largest} bytes allocated at once, {permitted} permitted\ninput {}",
                decoder.name,
                hex()
            );
            accepted
        }
        Err(_) => panic!("{}, {origin}: panicked, see above\ninput {}", decoder.name, hex()),
    }
}

/// Files named `valid-*` were written by a released or committed encoder and must stay readable; those named
/// `hostile-*` claim more than they contain and must be refused.
#[test]
fn the_corpus_is_handled_and_its_valid_part_accepted() {
    for decoder in ALL {
        let files = corpus(decoder.name);
        let valid = files.iter().filter(|(name, _)| name.starts_with("valid-")).count();
        assert!(valid >= 8, "{} has {valid} valid files in its corpus", decoder.name);
        for (name, bytes) in files {
            let accepted = run(decoder, &bytes, &name);
            assert!(accepted || !name.starts_with("valid-"), "{}: {name} is refused", decoder.name);
            assert!(!accepted || !name.starts_with("hostile-"), "{}: {name} is accepted", decoder.name);
        }
    }
}

#[test]
fn every_valid_encoding_is_accepted() {
    let seed = 0x5eed_0060;
    for decoder in ALL {
        let random = SeededRandom::new(seed);
        for round in 0..300 {
            let bytes = (decoder.valid)(&random);
            let origin = format!("valid encoding {round} of seed {seed:#x}");
            assert!(run(decoder, &bytes, &origin), "{}: refused {origin}", decoder.name);
        }
    }
}

/// Every prefix and every flipped bit of a few encodings.
#[test]
fn truncations_and_flips_are_survived() {
    let seed = 0x5eed_0061;
    for decoder in ALL {
        let random = SeededRandom::new(seed);
        let mut inputs = 0;
        while inputs < 4000 {
            let bytes = (decoder.valid)(&random);
            for len in 0..bytes.len() {
                run(decoder, &bytes[..len], "truncated");
            }
            for bit in (0..bytes.len() * 8).take(3000) {
                let mut flipped = bytes.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                run(decoder, &flipped, "flipped");
            }
            inputs += bytes.len() * 9;
        }
    }
}

#[test]
fn mutations_are_survived() {
    let seed = 0x5eed_0062;
    println!("seed {seed:#x}");
    for decoder in ALL {
        let random = SeededRandom::new(seed);
        let mut pool: Vec<Vec<u8>> = corpus(decoder.name).into_iter().map(|(_, bytes)| bytes).collect();
        pool.extend((0..50).map(|_| (decoder.valid)(&random)));
        let pick = || random.below(pool.len() as u64) as usize;
        let mut accepted = 0;
        for round in 0..MUTATIONS {
            let input = mutate(&pool[pick()], &pool[pick()], &random);
            accepted += usize::from(run(decoder, &input, &format!("mutation {round} of seed {seed:#x}")));
        }
        println!("{}: {accepted} of {MUTATIONS} mutations accepted", decoder.name);
        assert!(accepted < MUTATIONS, "{}: nothing is ever refused", decoder.name);
    }
}
