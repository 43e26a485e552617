//! Results of a run: rows, and the two forms in which they are printed.

use crate::settings::Workload;
use std::io;

mod json_lines;
mod rows;
mod table;

pub use json_lines::JsonLines;
pub use rows::{AmplificationRow, MemoryBoundRow, MemoryRow, MergeRow, OverwriteRow, Row, SecondRow};
pub use table::Table;

/// Receives results.
pub trait Report {
    /// The workload with this number, from 1, of so many begins. With `false` it is left out, and all behind
    /// it.
    fn begins(&mut self, _workload: Workload, _number: usize, _workloads: usize) -> bool {
        true
    }
    /// The workload has ended.
    fn ends(&mut self) {}
    /// A remark.
    fn note(&mut self, text: &str) -> io::Result<()>;
    /// A row of results.
    fn row(&mut self, row: &Row) -> io::Result<()>;
    /// Results of large values.
    fn amplification(&mut self, row: &AmplificationRow) -> io::Result<()>;
    /// Results of the merge loop.
    fn merge(&mut self, row: &MergeRow) -> io::Result<()>;
    /// Results of sustained overwriting.
    fn overwrite(&mut self, row: &OverwriteRow) -> io::Result<()>;
    /// Anonymous memory in one phase of the memory bound.
    fn memory_bound(&mut self, row: &MemoryBoundRow) -> io::Result<()>;
    /// The memory use, at the end.
    fn memory(&mut self, row: &MemoryRow) -> io::Result<()>;
}
