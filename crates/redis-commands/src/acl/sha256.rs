//! SHA-256 digests, by which passwords are stored: of a password, as text, and compared in constant time.

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq;

/// A digest.
pub(super) type Digest = [u8; 32];

/// The digest of some bytes.
pub(super) fn digest(bytes: &[u8]) -> Digest {
    Sha256::digest(bytes).into()
}

/// The digest in small hexadecimal digits.
pub(super) fn hex(digest: &Digest) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The digest that 64 small hexadecimal digits write.
pub(super) fn from_hex(text: &[u8]) -> Option<Digest> {
    let small = text.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    if text.len() != 64 || !small {
        return None;
    }
    let mut digest = Digest::default();
    for (byte, digits) in digest.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(digits[0]) << 4 | digit(digits[1]);
    }
    Some(digest)
}

/// The value of a small hexadecimal digit.
const fn digit(digit: u8) -> u8 {
    if digit.is_ascii_digit() { digit - b'0' } else { digit - b'a' + 10 }
}

/// Whether two digests are equal, in a time that does not tell where they differ.
pub(super) fn same(left: &Digest, right: &Digest) -> bool {
    left.ct_eq(right).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_the_standard() {
        for (text, expected) in [
            ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
            ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
            (
                "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
            ),
        ] {
            assert_eq!(hex(&digest(text.as_bytes())), expected);
            assert_eq!(from_hex(expected.as_bytes()), Some(digest(text.as_bytes())));
        }
        let million = hex(&digest(&vec![b'a'; 1_000_000]));
        assert_eq!(million, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    }

    #[test]
    fn only_small_digits_of_the_right_number_are_a_digest() {
        let text = hex(&digest(b"x"));
        assert_eq!(from_hex(text.to_uppercase().as_bytes()), None);
        assert_eq!(from_hex(&text.as_bytes()[1..]), None);
        assert!(same(&digest(b"x"), &digest(b"x")) && !same(&digest(b"x"), &digest(b"y")));
    }
}
