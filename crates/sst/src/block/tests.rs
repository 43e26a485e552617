//! Both layouts against sorted vectors, on every kernel of the machine.

use super::cursor::BlockCursor;
use super::delta_encode::DeltaOptions;
use super::header::{FLAG_FIXED_SUFFIX, FLAGS_AT, HEADER_BYTES};
use super::staged::{LayoutOptions, Staged};
use super::{
    BlockBuffer, BlockBytes, BlockLayout, BlockRef, Compression, LayoutView, SLACK_BYTES, Scratch,
    append_image,
};
use crate::simd::{InstructionSet, Kernel, Portable};
use crate::testing::{SHAPES, Shape, TestEntry, entries, expected, key_of};
use esker_base::checksum::key_hash;
use esker_base::key::{common_prefix_len, head};
use esker_base::{SeqNo, Tag};
use esker_codec::columns::MAX_STRIDE;
use esker_codec::{Codec, History};
use esker_env::{Random, SeededRandom};
use esker_iter::BoundOrder;
use std::cmp::Reverse;
use std::sync::Weak;

const RAW: Compression<'_> = Compression { codec: Codec::None, dictionary: None };

fn layouts() -> Vec<LayoutOptions> {
    let delta = |restart_interval, hash_slots_percent| {
        LayoutOptions::Delta(DeltaOptions { restart_interval, hash_slots_percent })
    };
    vec![LayoutOptions::Flat, delta(16, 100), delta(1, 100), delta(3, 0), delta(7, 400), delta(2, 30)]
}

fn layout_of(options: LayoutOptions) -> BlockLayout {
    if options == LayoutOptions::Flat { BlockLayout::Flat } else { BlockLayout::Delta }
}

fn stage(layout: LayoutOptions, entries: &[TestEntry]) -> Staged {
    let mut staged = Staged::new(layout);
    for entry in entries {
        let shared = common_prefix_len(staged.last_key(), &entry.key);
        staged.add(&entry.key, key_hash(&entry.key), entry.tag, &entry.value, shared);
    }
    staged
}

fn image(layout: LayoutOptions, entries: &[TestEntry]) -> Vec<u8> {
    let mut out = Vec::new();
    append_image(&mut stage(layout, entries), layout_of(layout), 0, &RAW, &mut Scratch::default(), &mut out);
    out
}

fn block(layout: LayoutOptions, entries: &[TestEntry]) -> BlockRef {
    let image = image(layout, entries);
    let mut buffer = BlockBuffer::new(image.len() - HEADER_BYTES);
    let (bytes, slack) = buffer.bytes_mut().split_at_mut(image.len());
    bytes.copy_from_slice(&image);
    slack.fill(0xa5);
    buffer.finish(Weak::new()).expect("what was just encoded")
}

fn check_find<K: Kernel>(block: &BlockBytes, entries: &[TestEntry], key: &[u8], seqno: SeqNo) {
    let found = {
        // SAFETY: the callers ask for kernels of this machine only.
        unsafe { block.find::<K>(key, key_hash(key), Tag::visible_at(seqno)) }
    };
    let found = found.map(|found| (found.tag, block.slice(found.range()).to_vec()));
    let wanted = expected(entries, key, seqno).map(|entry| (entry.tag, entry.value.clone()));
    assert_eq!(found, wanted, "key {} at {seqno}", key.escape_ascii());
}

fn assert_on(cursor: &BlockCursor, entries: &[TestEntry], at: usize) {
    let Some(entry) = entries.get(at) else {
        assert!(!cursor.is_valid());
        return;
    };
    assert!(cursor.is_valid(), "entry {at} of {}", entries.len());
    assert_eq!((cursor.key(), cursor.tag()), (&entry.key[..], entry.tag));
    // SAFETY: the cursor is valid and its block is alive in all callers.
    unsafe {
        assert_eq!(cursor.value(), entry.value);
        for skip in [0, 1, 3, 5, 8, 9, 20, 23, 40, 65_530] {
            assert_eq!(cursor.head(skip), head(&entry.key, skip), "skip {skip}");
        }
    }
}

