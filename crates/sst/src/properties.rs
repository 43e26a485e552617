//! Table properties: what a table states about its contents.
//!
//! Stored as `tag varint | len varint | body` fields; numbers are varints. Unknown tags are kept for
//! inspection and otherwise ignored: the format version and required sections state what a reader must
//! understand.

use crate::decode_error::{DecodeError, damaged};
use crate::expiring::Expiring;
use esker_base::coding::{Reader, put_prefixed, put_varint, varint_len};
use esker_base::{KeyspaceId, SeqNo, TableUid};

/// The properties of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableProperties {
    /// Number of entries: every version counts.
    pub entries: u64,
    /// Entries that are tombstones.
    pub tombstones: u64,
    /// Bytes of all keys.
    pub raw_key_bytes: u64,
    /// Bytes of all values.
    pub raw_value_bytes: u64,
    /// First key; empty if there is no entry.
    pub min_key: Vec<u8>,
    /// Last key; empty if there is no entry.
    pub max_key: Vec<u8>,
    /// Least sequence number, including range tombstones.
    pub min_seqno: SeqNo,
    /// Greatest sequence number, including range tombstones.
    pub max_seqno: SeqNo,
    /// Target size of blocks.
    pub block_size_bytes: u64,
    /// Number of blocks.
    pub blocks: u64,
    /// Name of the blocks' layout.
    pub layout: String,
    /// Restart interval of delta blocks; 0 for flat ones.
    pub restart_interval: u64,
    /// Hash slots for a hundred entries of delta blocks; 0 for flat ones.
    pub hash_slots_percent: u64,
    /// The level that the table was written for.
    pub level: u64,
    /// Kind and parameters of the filter.
    pub filter: String,
    /// Name and parameters of the requested compression; each block states what it got.
    pub codec: String,
    /// Creation time, in milliseconds since 1970.
    pub created_ms: u64,
    /// Identity of the table.
    pub uid: TableUid,
    /// The keyspace that it belongs to.
    pub keyspace: KeyspaceId,
    /// The database that it was written for.
    pub db_uuid: [u8; 16],
    /// Whether every key has one version only, all entries are plain puts, and there are no range tombstones.
    pub single_version: bool,
    /// Bytes of the blocks in the file.
    pub data_bytes: u64,
    /// Bytes of the blocks' payloads before compression.
    pub uncompressed_bytes: u64,
    /// Distinct keys.
    pub keys: u64,
    /// Range tombstones: each counts once for every fragment that it covers.
    pub range_tombstones: u64,
    /// Entries that expire. Absent in tables of versions that did not need it here.
    pub expiring: Expiring,
    /// Fields unknown to this build: tag and body.
    pub unknown: Vec<(u64, Vec<u8>)>,
}

/// The persisted numbers of the fields.
mod tag {
    pub(super) const ENTRIES: u64 = 1;
    pub(super) const TOMBSTONES: u64 = 2;
    pub(super) const RAW_KEY_BYTES: u64 = 3;
    pub(super) const RAW_VALUE_BYTES: u64 = 4;
    pub(super) const MIN_KEY: u64 = 5;
    pub(super) const MAX_KEY: u64 = 6;
    pub(super) const MIN_SEQNO: u64 = 7;
    pub(super) const MAX_SEQNO: u64 = 8;
    pub(super) const BLOCK_SIZE_BYTES: u64 = 9;
    pub(super) const BLOCKS: u64 = 10;
    pub(super) const LAYOUT: u64 = 11;
    pub(super) const RESTART_INTERVAL: u64 = 12;
    pub(super) const HASH_SLOTS_PERCENT: u64 = 13;
    pub(super) const LEVEL: u64 = 14;
    pub(super) const FILTER: u64 = 15;
    pub(super) const CODEC: u64 = 16;
    pub(super) const CREATED_MS: u64 = 17;
    pub(super) const UID: u64 = 18;
    pub(super) const KEYSPACE: u64 = 19;
    pub(super) const DB_UUID: u64 = 20;
    pub(super) const SINGLE_VERSION: u64 = 21;
    pub(super) const DATA_BYTES: u64 = 22;
    pub(super) const UNCOMPRESSED_BYTES: u64 = 23;
    pub(super) const KEYS: u64 = 24;
    pub(super) const RANGE_TOMBSTONES: u64 = 25;
    pub(super) const EXPIRING: u64 = 26;
    pub(super) const EARLIEST_EXPIRY_MS: u64 = 27;
    pub(super) const LATEST_EXPIRY_MS: u64 = 28;
}

