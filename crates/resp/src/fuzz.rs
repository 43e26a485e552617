//! Targets for fuzzers: any bytes, which must neither panic nor be read in two ways.
//!
//! `fuzz/` hands libFuzzer's bytes to them; the tests of this crate run them on seeded mutations.

use crate::double::{parse_double, write_double};
use crate::glob::{Case, matches};
use crate::integer::{parse_integer, write_integer};
use crate::limits::Limits;
use crate::long_double::LongDouble;
use crate::memory_size::parse_memory_size;
use crate::protocol_error::ProtocolError;
use crate::quoting::{quote, split};
use crate::redis_conf;
use crate::request::{Progress, RequestParser};
use crate::value::Value;
use crate::value_parser::{ReplyError, ReplyParser};
use crate::writer::{Protocol, ReplyWriter};

/// What a stream of requests came to: their arguments, and the error that ended it.
type Requests = (Vec<Vec<Vec<u8>>>, Option<ProtocolError>);

/// Reads a stream of requests in pieces of `piece` bytes.
///
/// # Panics
/// If the parser consumes nothing, or has not enough of an argument.
#[must_use]
pub fn read_requests(stream: &[u8], piece: usize, limits: &Limits) -> Requests {
    let mut parser = RequestParser::new();
    let (mut buffer, mut requests) = (Vec::new(), Vec::new());
    for piece in stream.chunks(piece.max(1)) {
        buffer.extend_from_slice(piece);
        let mut start = 0;
        loop {
            let consumed = match parser.parse(&mut buffer[start..], limits) {
                Ok(Progress::Request { consumed }) => {
                    let request = &buffer[start..start + consumed];
                    requests
                        .push(parser.arguments().iter().map(|place| place.of(request).to_vec()).collect());
                    consumed
                }
                Ok(Progress::Nothing { consumed }) => consumed,
                Ok(Progress::Incomplete { missing }) => {
                    assert!(missing > 0, "more bytes are missing");
                    break;
                }
                Err(error) => return (requests, Some(error)),
            };
            assert!(consumed > 0, "a request has bytes");
            start += consumed;
        }
        buffer.drain(..start);
    }
    (requests, None)
}

/// Target `resp_request`: the first byte is the size of pieces; the requests are the same in one piece, and
/// what a request said comes back from its plainest encoding.
///
/// # Panics
/// If the parser is wrong.
pub fn request(bytes: &[u8]) {
    let Some((&piece, stream)) = bytes.split_first() else { return };
    let limits = Limits::default();
    let whole = read_requests(stream, stream.len(), &limits);
    assert_eq!(read_requests(stream, usize::from(piece), &limits), whole, "pieces do not matter");
    let mut encoded = Vec::new();
    for request in &whole.0 {
        let mut writer = ReplyWriter::new(&mut encoded, Protocol::Resp2);
        writer.array(request.len());
        for argument in request {
            writer.bulk(argument);
        }
    }
    let again = read_requests(&encoded, encoded.len(), &limits);
    assert_eq!(again, (whole.0, None), "a request comes back from its encoding");
}

/// Reads a stream of replies in pieces of `piece` bytes.
///
/// # Panics
/// If the parser consumes more than it was given.
#[must_use]
pub fn read_replies(stream: &[u8], piece: usize) -> (Vec<Value>, Option<ReplyError>) {
    let mut parser = ReplyParser::default();
    let (mut buffer, mut replies) = (Vec::new(), Vec::new());
    for piece in stream.chunks(piece.max(1)) {
        buffer.extend_from_slice(piece);
        let mut start = 0;
        loop {
            match parser.parse(&buffer[start..]) {
                Ok(parsed) => {
                    start += parsed.consumed;
                    match parsed.reply {
                        Some(reply) => replies.push(reply),
                        None => break,
                    }
                }
                Err(error) => return (replies, Some(error)),
            }
        }
        buffer.drain(..start);
    }
    (replies, None)
}

/// Target `resp_reply`: the first byte is the size of pieces; replies are the same in one piece, and what was
/// read comes back from its encoding in RESP3.
///
/// # Panics
/// If the parser or the writer is wrong.
pub fn reply(bytes: &[u8]) {
    let Some((&piece, stream)) = bytes.split_first() else { return };
    let (replies, error) = read_replies(stream, stream.len());
    let texts: Vec<String> = replies.iter().map(|reply| format!("{reply:?}")).collect();
    let (in_pieces, error_in_pieces) = read_replies(stream, usize::from(piece));
    // As text, because a NaN is not equal to itself.
    let texts_in_pieces: Vec<String> = in_pieces.iter().map(|reply| format!("{reply:?}")).collect();
    assert_eq!((texts_in_pieces, error_in_pieces), (texts, error), "pieces do not matter");
    for reply in &replies {
        let mut encoded = Vec::new();
        ReplyWriter::new(&mut encoded, Protocol::Resp3).value(reply);
        let (again, error) = read_replies(&encoded, encoded.len());
        assert!(error.is_none() && again.len() == 1, "a reply's encoding is one reply");
        let mut twice = Vec::new();
        ReplyWriter::new(&mut twice, Protocol::Resp3).value(&again[0]);
        assert_eq!(twice, encoded, "a reply comes back from its encoding");
    }
}

/// Target `resp_text`: numbers, patterns, quoted words and configuration files. The first line is a pattern
/// as well, for the rest.
///
/// # Panics
/// If what was printed is read back as something else.
pub fn text(bytes: &[u8]) {
    if let Some(value) = parse_integer(bytes) {
        let mut printed = Vec::new();
        write_integer(value, &mut printed);
        assert_eq!(printed, bytes, "an integer has one text");
    }
    if let Some(value) = parse_double(bytes) {
        let mut printed = Vec::new();
        write_double(value, &mut printed);
        assert_eq!(parse_double(&printed), Some(value), "a double is read back");
    }
    if let Some(value) = LongDouble::parse(bytes) {
        let mut printed = Vec::new();
        value.write(&mut printed);
        assert!(LongDouble::parse(&printed).is_some(), "a long double is read back, rounded");
    }
    let _ = parse_memory_size(bytes);
    if let Ok(words) = split(bytes) {
        let mut line = Vec::new();
        for word in &words {
            quote(word, &mut line);
            line.push(b' ');
        }
        assert_eq!(split(&line), Ok(words), "words are read back");
    }
    if let Ok(file) = redis_conf::parse(bytes) {
        for directive in &file.directives {
            let _ = directive.words();
        }
    }
    // Long texts take the product of the lengths.
    let bytes = &bytes[..bytes.len().min(2_000)];
    let line = bytes.iter().position(|&byte| byte == b'\n').unwrap_or(bytes.len());
    let (pattern, text) = bytes.split_at(line);
    if matches(pattern, text, Case::Sensitive) && !pattern.contains(&b'[') {
        assert!(matches(pattern, text, Case::Insensitive), "without case more matches");
    }
}
