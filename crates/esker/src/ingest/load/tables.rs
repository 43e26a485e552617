//! Table output of a bulk load: ascending entries, cut into files of the last level's size.

use crate::ingest::new_files::NewFiles;
use esker_base::{FileNumber, Result, TableUid, Tag};
use esker_build::filters::TableFilter;
use esker_build::table_sink::part_of;
use esker_codec::Codec;
use esker_engine::state::keyspace::KeyspaceState;
use esker_engine::state::shape;
use esker_engine::state::store::Store;
use esker_env::OpenMode;
use esker_options::KeyspaceOptions;
use esker_sst::{BlockBounds, BlockLayout, IndexKind, TableOptions, TableWriter};
use esker_strategy::StrategyOptions;
use esker_version::{LevelIndex, PartMeta};
use esker_view::paths;
use std::sync::Arc;

/// The purpose of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// They become part of the keyspace, in the last level if nothing conflicts.
    Stay,
    /// They are read once, to be merged: neither compressed nor with filters.
    Pass,
}

/// Writes ascending entries into tables.
#[derive(Debug)]
pub(super) struct Tables {
    store: Arc<Store>,
    keyspace: Arc<KeyspaceState>,
    options: Arc<KeyspaceOptions>,
    cuts: StrategyOptions,
    purpose: Purpose,
    /// Bytes of the keyspace's last level when the load began: tables get the size that they would have
    /// there.
    last_level_bytes: u64,
    open: Option<LoadingTable>,
    done: Vec<PartMeta>,
    done_bytes: u64,
    files: NewFiles,
}

#[derive(Debug)]
struct LoadingTable {
    writer: TableWriter,
    number: FileNumber,
    uid: TableUid,
    /// The size at which it ends.
    table_bytes: u64,
}

impl Tables {
    pub(super) fn new(store: &Arc<Store>, keyspace: &Arc<KeyspaceState>, purpose: Purpose) -> Tables {
        let options = keyspace.options();
        let version = &keyspace.view.load().tree.version;
        Tables {
            cuts: shape::strategy_options(store, &options),
            last_level_bytes: version.level(LevelIndex::LAST).map_or(0, |last| last.bytes()),
            store: Arc::clone(store),
            keyspace: Arc::clone(keyspace),
            options,
            purpose,
            open: None,
            done: Vec::new(),
            done_bytes: 0,
            files: NewFiles::new(store),
        }
    }

    /// Adds an entry whose key is greater than all before.
    #[inline]
    pub(super) fn add(&mut self, key: &[u8], tag: Tag, value: &[u8]) -> Result<()> {
        if let Some(open) = &self.open
            && open.writer.estimated_file_bytes() >= open.table_bytes
        {
            self.finish_table()?;
        }
        let open = match &mut self.open {
            Some(open) => open,
            None => self.begin_table()?,
        };
        open.writer.add(key, tag, value)
    }

    #[cold]
    fn begin_table(&mut self) -> Result<&mut LoadingTable> {
        let store = &self.store;
        // Closing waits while a file is created, and after closing none is.
        let _activity = store.activity.read_recursive();
        store.check_open()?;
        self.keyspace.check_living()?;
        let factory = &store.writing()?.tables;
        let (number, uid) = (factory.take_file_number(), TableUid(store.env.random.next_u64()));
        let file = store.env.fs.open(&self.files.add(number), OpenMode::CreateNew)?;
        let stays = self.purpose == Purpose::Stay;
        let options = &self.options;
        let filter = if stays { TableFilter::standing_alone(options) } else { TableFilter::NONE };
        let table_options = TableOptions {
            layout: if stays { options.block_layout.last() } else { BlockLayout::Flat },
            codec: if stays { options.compression.last() } else { Codec::None },
            filter: filter.policy,
            filter_bits: filter.bits,
            index: if stays { options.block_index } else { IndexKind::STree },
            bounds: if stays { options.block_bounds } else { BlockBounds::Never },
            db_uuid: factory.db_uuid,
            uid,
            keyspace: self.keyspace.id,
            level: LevelIndex::LAST.get(),
            created_ms: store.env.clock.wall_ms(),
            ..options.table_options()
        };
        let mut writer = TableWriter::new(file, table_options)?;
        writer.set_memory(&store.env.memory);
        let table_bytes = self.cuts.table_bytes(self.last_level_bytes + self.done_bytes);
        Ok(self.open.insert(LoadingTable { writer, number, uid, table_bytes }))
    }

    #[cold]
    fn finish_table(&mut self) -> Result<()> {
        let Some(LoadingTable { writer, number, uid, .. }) = self.open.take() else { return Ok(()) };
        let summary = writer.finish()?;
        let factory = &self.store.writing()?.tables;
        let created_ms = self.store.env.clock.wall_ms();
        let part = part_of(&summary, factory.take_part_id(), number, uid, created_ms);
        self.done_bytes += part.bytes;
        self.done.push(part);
        Ok(())
    }

    /// Completes the last table. All are durable then, their names not yet.
    pub(super) fn finish(mut self) -> Result<FinishedTables> {
        self.finish_table()?;
        Ok(FinishedTables { parts: self.done, files: self.files })
    }
}

/// Tables in key order, without common keys. Their files are deleted on drop.
#[derive(Debug)]
pub(super) struct FinishedTables {
    pub(super) parts: Vec<PartMeta>,
    pub(super) files: NewFiles,
}

impl FinishedTables {
    pub(super) fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).sum()
    }

    pub(super) fn entries(&self) -> u64 {
        self.parts.iter().map(|part| part.entries).sum()
    }

    /// Makes the names durable.
    pub(super) fn sync_names(&self, store: &Store) -> Result<()> {
        store.env.fs.sync_dir(&paths::tables(&store.dir))
    }
}
