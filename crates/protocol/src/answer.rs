//! Formats answers. Each function appends to a buffer; `\n` ends a line, and no function writes one inside.

use crate::scalar::ScalarRef;
use std::fmt::Display;
use std::io::Write;

/// `OK`, the whole line.
pub fn ok(out: &mut Vec<u8>) {
    out.extend_from_slice(b"OK\n");
}

/// `Error: ` and the reason, in one line whatever bytes the reason has.
pub fn error(reason: impl Display, out: &mut Vec<u8>) {
    out.extend_from_slice(b"Error: ");
    let reason = reason.to_string();
    out.extend(reason.bytes().map(|byte| if byte.is_ascii_control() { b' ' } else { byte }));
    out.push(b'\n');
}

/// An integer, or a string: in quotes if it contains a space, a colon, a quote, or anything that would break
/// the line or be ambiguous (control characters, backslashes, bytes that are not UTF-8, the empty string). No
/// line end.
pub fn scalar(scalar: ScalarRef<'_>, out: &mut Vec<u8>) {
    match scalar {
        ScalarRef::Integer(number) => integer(number, out),
        ScalarRef::Text(bytes) => text(bytes, out),
    }
}

/// `K:V`, without a line end.
pub fn pair(key: ScalarRef<'_>, value: ScalarRef<'_>, out: &mut Vec<u8>) {
    scalar(key, out);
    out.push(b':');
    scalar(value, out);
}

/// `K:V:L1`, without a line end.
pub fn pair_of_level(key: ScalarRef<'_>, value: ScalarRef<'_>, level: usize, out: &mut Vec<u8>) {
    pair(key, value, out);
    display(format_args!(":L{level}"), out);
}

/// `Logical Pairs: N`, the whole line.
pub fn logical_pairs(count: u64, out: &mut Vec<u8>) {
    display(format_args!("Logical Pairs: {count}\n"), out);
}

/// `LVL1: n, LVL3: n`, the whole line: the levels that hold pairs, and how many. Nothing if no level does:
/// the first empty line ends the answer, so none may come before.
pub fn levels(levels: impl IntoIterator<Item = (usize, u64)>, out: &mut Vec<u8>) {
    let mut separator = "";
    for (level, pairs) in levels.into_iter().filter(|&(_, pairs)| pairs > 0) {
        display(format_args!("{separator}LVL{level}: {pairs}"), out);
        separator = ", ";
    }
    if !separator.is_empty() {
        end_of_line(out);
    }
}

/// The end of a line; on its own an empty line.
pub fn end_of_line(out: &mut Vec<u8>) {
    out.push(b'\n');
}

fn display(text: impl Display, out: &mut Vec<u8>) {
    write!(out, "{text}").expect("a vector takes all bytes");
}

/// Decimal digits by hand: a scan prints two numbers a pair, and formatting them costs more than reading
/// them.
fn integer(number: i64, out: &mut Vec<u8>) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    let mut rest = number.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}

fn text(bytes: &[u8], out: &mut Vec<u8>) {
    let utf8 = std::str::from_utf8(bytes).is_ok();
    let plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b':' | b'"' | b'\\') || *byte >= 0x80;
    if utf8 && !bytes.is_empty() && bytes.iter().all(plain) {
        out.extend_from_slice(bytes);
        return;
    }
    out.push(b'"');
    for &byte in bytes {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x20..=0x7e => out.push(byte),
            0x80..=0xff if utf8 => out.push(byte),
            _ => display(format_args!("\\x{byte:02X}"), out),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn integers_print_as_the_library_does() {
        for number in [i64::MIN, i64::MIN + 1, -10, -9, -1, 0, 1, 9, 10, 99, 100, i64::MAX] {
            assert_eq!(written(|out| scalar(ScalarRef::Integer(number), out)), number.to_string());
        }
    }

    #[test]
    fn strings_are_quoted_when_they_must_be() {
        let cases: [(&[u8], &str); 11] = [
            (b"plain", "plain"),
            (b"a,b;c'd", "a,b;c'd"),
            ("grüße".as_bytes(), "grüße"),
            (b"a b", "\"a b\""),
            (b"a:b", "\"a:b\""),
            (b"a\"b", "\"a\\\"b\""),
            (b"", "\"\""),
            (b"a\\b", "\"a\\\\b\""),
            (b"a\nb\tc\r", "\"a\\nb\\tc\\x0D\""),
            (b"\xff\x80", "\"\\xFF\\x80\""),
            ("ü\0".as_bytes(), "\"ü\\x00\""),
        ];
        for (bytes, expected) in cases {
            assert_eq!(written(|out| scalar(ScalarRef::Text(bytes), out)), expected);
        }
    }

    #[test]
    fn lines_have_the_course_s_form() {
        let (key, value) = (ScalarRef::Integer(-3), ScalarRef::Text(b"a b"));
        assert_eq!(written(|out| pair(key, value, out)), "-3:\"a b\"");
        assert_eq!(written(|out| pair_of_level(key, ScalarRef::Integer(4), 2, out)), "-3:4:L2");
        assert_eq!(written(ok), "OK\n");
        assert_eq!(written(|out| error("two\nlines", out)), "Error: two lines\n");
        assert_eq!(written(|out| logical_pairs(12, out)), "Logical Pairs: 12\n");
        assert_eq!(written(|out| levels([(0, 0), (1, 3), (2, 0), (3, 11)], out)), "LVL1: 3, LVL3: 11\n");
        assert_eq!(written(|out| levels([(1, 0)], out)), "");
    }
}
