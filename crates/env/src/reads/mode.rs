//! How files that nobody changes any more are read.

use crate::aligned::AlignedFile;
use crate::fs::{File, FileSystem, OpenMode};
use esker_base::Result;
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

/// How files that nobody changes any more are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ReadMode {
    /// By calls that name the place, through the kernel's page cache: what is not in a cache of our own may
    /// be there.
    #[default]
    Positioned,
    /// Past the page cache, so that memory is not used twice and nothing of other programs is pushed out of
    /// it. What is in no cache of our own is read from the device.
    Direct,
    /// As memory: nothing is copied that is not compressed. An error of the device ends the process by a
    /// signal, and whoever changes such a file from outside changes answers.
    Mapped,
}

impl ReadMode {
    /// All of them.
    pub const ALL: [ReadMode; 3] = [ReadMode::Positioned, ReadMode::Direct, ReadMode::Mapped];

    /// The name that people write.
    pub const fn name(self) -> &'static str {
        match self {
            ReadMode::Positioned => "positioned",
            ReadMode::Direct => "direct",
            ReadMode::Mapped => "mapped",
        }
    }

    /// Opens a file to be read so, any place and length of it. Where the file system has no direct reads or
    /// no maps, reads are positioned.
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
