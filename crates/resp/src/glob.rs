//! Glob patterns of Redis: `KEYS`, `SCAN MATCH`, `PSUBSCRIBE`, `CONFIG GET` and ACL rules.
//!
//! | pattern | matches |
//! |---|---|
//! | `?` | one byte |
//! | `*` | any bytes |
//! | `[abc]`, `[a-z]`, `[^a]` | one byte of the class, or outside of it |
//! | `\x` | the byte `x` itself |
//!
//! The answers are those of Redis 7.0 for every pattern, its peculiarities included, because programs have
//! patterns that rely on them: `*` does not match the empty string, an unterminated class ends with the
//! pattern, a class compares bytes as signed, and an escaped byte in a class keeps its case.
//!
//! Only the last `*` is ever tried again: had an earlier one to take more bytes, the later one could take
//! them instead. So matching is a loop with one place to return to, without recursion, and takes at most
//! `pattern.len() * text.len()` steps.

/// Whether letters of different case are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// `a` and `A` differ: keys, channels.
    Sensitive,
    /// `a` and `A` are equal, for ASCII letters: names of options and commands.
    Insensitive,
}

/// Whether `text` matches `pattern`. At most `pattern.len() * text.len()` steps, no allocation.
///
/// ```
/// use esker_resp::glob::{Case, matches};
///
/// assert!(matches(b"user:[0-9]*", b"user:17", Case::Sensitive));
/// assert!(!matches(b"user:[^0-9]*", b"user:17", Case::Sensitive));
/// assert!(matches(b"MAXMEMORY*", b"maxmemory-policy", Case::Insensitive));
/// ```
#[must_use]
pub fn matches(pattern: &[u8], text: &[u8], case: Case) -> bool {
    let (mut at, mut position) = (0, 0);
    // Where the pattern goes on behind the last star, and where the text that follows the star begins.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        if position == text.len() {
            // The empty text matches the empty pattern only: stars are passed over behind a match.
            return at == pattern.len()
                || (!text.is_empty() && pattern[at..].iter().all(|&byte| byte == b'*'));
        }
        if pattern.get(at) == Some(&b'*') {
            at += pattern[at..].iter().take_while(|&&byte| byte == b'*').count();
            if at == pattern.len() {
                return true;
            }
            retry = Some((at, position));
            continue;
        }
        if let Some(behind) = match_one(pattern, at, text[position], case) {
            (at, position) = (behind, position + 1);
            continue;
        }
        let Some((behind_star, began)) = retry else { return false };
        // A star before something never stands for all of the rest.
        if began + 1 == text.len() {
            return false;
        }
        retry = Some((behind_star, began + 1));
        (at, position) = (behind_star, began + 1);
    }
}

/// Matches one byte against the element of the pattern at `at`; returns where the next element begins.
fn match_one(pattern: &[u8], at: usize, byte: u8, case: Case) -> Option<usize> {
    match *pattern.get(at)? {
        b'?' => Some(at + 1),
        b'[' => match_class(pattern, at + 1, byte, case),
        b'\\' if at + 1 < pattern.len() => equal(pattern[at + 1], byte, case).then_some(at + 2),
        literal => equal(literal, byte, case).then_some(at + 1),
    }
}

/// Matches one byte against the class whose first byte behind `[` is at `at`.
fn match_class(pattern: &[u8], mut at: usize, byte: u8, case: Case) -> Option<usize> {
    let negated = pattern.get(at) == Some(&b'^');
    at += usize::from(negated);
    let mut found = false;
    let behind = loop {
        match pattern[at.min(pattern.len())..] {
            [] => break at,
            [b'\\', escaped, ..] => {
                found |= escaped == byte;
                at += 2;
            }
            [b']', ..] => break at + 1,
            [first, b'-', last, ..] => {
                found |= in_range(first, last, byte, case);
                at += 3;
            }
            [member, ..] => {
                found |= equal(member, byte, case);
                at += 1;
            }
        }
    };
    (found != negated).then_some(behind)
}

fn equal(a: u8, b: u8, case: Case) -> bool {
    a == b || (case == Case::Insensitive && a.eq_ignore_ascii_case(&b))
}

/// Bytes compare as signed, as `char` does where Redis mostly runs.
fn in_range(first: u8, last: u8, byte: u8, case: Case) -> bool {
    let (low, high) = if first.cast_signed() > last.cast_signed() { (last, first) } else { (first, last) };
    let folded = |byte: u8| match case {
        Case::Sensitive => byte.cast_signed(),
        Case::Insensitive => byte.to_ascii_lowercase().cast_signed(),
    };
    (folded(low)..=folded(high)).contains(&folded(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sensitive(pattern: &str, text: &str) -> bool {
        matches(pattern.as_bytes(), text.as_bytes(), Case::Sensitive)
    }

    #[test]
    fn elements_match_as_documented() {
        for (pattern, text) in [
            ("", ""),
            ("*", "anything"),
            ("a**", "a"),
            ("h?llo", "hello"),
            ("h*llo", "hllo"),
            ("h[ae]llo", "hallo"),
            ("h[^e]llo", "hallo"),
            ("h[b-a]llo", "hbllo"),
            ("\\*a", "*a"),
            ("a\\", "a\\"),
            ("[\\]]", "]"),
            ("*a*b*c", "xxaxxbxxcxc"),
            ("[abc", "b"),
            ("[^", "x"),
            ("[a-", "-"),
        ] {
            assert!(sensitive(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn what_differs_does_not_match() {
        for (pattern, text) in [
            ("", "a"),
            ("*", ""),
            ("**", ""),
            ("?", ""),
            ("a?", "a"),
            ("a*?", "a"),
            ("h[^e]llo", "hello"),
            ("[", "["),
            ("[]", "]"),
            ("*a*b*c", "xxaxxbxxcxcx"),
            ("A", "a"),
        ] {
            assert!(!sensitive(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn case_is_ignored_but_for_escaped_members_of_classes() {
        let insensitive = |pattern: &[u8], text: &[u8]| matches(pattern, text, Case::Insensitive);
        assert!(insensitive(b"MaxMemory*", b"maxmemory-policy"));
        assert!(insensitive(b"[A-C]x", b"bX"));
        assert!(insensitive(b"[A]", b"a"));
        assert!(!insensitive(b"[\\A]", b"a"));
    }

    #[test]
    fn ranges_compare_signed_bytes() {
        assert!(matches(b"[\xf0-\x05]", b"\xff", Case::Sensitive));
        assert!(!matches(b"[\x05-\xf0]", b"\x80", Case::Sensitive));
    }

    #[test]
    fn many_stars_take_no_more_than_the_product_of_the_lengths() {
        let text = vec![b'a'; 20_000];
        let mut pattern = b"*a".repeat(200);
        pattern.push(b'b');
        assert!(!matches(&pattern, &text, Case::Sensitive));
        assert!(matches(&b"*".repeat(10_000), &text, Case::Sensitive));
        assert!(!matches(&[b"*".repeat(10_000), b"b".to_vec()].concat(), &text, Case::Sensitive));
    }
}
