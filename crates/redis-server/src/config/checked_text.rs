//! Directives whose values are words with rules of their own, checked as by Redis.

use esker_resp::double::parse_double;

/// Integers that `oom-score-adj-values` has: of the server and of two kinds of its children.
const OOM_SCORES: usize = 3;
/// The least and the greatest of them.
const OOM_SCORE_MOST: i64 = 2000;
/// Bytes of a host's name with the zero that ends it in C: `NET_HOST_STR_LEN`.
const HOST_NAME_BYTES: usize = 256;

/// The words of a value. Redis parts them at single blanks, so that two have an empty one between them.
fn words(value: &[u8]) -> Vec<&[u8]> {
    if value.is_empty() { Vec::new() } else { value.split(|byte| *byte == b' ').collect() }
}

/// An integer as `strtoll` reads it: with white space and a sign before it, zero if nothing is there, and the
/// greatest or the least one if it is beyond them.
fn c_integer(word: &[u8]) -> Option<i64> {
    if word.is_empty() {
        return Some(0);
    }
    let word = word.trim_ascii_start();
    let (is_negative, digits) = match word {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digit = |number: i64, digit: &u8| {
        let digit = i64::from(digit - b'0');
        let number = number.saturating_mul(10);
        if is_negative { number.saturating_sub(digit) } else { number.saturating_add(digit) }
    };
    Some(digits.iter().fold(0, digit))
}

/// Numbers as text, with a blank between each two.
fn joined(numbers: impl Iterator<Item = i64>) -> Vec<u8> {
    numbers.map(|number| number.to_string()).collect::<Vec<_>>().join(" ").into_bytes()
}

/// `oom-score-adj-values`.
pub(super) fn oom_scores(value: &[u8]) -> Result<Vec<u8>, String> {
    let words = words(value);
    if words.len() != OOM_SCORES {
        return Err("wrong number of arguments".to_owned());
    }
    let scores: Option<Vec<i64>> = words.into_iter().map(c_integer).collect();
    match scores.filter(|scores| scores.iter().all(|score| score.unsigned_abs() <= OOM_SCORE_MOST as u64)) {
        Some(scores) => Ok(joined(scores.into_iter())),
        None => Err(format!(
            "Invalid oom-score-adj-values, elements must be between -{OOM_SCORE_MOST} and {OOM_SCORE_MOST}."
        )),
    }
}

/// `save`: pairs of seconds and changes.
pub(super) fn save_points(value: &[u8]) -> Result<Vec<u8>, String> {
    let numbers: Option<Vec<i64>> = words(value).into_iter().map(c_integer).collect();
    let is_right = |numbers: &Vec<i64>| {
        let mut pairs = numbers.chunks(2);
        pairs.all(|pair| matches!(pair, [seconds, changes] if *seconds >= 1 && *changes >= 0))
    };
    let numbers = numbers.filter(is_right).ok_or("Invalid save parameters")?;
    // Redis keeps changes in 32 bits.
    let kept = numbers.into_iter().enumerate();
    Ok(joined(kept.map(|(at, number)| if at % 2 == 1 { i64::from(number as i32) } else { number })))
}

/// `latency-tracking-info-percentiles`: numbers with six places at most and no zeros behind them.
pub(super) fn percentiles(value: &[u8]) -> Result<Vec<u8>, String> {
    let shown = words(value).into_iter().map(|word| match parse_double(word) {
        Some(number) if (0.0..=100.0).contains(&number) => {
            let places = format!("{number:.6}");
            Ok(places.trim_end_matches('0').trim_end_matches('.').to_owned())
        }
        Some(number) if !number.is_nan() => {
            Err("latency-tracking-info-percentiles parameters should sit between [0.0,100.0]".to_owned())
        }
        _ => Err("Invalid latency-tracking-info-percentiles parameters".to_owned()),
    });
    Ok(shown.collect::<Result<Vec<_>, String>>()?.join(" ").into_bytes())
}

/// `cluster-announce-hostname`.
pub(super) fn host_name(value: &[u8]) -> Result<Vec<u8>, String> {
    if value.len() >= HOST_NAME_BYTES {
        return Err(format!("Hostnames must be less than {HOST_NAME_BYTES} characters"));
    }
    match value.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.')) {
        true => Ok(value.to_vec()),
        false => Err("Hostnames may only contain alphanumeric characters, hyphens or dots".to_owned()),
    }
}

/// `proc-title-template`: text with variables in braces, which must show something.
pub(super) fn title_template(value: &[u8]) -> Result<Vec<u8>, String> {
    match shows_something(value) {
        Some(true) => Ok(value.to_vec()),
        _ => Err("template format is invalid or contains unknown variables".to_owned()),
    }
}

/// Whether a template shows anything but blanks while the title is empty, as Redis tries it; `None` if it is
/// not a template.
fn shows_something(mut rest: &[u8]) -> Option<bool> {
    let mut shows = false;
    while let Some(brace) = rest.iter().position(|byte| *byte == b'{') {
        shows |= rest[..brace].iter().any(|byte| *byte != b' ');
        rest = &rest[brace + 1..];
        // Two braces are one of the text.
        if let Some(behind) = rest.strip_prefix(b"{") {
            (shows, rest) = (true, behind);
            continue;
        }
        let end = rest.iter().position(|byte| *byte == b'}')?;
        match &rest[..end] {
            b"listen-addr" | b"port" | b"tls-port" | b"config-file" => shows = true,
            b"title" | b"server-mode" | b"unixsocket" => {}
            _ => return None,
        }
        rest = &rest[end + 1..];
    }
    Some(shows || rest.iter().any(|byte| *byte != b' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a check makes of a value; an empty text for a refusal.
    fn kept(check: fn(&[u8]) -> Result<Vec<u8>, String>, value: &str) -> String {
        String::from_utf8(check(value.as_bytes()).unwrap_or_default()).expect("text")
    }

    #[test]
    fn integers_are_those_of_strtoll() {
        let read = |word: &str| c_integer(word.as_bytes());
        assert_eq!((read(""), read("-"), read("\t7"), read("\t")), (Some(0), None, Some(7), None));
        assert_eq!((read("+1"), read("-01"), read("1x"), read("0x1")), (Some(1), Some(-1), None, None));
        assert_eq!(read("9223372036854775808"), Some(i64::MAX));
        assert_eq!(read("-9223372036854775809"), Some(i64::MIN));
    }

    #[test]
    fn values_are_kept_as_redis_prints_them() {
        assert_eq!(kept(oom_scores, "1 2 "), "1 2 0");
        assert_eq!(kept(oom_scores, "-2000 +0 2000"), "-2000 0 2000");
        assert_eq!(kept(oom_scores, "0 0 2001"), "");
        assert_eq!(kept(save_points, "1 99999999999"), "1 1215752191");
        assert_eq!((kept(save_points, "1 2 3"), kept(save_points, "0 1")), (String::new(), String::new()));
        assert_eq!(kept(percentiles, "50 99.90"), "50 99.9");
        assert_eq!(kept(percentiles, "50  99"), "");
        assert_eq!(kept(title_template, "{title} {port}"), "{title} {port}");
        assert_eq!(
            (kept(title_template, "{title} "), kept(title_template, "x{")),
            (String::new(), String::new())
        );
    }
}