fn check_cursor<K: Kernel>(block: &BlockBytes, entries: &[TestEntry], shape: Shape, random: &SeededRandom) {
    let mut cursor = BlockCursor::new(true);
    // SAFETY: the block outlives the cursor; moves from an entry are made on valid cursors only.
    unsafe {
        cursor.open(block);
        assert_on(&cursor, entries, usize::MAX);
        cursor.move_to_first();
        for at in 0..entries.len() {
            assert_on(&cursor, entries, at);
            cursor.next();
        }
        assert_on(&cursor, entries, usize::MAX);
        cursor.move_to_last();
        for at in (0..entries.len()).rev() {
            assert_on(&cursor, entries, at);
            cursor.prev();
        }
        assert_on(&cursor, entries, usize::MAX);
        for _ in 0..60 {
            let entry = &entries[random.below(entries.len() as u64) as usize];
            let key = if random.below(2) == 0 { entry.key.clone() } else { key_of(shape, 300, random) };
            let newest =
                if random.below(2) == 0 { entry.tag } else { Tag::visible_at(SeqNo::new(random.below(50))) };
            cursor.seek::<K>(&key, newest);
            let at = entries.partition_point(|entry| entry.order() < (&key, Reverse(newest)));
            assert_on(&cursor, entries, at);
            if at < entries.len() {
                if random.below(2) == 0 {
                    cursor.next();
                    assert_on(&cursor, entries, at + 1);
                } else {
                    cursor.prev();
                    assert_on(&cursor, entries, at.wrapping_sub(1));
                }
            }
        }
    }
}

fn check_block<K: Kernel>(block: &BlockBytes, entries: &[TestEntry], shape: Shape, random: &SeededRandom) {
    for _ in 0..60 {
        let entry = &entries[random.below(entries.len() as u64) as usize];
        check_find::<K>(block, entries, &entry.key, SeqNo::MAX);
        check_find::<K>(block, entries, &entry.key, entry.tag.seqno());
        check_find::<K>(block, entries, &entry.key, SeqNo::new(random.below(60)));
        check_find::<K>(block, entries, &key_of(shape, 300, random), SeqNo::MAX);
        check_find::<K>(block, entries, &[], SeqNo::MAX);
    }
    check_cursor::<K>(block, entries, shape, random);
}

fn on_every_kernel(block: &BlockBytes, entries: &[TestEntry], shape: Shape, random: &SeededRandom) {
    check_block::<Portable>(block, entries, shape, random);
    #[cfg(target_arch = "x86_64")]
    if InstructionSet::Avx2.is_available() {
        check_block::<crate::simd::Avx2>(block, entries, shape, random);
    }
    #[cfg(target_arch = "x86_64")]
    if InstructionSet::Avx512.is_available() {
        check_block::<crate::simd::Avx512>(block, entries, shape, random);
    }
}

#[test]
fn blocks_answer_like_sorted_vectors() {
    for (number, shape) in SHAPES.into_iter().enumerate() {
        for (count, seqnos) in [(1, 0), (2, 9), (33, 0), (40, 50), (300, 1 << 40), (1_000, 60)] {
            let count = if shape == Shape::Giant { count.min(30) } else { count };
            let seed = number as u64 * 1_000 + count as u64;
            println!("{shape:?}, {count} entries, sequence numbers to {seqnos}, seed {seed}");
            let random = SeededRandom::new(seed);
            let entries = entries(shape, count, seqnos, &random);
            for layout in layouts() {
                on_every_kernel(block(layout, &entries).contents(), &entries, shape, &random);
            }
        }
    }
}

#[test]
fn sizes_are_predicted() {
    // Without sequence numbers all tags are equal, which is what most blocks have.
    for (shape, seqnos) in SHAPES.into_iter().flat_map(|shape| [(shape, 1_000), (shape, 0)]) {
        let random = SeededRandom::new(77);
        let count = if shape == Shape::Giant { 20 } else { 400 };
        let entries = entries(shape, count, seqnos, &random);
        for layout in layouts() {
            for len in [1, 2, 17, entries.len()] {
                let Some(all) = entries.get(..len) else { continue };
                let (last, rest) = all.split_last().unwrap();
                let staged = stage(layout, rest);
                let shared = common_prefix_len(staged.last_key(), &last.key);
                let image = image(layout, all);
                let is_exact = layout == LayoutOptions::Flat && image[FLAGS_AT] & FLAG_FIXED_SUFFIX != 0;
                let len = image.len() + 8;
                let exceeds = |limit| staged.would_exceed(limit, &last.key, last.tag, &last.value, shared);
                if len <= 65_536 {
                    assert!(exceeds(len - 1), "{shape:?} {layout:?}");
                    // Variable suffix lengths are estimated from above.
                    let too_much = if is_exact { 0 } else { 2 * all.len() };
                    assert!(!exceeds(len + too_much), "{shape:?} {layout:?}");
                }
            }
        }
    }
}

