//! Large value separation: which values of a job's output go to blob files, and which come back.

use crate::pending_outputs::UnclaimedFiles;
use crate::table_factory::TableFactory;
use esker_base::kind::{FLAG_BLOB, FLAG_EXPIRY};
use esker_base::{FileNumber, KeyspaceId, Result, TableUid, Tag, ValueKind, large_buffer};
use esker_blob::{BlobHeader, BlobOptions, BlobPointer, BlobWriter};
use esker_env::OpenMode;
use esker_iter::{LargeValues, is_large, split_expiry};
use esker_options::KeyspaceOptions;
use esker_version::{BlobFileMeta, BlobReference};
use esker_view::paths;
use esker_view::tree::blob_files::LargeMap;
use esker_view::tree::blob_files::decode;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The blob files that a job rewrites, and how their values are read.
#[derive(Debug)]
pub struct Relocation {
    /// The blob files to empty.
    pub victims: BTreeSet<FileNumber>,
    /// The blob files that the job's inputs point to; kept for as long as the job runs.
    pub values: Arc<LargeMap>,
}

/// Writes the large values of one job.
pub struct Separator<'a, 's> {
    factory: &'a TableFactory,
    keyspace: KeyspaceId,
    options: &'s KeyspaceOptions,
    relocation: Option<&'s Relocation>,
    /// Values of this length and more go to blob files.
    threshold: usize,
    open: Option<OpenFile>,
    files: Vec<BlobFileMeta>,
    /// The value of the next entry, if it differs from the input's.
    value: Vec<u8>,
    fetched: Vec<u8>,
}

struct OpenFile {
    writer: BlobWriter,
    number: FileNumber,
    header: BlobHeader,
}

/// An entry as it is written.
pub struct Placed<'v> {
    /// Its tag, which says whether the value is a pointer.
    pub tag: Tag,
    /// The value, or the pointer to it.
    pub value: &'v [u8],
    /// The pointer to its value, if it is in a blob file.
    pub pointer: Option<BlobPointer>,
}

impl<'a, 's> Separator<'a, 's> {
    /// A separator for a job in this keyspace.
    pub fn new(
        factory: &'a TableFactory,
        keyspace: KeyspaceId,
        options: &'s KeyspaceOptions,
        relocation: Option<&'s Relocation>,
    ) -> Separator<'a, 's> {
        let threshold = options.blob_threshold_bytes.map_or(usize::MAX, |bytes| bytes as usize);
        Separator {
            factory,
            keyspace,
            options,
            relocation,
            threshold,
            open: None,
            files: Vec::new(),
            value: Vec::new(),
            fetched: Vec::new(),
        }
    }

    /// How the entry is written.
    #[inline]
    pub fn place<'v>(
        &'v mut self,
        key: &[u8],
        tag: Tag,
        value: &'v [u8],
        unclaimed: &mut UnclaimedFiles<'_>,
    ) -> Result<Placed<'v>> {
        if value.len() < self.threshold && !is_large(tag) {
            return Ok(Placed { tag, value, pointer: None });
        }
        self.place_large(key, tag, value, unclaimed)
    }

    #[inline(never)]
    fn place_large<'v>(
        &'v mut self,
        key: &[u8],
        tag: Tag,
        value: &'v [u8],
        unclaimed: &mut UnclaimedFiles<'_>,
    ) -> Result<Placed<'v>> {
        large_buffer::free_if_large(&mut self.fetched);
        let as_it_is = |pointer| Ok(Placed { tag, value, pointer });
        let flags = tag.kind_byte() & (FLAG_BLOB | FLAG_EXPIRY);
        if tag.kind_byte() & !flags != ValueKind::Put as u8 {
            return as_it_is(None);
        }
        let (_, payload) = if flags & FLAG_EXPIRY != 0 { split_expiry(tag, key, value)? } else { (0, value) };
        let expiry = &value[..value.len() - payload.len()];
        let whole = if flags & FLAG_BLOB == 0 {
            if payload.len() < self.threshold {
                return as_it_is(None);
            }
            payload
        } else {
            let pointer = decode(key, payload)?;
            match self.relocation {
                Some(relocation) if relocation.victims.contains(&pointer.file) => {
                    relocation.values.fetch(key, payload, &mut self.fetched)?;
                    &self.fetched
                }
                _ => return as_it_is(Some(pointer)),
            }
        };
        self.value.clear();
        self.value.extend_from_slice(expiry);
        if whole.len() < self.threshold {
            // Separated under another threshold than the present one.
            self.value.extend_from_slice(whole);
            let tag = Tag::from_parts(tag.seqno(), tag.kind_byte() & !FLAG_BLOB);
            return Ok(Placed { tag, value: &self.value, pointer: None });
        }
        let open = match &mut self.open {
            Some(open) => open,
            None => self.open.insert(begin(self.factory, self.keyspace, self.options, unclaimed)?),
        };
        let pointer = open.writer.add(key, whole)?;
        if open.writer.file_bytes() >= self.options.blob_file_bytes {
            self.finish_file()?;
        }
        pointer.encode(&mut self.value);
        let tag = Tag::from_parts(tag.seqno(), tag.kind_byte() | FLAG_BLOB);
        Ok(Placed { tag, value: &self.value, pointer: Some(pointer) })
    }

    fn finish_file(&mut self) -> Result<()> {
        let Some(open) = self.open.take() else { return Ok(()) };
        let summary = open.writer.finish()?;
        self.files.push(BlobFileMeta {
            number: open.number,
            file_bytes: summary.file_bytes,
            uid: open.header.uid,
            records: summary.footer.records,
            record_bytes: summary.footer.record_bytes,
            value_bytes: summary.footer.value_bytes,
            created_ms: open.header.created_ms,
        });
        Ok(())
    }

    /// Ends the last file; returns all of them. They are durable, their names are not.
    pub fn finish(mut self) -> Result<Vec<BlobFileMeta>> {
        self.finish_file()?;
        Ok(self.files)
    }
}

fn begin(
    factory: &TableFactory,
    keyspace: KeyspaceId,
    options: &KeyspaceOptions,
    unclaimed: &mut UnclaimedFiles<'_>,
) -> Result<OpenFile> {
    let number = factory.take_file_number();
    let header = BlobHeader {
        db_uuid: factory.db_uuid,
        uid: TableUid(factory.env.random.next_u64()),
        keyspace,
        created_ms: factory.env.clock.wall_ms(),
    };
    let path = paths::blob(&factory.dir, number);
    let file = factory.env.fs.open(&path, OpenMode::CreateNew)?;
    unclaimed.add(path);
    // Values stay in their file, whatever the level of the table that points to them.
    let codec = options.compression.last();
    let writer = BlobWriter::new(file, BlobOptions { number, header, codec }).counted_in(&factory.env.memory);
    Ok(OpenFile { writer, number, header })
}

/// The blob references of one table.
#[derive(Debug, Default)]
pub struct References(BTreeMap<FileNumber, (u64, u64)>);

impl References {
    /// Counts a pointer that the table has, if there is one.
    #[inline]
    pub fn note(&mut self, pointer: Option<BlobPointer>) {
        if let Some(pointer) = pointer {
            let (bytes, count) = self.0.entry(pointer.file).or_default();
            *bytes += u64::from(pointer.record_bytes);
            *count += 1;
        }
    }

    /// What the table points to.
    pub fn finish(self) -> Arc<[BlobReference]> {
        self.0.into_iter().map(|(file, (bytes, count))| BlobReference { file, bytes, count }).collect()
    }
}
