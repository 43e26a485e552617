use super::*;
use esker_base::coding::put_varint;
use esker_base::kind::FLAG_EXPIRY;
use esker_base::limits::MAX_KEY_LEN;
use esker_base::{Error, FileNumber, KeyspaceId, TableUid, ValueKind};
use esker_env::{Random, SeededRandom};

const A: KeyspaceId = KeyspaceId(0);
const B: KeyspaceId = KeyspaceId(300);

fn collect(payload: &[u8]) -> Result<Vec<Entry<'_>>, BatchDamage> {
    EntryIter::new(payload).collect()
}

#[test]
fn entries_are_laid_out_as_documented() {
    let mut batch = BatchEncoder::new();
    batch.put(A, b"key", b"value").unwrap();
    assert_eq!(batch.payload(), b"\x01\x00\x03\x05keyvalue");
    batch.clear();
    batch.delete(B, b"key").unwrap();
    assert_eq!(batch.payload(), b"\x00\xac\x02\x03key");
    batch.clear();
    batch.put_expiring(A, b"k", b"v", 0x0102).unwrap();
    assert_eq!(batch.payload(), b"\x81\x00\x01\x09k\x02\x01\0\0\0\0\0\0v");
    batch.clear();
    batch.range_delete(A, b"a", b"bc").unwrap();
    assert_eq!(batch.payload(), b"\x03\x00\x01\x02abc");
}

#[test]
fn every_kind_comes_back() {
    let long = vec![7u8; 70_000];
    let mut batch = BatchEncoder::with_capacity(16);
    batch.put(A, b"", b"").unwrap();
    batch.put(B, &long[..MAX_KEY_LEN], &long).unwrap();
    batch.put(A, b"short", &long[..128]).unwrap();
    batch.delete(A, b"d").unwrap();
    batch.single_delete(B, b"s").unwrap();
    batch.range_delete(A, b"a", b"z").unwrap();
    batch.merge(A, b"m", b"+1").unwrap();
    batch.put_expiring(A, b"e", b"", 9).unwrap();
    let entries = collect(batch.payload()).unwrap();
    assert_eq!(entries.len(), 8);
    assert_eq!(batch.count(), 8);
    assert_eq!(count_entries(batch.payload()), Ok(8));
    assert_eq!((entries[1].keyspace, entries[1].key, entries[1].value), (B, &long[..MAX_KEY_LEN], &long[..]));
    assert_eq!(entries[5].kind(), Some(ValueKind::RangeDelete));
    assert_eq!(entries[7].value, 9u64.to_le_bytes());

    let mut again = BatchEncoder::new();
    for entry in &entries {
        again.entry(entry).unwrap();
    }
    assert_eq!(again.payload(), batch.payload());
    again.append(&batch).unwrap();
    assert_eq!(again.count(), 16);
    assert_eq!(collect(again.payload()).unwrap()[8..], entries);
}

#[test]
fn input_over_a_limit_is_refused_and_adds_nothing() {
    let mut batch = BatchEncoder::new();
    let long = vec![0u8; MAX_KEY_LEN + 1];
    assert!(matches!(batch.put(A, &long, b""), Err(Error::InvalidArgument(_))));
    assert!(matches!(batch.range_delete(A, b"", &long), Err(Error::InvalidArgument(_))));
    let wrong = Entry { kind_byte: 0x05, keyspace: A, key: b"k", value: b"" };
    assert!(batch.entry(&wrong).is_err());
    let wrong =
        Entry { kind_byte: ValueKind::Put as u8 | FLAG_EXPIRY, keyspace: A, key: b"k", value: b"short" };
    assert!(batch.entry(&wrong).is_err());
    let wrong = Entry { kind_byte: ValueKind::Delete as u8, keyspace: A, key: b"k", value: b"v" };
    assert!(batch.entry(&wrong).is_err());
    assert!(batch.is_empty() && batch.payload().is_empty());
}

