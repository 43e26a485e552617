//! Footer of a payload: RDB version and checksum.

use super::restore_error::RestoreError;
use crate::crc64;

/// The version that Redis 7.0 writes, and the newest it reads.
const VERSION: u16 = 10;
const CHECKSUM_BYTES: usize = 8;
const FOOTER_BYTES: usize = 2 + CHECKSUM_BYTES;

/// The payload of a type and its value.
pub(super) fn append(mut body: Vec<u8>) -> Vec<u8> {
    body.extend_from_slice(&VERSION.to_le_bytes());
    let checksum = crc64::checksum(&body);
    body.extend_from_slice(&checksum.to_le_bytes());
    body
}

/// The type and value of a payload.
pub(super) fn check(payload: &[u8]) -> Result<&[u8], RestoreError> {
    let body_len = payload.len().checked_sub(FOOTER_BYTES).ok_or(RestoreError::Footer)?;
    let (summed, checksum) = payload.split_at(payload.len() - CHECKSUM_BYTES);
    let (body, version) = summed.split_at(body_len);
    let newer = u16::from_le_bytes([version[0], version[1]]) > VERSION;
    if newer || checksum != crc64::checksum(summed).to_le_bytes() {
        return Err(RestoreError::Footer);
    }
    Ok(body)
}
