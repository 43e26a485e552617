//! Binary files of puts for the command `l`: little-endian 32-bit keys and values, as CS265's generator
//! writes them.

use super::Operation;
use crate::error::BenchError;
use crate::host;
use esker_protocol::pairs;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Pairs of a file: 8 MB, which a server loads in well under a second.
pub const PAIRS_PER_FILE: u64 = 1_000_000;

/// Writes puts into files `0.dat`, `1.dat` and so on of one directory.
#[derive(Debug)]
pub struct ExternalFiles {
    directory: PathBuf,
    pairs_per_file: u64,
    files: u64,
    open: Option<OpenFile>,
}

#[derive(Debug)]
struct OpenFile {
    path: PathBuf,
    writer: BufWriter<File>,
    pairs: u64,
}

impl ExternalFiles {
    /// Files in `directory`, which is made if it is missing. Files of earlier calls are replaced.
    ///
    /// # Errors
    /// [`BenchError::Settings`] if the directory's name cannot be written in a command: it is not UTF-8, or
    /// holds a quote, a backslash or a line end. [`BenchError::Io`] if it cannot be made.
    pub fn new(directory: &Path, pairs_per_file: u64) -> Result<ExternalFiles, BenchError> {
        let is_plain =
            |text: &str| !text.contains(['"', '\\']) && !text.chars().any(|letter| letter.is_control());
        if !directory.to_str().is_some_and(is_plain) {
            return Err(BenchError::Settings(format!(
                "the directory {} cannot be named in a command of the text protocol; choose a name without quotes, backslashes \
                 and control characters",
                directory.display()
            )));
        }
        host::create_directory(directory)?;
        let pairs_per_file = pairs_per_file.max(1);
        Ok(ExternalFiles { directory: directory.into(), pairs_per_file, files: 0, open: None })
    }

    /// Takes the next operation and writes to `out` what must stand in the file of commands for it: nothing
    /// for a put, until its file is full or another kind of operation follows.
    ///
    /// # Errors
    /// If a file or `out` cannot be written, or a number needs more than 32 bits.
    pub fn take(&mut self, operation: Operation, out: &mut dyn Write) -> Result<(), BenchError> {
        let Operation::Put { key, value } = operation else {
            self.finish(out)?;
            writeln!(out, "{operation}")?;
            return Ok(());
        };
        let narrow = |number: i64| {
            i32::try_from(number).map_err(|_| {
                BenchError::Settings(format!("files of pairs hold 32-bit integers, and {number} is none"))
            })
        };
        let pair = pairs::encode(narrow(key)?, narrow(value)?);
        let file = match &mut self.open {
            Some(file) => file,
            None => {
                let path = self.directory.join(format!("{}.dat", self.files));
                self.files += 1;
                let writer = BufWriter::new(host::create_file(&path)?);
                self.open.insert(OpenFile { path, writer, pairs: 0 })
            }
        };
        file.writer.write_all(&pair)?;
        file.pairs += 1;
        if file.pairs == self.pairs_per_file {
            self.finish(out)?;
        }
        Ok(())
    }

    /// Ends the open file and writes the command that loads it.
    ///
    /// # Errors
    /// If the file or `out` cannot be written.
    pub fn finish(&mut self, out: &mut dyn Write) -> Result<(), BenchError> {
        if let Some(mut file) = self.open.take() {
            file.writer.flush()?;
            writeln!(out, "l \"{}\"", file.path.display())?;
        }
        Ok(())
    }
}
