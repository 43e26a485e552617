//! Fuzz target for the text protocol. The first byte says how large the pieces are in which the rest arrives,
//! as a stream of lines; the rest is also taken as one line, as a stored value and as a file of pairs.

use super::random_text;
use esker_env::{Random, SeededRandom};
use esker_protocol::scalar::{Kind, Scalar, ScalarRef};
use esker_protocol::{Command, Layout, Line, LineBuffer, answer, is_blank, pairs, parse_line};

/// Longest line that the splitter accepts.
const LIMIT_BYTES: usize = 200;

/// The target; see [`accepts`].
pub fn target(bytes: &[u8]) {
    accepts(bytes);
}

/// Whether every line is a command, or blank, and the last line ends.
///
/// # Panics
/// If a command does not come back from its text, an error text is longer than one line, or the division into
/// lines depends on the pieces.
pub fn accepts(bytes: &[u8]) -> bool {
    let Some((&piece, stream)) = bytes.split_first() else { return false };
    check_line(stream);
    check_stored(stream);
    check_pairs(stream);
    let (lines, rest) = cut(stream, usize::from(piece) + 1);
    assert_eq!(cut(stream, stream.len().max(1)), (lines.clone(), rest.clone()));
    let mut all = rest.is_empty();
    for line in lines {
        all &= line.is_some_and(|line| check_line(&line) || is_blank(&line));
    }
    all
}

/// The lines of a stream, `None` for those that are too long, and what follows the last of them.
fn cut(stream: &[u8], piece: usize) -> (Vec<Option<Vec<u8>>>, Vec<u8>) {
    let mut buffer = LineBuffer::new(LIMIT_BYTES);
    let mut lines = Vec::new();
    for bytes in stream.chunks(piece) {
        buffer.input(bytes.len()).extend_from_slice(bytes);
        while let Some(line) = buffer.next_line() {
            lines.push(match line {
                Line::Complete(line) => {
                    assert!(line.len() <= LIMIT_BYTES && !line.contains(&b'\n'));
                    Some(line.to_vec())
                }
                Line::TooLong => None,
            });
        }
    }
    (lines, buffer.rest().to_vec())
}

/// Whether the line is a command; it is written as text and parsed again.
fn check_line(line: &[u8]) -> bool {
    match parse_line(line) {
        Ok(command) => {
            assert!(!is_blank(line));
            assert_eq!(parse_line(&text_of(&command)).as_ref(), Ok(&command));
            true
        }
        Err(error) => {
            let mut out = Vec::new();
            answer::error(&error, &mut out);
            assert!(out.starts_with(b"Error: ") && out.ends_with(b"\n"));
            assert!(!out[..out.len() - 1].iter().any(u8::is_ascii_control), "an error is one line");
            assert!(out.len() < 400, "an error does not repeat the whole line");
            false
        }
    }
}

fn text_of(command: &Command) -> Vec<u8> {
    let (letter, scalars) = match command {
        Command::Put { key, value } => ("p", vec![key.clone(), value.clone()]),
        Command::Get { key } => ("g", vec![key.clone()]),
        Command::Range { start, end } => ("r", vec![start.clone(), end.clone()]),
        Command::Delete { key } => ("d", vec![key.clone()]),
        Command::Load { path } => ("l", vec![Scalar::Text(path.clone().into_bytes())]),
        Command::Show { limit: None } => ("s", vec![]),
        Command::Show { limit: Some(limit) } => ("s", vec![Scalar::Integer(*limit as i64)]),
        Command::Use { keyspace } => {
            ("use", keyspace.iter().map(|name| Scalar::Text(name.clone().into_bytes())).collect())
        }
        Command::Quit => ("q", vec![]),
    };
    let mut text = letter.as_bytes().to_vec();
    for scalar in scalars {
        let mut word = Vec::new();
        answer::scalar(scalar.borrowed(), &mut word);
        // Answers leave plain strings bare, commands do not.
        if scalar.kind() == Kind::Text && !word.starts_with(b"\"") {
            word = [b"\"", word.as_slice(), b"\""].concat();
        }
        text.push(b' ');
        text.extend_from_slice(&word);
    }
    text
}

/// Checks that any stored bytes are printed on one line, that stored text prints as that text, and that other
/// keyspaces get the bytes themselves.
fn check_stored(bytes: &[u8]) {
    let text = ScalarRef::Text(bytes);
    for layout in [Layout::Own(Kind::Integer), Layout::Own(Kind::Text), Layout::Text] {
        let mut out = Vec::new();
        answer::pair(layout.key(bytes), layout.value(bytes), &mut out);
        assert!(!out.iter().any(u8::is_ascii_control));
        assert_eq!(layout.value(&layout.value_bytes(text)), text);
    }
    assert_eq!(Layout::Text.key_bytes(text), bytes);
    assert_eq!(Layout::Text.value_bytes(text), bytes);
}

fn check_pairs(bytes: &[u8]) {
    let decoded: Vec<u8> = pairs::decode(bytes).flat_map(|(key, value)| pairs::encode(key, value)).collect();
    assert_eq!(decoded, bytes[..bytes.len() / pairs::PAIR_LEN * pairs::PAIR_LEN]);
}

/// A few commands.
pub fn valid(random: &SeededRandom) -> Vec<u8> {
    let mut bytes = vec![random.below(256) as u8];
    for _ in 0..random.below(8) {
        let text = || Scalar::Text(random_text(random, 12));
        let number = Scalar::Integer(match random.below(4) {
            0 => random.next_u64() as i64,
            _ => random.below(100) as i64 - 50,
        });
        let command = match random.below(10) {
            0 => Command::Get { key: number },
            1 => Command::Range { start: number.clone(), end: number },
            2 => Command::Range { start: text(), end: text() },
            3 => Command::Delete { key: text() },
            4 => Command::Load { path: "pairs.bin".to_owned() },
            5 => Command::Show { limit: (random.below(2) == 0).then(|| random.below(1 << 40)) },
            6 if random.below(5) == 0 => Command::Quit,
            7 => Command::Put { key: text(), value: number },
            8 => Command::Use {
                keyspace: (random.below(3) > 0)
                    .then(|| String::from_utf8_lossy(&random_text(random, 12)).into_owned()),
            },
            _ => Command::Put { key: number, value: text() },
        };
        bytes.extend_from_slice(&text_of(&command));
        bytes.extend_from_slice(if random.below(4) == 0 { b"\r\n" } else { b"\n" });
    }
    bytes
}