#[test]
fn a_plain_entry_of_116_bytes_takes_at_most_122() {
    let random = SeededRandom::new(5);
    for (seqnos, limit) in [(0, 122.0), (1 << 30, 127.0)] {
        let mut entries = entries(Shape::Random, 100_000, seqnos, &random);
        entries.iter_mut().for_each(|entry| entry.value.resize(100, 7));
        let mut staged = Staged::new(LayoutOptions::Flat);
        let mut out = Vec::new();
        for entry in &entries {
            let shared = common_prefix_len(staged.last_key(), &entry.key);
            if !staged.is_empty() && staged.would_exceed(4096, &entry.key, entry.tag, &entry.value, shared) {
                let start = out.len();
                append_image(&mut staged, BlockLayout::Flat, 0, &RAW, &mut Scratch::default(), &mut out);
                out.extend_from_slice(&[0; 8]);
                assert!(out.len() - start <= 4096);
            }
            staged.add(&entry.key, 0, entry.tag, &entry.value, shared);
        }
        let each = out.len() as f64 / (entries.len() - staged.entries().len()) as f64;
        assert!(each <= limit, "{each:.1} bytes an entry, {limit} allowed");
    }
}

#[test]
fn hash_slots_hold_what_they_should() {
    let random = SeededRandom::new(9);
    let entries = entries(Shape::Random, 200, 0, &random);
    let options = DeltaOptions { restart_interval: 1, hash_slots_percent: 100 };
    let block = block(LayoutOptions::Delta(options), &entries);
    let LayoutView::Delta(delta) = block.contents().view() else { panic!("a delta block") };
    // SAFETY: the block is alive.
    let slots = unsafe { delta.slots() };
    assert_eq!(slots.len(), entries.len());
    let share = |wanted: fn(u8) -> bool| {
        slots.iter().filter(|&&slot| wanted(slot)).count() as f64 / slots.len() as f64
    };
    // Poisson: 36.8 % of the slots get one key, 36.8 % none, 26.4 % more.
    for (found, wanted) in
        [(share(|s| s < 254), 0.368), (share(|s| s == 255), 0.368), (share(|s| s == 254), 0.264)]
    {
        assert!((found - wanted).abs() < 0.1, "{found} {wanted}");
    }
    // 300 restart points cannot be named by a byte.
    let many = crate::testing::entries(Shape::Random, 300, 0, &random);
    let block = self::block(LayoutOptions::Delta(options), &many);
    let LayoutView::Delta(delta) = block.contents().view() else { panic!("a delta block") };
    // SAFETY: the block is alive.
    assert!(unsafe { delta.slots() }.is_empty());
}

/// Reads everything that a reader could, so that a wrong access shows.
fn exercise(block: &BlockBytes, entries: &[TestEntry]) {
    let mut cursor = BlockCursor::new(true);
    // SAFETY: the block outlives the cursor.
    unsafe {
        cursor.open(block);
        cursor.move_to_first();
        let mut bytes = 0;
        while cursor.is_valid() {
            bytes += cursor.key().len() + cursor.value().len() + cursor.head(3) as usize % 2;
            cursor.next();
        }
        cursor.move_to_last();
        while cursor.is_valid() {
            bytes += cursor.key().len() + cursor.value().iter().map(|&byte| usize::from(byte)).sum::<usize>();
            cursor.prev();
        }
        for entry in entries {
            cursor.seek::<Portable>(&entry.key, entry.tag);
            bytes +=
                usize::from(block.find::<Portable>(&entry.key, key_hash(&entry.key), Tag::NEWEST).is_some());
        }
        std::hint::black_box(bytes);
    }
}

