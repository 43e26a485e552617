//! The file `CURRENT`, which names the current manifest, and the names of manifest files.
//!
//! Four lines of readable text:
//!
//! ```text
//! esker 1
//! MANIFEST-000007
//! 0123456789abcdef0123456789abcdef
//! 89abcdef
//! ```
//!
//! format, manifest, database uuid, CRC-32C of everything before the last line.

use crate::state::DatabaseUuid;
use esker_base::checksum::crc32c;
use esker_base::{Error, FileNumber, Result};
use esker_env::{FileSystem, OpenMode};
use std::path::Path;

/// The file that names the manifest; renaming it into place is the commit point of an open (RC1).
pub const CURRENT_NAME: &str = "CURRENT";
/// Where it is written before it is renamed. An orphan if found at open.
pub const CURRENT_TEMPORARY_NAME: &str = "CURRENT.tmp";
/// The lock file of a database directory; its existence does not mean that there is a database.
pub const LOCK_NAME: &str = "LOCK";

const FIRST_LINE: &str = "esker 1";
const MANIFEST_PREFIX: &str = "MANIFEST-";
/// Longer than any `CURRENT` can be.
const MAX_LEN: usize = 256;

/// The name of a manifest file.
pub fn manifest_name(number: FileNumber) -> String {
    format!("{MANIFEST_PREFIX}{number:0>6}", number = number.get())
}

/// The number of a manifest file; `None` for other names.
pub fn parse_manifest_name(name: &str) -> Option<FileNumber> {
    let number = FileNumber::stored(name.strip_prefix(MANIFEST_PREFIX)?.parse().ok()?)?;
    (manifest_name(number) == name).then_some(number)
}

/// The content of `CURRENT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Current {
    /// The current manifest.
    pub manifest: FileNumber,
    /// The database.
    pub uuid: DatabaseUuid,
}

impl Current {
    /// Encodes the file.
    pub fn encode(&self) -> String {
        let uuid: String = self.uuid.iter().map(|byte| format!("{byte:02x}")).collect();
        let text = format!("{FIRST_LINE}\n{}\n{uuid}\n", manifest_name(self.manifest));
        let crc = crc32c(text.as_bytes());
        format!("{text}{crc:08x}\n")
    }

    /// Decodes the file; the error is a reason.
    pub fn decode(bytes: &[u8]) -> Result<Current, &'static str> {
        let text = std::str::from_utf8(bytes).map_err(|_| "it is not text")?;
        let body = text.strip_suffix('\n').ok_or("its last line is not ended")?;
        let crc_at = body.rfind('\n').ok_or("it has a single line")? + 1;
        let (signed, crc) = body.split_at(crc_at);
        if crc != format!("{:08x}", crc32c(signed.as_bytes())) {
            return Err("its checksum does not match");
        }
        let mut lines = signed.lines();
        if lines.next() != Some(FIRST_LINE) {
            return Err("its format is not known");
        }
        let manifest =
            lines.next().and_then(parse_manifest_name).ok_or("its second line names no manifest")?;
        let uuid = lines.next().and_then(parse_uuid).ok_or("its third line is no uuid")?;
        if lines.next().is_some() { Err("it has too many lines") } else { Ok(Current { manifest, uuid }) }
    }

    /// Reads the file of a database directory; `None` if there is none.
    ///
    /// # Errors
    /// Corruption if its content is not what was written.
    pub fn read(fs: &dyn FileSystem, dir: &Path) -> Result<Option<Current>> {
        let path = dir.join(CURRENT_NAME);
        let file = match fs.open(&path, OpenMode::Read) {
            Err(error) if error.is_not_found() => return Ok(None),
            opened => opened?,
        };
        let mut bytes = [0; MAX_LEN];
        let len = file.read_at(&mut bytes, 0)?;
        let current = Current::decode(&bytes[..len]);
        current.map(Some).map_err(|reason| Error::corruption(path, 0, reason))
    }
}

fn parse_uuid(text: &str) -> Option<DatabaseUuid> {
    if text.len() != 32 || !text.is_ascii() {
        return None;
    }
    let mut uuid = [0; 16];
    for (byte, digits) in uuid.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(uuid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_is_noticed() {
        let current = Current { manifest: FileNumber(7), uuid: *b"0123456789abcdef" };
        let text = current.encode();
        assert_eq!(Current::decode(text.as_bytes()), Ok(current));
        for at in 0..text.len() {
            assert!(Current::decode(&text.as_bytes()[..at]).is_err());
            for bit in 0..8 {
                let mut bytes = text.clone().into_bytes();
                bytes[at] ^= 1 << bit;
                assert!(Current::decode(&bytes).is_err(), "byte {at} bit {bit}");
            }
        }
    }

    #[test]
    fn manifest_names() {
        assert_eq!(manifest_name(FileNumber(7)), "MANIFEST-000007");
        for number in [0, 7, 999_999, 1_000_000, FileNumber::MAX_STORED.get()] {
            assert_eq!(parse_manifest_name(&manifest_name(FileNumber(number))), Some(FileNumber(number)));
        }
        for name in [
            "MANIFEST-7",
            "MANIFEST-+00007",
            "MANIFEST-",
            "MANIFEST-0000007",
            "MANIFEST-18446744073709551615",
            "manifest-000007",
        ] {
            assert_eq!(parse_manifest_name(name), None, "{name}");
        }
    }
}
