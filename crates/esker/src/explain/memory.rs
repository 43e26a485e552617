//! Explanation of memory: what the process holds, by part, beside the budget.

use super::text::bytes;
use super::{Explanation, Figure, Step};
use crate::Database;
use crate::report::metrics::MemoryMetrics;

/// Of the budget, the share in use from which on it is called full.
const FULL_PERCENT: u64 = 95;

impl Database {
    /// Where the memory of this process is: the parts of this database, beside the budget, and the rest,
    /// which is the program's. Their sum is the anonymous memory that the system tells; mapped pages of the
    /// log, which count against the budget, are listed beside it.
    ///
    /// A part that was reserved and never touched is not in memory yet: then the parts are more than what the
    /// system tells, and the rest is 0.
    pub fn explain_memory(&self) -> Explanation {
        explain(&self.metrics().memory)
    }
}

/// A part of the memory.
struct MemoryPart {
    name: &'static str,
    bytes: u64,
    /// What makes it smaller.
    advice: &'static str,
}

/// The anonymous memory of a database and of the process's blocks.
fn parts_of(memory: &MemoryMetrics) -> Vec<MemoryPart> {
    let part = |name, bytes, advice| MemoryPart { name, bytes, advice };
    // Blocks of filters and index pages in the cache lie outside of the memory for blocks.
    let blocks = memory.process_block_bytes.max(memory.cache_bytes);
    vec![
        part("block cache", memory.cache_bytes, "A smaller memory_budget makes it smaller."),
        part(
            "blocks that cursors, values and other databases hold",
            blocks - memory.cache_bytes,
            "Values and cursors hold their blocks until they are dropped.",
        ),
        part(
            "block memory kept for the next blocks",
            memory.process_idle_block_bytes,
            "It is used by the next blocks, and partly returned while nothing is cached.",
        ),
        part(
            "memtables, and their memory kept for reuse",
            memory.memtable_bytes - memory.pinned_memtable_bytes,
            "A flush empties memtables; a smaller write_buffer makes them smaller.",
        ),
        part(
            "flushed memtables that readers hold",
            memory.pinned_memtable_bytes,
            "Dropping the oldest cursors, ranges and snapshots frees them.",
        ),
        part(
            "indexes and filters of open tables",
            memory.table_metadata_bytes,
            "Fewer open tables (max_open_tables), larger blocks or fewer filter bits make them smaller.",
        ),
        part("read ahead of scans", memory.read_ahead_bytes, "It ends with the scans."),
        part("flushes and merges", memory.job_bytes, "It ends with the jobs."),
        part("large values being written", memory.large_value_bytes, "It ends with the writes."),
        part("bulk loads", memory.loading_bytes, "It ends with the loads."),
    ]
}

fn explain(memory: &MemoryMetrics) -> Explanation {
    let parts = parts_of(memory);
    let known: u64 = parts.iter().map(|part| part.bytes).sum();
    let anonymous = memory.process_anonymous_bytes.unwrap_or(known);
    let mut root = Step::new("process, anonymous memory", "");
    root.add(Figure::MemoryBytes, anonymous);
    let step = |name: &str, bytes: u64| Step::new(name, "").with(Figure::MemoryBytes, bytes);
    let mut database = step("Esker", known);
    database.add(Figure::LimitBytes, memory.budget_bytes);
    let shown = parts.iter().filter(|part| part.bytes > 0);
    database.steps = shown.map(|part| step(part.name, part.bytes)).collect();
    root.steps.push(database);
    root.steps.push(step("the program, its allocator and its threads", anonymous.saturating_sub(known)));
    if memory.process_anonymous_bytes.is_none() {
        root.outcome = "this system does not tell the process's memory; Esker's parts alone".to_owned();
    } else if known > anonymous {
        root.outcome =
            format!("of Esker's parts {} were reserved and not touched yet", bytes(known - anonymous));
    }
    let mapped = Step::new("beside it, pages of files: log, mapped", "");
    root.steps.push(mapped.with(Figure::MappedBytes, memory.log_mapped_bytes));
    Explanation { root, conclusion: conclusion(memory, anonymous, known, &parts) }
}

fn conclusion(memory: &MemoryMetrics, anonymous: u64, known: u64, parts: &[MemoryPart]) -> String {
    let rest = anonymous.saturating_sub(known);
    let used = memory.used_bytes();
    let budget = format!("{} of the budget of {} are used", bytes(used), bytes(memory.budget_bytes));
    let Some(most) = parts.iter().max_by_key(|part| part.bytes).filter(|part| part.bytes >= rest) else {
        return format!("{budget}. Most of the process's memory is the program's own: {}.", bytes(rest));
    };
    if used * 100 >= memory.budget_bytes * FULL_PERCENT {
        return format!("{budget}: the budget is full, most of it {}. {}", most.name, most.advice);
    }
    format!("{budget}, most of it {}: {}. {}", most.name, bytes(most.bytes), most.advice)
}
