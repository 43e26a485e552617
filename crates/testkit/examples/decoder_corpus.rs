//! Writes the seed corpus of the fuzz targets: valid encodings, from a fixed seed.
//!
//! `cargo run -p esker-testkit --example decoder_corpus` adds what is missing in `fuzz/corpus` and never
//! changes a file that is there: a committed encoding is a promise that later versions read it.

#![expect(clippy::print_stdout, reason = "it tells a person what it wrote")]

use esker_base::Result;
use esker_env::{FileSystem, OpenMode, SeededRandom, StdFileSystem};
use esker_testkit::decoders::{ALL, codec};
use std::path::Path;

/// Files for each target.
const FILES: usize = 20;

/// Files for the filters, of which there are many kinds.
const FILES_OF_FILTERS: usize = 100;

/// Files for blocks: among the last ones are some in which entries of one length have no offsets.
const FILES_OF_BLOCKS: usize = 60;

/// Shortest and longest file: seeds are there to be mutated, small ones do it faster, tiny ones show nothing.
const LENGTHS: std::ops::RangeInclusive<usize> = 8..=4096;

fn main() -> Result<()> {
    let fs = StdFileSystem;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for decoder in ALL {
        let dir = root.join(decoder.name);
        fs.create_dir_all(&dir)?;
        let random = SeededRandom::new(0xc0_4505);
        let mut encodings =
            std::iter::repeat_with(|| (decoder.valid)(&random)).filter(|one| LENGTHS.contains(&one.len()));
        let files = match decoder.name {
            "filter" => FILES_OF_FILTERS,
            "block" => FILES_OF_BLOCKS,
            _ => FILES,
        };
        for number in 0..files {
            let Some(bytes) = encodings.next() else { break };
            add(&dir.join(format!("valid-{number:02}")), &bytes)?;
        }
    }
    for (name, bytes) in codec::seeds::valid() {
        add(&root.join("codec").join(name), &bytes)?;
    }
    for (name, bytes) in codec::seeds::hostile() {
        add(&root.join("codec").join(format!("hostile-{name}")), &bytes)?;
    }
    Ok(())
}

/// Writes a file if it is not there.
fn add(path: &Path, bytes: &[u8]) -> Result<()> {
    let fs = StdFileSystem;
    if fs.file_len(path)?.is_none() {
        fs.open(path, OpenMode::CreateNew)?.write_at(bytes, 0)?;
        println!("{} ({} bytes)", path.display(), bytes.len());
    }
    Ok(())
}
