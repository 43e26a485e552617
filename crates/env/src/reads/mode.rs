//! Read modes of immutable files: page cache, direct or mapped.

use crate::aligned::AlignedFile;
use crate::fs::{File, FileSystem, OpenMode};
use esker_base::Result;
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

/// How immutable files are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ReadMode {
    /// By positioned calls, through the kernel's page cache.
    #[default]
    Positioned,
    /// Past the page cache, so that no block is cached twice and no page of other programs is evicted. Bytes
    /// in no cache of Esker are read from the device.
    Direct,
    /// As memory: uncompressed bytes are not copied. A device error ends the process by a signal, and an
    /// outside change of such a file changes results.
    Mapped,
}

impl ReadMode {
    /// All modes.
    pub const ALL: [ReadMode; 3] = [ReadMode::Positioned, ReadMode::Direct, ReadMode::Mapped];

    /// The name in options and reports.
    pub const fn name(self) -> &'static str {
        match self {
            ReadMode::Positioned => "positioned",
            ReadMode::Direct => "direct",
            ReadMode::Mapped => "mapped",
        }
    }

    /// Opens a file in this mode, readable at any offset and length. Where the file system has no direct
    /// reads or no maps, reads are positioned.
    ///
    /// # Errors
    /// As [`FileSystem::open`].
    pub fn open(self, fs: &dyn FileSystem, path: &Path) -> Result<Arc<dyn File>> {
        match self {
            ReadMode::Positioned => fs.open(path, OpenMode::Read),
            ReadMode::Direct => Ok(Arc::new(AlignedFile::over(fs.open(path, OpenMode::ReadDirect)?))),
            ReadMode::Mapped => fs.open(path, OpenMode::ReadMapped),
        }
    }
}

impl fmt::Display for ReadMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ReadMode {
    type Err = String;

    fn from_str(text: &str) -> Result<ReadMode, String> {
        let found = ReadMode::ALL.into_iter().find(|mode| mode.name() == text);
        found.ok_or_else(|| format!("files are read positioned, direct or mapped, not {text:?}"))
    }
}
