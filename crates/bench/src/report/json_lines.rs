//! Results as JSON, one object a line, for programs.

use super::Report;
use super::rows::{AmplificationRow, MemoryBoundRow, MemoryRow, MergeRow, OverwriteRow, Row};
use serde::Serialize;
use std::io::{self, Write};

/// Prints one JSON object a line.
#[derive(Debug)]
pub struct JsonLines<W, N> {
    out: W,
    notes: N,
}

impl<W: Write, N: Write> JsonLines<W, N> {
    /// Results go to `out`, notes to `notes` as plain text.
    pub fn new(out: W, notes: N) -> JsonLines<W, N> {
        JsonLines { out, notes }
    }

    fn object(&mut self, object: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, object)?;
        writeln!(self.out)?;
        self.out.flush()
    }
}

impl<W: Write, N: Write> Report for JsonLines<W, N> {
    fn note(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.notes, "{text}")
    }

    fn row(&mut self, row: &Row) -> io::Result<()> {
        self.object(row)
    }

    fn amplification(&mut self, row: &AmplificationRow) -> io::Result<()> {
        self.object(row)
    }

    fn merge(&mut self, row: &MergeRow) -> io::Result<()> {
        self.object(row)
    }

    fn overwrite(&mut self, row: &OverwriteRow) -> io::Result<()> {
        self.object(row)
    }

    fn memory_bound(&mut self, row: &MemoryBoundRow) -> io::Result<()> {
        self.object(row)
    }

    fn memory(&mut self, row: &MemoryRow) -> io::Result<()> {
        self.object(row)
    }
}
