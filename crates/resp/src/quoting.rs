//! Words with quotes: inline commands and lines of `redis.conf`.
//!
//! Words are separated by white space. In double quotes stand `\n`, `\r`, `\t`, `\b`, `\a`, `\xHH`, and `\`
//! before any other byte stands for that byte; in single quotes only `\'` is an escape. A closing quote
//! must be followed by white space or the end of the line. A word may begin plain and go on quoted: `a"b
//! c"` is one word. A NUL byte ends the line.
//!
//! A word is never longer than its text, so words are unescaped in place and nothing is allocated for them.

use std::ops::Range;

/// A quote that does not end, or that is not followed by white space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnbalancedQuotes;

/// Splits `line` into words, which it unescapes in place; calls `word` with the place of each. Linear.
///
/// # Errors
/// On unbalanced quotes; words before them have been reported.
pub(crate) fn split_in_place(
    line: &mut [u8],
    mut word: impl FnMut(Range<usize>),
) -> Result<(), UnbalancedQuotes> {
    let mut read = 0;
    loop {
        read += line[read..].iter().take_while(|&&byte| is_space(byte)).count();
        if matches!(line.get(read), None | Some(0)) {
            return Ok(());
        }
        let start = read;
        let mut written = start;
        loop {
            match line.get(read) {
                None | Some(0 | b' ' | b'\n' | b'\r' | b'\t') => break,
                Some(b'"') => {
                    (read, written) = double_quoted(line, read + 1, written)?;
                    break;
                }
                Some(b'\'') => {
                    (read, written) = single_quoted(line, read + 1, written)?;
                    break;
                }
                Some(&plain) => {
                    line[written] = plain;
                    (read, written) = (read + 1, written + 1);
                }
            }
        }
        word(start..written);
    }
}

/// Splits a line into words of their own.
///
/// # Errors
/// On unbalanced quotes.
///
/// ```
/// use esker_resp::quoting::split;
///
/// assert_eq!(split(br#"set "a key" '\'' \x"#)?, [&b"set"[..], b"a key", b"'", br"\x"]);
/// assert!(split(b"\"open").is_err());
/// # Ok::<(), esker_resp::quoting::UnbalancedQuotes>(())
/// ```
pub fn split(line: &[u8]) -> Result<Vec<Vec<u8>>, UnbalancedQuotes> {
    let mut line = line.to_vec();
    let mut places = Vec::new();
    split_in_place(&mut line, |place| places.push(place))?;
    Ok(places.into_iter().map(|place| line[place].to_vec()).collect())
}

/// Appends `bytes` in double quotes, printable and such that [`split`] reads them back: for logs and files.
pub fn quote(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    for &byte in bytes {
        match byte {
            b'\\' | b'"' => out.extend([b'\\', byte]),
            b'\n' => out.extend(b"\\n"),
            b'\r' => out.extend(b"\\r"),
            b'\t' => out.extend(b"\\t"),
            7 => out.extend(b"\\a"),
            8 => out.extend(b"\\b"),
            b' '..=b'~' => out.push(byte),
            _ => out.extend([b'\\', b'x', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]),
        }
    }
    out.push(b'"');
}

/// Reads up to the closing quote; returns where reading and writing go on.
fn double_quoted(
    line: &mut [u8],
    mut read: usize,
    mut written: usize,
) -> Result<(usize, usize), UnbalancedQuotes> {
    loop {
        let (byte, length) = match line[read..] {
            [] | [0, ..] => return Err(UnbalancedQuotes),
            [b'"', ..] => return end_of_quotes(line, read + 1, written),
            [b'\\', b'x', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                (hexadecimal(high) * 16 + hexadecimal(low), 4)
            }
            // A backslash at the end stands for itself; the quote is open anyway.
            [b'\\', escaped, ..] if escaped != 0 => (unescaped(escaped), 2),
            [plain, ..] => (plain, 1),
        };
        line[written] = byte;
        (read, written) = (read + length, written + 1);
    }
}

fn single_quoted(
    line: &mut [u8],
    mut read: usize,
    mut written: usize,
) -> Result<(usize, usize), UnbalancedQuotes> {
    loop {
        let (byte, length) = match line[read..] {
            [] | [0, ..] => return Err(UnbalancedQuotes),
            [b'\'', ..] => return end_of_quotes(line, read + 1, written),
            [b'\\', b'\'', ..] => (b'\'', 2),
            [plain, ..] => (plain, 1),
        };
        line[written] = byte;
        (read, written) = (read + length, written + 1);
    }
}

fn end_of_quotes(line: &[u8], read: usize, written: usize) -> Result<(usize, usize), UnbalancedQuotes> {
    match line.get(read) {
        None | Some(0) => Ok((read, written)),
        Some(&byte) if is_space(byte) => Ok((read, written)),
        Some(_) => Err(UnbalancedQuotes),
    }
}

/// White space as `isspace` in the C locale has it.
pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// Of a digit that was checked.
fn hexadecimal(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

fn unescaped(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'a' => 7,
        _ => byte,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
        split(line).ok()
    }

    #[test]
    fn quotes_and_escapes_are_taken_apart() {
        let cases: [(&[u8], &[&[u8]]); 9] = [
            (b"", &[]),
            (b" \t\x0b ", &[]),
            (b"get key", &[b"get", b"key"]),
            (b"  get\tkey \r", &[b"get", b"key"]),
            (br#""\x41\n\r\t\b\a\q\"" 'a\nb' "#, &[b"A\n\r\t\x08\x07q\"", br"a\nb"]),
            (br#"a"b c" d'e f'"#, &[b"ab c", b"de f"]),
            (br#""" ''"#, &[b"", b""]),
            (br#""\xg1""#, &[b"xg1"]),
            (b"a\0b c", &[b"a"]),
        ];
        for (line, expected) in cases {
            let found = words(line).expect("balanced");
            assert_eq!(found, expected, "{}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn a_vertical_tab_separates_words_but_does_not_end_one() {
        assert_eq!(words(b"a\x0bb \x0bc"), Some(vec![b"a\x0bb".to_vec(), b"c".to_vec()]));
    }

    #[test]
    fn unbalanced_quotes_are_refused() {
        for line in [&b"\"a"[..], b"'a", b"\"a\"b", b"'a'b", b"\"a\\\"", b"\"a\\", b"'\\'", b"\"\0\""] {
            assert_eq!(words(line), None, "{}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn what_is_quoted_is_read_back() {
        let all: Vec<u8> = (0..=255).collect();
        let mut line = Vec::new();
        quote(&all, &mut line);
        assert!(line.iter().all(|byte| (b' '..=b'~').contains(byte)));
        assert_eq!(words(&line), Some(vec![all]));
    }
}
