//! Readers of an open: the block cache, the table cache and the queue of reads, in their share of the memory.

use super::Opening;
use crate::state::scheduler::WorkerPool;
use esker_base::Result;
use esker_env::{AsyncReads, Background, ReadQueue};
use esker_options::default_open_tables;
use esker_sst::{OpenTables, TableCache};
use esker_view::tree::{OpenAmount, RequestCleanup, TableFiles};
use std::sync::Arc;

impl Opening {
    pub(super) fn table_files(&self) -> Result<Arc<TableFiles>> {
        let capacity = usize::try_from(self.memory.budget_bytes / 2).unwrap_or(usize::MAX);
        let cache = TableCache::of_kind(self.options.cache_kind, capacity, &self.env.clock)
            .with_scan_percent(self.options.cache_scan_percent);
        let tables = self.options.max_open_tables;
        let limit = OpenAmount {
            tables: tables.unwrap_or_else(|| default_open_tables(esker_env::host::open_files_limit())),
            bytes: self.memory.table_metadata_bytes(),
        };
        let (env, scheduler) = (self.env.clone(), Arc::clone(&self.scheduler));
        let request_cleanup = RequestCleanup::new(move || scheduler.request(WorkerPool::Log));
        // In stepped mode one seeded thread does everything, and nothing may depend on the timing of others.
        let is_stepped = matches!(env.background, Background::Stepped { .. });
        let way = if is_stepped { AsyncReads::Off } else { self.options.async_reads };
        let (queue, memory) = (ReadQueue::new(way, &env)?, Arc::clone(&env.memory));
        let tables = OpenTables::with_choices(Arc::new(cache), self.options.cache_filters, queue, memory);
        let reads = self.options.table_reads;
        let files = TableFiles::new(env, self.dir.clone(), tables, reads, request_cleanup, limit);
        files.rates.set(self.options.background_rates);
        Ok(files)
    }
}
