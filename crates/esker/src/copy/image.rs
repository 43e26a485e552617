//! Image: a capture as a database directory; see [`super`].

use super::capture::Capture;
use esker_base::{FileNumber, Result, SeqNo, TableUid};
use esker_build::table_factory::TableFactory;
use esker_engine::background::flush::add_sealed;
use esker_engine::file_transfer::StoredData;
use esker_env::Env;
use esker_options::KeyspaceOptions;
use esker_version::{DatabaseState, EditOp, FileKind, Manifest, VersionEdit};
use esker_view::paths;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A table or blob file of an image, and its present path.
#[derive(Clone, Debug)]
pub(crate) struct ImageTable {
    pub(crate) kind: FileKind,
    pub(crate) number: FileNumber,
    pub(crate) uid: TableUid,
    pub(crate) bytes: u64,
    /// In the source's directory, or already in the image's if it was written for it.
    pub(crate) path: PathBuf,
    /// Whether it is in the image's directory already.
    pub(crate) is_own: bool,
}

impl ImageTable {
    /// What the file must be.
    pub(crate) fn data(&self) -> StoredData {
        StoredData { kind: self.kind, uid: self.uid, bytes: self.bytes }
    }
}

/// The contents of a copy, as a plan: captured tables are still in the source, memtables are written.
#[derive(Debug)]
pub(crate) struct Image {
    pub(crate) state: DatabaseState,
    pub(crate) tables: Vec<ImageTable>,
    manifest: FileNumber,
}

impl Image {
    /// Writes the captured memtables as tables below `dir`, which exists, and lists all tables that belong
    /// there.
    pub(crate) fn begin(
        env: &Env,
        source: &Path,
        dir: &Path,
        capture: &Capture,
        write_buffer_bytes: u64,
    ) -> Result<Image> {
        let mut state = capture.state.clone();
        let mut captured: BTreeSet<FileNumber> = state.live_files().into_keys().collect();
        captured.extend(capture.waiting_files());
        env.fs.create_dir_all(&paths::tables(dir))?;
        let factory =
            TableFactory::new(env.clone(), dir.to_path_buf(), state.uuid, state.next_file, state.next_part);
        apply(&mut state, EditOp::LastSeqno(capture.seqno))?;
        for (&id, view) in &capture.views {
            let Some(keyspace) = state.keyspace(id) else { continue };
            let options = KeyspaceOptions::decode(&keyspace.options)?;
            // If the copy fails, its whole directory is deleted.
            add_sealed(&factory, &mut state, id, &options, write_buffer_bytes, &view.sealed)?.claim();
            apply(&mut state, EditOp::FlushedSeqno { keyspace: id, seqno: capture.seqno })?;
        }
        let manifest = factory.take_file_number();
        (state.next_file, state.next_part) = factory.counters();
        // The copy has no log: recovery must not expect the source's.
        state.durable_position = None;
        let tables = state.live_files().into_iter().map(|(number, file)| {
            let is_own = !captured.contains(&number);
            let path = paths::data(if is_own { dir } else { source }, file.kind, number);
            ImageTable { kind: file.kind, number, uid: file.table_uid, bytes: file.bytes, path, is_own }
        });
        Ok(Image { tables: tables.collect(), state, manifest })
    }

    /// Everything up to here is in the image.
    pub(crate) fn seqno(&self) -> SeqNo {
        self.state.last_seqno
    }

    /// Entries in all tables, versions and tombstones included.
    pub(crate) fn entries(&self) -> u64 {
        let parts = self.state.keyspaces.values().flat_map(|keyspace| keyspace.version.parts());
        parts.map(|(_, _, part)| part.entries).sum()
    }

    /// Writes manifest and CURRENT, durable; the tables are there already.
    pub(crate) fn finish(&self, env: &Env, dir: &Path) -> Result<()> {
        env.fs.create_dir_all(dir)?;
        Manifest::create(env, dir, self.manifest, &self.state, 0)?;
        Ok(())
    }
}

fn apply(state: &mut DatabaseState, op: EditOp) -> Result<()> {
    let mut edit = VersionEdit::new();
    edit.push(op);
    state.apply(&edit)?;
    Ok(())
}
