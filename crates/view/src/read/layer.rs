//! Layers: the contents of a single level, to display a tree, not to answer queries.

use super::cursor::Cursor;
use super::range_tombstones::cover_of_layer;
use super::source::Source;
use crate::read::pinned::Pinned;
use crate::super_version::SuperVersion;
use esker_base::SeqNo;
use esker_iter::Reader;
use esker_version::LevelIndex;
use std::sync::Arc;

/// One level of a keyspace, or its memtables together, at one moment. It pins memtables and table files.
#[derive(Clone, Debug)]
pub struct Layer {
    view: Arc<SuperVersion>,
    seqno: SeqNo,
    reader: Reader,
    depth: usize,
    /// `None` for the memtables.
    level: Option<LevelIndex>,
}

impl Layer {
    /// The non-empty layers of a view, from memory downwards.
    pub fn all_of(mut pinned: Pinned) -> Vec<Layer> {
        let reader = pinned.reader();
        let (view, seqno) = (&pinned.view, pinned.seqno);
        let mut levels: Vec<LevelIndex> = view.tree.runs.iter().map(|run| run.level).collect();
        levels.dedup();
        let above_last = levels.iter().rfind(|level| !level.is_last()).map_or(0, |level| depth_of(*level));
        let depth = |level: LevelIndex| if level.is_last() { above_last + 1 } else { depth_of(level) };
        let layer = |depth, level| {
            let reader = reader.clone();
            Layer { view: view.to_arc(), seqno, reader, depth, level }
        };
        let memory = view.memtables().any(|view| !view.is_empty()).then(|| layer(0, None));
        memory.into_iter().chain(levels.into_iter().map(|level| layer(depth(level), Some(level)))).collect()
    }

    /// Its depth: memory 0, level 0 1, level 1 2 and so on; the last level, which has no number of its own,
    /// one deeper than the deepest non-empty level above it.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// A cursor over the pairs of this layer, whether or not a layer above it has newer ones or deletes them.
    pub fn cursor(&self) -> Cursor {
        let sources = Source::of_layer(&self.view, self.level);
        let cover = cover_of_layer(&self.view, self.level, self.seqno);
        Cursor::over(Arc::clone(&self.view), sources, cover, self.seqno, self.reader.clone())
    }
}

fn depth_of(level: LevelIndex) -> usize {
    usize::from(level.get()) + 1
}
