//! Text formats of keys, values, sizes and times on the command line.

use clap::ValueEnum;
use esker_protocol::scalar::{decode_integer, encode_integer};
use std::fmt::Write;
use std::io;
use std::time::Duration;

/// How a key or a value is written on the command line, in files and in answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A signed 64-bit integer in decimal, stored in eight bytes that sort like the numbers.
    Int,
    /// Text, taken as it is.
    #[default]
    Text,
    /// Any bytes, as hexadecimal digits.
    Hex,
}

impl Format {
    /// The bytes that `written` means, or what is wrong with it.
    pub(crate) fn parse(self, written: &[u8]) -> Result<Vec<u8>, String> {
        match self {
            Format::Text => Ok(written.to_vec()),
            Format::Int => {
                let number = std::str::from_utf8(written).ok().and_then(|text| text.trim().parse().ok());
                number
                    .map(|number| encode_integer(number).to_vec())
                    .ok_or_else(|| format!("'{}' is no signed 64-bit integer", shown(written)))
            }
            Format::Hex => decode_hex(written)
                .ok_or_else(|| format!("'{}' is no even number of hexadecimal digits", shown(written))),
        }
    }

    /// `bytes` in this format, text unescaped. An error says why they cannot be written so.
    pub(crate) fn plain(self, bytes: &[u8]) -> Result<Vec<u8>, String> {
        match self {
            Format::Text => Ok(bytes.to_vec()),
            Format::Int => match decode_integer(bytes) {
                Some(number) => Ok(number.to_string().into_bytes()),
                None => Err(format!(
                    "'{}' has {} bytes, an integer has 8; leave out 'int', or use 'hex'",
                    shown(bytes),
                    bytes.len()
                )),
            },
            Format::Hex => Ok(encode_hex(bytes).into_bytes()),
        }
    }

    /// `bytes` in this format within a line: text with escapes (see [`escape`]).
    pub(crate) fn in_line(self, bytes: &[u8]) -> Result<String, String> {
        match self {
            Format::Text => Ok(escape(bytes)),
            _ => self.plain(bytes).map(|plain| escape(&plain)),
        }
    }

    /// As a member `name` of a JSON object: integers as numbers, text as a string if it is UTF-8; anything
    /// else as hexadecimal digits, under `name` with `_hex` appended if that was not what was asked for.
    pub(crate) fn json_member(self, name: &str, bytes: &[u8]) -> Result<(String, serde_json::Value), String> {
        match (self, std::str::from_utf8(bytes)) {
            (Format::Text, Ok(text)) => Ok((name.to_owned(), text.into())),
            (Format::Text, Err(_)) => Ok((format!("{name}_hex"), encode_hex(bytes).into())),
            (Format::Hex, _) => Ok((name.to_owned(), encode_hex(bytes).into())),
            (Format::Int, _) => {
                self.plain(bytes)?;
                Ok((name.to_owned(), decode_integer(bytes).into()))
            }
        }
    }
}

/// The beginning of some bytes, escaped for a message.
pub(crate) fn shown(bytes: &[u8]) -> String {
    const LONGEST: usize = 40;
    match bytes.get(..LONGEST) {
        Some(start) => format!("{}...", escape(start)),
        None => escape(bytes),
    }
}

/// Text in one line without tabs: `\t`, `\n`, `\r` and `\\` for these four, `\xHH` for every byte of other
/// control characters, of a byte order mark, and of what is not UTF-8.
pub(crate) fn escape(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    let hex = |out: &mut String, bytes: &[u8]| {
        for byte in bytes {
            write!(out, "\\x{byte:02x}").expect("a string takes all text");
        }
    };
    for chunk in bytes.utf8_chunks() {
        for char in chunk.valid().chars() {
            match char {
                '\t' => out.push_str("\\t"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\\' => out.push_str("\\\\"),
                char if char.is_control() || char == '\u{feff}' => {
                    hex(&mut out, char.encode_utf8(&mut [0; 4]).as_bytes());
                }
                char => out.push(char),
            }
        }
        hex(&mut out, chunk.invalid());
    }
    out
}

/// The bytes that [`escape`] wrote. Everything but a backslash may stand unescaped.
pub(crate) fn unescape(text: &[u8]) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let (meant, len) = match rest {
            [b't', ..] => (b'\t', 1),
            [b'n', ..] => (b'\n', 1),
            [b'r', ..] => (b'\r', 1),
            [b'\\', ..] => (b'\\', 1),
            [b'x', high, low, ..] => match decode_hex(&[*high, *low]).as_deref() {
                Some([byte]) => (*byte, 3),
                _ => return Err(bad_escape(rest)),
            },
            _ => return Err(bad_escape(rest)),
        };
        out.push(meant);
        rest = rest.get(len..).unwrap_or_default();
    }
    Ok(out)
}