#[test]
fn damage_is_named_and_ends_the_walk() {
    let cases: [(&[u8], &str); 8] = [
        (b"\x05\x00\x01k", "kind is not known"),
        (b"\x11\x00\x01\x00k", "kind is not known"),
        (b"\x80\x00\x01k", "flag speaks of one"),
        (b"\x81\x00\x01\x07k1234567", "too short for the time"),
        (b"\x01\x00\x05\x00k", "key is cut off"),
        (b"\x01\x00\x01\x05kv", "value is cut off"),
        (b"\x01\x00\x80\x80\x04\x00", "longer than any key"),
        (b"\x01\xff\xff\xff\xff\x7f\x00\x00", "exceeds 32 bits"),
    ];
    for (tail, reason) in cases {
        let payload = [b"\x01\x00\x01\x01kv", tail].concat();
        let mut entries = EntryIter::new(&payload);
        assert!(entries.next().unwrap().is_ok());
        let damage = entries.next().unwrap().unwrap_err();
        assert_eq!(damage.offset, 6);
        assert!(damage.reason.contains(reason), "{damage}");
        assert!(entries.next().is_none());
    }
}

/// Random bytes, many of them shaped like entries, give entries or damage, and the entries lie inside.
#[test]
fn arbitrary_bytes_never_panic() {
    let random = SeededRandom::new(0x5eed);
    for _ in 0..20_000 {
        let len = random.next_u64() as usize % 40;
        let mut payload: Vec<u8> = (0..len).map(|_| random.next_u64() as u8).collect();
        if let Some(kind) = payload.first_mut() {
            *kind &= 0xc7;
        }
        for small in payload.iter_mut().skip(1).take(3) {
            *small &= 0x8f;
        }
        let mut seen = 0;
        for entry in EntryIter::new(&payload).flatten() {
            seen += entry.key.len() + entry.value.len();
        }
        assert!(seen <= len);
        let carried = CarryIter::new(&payload).flatten().count();
        assert!(carried <= len);
        let _ = Ingest::decode(&payload);
    }
}

#[test]
fn every_truncation_of_a_batch_is_noticed_or_ends_between_entries() {
    let mut batch = BatchEncoder::new();
    let mut ends = vec![0];
    for round in 0..6u8 {
        batch.put(B, &[round; 20], &[round; 140]).unwrap();
        ends.push(batch.payload().len());
        batch.put_expiring(A, &[round; 3], &[round; 4], 77).unwrap();
        ends.push(batch.payload().len());
        batch.delete(A, &[round; 5]).unwrap();
        ends.push(batch.payload().len());
    }
    for len in 0..=batch.payload().len() {
        let read = collect(&batch.payload()[..len]);
        assert_eq!(read.is_ok(), ends.contains(&len), "cut at {len}");
    }
}

#[test]
fn carried_entries_name_their_own_sequence_numbers() {
    let mut payload = Vec::new();
    for (seqno, key) in [(70u64, b"a"), (12, b"b")] {
        payload.extend_from_slice(&seqno.to_le_bytes());
        payload.extend_from_slice(b"\x01\x00\x01\x01");
        payload.extend_from_slice(key);
        payload.push(b'v');
    }
    let read: Result<Vec<_>, _> = CarryIter::new(&payload).collect();
    let seqnos: Vec<_> = read.unwrap().iter().map(|(seqno, entry)| (seqno.get(), entry.key)).collect();
    assert_eq!(seqnos, [(70, b"a".as_slice()), (12, b"b")]);
    for len in 0..payload.len() {
        let read: Result<Vec<_>, _> = CarryIter::new(&payload[..len]).collect();
        assert_eq!(read.is_ok(), len == 0 || len == payload.len() / 2, "cut at {len}");
    }
    let future = [0xff; 14];
    assert!(CarryIter::new(&future).next().unwrap().is_err());
}

#[test]
fn ingest_lists_come_back() {
    let mut payload = vec![3, 2];
    for (number, size) in [(9u64, 5_000_000u64), (10, 12)] {
        put_varint(&mut payload, number);
        put_varint(&mut payload, size);
        payload.extend_from_slice(&(number * 1000).to_le_bytes());
    }
    let ingest = Ingest::decode(&payload).unwrap();
    let mut again = Vec::new();
    ingest.encode(&mut again);
    assert_eq!(again, payload);
    assert_eq!(ingest.keyspace, KeyspaceId(3));
    let second = IngestedFile { number: FileNumber(10), size_bytes: 12, uid: TableUid(10_000) };
    assert_eq!(ingest.files[1], second);
    for len in 0..payload.len() {
        assert!(Ingest::decode(&payload[..len]).is_err(), "cut at {len}");
    }
    payload.push(0);
    assert!(Ingest::decode(&payload).is_err());
    assert!(Ingest::decode(b"\x00\xff\xff\xff\xff\x0f").is_err());
}