#[test]
fn damaged_payloads_are_refused_or_read_within_bounds() {
    let shapes = [Shape::Random, Shape::Dense, Shape::Paths, Shape::Versions, Shape::Records];
    for (number, shape) in shapes.into_iter().enumerate() {
        let random = SeededRandom::new(number as u64);
        let entries = entries(shape, 40, 1_000, &random);
        for layout in layouts() {
            let good = image(layout, &entries);
            for round in 0..4_000 {
                // Boxed anew each time at its exact size, so that a sanitizer detects every access beyond it.
                let mut bytes = good.clone();
                let changes = 1 + random.below(3);
                for _ in 0..changes {
                    let at = if round < good.len() * 2 {
                        round / 2
                    } else {
                        random.below(good.len() as u64) as usize
                    };
                    bytes[at] = if round % 2 == 0 {
                        random.below(256) as u8
                    } else {
                        bytes[at] ^ 1 << random.below(8)
                    };
                }
                bytes.resize(good.len() + SLACK_BYTES, 0xff);
                if let Ok(block) = BlockBytes::from_bytes(&bytes) {
                    exercise(block, &entries);
                }
            }
            for len in 0..good.len() + SLACK_BYTES {
                let mut bytes = good.clone();
                bytes.resize(len, 0);
                assert!(BlockBytes::from_bytes(&bytes).is_err());
            }
            assert!(good.len() > HEADER_BYTES);
        }
    }
}

/// Codecs of integers get the right rows, and packing them suffices for a block of a real table.
#[test]
fn rows_of_flat_blocks_lie_where_they_are_said_to() {
    let raw = |entries: &[TestEntry]| {
        let mut payload = Vec::new();
        let header = super::append_payload(
            &mut stage(LayoutOptions::Flat, entries),
            BlockLayout::Flat,
            0,
            &mut payload,
        );
        let (rows, count) = super::flat_encode::rows(&header, &payload);
        (payload, rows[..count].to_vec())
    };
    let random = SeededRandom::new(4);
    for shape in SHAPES.into_iter().filter(|shape| *shape != Shape::Giant) {
        for count in [1, 2, 50] {
            let entries = entries(shape, count, 100, &random);
            let (payload, rows) = raw(&entries);
            let ends: Vec<usize> = rows.iter().map(|rows| rows.start + rows.stride * rows.count).collect();
            assert!(ends.iter().all(|&end| end <= payload.len()), "{shape:?}");
            if rows.len() == 1 {
                // Heads alone, of entries that are longer than a row may be.
                let entry_bytes = payload.len() - ends[0];
                assert!(entry_bytes > MAX_STRIDE * rows[0].count, "{shape:?}: {entry_bytes} bytes");
                continue;
            }
            assert_eq!((rows.len(), ends[0]), (2, rows[1].start), "{shape:?}");
            let are_equal = entries
                .iter()
                .all(|e| (e.key.len(), e.value.len()) == (entries[0].key.len(), entries[0].value.len()));
            // Heads and entries, or offsets and heads.
            assert_eq!(ends[1] == payload.len(), are_equal, "{shape:?}");
            assert_eq!(rows[0].stride, 2, "{shape:?}");
        }
    }
    let long = |len: usize| TestEntry { key: b"long".to_vec(), tag: Tag::OLDEST, value: vec![7; len] };
    for (len, rows_wanted) in [(MAX_STRIDE, 2), (MAX_STRIDE + 1, 1)] {
        assert_eq!(raw(&[long(len)]).1.len(), rows_wanted);
    }
    // Eight bytes of a rising key and eight of a value within 2^16, as in a table of counters.
    let counters: Vec<TestEntry> = (0..220u64)
        .map(|i| TestEntry {
            key: (1_000_000 + 7 * i).to_be_bytes().to_vec(),
            tag: Tag::new(SeqNo::new(5_000 + i), esker_base::ValueKind::Put),
            value: (random.below(1 << 16)).to_le_bytes().to_vec(),
        })
        .collect();
    let (payload, rows) = raw(&counters);
    assert_eq!(rows.len(), 2);
    let mut scratch = Vec::new();
    let stored =
        Codec::Delta.compress_with(&payload, &rows, None, &mut History::default(), &mut scratch).bytes.len();
    // Two bytes of the value, one of the fingerprint, and little else: a quarter.
    assert!(stored * 4 < payload.len(), "{stored} bytes of {}", payload.len());
}

