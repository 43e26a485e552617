//! Fuzz target for the catalog of a backup, read as `Backups::list` reads it.

use esker::backup::Backups;
use esker_base::checksum::crc32c;
use esker_env::fault::StrictFs;
use esker_env::{Env, FileSystem, OpenMode, Random, SeededRandom};
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

/// The target; see [`accepts`].
pub fn target(bytes: &[u8]) {
    accepts(bytes);
}

/// Whether the bytes are a catalog, as they are or with the checksum repaired.
///
/// # Panics
/// If a backup is listed with another number of tables than the catalog has lines for.
pub fn accepts(bytes: &[u8]) -> bool {
    let repaired = std::str::from_utf8(bytes).ok().map(repaired);
    let repaired = repaired.is_some_and(|text| lists(text.as_bytes()));
    lists(bytes) || repaired
}

/// The text with the checksum that its last line should have.
fn repaired(text: &str) -> String {
    let body = text.strip_suffix('\n').unwrap_or(text);
    let signed = &body[..body.rfind('\n').map_or(0, |at| at + 1)];
    format!("{signed}crc {:08x}\n", crc32c(signed.as_bytes()))
}

fn lists(bytes: &[u8]) -> bool {
    let fs = StrictFs::new();
    let dir = Path::new("/b/000001");
    let put = || {
        fs.create_dir_all(dir)?;
        fs.open(&dir.join("BACKUP"), OpenMode::CreateNew)?.write_at(bytes, 0)
    };
    put().expect("the file system is in memory");
    match Backups::with_env("/b", Env::simulated(Arc::new(fs), 1)).list() {
        Ok(listed) => {
            let lines = bytes
                .split(|&byte| byte == b'\n')
                .filter(|line| line.starts_with(b"table ") || line.starts_with(b"blob "))
                .count();
            assert_eq!(listed.iter().map(|backup| backup.tables).collect::<Vec<_>>(), [lines as u64]);
            true
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            false
        }
    }
}

/// A catalog of a few tables.
pub fn valid(random: &SeededRandom) -> Vec<u8> {
    let mut text = format!(
        "esker backup 1\ncreated {}\nseqno {}\nentries {}\n",
        random.below(1 << 42),
        random.below(1 << 56),
        random.below(1 << 40)
    );
    for _ in 0..random.below(5) {
        let (number, bytes) = (random.below(1000), random.below(1 << 30));
        let (uid, checksum) = (random.next_u64(), random.next_u64());
        let kind = ["table", "blob"][random.below(2) as usize];
        writeln!(text, "{kind} {number} {uid:016x} {bytes} {checksum:016x}").expect("strings do not fail");
    }
    let crc = crc32c(text.as_bytes());
    writeln!(text, "crc {crc:08x}").expect("strings do not fail");
    text.into_bytes()
}