fn bad_escape(rest: &[u8]) -> String {
    let rest = String::from_utf8_lossy(rest.get(..3).unwrap_or(rest)).into_owned();
    format!("'\\{rest}' begins with no escape; a backslash is written '\\\\'")
}

/// Two lower-case digits a byte.
pub(crate) fn encode_hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        write!(out, "{byte:02x}").expect("a string takes all text");
    }
    out
}

/// The bytes of an even number of digits of either case.
pub(crate) fn decode_hex(digits: &[u8]) -> Option<Vec<u8>> {
    let (pairs, odd) = digits.as_chunks::<2>();
    let nibble = |digit: u8| char::from(digit).to_digit(16).map(|value| value as u8);
    let byte = |pair: &[u8; 2]| Some(nibble(pair[0])? << 4 | nibble(pair[1])?);
    if odd.is_empty() { pairs.iter().map(byte).collect() } else { None }
}

/// A number of bytes: `1048576`, `64K`, `256MiB`, `1.5GB`, in powers of 1024.
pub(crate) fn parse_bytes(written: &str) -> Result<u64, String> {
    let digits = written.find(|char: char| !char.is_ascii_digit() && char != '.').unwrap_or(written.len());
    let (number, unit) = written.split_at(digits);
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(format!("'{unit}' is no unit; write bytes, or KiB, MiB, GiB or TiB")),
    };
    let wrong = || format!("'{number}' is no number of bytes");
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(1 << shift).ok_or_else(wrong);
    }
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let bytes = number * (1u64 << shift) as f64;
    if bytes < (1u64 << 60) as f64 { Ok(bytes as u64) } else { Err(wrong()) }
}

/// A duration: `90s`, `15m`, `12h`, `30d`, `250ms`.
pub(crate) fn parse_duration(written: &str) -> Result<Duration, String> {
    let digits = written.find(|char: char| !char.is_ascii_digit()).unwrap_or(written.len());
    let (number, unit) = written.split_at(digits);
    let unit_ms = match unit.trim().to_ascii_lowercase().as_str() {
        "ms" => 1,
        "s" => 1000,
        "m" | "min" => 60 * 1000,
        "h" => 3600 * 1000,
        "d" => 24 * 3600 * 1000,
        _ => return Err(format!("'{unit}' is no unit of time; write ms, s, m, h or d, such as 15m")),
    };
    let number: u64 = number.parse().map_err(|_| format!("'{number}' is no number"))?;
    let ms = number.checked_mul(unit_ms).ok_or_else(|| format!("'{written}' is too long"))?;
    Ok(Duration::from_millis(ms))
}

/// A moment for people, in universal time: `2026-11-21 23:05:09`.
pub(crate) fn human_time(unix_ms: u64) -> String {
    let seconds = unix_ms / 1000;
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (mut year, mut day) = (1970, days);
    let year_days = |year: u64| {
        if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) {
            366
        } else {
            365
        }
    };
    // At most a few dozen steps for any realistic time.
    while day >= year_days(year) && year < 9999 {
        day -= year_days(year);
        year += 1;
    }
    let february = year_days(year) - 337;
    let mut month = 1;
    for len in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if day < len {
            break;
        }
        day -= len;
        month += 1;
    }
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{year:04}-{month:02}-{:02} {hour:02}:{minute:02}:{:02}", day + 1, second % 60)
}

/// A number of bytes for people: `999 B`, `1.5 MiB`.
pub(crate) fn human_bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut value, mut unit) = (bytes as f64, 0);
    // A value that would round to 1024.0 becomes 1.0 of the next unit.
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

const COLUMNS: usize = 80;