/// Keys of one length are assembled from words, by the length of the prefix, and entries copied in steps, by
/// their own length: all lengths, with values of one length and of many.
#[test]
fn keys_of_every_length_behind_every_prefix() {
    let random = SeededRandom::new(23);
    for (key_len, are_values_equal) in (1..=45usize).flat_map(|len| [(len, false), (len, true)]) {
        for prefix_len in 0..key_len.min(12) {
            let value_len = random.below(150);
            let mut keys: Vec<Vec<u8>> = (0..20)
                .map(|_| {
                    let own = (prefix_len..key_len).map(|_| random.next_u64() as u8);
                    b"prefix bytes"[..prefix_len].iter().copied().chain(own).collect()
                })
                .collect();
            keys.sort();
            keys.dedup();
            let entries: Vec<TestEntry> = keys
                .into_iter()
                .map(|key| {
                    let len = if are_values_equal { value_len } else { random.below(value_len + 1) };
                    let value = (0..len).map(|_| random.next_u64() as u8).collect();
                    TestEntry {
                        key,
                        tag: Tag::new(SeqNo::new(random.below(3)), esker_base::ValueKind::Put),
                        value,
                    }
                })
                .collect();
            let block = block(LayoutOptions::Flat, &entries);
            let mut cursor = BlockCursor::new(false);
            // SAFETY: the block outlives the cursor; moves from an entry are made on valid cursors only.
            unsafe {
                cursor.open(block.contents());
                cursor.move_to_first();
                for at in 0..entries.len() {
                    assert_on(&cursor, &entries, at);
                    if !cursor.next_uniform() {
                        assert!(
                            at + 1 == entries.len() || key_len - prefix_len > 32,
                            "{key_len}, {prefix_len}"
                        );
                        cursor.next();
                    }
                }
                assert!(!cursor.is_valid());
                cursor.move_to_last();
                for at in (0..entries.len()).rev() {
                    assert_on(&cursor, &entries, at);
                    cursor.prev();
                }
                assert!(!cursor.is_valid());
            }
        }
    }
}

/// Where all entries have one length, there are no offsets, however many bytes it is; where that length is
/// zero, or does not fit its field, there are offsets.
#[test]
fn entries_of_one_length_have_no_offsets() {
    let put = Tag::new(SeqNo::ZERO, esker_base::ValueKind::Put);
    let entry = |key: &[u8], value_len| TestEntry { key: key.to_vec(), tag: put, value: vec![7; value_len] };
    let keys: Vec<[u8; 2]> = (0..300u16).map(u16::to_be_bytes).collect();
    let all = |value_len| keys.iter().map(|key| entry(key, value_len)).collect::<Vec<_>>();
    let one_differs = |value_len| {
        let mut all = all(value_len);
        all[299].value.push(7);
        all
    };
    // The length of an entry with an empty prefix, and bytes in the directory.
    let cases = [
        (all(0), 2, 3),
        (all(8), 10, 3),
        (all(8)[..1].to_vec(), 8, 3),
        (all(1_000), 1_002, 3),
        (one_differs(8), 10, 5),
        (one_differs(1_000), 1_002, 7),
        (vec![entry(b"key", 0)], 0, 5),
        (vec![entry(b"key", 65_535)], 65_535, 3),
        (vec![entry(b"key", 65_536)], 65_536, 5),
    ];
    for (entries, stride, directory_bytes) in cases {
        let block = block(LayoutOptions::Flat, &entries);
        let prefix_len = if entries.len() == 1 { entries[0].key.len() } else { 0 };
        let odd = entries.iter().filter(|entry| entry.value.len() != entries[0].value.len()).count();
        let len = 16 + prefix_len + entries.len() * (directory_bytes + stride) + odd;
        assert_eq!(block.contents().header().raw_len as usize, len, "{stride}");
        on_every_kernel(block.contents(), &entries, Shape::Dense, &SeededRandom::new(3));
    }
}

