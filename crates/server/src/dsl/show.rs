//! The answer to `s`: how many pairs there are, how many each level holds, and which.
//!
//! Counts by walking the data at one snapshot, once as readers see it and once level by level: the statistics
//! of tables count overwritten versions and tombstones too. The levels stay pinned until the answer is
//! complete, because a flush in between would move pairs to another level and show them twice or not at all.

use super::execute::{Executor, Progress, is_full};
use esker::metrics::Layer;
use esker::{Cursor, Keyspace, Snapshot};
use esker_protocol::{Layout, answer};

/// Entries walked between two chances to stop.
const PIECE_ENTRIES: u64 = 32 << 10;

#[derive(Debug)]
pub(super) struct Show {
    keyspaces: Vec<(Keyspace, Layout)>,
    snapshot: Snapshot,
    /// Remaining pairs of contents to show.
    limit: u64,
    logical: u64,
    /// The pairs of each level and keyspace, by level.
    sections: Vec<Section>,
    phase: Phase,
    /// Position of the walk: the keyspace or section, and the last key visited in it.
    at: usize,
    last: Option<Vec<u8>>,
    /// The level whose line of contents is unfinished.
    open_line: Option<usize>,
    /// Something was sent.
    begun: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    CountLogical,
    CountLevels,
    Contents,
}

#[derive(Debug)]
struct Section {
    layout: Layout,
    /// As printed: 0 is memory, the first level on disk is 1.
    level: usize,
    layer: Layer,
    pairs: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PieceEnd {
    /// At the end of the data.
    All,
    /// The piece is full.
    Piece,
}

impl Show {
    pub(super) fn new(executor: &Executor, limit: Option<u64>) -> Show {
        Show {
            keyspaces: executor.keyspaces(),
            snapshot: executor.database().snapshot(),
            limit: limit.unwrap_or(u64::MAX),
            logical: 0,
            sections: Vec::new(),
            phase: Phase::CountLogical,
            at: 0,
            last: None,
            open_line: None,
            begun: false,
        }
    }

    pub(super) fn advance(&mut self, out: &mut Vec<u8>) -> Progress {
        let before = out.len();
        let result = match self.phase {
            Phase::CountLogical => self.count_logical(),
            Phase::CountLevels => self.count_levels(out),
            Phase::Contents => self.contents(out),
        };
        match result {
            Ok(progress) => {
                self.begun |= out.len() > before;
                progress
            }
            Err(error) if self.begun => Progress::Broken(error),
            Err(error) => {
                out.truncate(before);
                answer::error(error, out);
                Progress::Finished
            }
        }
    }

    fn count_logical(&mut self) -> esker::Result<Progress> {
        let Some((keyspace, _)) = self.keyspaces.get(self.at) else {
            self.find_sections()?;
            self.start(Phase::CountLevels);
            return Ok(Progress::More);
        };
        let cursor = keyspace.at(&self.snapshot).cursor()?;
        let logical = &mut self.logical;
        let walked = walk(cursor, &mut self.last, |_, _| {
            *logical += 1;
            true
        })?;
        self.step(walked);
        Ok(Progress::More)
    }

    fn find_sections(&mut self) -> esker::Result<()> {
        for (keyspace, layout) in &self.keyspaces {
            for layer in keyspace.at(&self.snapshot).layers()? {
                let level = layer.depth();
                self.sections.push(Section { layout: *layout, level, layer, pairs: 0 });
            }
        }
        // Stable: within a level integers stay before strings.
        self.sections.sort_by_key(|section| section.level);
        Ok(())
    }

    fn count_levels(&mut self, out: &mut Vec<u8>) -> esker::Result<Progress> {
        let Some(section) = self.sections.get_mut(self.at) else {
            answer::logical_pairs(self.logical, out);
            let levels = self.sections.chunk_by(|a, b| a.level == b.level);
            let sums = levels.map(|level| (level[0].level, level.iter().map(|section| section.pairs).sum()));
            answer::levels(sums, out);
            self.start(Phase::Contents);
            return Ok(Progress::More);
        };
        let pairs = &mut section.pairs;
        let walked = walk(section.layer.cursor(), &mut self.last, |_, _| {
            *pairs += 1;
            true
        })?;
        self.step(walked);
        Ok(Progress::More)
    }

    fn contents(&mut self, out: &mut Vec<u8>) -> esker::Result<Progress> {
        let section = if self.limit == 0 { None } else { self.sections.get(self.at) };
        let Some(section) = section else {
            if self.open_line.is_some() {
                answer::end_of_line(out);
            }
            answer::end_of_line(out);
            return Ok(Progress::Finished);
        };
        let (layout, level) = (section.layout, section.level);
        let (limit, open_line) = (&mut self.limit, &mut self.open_line);
        let walked = walk(section.layer.cursor(), &mut self.last, |key, value| {
            match open_line.replace(level) {
                Some(open) if open == level => out.push(b' '),
                Some(_) => answer::end_of_line(out),
                None => {}
            }
            answer::pair_of_level(layout.key(key), layout.value(value), level, out);
            *limit -= 1;
            *limit > 0 && !is_full(out)
        })?;
        self.step(walked);
        Ok(Progress::More)
    }

    fn start(&mut self, phase: Phase) {
        self.phase = phase;
        self.at = 0;
        self.last = None;
    }

    fn step(&mut self, walked: PieceEnd) {
        if walked == PieceEnd::All {
            self.at += 1;
            self.last = None;
        }
    }
}

/// Shows entries after `last` to `visit`, until it returns false or the piece is full, and leaves in `last`
/// the key to continue after.
fn walk(
    mut cursor: Cursor,
    last: &mut Option<Vec<u8>>,
    mut visit: impl FnMut(&[u8], &[u8]) -> bool,
) -> esker::Result<PieceEnd> {
    match last {
        None => cursor.seek_to_first()?,
        Some(last) => {
            cursor.seek(&*last)?;
            if cursor.entry().is_some_and(|(key, _)| key == last.as_slice()) {
                cursor.advance()?;
            }
        }
    }
    let mut visited = 0;
    while let Some((key, value)) = cursor.entry() {
        visited += 1;
        if !visit(key, value) || visited == PIECE_ENTRIES {
            *last = Some(key.to_vec());
            return Ok(PieceEnd::Piece);
        }
        cursor.advance()?;
    }
    Ok(PieceEnd::All)
}
