//! FUNCTION DUMP and RESTORE: libraries of functions as one payload.
//!
//! ```text
//! for each library: 0xf5, its code as a string | RDB version (2) | CRC-64 (8)
//! ```

use super::decoder::Decoder;
use super::encoder::Encoder;
use super::footer;
use super::restore_error::RestoreError;

/// A library.
const FUNCTION: u8 = 245;

/// The payload that FUNCTION DUMP answers for the codes of libraries.
pub fn dump_functions<'c>(codes: impl IntoIterator<Item = &'c [u8]>) -> Vec<u8> {
    let mut encoder = Encoder::new();
    for code in codes {
        encoder.byte(FUNCTION);
        encoder.string(code);
    }
    footer::append(encoder.into_bytes())
}

/// The codes of libraries in a payload. Compressed ones may give up to `max_decompressed_bytes` altogether.
///
/// # Errors
/// [`RestoreError`].
pub fn restore_functions(
    payload: &[u8],
    max_decompressed_bytes: usize,
) -> Result<Vec<Vec<u8>>, RestoreError> {
    let mut decoder = Decoder::new(footer::check(payload)?, max_decompressed_bytes);
    let mut codes = Vec::new();
    while !decoder.is_at_end() {
        if decoder.byte()? != FUNCTION {
            return Err(RestoreError::NoFunction);
        }
        codes.push(decoder.string()?.into_owned());
    }
    Ok(codes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_come_back_and_hostile_payloads_are_refused() {
        let codes: [&[u8]; 3] = [b"#!lua name=a\nx", b"12", &[b'z'; 300]];
        let payload = dump_functions(codes);
        assert_eq!(restore_functions(&payload, 1 << 20).as_deref(), Ok(&codes.map(<[u8]>::to_vec)[..]));
        assert!(restore_functions(&payload, 10).is_err());
        assert_eq!(restore_functions(&dump_functions([]), 0), Ok(Vec::new()));
        for cut in 0..payload.len() - 10 {
            let cut = footer::append(payload[..cut].to_vec());
            // A cut between libraries is a payload of fewer.
            if let Ok(fewer) = restore_functions(&cut, 1 << 20) {
                assert!(fewer.len() < codes.len());
            }
        }
        assert_eq!(restore_functions(&footer::append(vec![0]), 0), Err(RestoreError::NoFunction));
        assert_eq!(restore_functions(b"short", 0), Err(RestoreError::Footer));
    }
}
