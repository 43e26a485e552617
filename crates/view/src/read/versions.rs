//! All versions of one key, newest first, from every source: the slow path, for entries whose value depends
//! on older ones, and for queries about versions.

use crate::read::range_tombstones::cover_at;
use crate::read::run_cursor::RunCursor;
use crate::super_version::SuperVersion;
use crate::tree::{Access, TreeRun};
use esker_base::{Result, SeqNo, Tag, checksum};
use esker_iter::Cursor;
use esker_sst::{ObservedReads, ReadPurpose};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Passes the versions of `key` at or below `seqno` to `visit` until it breaks. Sources that cannot hold the
/// key are not opened.
pub fn visit_versions(
    view: &SuperVersion,
    key: &[u8],
    seqno: SeqNo,
    mut visit: impl FnMut(Tag, &[u8]) -> Result<ControlFlow<()>>,
) -> Result<()> {
    let cover = cover_at(view, key, seqno)?;
    // Everything older is deleted as well, in this source and those behind it.
    let mut visit = |tag: Tag, value: &[u8]| {
        ObservedReads::note_version();
        if tag.seqno() < cover { Ok(ControlFlow::Break(())) } else { visit(tag, value) }
    };
    let hash = checksum::key_hash(key);
    for memtable in view.memtables() {
        let flow = match &memtable.ingested {
            None => visit_source(&mut memtable.memtable.cursor(), key, seqno, &mut visit)?,
            Some(run) => visit_run(run, key, hash, seqno, &mut visit)?,
        };
        if flow.is_break() {
            return Ok(());
        }
    }
    for run in &view.tree.runs {
        if visit_run(run, key, hash, seqno, &mut visit)?.is_break() {
            return Ok(());
        }
    }
    Ok(())
}

fn visit_run(
    run: &Arc<TreeRun>,
    key: &[u8],
    hash: u64,
    seqno: SeqNo,
    visit: &mut impl FnMut(Tag, &[u8]) -> Result<ControlFlow<()>>,
) -> Result<ControlFlow<()>> {
    let Some(part) = run.part_for(key) else { return Ok(ControlFlow::Continue(())) };
    // Kept until the cursor is done, so that it finds the table open.
    let table = part.file.table(Access::Use)?;
    if !table.may_contain(hash) {
        return Ok(ControlFlow::Continue(()));
    }
    let purpose = if ObservedReads::is_on() { ReadPurpose::Observed } else { ReadPurpose::Scan };
    let mut cursor = RunCursor::new(Arc::clone(run), purpose);
    visit_source(&mut cursor, key, seqno, visit)
}

fn visit_source(
    cursor: &mut impl Cursor,
    key: &[u8],
    seqno: SeqNo,
    visit: &mut impl FnMut(Tag, &[u8]) -> Result<ControlFlow<()>>,
) -> Result<ControlFlow<()>> {
    cursor.seek(key, seqno)?;
    while cursor.is_valid() && cursor.key() == key {
        if visit(cursor.tag(), cursor.value())?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        cursor.next()?;
    }
    Ok(ControlFlow::Continue(()))
}
