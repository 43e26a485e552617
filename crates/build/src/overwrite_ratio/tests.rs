use super::{OverwriteRatios, OverwriteSampler};
use esker_base::{FileNumber, PartId, TableUid};
use esker_version::{KeyRange, PartMeta};

/// A slice may hold all overwrites of its file.
#[test]
fn slices_count_as_much_as_they_may_hold() {
    let mut book = OverwriteRatios::default();
    let range = KeyRange::inclusive(&b"a"[..], &b"z"[..]);
    let part = PartMeta::new(PartId(1), FileNumber(7), 1000, TableUid(1), range);
    assert_eq!(book.share(&part, 1000), 1000, "nobody knows");
    book.files.insert(FileNumber(7), 200);
    assert_eq!(
        [1000, 500, 400, 200, 100, 0].map(|bytes| book.share(&part, bytes)),
        [200, 400, 500, 1000, 1000, 1000]
    );
}

#[test]
fn without_older_tables_nothing_is_sampled() {
    let sampler = OverwriteSampler::new(None, 1 << 20);
    assert_eq!(sampler.next_bytes, u64::MAX);
}
