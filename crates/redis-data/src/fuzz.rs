//! Targets for fuzzers: any bytes, which must neither panic nor take memory because they say so.
//!
//! `fuzz/` hands libFuzzer's bytes to them; the tests of this crate run them on seeded mutations.

use crate::dump::{EncodingLimits, MAX_EXPANSION, dump, payload_of, restore};
use crate::hyperloglog::{self, SPARSE_MAX_BYTES};

/// Bytes that compressed strings may give.
const MAX_DECOMPRESSED_BYTES: usize = 1 << 20;

/// RESTORE of a type and value without their footer. What is accepted comes back from its own payload.
pub fn restore_body(body: &[u8]) {
    let payload = payload_of(body.to_vec());
    let Ok(value) = restore(&payload, MAX_DECOMPRESSED_BYTES) else { return };
    assert!(value.memory_bytes() <= MAX_EXPANSION * (payload.len() + MAX_DECOMPRESSED_BYTES));
    let limits = EncodingLimits::default();
    let dumped = dump(&value, &limits);
    let again = restore(&dumped, usize::MAX).map(|value| dump(&value, &limits));
    // The payloads are compared, not the values: members of sets and sorted sets change their order once.
    assert_eq!(again.as_ref(), Ok(&dumped), "what is dumped is restored as it was");
}

/// Every function on a string that claims to be a HyperLogLog. What one accepts all do.
pub fn hyperloglog(string: &[u8]) {
    let mut added = string.to_vec();
    if hyperloglog::check(string).is_err() {
        assert!(hyperloglog::add(&mut added, ["x"], SPARSE_MAX_BYTES).is_err());
        assert_eq!(added, string);
        return;
    }
    let count = hyperloglog::count_union([string]).expect("it was checked");
    hyperloglog::add(&mut added, ["x", "y"], SPARSE_MAX_BYTES).expect("it was checked");
    hyperloglog::check(&added).expect("adding keeps it whole");
    let merged = hyperloglog::merge(None, [string], SPARSE_MAX_BYTES).expect("it was checked");
    assert_eq!(hyperloglog::count_union([&*merged]), Ok(count), "a copy has the same elements");
    hyperloglog::count(&mut added).expect("it was checked");
}
