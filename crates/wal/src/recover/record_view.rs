//! Recovered records: one record of the log with its place, and the entries in it.

use crate::batch::{BatchDamage, CarryIter, Entry, EntryIter, Ingest};
use crate::record::{LogPosition, RecordHeader, RecordKind};
use esker_base::{Error, Result, SeqNo};
use std::path::Path;

/// One record, as recovery returns it.
#[derive(Clone, Copy, Debug)]
pub struct RecordView<'a> {
    /// The segment file.
    pub file: &'a Path,
    /// Its position.
    pub position: LogPosition,
    /// Its header.
    pub header: &'a RecordHeader,
    /// Its payload.
    pub payload: &'a [u8],
}

impl<'a> RecordView<'a> {
    /// The entries of a batch or Carry record with their sequence numbers; empty for other kinds.
    ///
    /// A batch with another number of entries than its header says returns an error at its end.
    pub fn entries(&self) -> RecordEntries<'a> {
        let source = match self.header.kind {
            RecordKind::Batch => EntrySource::Batch(EntryIter::new(self.payload)),
            RecordKind::Carry => EntrySource::Carry(CarryIter::new(self.payload)),
            _ => EntrySource::Batch(EntryIter::new(&[])),
        };
        RecordEntries { record: *self, source, given: 0, ended: false }
    }

    /// The files that an Ingest record adds.
    ///
    /// # Errors
    /// [`Error::Corruption`] if the payload is not a list of files.
    pub fn ingest(&self) -> Result<Ingest> {
        Ingest::decode(self.payload).map_err(|damage| self.damage(damage))
    }

    /// Damage inside the payload as an error with file and offset.
    fn damage(&self, damage: BatchDamage) -> Error {
        let at = self.position.offset + (self.header.encoded_len() + damage.offset) as u64;
        Error::corruption(self.file, at, damage.to_string())
    }
}

/// Entries of one record; see [`RecordView::entries`].
#[derive(Clone, Debug)]
pub struct RecordEntries<'a> {
    record: RecordView<'a>,
    source: EntrySource<'a>,
    given: u32,
    ended: bool,
}

#[derive(Clone, Debug)]
enum EntrySource<'a> {
    Batch(EntryIter<'a>),
    Carry(CarryIter<'a>),
}

impl<'a> Iterator for RecordEntries<'a> {
    type Item = Result<(SeqNo, Entry<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let header = self.record.header;
        let next = match &mut self.source {
            EntrySource::Carry(carried) => carried.next(),
            EntrySource::Batch(entries) => {
                let seqno = header.first_seqno.plus(u64::from(self.given));
                entries.next().map(|entry| entry.map(|entry| (seqno, entry)))
            }
        };
        let batch = header.kind == RecordKind::Batch;
        match next {
            Some(Ok(entry)) if !batch || self.given < header.count => {
                self.given += 1;
                Some(Ok(entry))
            }
            Some(Err(damage)) => {
                self.ended = true;
                Some(Err(self.record.damage(damage)))
            }
            None if !batch || self.given == header.count || self.ended => None,
            _ => {
                self.ended = true;
                self.source = EntrySource::Batch(EntryIter::new(&[]));
                let more = if next.is_some() { "more" } else { "fewer" };
                let detail = format!("{} entries expected, the batch has {more}", header.count);
                Some(Err(Error::corruption(self.record.file, self.record.position.offset, detail)))
            }
        }
    }
}