impl TableProperties {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(300 + self.min_key.len() + self.max_key.len());
        let numbers = [
            (tag::ENTRIES, self.entries),
            (tag::TOMBSTONES, self.tombstones),
            (tag::RAW_KEY_BYTES, self.raw_key_bytes),
            (tag::RAW_VALUE_BYTES, self.raw_value_bytes),
            (tag::MIN_SEQNO, self.min_seqno.get()),
            (tag::MAX_SEQNO, self.max_seqno.get()),
            (tag::BLOCK_SIZE_BYTES, self.block_size_bytes),
            (tag::BLOCKS, self.blocks),
            (tag::RESTART_INTERVAL, self.restart_interval),
            (tag::HASH_SLOTS_PERCENT, self.hash_slots_percent),
            (tag::LEVEL, self.level),
            (tag::CREATED_MS, self.created_ms),
            (tag::UID, self.uid.get()),
            (tag::KEYSPACE, u64::from(self.keyspace.get())),
            (tag::SINGLE_VERSION, u64::from(self.single_version)),
            (tag::DATA_BYTES, self.data_bytes),
            (tag::UNCOMPRESSED_BYTES, self.uncompressed_bytes),
            (tag::KEYS, self.keys),
            (tag::RANGE_TOMBSTONES, self.range_tombstones),
            (tag::EXPIRING, self.expiring.entries),
            (tag::EARLIEST_EXPIRY_MS, self.expiring.earliest_ms),
            (tag::LATEST_EXPIRY_MS, self.expiring.latest_ms),
        ];
        // Tables without range tombstones and expiring entries have the same bytes as before these existed.
        for (tag, number) in
            numbers.into_iter().filter(|(field, number)| *field < tag::RANGE_TOMBSTONES || *number > 0)
        {
            put_varint(&mut out, tag);
            put_varint(&mut out, varint_len(number) as u64);
            put_varint(&mut out, number);
        }
        let bodies: [(u64, &[u8]); 6] = [
            (tag::MIN_KEY, &self.min_key),
            (tag::MAX_KEY, &self.max_key),
            (tag::LAYOUT, self.layout.as_bytes()),
            (tag::FILTER, self.filter.as_bytes()),
            (tag::CODEC, self.codec.as_bytes()),
            (tag::DB_UUID, &self.db_uuid),
        ];
        for (tag, body) in bodies.into_iter().chain(self.unknown.iter().map(|(tag, body)| (*tag, &body[..])))
        {
            put_varint(&mut out, tag);
            put_prefixed(&mut out, body);
        }
        out
    }

    /// Decodes the section. A missing field has its default.
    pub(crate) fn decode(section: &[u8]) -> Result<TableProperties, DecodeError> {
        let mut properties = TableProperties::default();
        let mut reader = Reader::new(section);
        while !reader.is_empty() {
            let (Some(tag), Some(body)) = (reader.varint(), reader.prefixed()) else {
                return damaged(format!("the properties end within a field, at {}", reader.position()));
            };
            if properties.decode_field(tag, body).is_none() {
                return damaged(format!("property {tag} cannot be {body:02x?}"));
            }
        }
        Ok(properties)
    }

    fn decode_field(&mut self, tag: u64, body: &[u8]) -> Option<()> {
        let number = || {
            let mut reader = Reader::new(body);
            reader.varint().filter(|_| reader.is_empty())
        };
        let text = || Some(std::str::from_utf8(body).ok()?.to_owned());
        match tag {
            tag::ENTRIES => self.entries = number()?,
            tag::TOMBSTONES => self.tombstones = number()?,
            tag::RAW_KEY_BYTES => self.raw_key_bytes = number()?,
            tag::RAW_VALUE_BYTES => self.raw_value_bytes = number()?,
            tag::MIN_KEY => self.min_key = body.to_vec(),
            tag::MAX_KEY => self.max_key = body.to_vec(),
            tag::MIN_SEQNO => self.min_seqno = SeqNo::new(number()?),
            tag::MAX_SEQNO => self.max_seqno = SeqNo::new(number()?),
            tag::BLOCK_SIZE_BYTES => self.block_size_bytes = number()?,
            tag::BLOCKS => self.blocks = number()?,
            tag::LAYOUT => self.layout = text()?,
            tag::RESTART_INTERVAL => self.restart_interval = number()?,
            tag::HASH_SLOTS_PERCENT => self.hash_slots_percent = number()?,
            tag::LEVEL => self.level = number()?,
            tag::FILTER => self.filter = text()?,
            tag::CODEC => self.codec = text()?,
            tag::CREATED_MS => self.created_ms = number()?,
            tag::UID => self.uid = TableUid(number()?),
            tag::KEYSPACE => self.keyspace = KeyspaceId(u32::try_from(number()?).ok()?),
            tag::DB_UUID => self.db_uuid = body.try_into().ok()?,
            tag::SINGLE_VERSION => self.single_version = number()? != 0,
            tag::DATA_BYTES => self.data_bytes = number()?,
            tag::UNCOMPRESSED_BYTES => self.uncompressed_bytes = number()?,
            tag::KEYS => self.keys = number()?,
            tag::RANGE_TOMBSTONES => self.range_tombstones = number()?,
            tag::EXPIRING => self.expiring.entries = number()?,
            tag::EARLIEST_EXPIRY_MS => self.expiring.earliest_ms = number()?,
            tag::LATEST_EXPIRY_MS => self.expiring.latest_ms = number()?,
            _ => self.unknown.push((tag, body.to_vec())),
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::TableOptions;

    fn sample() -> TableProperties {
        let mut properties = TableOptions {
            layout: crate::BlockLayout::Delta,
            uid: TableUid(u64::MAX),
            keyspace: KeyspaceId(7),
            db_uuid: *b"0123456789abcdef",
            created_ms: 1_700_000_000_000,
            ..TableOptions::default()
        }
        .initial_properties();
        properties.entries = 300;
        properties.min_key = b"a".to_vec();
        properties.max_key = vec![0xff; 300];
        properties.min_seqno = SeqNo::ZERO;
        properties.max_seqno = SeqNo::MAX;
        properties.expiring = Expiring { entries: 2, earliest_ms: 5, latest_ms: u64::MAX };
        properties
    }

    #[test]
    fn round_trip_with_fields_of_the_future() {
        let mut properties = sample();
        properties.unknown = vec![(1_000, b"later".to_vec()), (1_001, Vec::new())];
        assert_eq!(TableProperties::decode(&properties.encode()), Ok(properties));
    }

    /// A field that the encoder writes and the decoder does not know would be carried on as an unknown one.
    #[test]
    fn every_field_comes_back_in_its_own_place() {
        let properties = TableProperties {
            entries: 1,
            tombstones: 2,
            raw_key_bytes: 3,
            raw_value_bytes: 4,
            min_key: b"a".to_vec(),
            max_key: b"z".to_vec(),
            min_seqno: SeqNo::new(5),
            max_seqno: SeqNo::new(6),
            block_size_bytes: 7,
            blocks: 8,
            layout: "layout".to_owned(),
            restart_interval: 9,
            hash_slots_percent: 10,
            level: 11,
            filter: "filter".to_owned(),
            codec: "codec".to_owned(),
            created_ms: 12,
            uid: TableUid(13),
            keyspace: KeyspaceId(14),
            db_uuid: *b"0123456789abcdef",
            single_version: true,
            data_bytes: 15,
            uncompressed_bytes: 16,
            keys: 17,
            range_tombstones: 18,
            expiring: Expiring { entries: 19, earliest_ms: 20, latest_ms: 21 },
            unknown: Vec::new(),
        };
        assert_eq!(TableProperties::decode(&properties.encode()), Ok(properties));
    }

    #[test]
    fn damaged_sections_never_panic() {
        let good = sample().encode();
        for at in 0..good.len() {
            for byte in 0..=255 {
                let mut bytes = good.clone();
                bytes[at] = byte;
                // Many changes give other valid properties; a checksum precedes this decoder.
                let _ = TableProperties::decode(&bytes);
            }
            let _ = TableProperties::decode(&good[..at]);
        }
    }
}
