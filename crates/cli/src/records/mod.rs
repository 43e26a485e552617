//! Files of pairs: what `dump` writes and `load` reads.
//!
//! A reader returns pairs with their line numbers, so that errors can name the line; after a bad pair it
//! continues behind it. Whatever a writer writes, its reader reads back to the same bytes.

mod csv;
mod jsonl;
mod lines;
mod pairs;
mod tsv;

use crate::args::{FileFormat, Shape};
use crate::failure::Failure;
use std::io::{self, Read, Write};
use std::path::Path;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

#[derive(Debug)]
pub(crate) enum ReadError {
    /// The line, or in a binary file the pair, with this number is wrong. Reading can go on.
    Bad {
        /// Counted from one.
        number: u64,
        reason: String,
    },
    /// The file cannot be read any further.
    Io(io::Error),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> ReadError {
        ReadError::Io(error)
    }
}

pub(crate) trait RecordReader {
    /// The next pair, `None` at the end.
    fn next(&mut self) -> Result<Option<Record>, ReadError>;

    /// Number of the line, or in a binary file of the pair, that was read last.
    fn number(&self) -> u64;

    fn position(&self) -> u64;
}

pub(crate) trait RecordWriter {
    fn write(&mut self, out: &mut dyn Write, key: &[u8], value: &[u8]) -> Result<(), Failure>;
}

impl FileFormat {
    pub(crate) fn of(path: &Path) -> Option<FileFormat> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "csv" => Some(FileFormat::Csv),
            "tsv" | "tab" => Some(FileFormat::Tsv),
            "jsonl" | "ndjson" => Some(FileFormat::Jsonl),
            "pairs" | "bin" => Some(FileFormat::Pairs),
            _ => None,
        }
    }

    /// The unit of its numbers: line or pair.
    pub(crate) fn unit(self) -> &'static str {
        if self == FileFormat::Pairs { "pair" } else { "line" }
    }

    /// A reader for a file in this format. `shape` says how keys and values are written in it.
    pub(crate) fn reader<'a>(
        self,
        input: Box<dyn Read + 'a>,
        shape: &Shape,
        header: bool,
    ) -> Box<dyn RecordReader + 'a> {
        match self {
            FileFormat::Csv => Box::new(csv::Reader::new(input, shape, header)),
            FileFormat::Tsv => Box::new(tsv::Reader::new(input, shape, header)),
            FileFormat::Jsonl => Box::new(jsonl::Reader::new(input, shape)),
            FileFormat::Pairs => Box::new(pairs::Reader::new(input)),
        }
    }

    pub(crate) fn writer(self, shape: &Shape) -> Box<dyn RecordWriter> {
        let shape = shape.clone();
        match self {
            FileFormat::Csv => Box::new(csv::Writer { shape }),
            FileFormat::Tsv => Box::new(tsv::Writer { shape }),
            FileFormat::Jsonl => Box::new(jsonl::Writer { shape }),
            FileFormat::Pairs => Box::new(pairs::Writer),
        }
    }

    /// The line that names the columns, if the format can have one.
    pub(crate) fn header(self) -> Option<&'static str> {
        match self {
            FileFormat::Csv => Some("key,value"),
            FileFormat::Tsv => Some("key\tvalue"),
            FileFormat::Jsonl | FileFormat::Pairs => None,
        }
    }
}

/// The pair that two fields of a text file encode.
fn parse_fields(shape: &Shape, number: u64, key: &[u8], value: &[u8]) -> Result<Record, ReadError> {
    let bad = |what: &str, reason: String| ReadError::Bad { number, reason: format!("{what}: {reason}") };
    Ok(Record {
        key: shape.key.parse(key).map_err(|reason| bad("key", reason))?,
        value: shape.value.parse(value).map_err(|reason| bad("value", reason))?,
    })
}

#[cfg(test)]
mod tests;