/// Words in lines of [`COLUMNS`]: a title before the first, and as much room before the others.
pub(crate) fn paragraph(out: &mut dyn io::Write, title: &str, text: &str) -> io::Result<()> {
    let mut line = title.to_owned();
    let mut is_empty = true;
    for word in text.split(' ') {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > COLUMNS {
            writeln!(out, "{line}")?;
            line = " ".repeat(title.chars().count());
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    writeln!(out, "{line}")
}

/// A count of things: `1 table`, `2,000 tables`.
pub(crate) fn human_counted(count: u64, thing: &str) -> String {
    format!("{} {thing}{}", human_count(count), if count == 1 { "" } else { "s" })
}

/// A count with its thousands apart: `1,234,567`.
pub(crate) fn human_count(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A time in milliseconds since 1970, as JSON has it.
pub(crate) fn unix_ms(time: std::time::SystemTime) -> u64 {
    let since = time.duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_text_comes_back_and_is_one_field_of_one_line() {
        let cases = [
            &b""[..],
            b"plain",
            b"a\tb\nc\rd\\e",
            b"\\x41",
            b"\xff\xfe\0\x7f",
            "gr\u{fc}n \u{feff} \u{85}".as_bytes(),
        ];
        for bytes in cases {
            let escaped = escape(bytes);
            assert!(!escaped.contains(['\t', '\n', '\r', '\u{feff}']), "{escaped}");
            assert_eq!(unescape(escaped.as_bytes()).as_deref(), Ok(bytes), "{escaped}");
        }
        assert_eq!(escape(b"\xff\x01a"), "\\xff\\x01a");
        for bad in ["\\", "\\q", "\\x4", "\\xzz", "C:\\Users"] {
            assert!(unescape(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn formats_parse_what_they_print() {
        assert_eq!(Format::Int.parse(b"-5"), Ok(encode_integer(-5).to_vec()));
        assert_eq!(Format::Int.plain(&encode_integer(-5)), Ok(b"-5".to_vec()));
        assert!(Format::Int.parse(b"five").is_err() && Format::Int.plain(b"five").is_err());
        assert_eq!(Format::Hex.parse(b"00fF"), Ok(vec![0, 255]));
        assert_eq!(Format::Hex.plain(&[0, 255]), Ok(b"00ff".to_vec()));
        assert!(Format::Hex.parse(b"0").is_err() && Format::Hex.parse(b"0g").is_err());
        assert_eq!(Format::Text.in_line(b"a\tb"), Ok("a\\tb".to_owned()));
    }

    #[test]
    fn sizes_read_and_print() {
        for (written, bytes) in [
            ("0", 0),
            ("123", 123),
            ("64K", 65_536),
            ("256MiB", 256 << 20),
            ("1.5gb", 3 << 29),
            ("2 TiB", 2 << 40),
        ] {
            assert_eq!(parse_bytes(written), Ok(bytes), "{written}");
        }
        for wrong in ["", "MiB", "1X", "-1", "1.2.3", "99999999999999999999", "99999999999G"] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
        assert_eq!(human_bytes(0), "0 B");
        assert_eq!(human_bytes(1023), "1023 B");
        assert_eq!(human_bytes(1536), "1.5 KiB");
        assert_eq!(human_bytes((1 << 20) - 1), "1.0 MiB");
        assert_eq!(human_count(0), "0");
        assert_eq!(human_count(1_234_567), "1,234,567");
        assert_eq!(human_count(123_456), "123,456");
    }

    #[test]
    fn moments_and_durations() {
        let told =
            [0, 951_782_399_000, 951_782_400_000, 1_735_689_599_999, 1_795_302_309_000].map(human_time);
        let expected = [
            "1970-01-01 00:00:00",
            "2000-02-28 23:59:59",
            "2000-02-29 00:00:00",
            "2024-12-31 23:59:59",
            "2026-11-21 23:05:09",
        ];
        assert_eq!(told, expected);
        assert_eq!(parse_duration("30d"), Ok(Duration::from_secs(30 * 86_400)));
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        for wrong in ["", "5", "m", "-1s", "1.5h", "3 weeks", "99999999999999999d"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn words_are_laid_out_in_lines() {
        let mut out = Vec::new();
        paragraph(&mut out, "read   ", &"a few words ".repeat(20)).unwrap();
        paragraph(&mut out, "", &"x".repeat(100)).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert!(lines.len() > 4 && lines[0].starts_with("read   a few") && lines[1].starts_with("       "));
        assert!(lines[..lines.len() - 1].iter().all(|line| line.len() <= COLUMNS), "{text}");
        assert_eq!(lines[lines.len() - 1].len(), 100, "a word stays whole");
    }
}
