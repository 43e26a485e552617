//! A script of EVAL: its text, its SHA-1, and the flags of its first line.

use crate::flags::Flags;
use esker_resp::quoting::split;
use sha1::{Digest, Sha1};
use std::sync::Arc;

/// A SHA-1 as 40 hexadecimal digits in lower case.
pub type Sha1Hex = [u8; 40];

/// The SHA-1 of `bytes`.
#[must_use]
pub fn sha1_hex(bytes: &[u8]) -> Sha1Hex {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut hex = [0; 40];
    for (pair, byte) in hex.chunks_exact_mut(2).zip(Sha1::digest(bytes)) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    hex
}

/// A script that can be run by any engine.
#[derive(Clone, Debug)]
pub struct Script {
    sha: Sha1Hex,
    body: Arc<[u8]>,
    /// Where the code begins: at the end of a first line `#!lua`, so that lines keep their numbers.
    code: usize,
    flags: Option<Flags>,
}

impl Script {
    /// Reads the first line.
    ///
    /// # Errors
    /// The reply's text, if it begins with `#!` and is not understood.
    pub fn new(body: &[u8]) -> Result<Self, Vec<u8>> {
        let (flags, code) = read_first_line(body)?;
        Ok(Self { sha: sha1_hex(body), body: body.into(), code, flags })
    }

    /// Its SHA-1, by which EVALSHA names it.
    #[must_use]
    pub fn sha(&self) -> &Sha1Hex {
        &self.sha
    }

    /// The whole text.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// The flags of its first line. `None`: there is no such line, and the script may do whatever scripts
    /// might before there were flags.
    #[must_use]
    pub fn flags(&self) -> Option<Flags> {
        self.flags
    }

    pub(crate) fn code(&self) -> &[u8] {
        &self.body[self.code..]
    }
}

/// Flags of a first line `#!lua flags=...`, and where the code begins.
fn read_first_line(body: &[u8]) -> Result<(Option<Flags>, usize), Vec<u8>> {
    if !body.starts_with(b"#!") {
        return Ok((None, 0));
    }
    let Some(end) = body.iter().position(|byte| *byte == b'\n') else {
        return Err(b"ERR Invalid script shebang".to_vec());
    };
    let words = split(&body[..end]).unwrap_or_default();
    let Some((engine, options)) = words.split_first() else {
        return Err(b"ERR Invalid engine in script shebang".to_vec());
    };
    if engine != b"#!lua" {
        return Err([b"ERR Unexpected engine in script shebang: ", engine.as_slice()].concat());
    }
    let mut flags = Flags::default();
    for option in options {
        let Some(names) = option.strip_prefix(b"flags=") else {
            return Err([b"ERR Unknown lua shebang option: ", option.as_slice()].concat());
        };
        if names.is_empty() {
            continue;
        }
        for name in names.split(|byte| *byte == b',') {
            let Some(flag) = Flags::named(name) else {
                return Err([b"ERR Unexpected flag in script shebang: ", name].concat());
            };
            flags = flags.with(flag);
        }
    }
    Ok((Some(flags), end))
}

#[cfg(test)]
mod tests {
    use super::{Script, sha1_hex};
    use crate::flags::Flags;

    #[test]
    fn a_first_line_has_flags_and_lines_keep_their_numbers() {
        let script = Script::new(b"#!lua flags=no-writes,allow-stale\nreturn 1").expect("valid");
        assert_eq!(script.flags(), Some(Flags::NO_WRITES.with(Flags::ALLOW_STALE)));
        assert_eq!(script.code(), b"\nreturn 1");
        assert_eq!(Script::new(b"return 1").expect("valid").flags(), None);
    }

    #[test]
    fn first_lines_that_are_not_understood_are_refused() {
        for (body, expected) in [
            (&b"#!lua"[..], &b"ERR Invalid script shebang"[..]),
            (b"#!python\n", b"ERR Unexpected engine in script shebang: #!python"),
            (b"#!lua name=x\n", b"ERR Unknown lua shebang option: name=x"),
            (b"#!lua flags=a\n", b"ERR Unexpected flag in script shebang: a"),
            (b"#!lua \"x\n", b"ERR Invalid engine in script shebang"),
        ] {
            assert_eq!(Script::new(body).expect_err("refused"), expected);
        }
    }

    #[test]
    fn a_script_has_the_name_that_clients_compute() {
        assert_eq!(&sha1_hex(b""), b"da39a3ee5e6b4b0d3255bfef95601890afd80709");
    }
}
