//! Packed strings: one behind the other, each with its length before it as a variable-length integer.
//!
//! A number has seven bits in each byte, the lowest first; all bytes but the last have bit 7 (LEB128).

/// Appends a number.
pub(crate) fn push_number(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Takes a number off the front; `None` if there is none of 64 bits.
pub(crate) fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7f);
        if bits << shift >> shift != bits {
            return None;
        }
        number |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// Appends a string.
pub(crate) fn push_string(string: &[u8], out: &mut Vec<u8>) {
    push_number(string.len() as u64, out);
    out.extend_from_slice(string);
}

/// Takes a string off the front; `None` if there is no whole one.
pub(crate) fn take_string<'b>(bytes: &mut &'b [u8]) -> Option<&'b [u8]> {
    let length = usize::try_from(take_number(bytes)?).ok()?;
    let (string, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(string)
}

/// Bytes that a string takes, its length included.
pub(crate) fn string_bytes(string: &[u8]) -> usize {
    let bits = usize::BITS - (string.len() | 1).leading_zeros();
    bits.div_ceil(7) as usize + string.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_taken_as_they_were_pushed() {
        for length in [0, 1, 127, 128, 16_383, 16_384, 70_000] {
            let string = vec![7; length];
            let mut packed = Vec::new();
            push_string(&string, &mut packed);
            assert_eq!(packed.len(), string_bytes(&string));
            let mut rest = &packed[..];
            assert_eq!(take_string(&mut rest), Some(&string[..]));
            assert!(rest.is_empty());
            assert_eq!(take_string(&mut &packed[..packed.len() - 1]), None);
        }
    }

    #[test]
    fn numbers_have_64_bits_at_most() {
        for number in [0, 127, 128, u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            push_number(number, &mut bytes);
            assert_eq!(take_number(&mut &bytes[..]), Some(number));
        }
        let beyond = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
        assert_eq!(take_number(&mut &beyond[..]), None);
        assert_eq!(take_number(&mut &[0x80; 11][..]), None);
    }
}