/// What a header states of equal entries has to agree with itself and with the length of the block.
#[test]
fn equal_entries_that_do_not_fill_their_block_are_refused() {
    let entries = entries(Shape::Records, 40, 0, &SeededRandom::new(8));
    let mut good = image(LayoutOptions::Flat, &entries);
    good.resize(good.len() + SLACK_BYTES, 0);
    BlockBytes::from_bytes(&good).expect("as it was written");
    assert_eq!(good[FLAGS_AT], 2 | 4, "a suffix of one length, entries of one length");
    let stride_at = HEADER_BYTES + 14;
    let refused = |changes: &[(usize, u8)], what: &str| {
        let mut bytes = good.clone();
        changes.iter().for_each(|&(at, value)| bytes[at] = value);
        let error = format!("{:?}", BlockBytes::from_bytes(&bytes).err().expect(what));
        assert!(error.contains(what), "{error}");
    };
    refused(&[(stride_at, 0)], "says that entries have 0 bytes");
    refused(&[(FLAGS_AT, 2)], "with flags 0x02 says that entries have");
    refused(&[(stride_at, good[stride_at] - 1)], "do not fill");
    refused(&[(stride_at + 1, 200)], "do not fill");
    refused(&[(FLAGS_AT, 4)], "no length of their keys");
    refused(&[(FLAGS_AT, 1 | 2 | 4)], "wide offsets");
    refused(&[(16, good[16] - 1)], "do not fill");
    refused(&[(16, good[16] + 1)], "do not fill");
}

/// One byte decides whether keys fit their entries, on either side.
#[test]
fn keys_fit_the_entries_of_one_length_or_not() {
    // Tags of two bytes, suffixes of one, values of eight.
    let put = |i: u64| Tag::new(SeqNo::new(1_000 * i), esker_base::ValueKind::Put);
    let entries: Vec<TestEntry> =
        (0..9).map(|i| TestEntry { key: vec![b'k', i as u8], tag: put(i), value: vec![7; 8] }).collect();
    let mut good = image(LayoutOptions::Flat, &entries);
    good.resize(good.len() + SLACK_BYTES, 0);
    let (suffix_at, stride_at) = (HEADER_BYTES + 12, HEADER_BYTES + 14);
    assert_eq!((good[suffix_at], good[stride_at]), (1, 2 + 1 + 8));
    for (suffix_len, is_valid) in [(9, true), (10, false), (11, false)] {
        let mut bytes = good.clone();
        bytes[suffix_at] = suffix_len;
        assert_eq!(BlockBytes::from_bytes(&bytes).is_ok(), is_valid, "suffixes of {suffix_len} bytes");
    }
    // A key of 65,535 bytes and no value: its prefix is the whole key, and one byte more is too much.
    let entries = [TestEntry { key: vec![b'k'; 65_535], tag: put(0), value: vec![7; 8] }];
    let mut good = image(LayoutOptions::Flat, &entries);
    good.resize(good.len() + SLACK_BYTES, 0);
    assert_eq!((good[suffix_at], good[stride_at]), (0, 8));
    for (suffix_len, is_valid) in [(0, true), (1, false)] {
        let mut bytes = good.clone();
        bytes[suffix_at] = suffix_len;
        assert_eq!(BlockBytes::from_bytes(&bytes).is_ok(), is_valid, "suffixes of {suffix_len} bytes");
    }
}

/// The shape of a block does not carry over to the next one.
#[test]
fn blocks_of_records_follow_others() {
    let random = SeededRandom::new(12);
    let [others, records] = [Shape::Random, Shape::Records].map(|shape| entries(shape, 40, 0, &random));
    let mut staged = Staged::new(LayoutOptions::Flat);
    for entries in [&others, &records, &others, &records] {
        entries
            .iter()
            .for_each(|entry| staged.add(&entry.key, key_hash(&entry.key), entry.tag, &entry.value, 0));
        let mut out = Vec::new();
        append_image(&mut staged, BlockLayout::Flat, 0, &RAW, &mut Scratch::default(), &mut out);
        assert_eq!(out, image(LayoutOptions::Flat, entries));
    }
}

/// A cursor on no entry stays there: the end of the entry before is not known.
#[test]
fn a_step_back_from_no_entry_leads_to_none() {
    let entries = entries(Shape::Records, 40, 0, &SeededRandom::new(8));
    let block = block(LayoutOptions::Flat, &entries);
    let mut cursor = BlockCursor::new(false);
    // SAFETY: the block outlives the cursor.
    unsafe {
        cursor.open(block.contents());
        cursor.prev();
        assert!(!cursor.is_valid());
        cursor.move_to_last();
        cursor.next();
        cursor.prev();
        assert_eq!(cursor.step_towards::<true>(0), BoundOrder::Unknown);
    }
    assert!(!cursor.is_valid());
}
