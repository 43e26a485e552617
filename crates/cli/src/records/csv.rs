//! Comma-separated values after RFC 4180: a field with commas, quotes or line ends is enclosed in double
//! quotes, and quotes inside it are doubled. Fields are bytes, so quoting alone carries any key and value.

use super::lines::{Line, Lines, MAX_RECORD_BYTES, without_end};
use super::{ReadError, Record, RecordReader, RecordWriter, parse_fields};
use crate::args::Shape;
use crate::failure::Failure;
use crate::json::unprintable;
use std::io::{Read, Write};

pub(super) struct Reader<'a> {
    lines: Lines<'a>,
    shape: Shape,
    header: bool,
}

enum Fields {
    Complete(Vec<Vec<u8>>),
    /// A quoted field continues in the next line.
    Open,
}

impl<'a> Reader<'a> {
    pub(super) fn new(input: Box<dyn Read + 'a>, shape: &Shape, header: bool) -> Reader<'a> {
        Reader { lines: Lines::new(input), shape: shape.clone(), header }
    }

    /// Completes the record that begins with `first`. At an early end only that line is lost.
    fn record(&mut self, first: Vec<u8>) -> Result<Vec<Vec<u8>>, ReadError> {
        let number = self.lines.number();
        let bad = |reason: &str| ReadError::Bad { number, reason: reason.to_owned() };
        let mut text = first;
        let mut followers: Vec<Vec<u8>> = Vec::new();
        let mut scan = Scan::default();
        loop {
            match scan.fields(&text) {
                Ok(Fields::Complete(fields)) => return Ok(fields),
                Ok(Fields::Open) => {}
                Err(reason) => {
                    self.lines.give_back(followers);
                    return Err(bad(reason));
                }
            }
            let next = if text.len() > MAX_RECORD_BYTES { None } else { self.lines.next()? };
            let Some(Line::Text(line)) = next else {
                self.lines.give_back(followers);
                return Err(bad("a quoted field begins in this line and does not end"));
            };
            text.extend_from_slice(&line);
            followers.push(line);
        }
    }
}

/// Position of the scan in the text of a record, so that a record of many lines is scanned once.
#[derive(Default)]
struct Scan {
    fields: Vec<Vec<u8>>,
    at: usize,
    /// The quoted field that continues, if there is one.
    open: Option<Vec<u8>>,
}

impl Scan {
    /// Continues to the end of `text`, which is the earlier text and more.
    fn fields(&mut self, text: &[u8]) -> Result<Fields, &'static str> {
        let end = without_end(text).len();
        loop {
            if self.open.is_some() || text.get(self.at) == Some(&b'"') {
                if !self.quoted(text)? {
                    return Ok(Fields::Open);
                }
            } else {
                let rest = text.get(self.at..end).unwrap_or_default();
                let len = rest.iter().position(|&byte| byte == b',').unwrap_or(rest.len());
                let field = rest.get(..len).unwrap_or_default();
                if field.contains(&b'"') {
                    return Err("a quote inside of a field without quotes");
                }
                self.fields.push(field.to_vec());
                self.at += len;
            }
            match text.get(self.at..end).unwrap_or_default().first() {
                Some(b',') => self.at += 1,
                Some(_) => return Err("a comma or the end of the line must follow the closing quote"),
                None => return Ok(Fields::Complete(std::mem::take(&mut self.fields))),
            }
        }
    }

    /// Reads a quoted field, or continues it; returns whether its end was found.
    fn quoted(&mut self, text: &[u8]) -> Result<bool, &'static str> {
        let mut field = match self.open.take() {
            Some(field) => field,
            None => {
                self.at += 1;
                Vec::new()
            }
        };
        loop {
            let rest = text.get(self.at..).unwrap_or_default();
            let Some(len) = rest.iter().position(|&byte| byte == b'"') else {
                field.extend_from_slice(rest);
                self.at = text.len();
                self.open = Some(field);
                return Ok(false);
            };
            field.extend_from_slice(rest.get(..len).unwrap_or_default());
            self.at += len + 1;
            if text.get(self.at) != Some(&b'"') {
                self.fields.push(field);
                return Ok(true);
            }
            field.push(b'"');
            self.at += 1;
        }
    }
}

impl RecordReader for Reader<'_> {
    fn next(&mut self) -> Result<Option<Record>, ReadError> {
        loop {
            let first = match self.lines.next()? {
                None => return Ok(None),
                Some(Line::Text(line)) => line,
                Some(Line::TooLong) => {
                    let reason = "the line is longer than any pair can be".to_owned();
                    return Err(ReadError::Bad { number: self.lines.number(), reason });
                }
            };
            if without_end(&first).is_empty() {
                continue;
            }
            let number = self.lines.number();
            let record = self.record(first);
            if std::mem::take(&mut self.header) {
                continue;
            }
            let fields = record?;
            let [key, value] = &fields[..] else {
                let reason = format!("key and value expected, {} field(s) found", fields.len());
                return Err(ReadError::Bad { number, reason });
            };
            return parse_fields(&self.shape, number, key, value).map(Some);
        }
    }

    fn number(&self) -> u64 {
        self.lines.number()
    }

    fn position(&self) -> u64 {
        self.lines.position()
    }
}

pub(super) struct Writer {
    pub(super) shape: Shape,
}

impl RecordWriter for Writer {
    fn write(&mut self, out: &mut dyn Write, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        let key = self.shape.key.plain(key).map_err(|reason| unprintable("key", &reason))?;
        let value = self.shape.value.plain(value).map_err(|reason| unprintable("value", &reason))?;
        write_field(out, &key)?;
        out.write_all(b",")?;
        write_field(out, &value)?;
        out.write_all(b"\n")?;
        Ok(())
    }
}

fn write_field(out: &mut dyn Write, field: &[u8]) -> Result<(), Failure> {
    // Some programs drop a byte order mark or white space at the ends of a field.
    let special = |byte: &u8| matches!(byte, b',' | b'"' | b'\n' | b'\r');
    let rim = field.starts_with(b"\xef\xbb\xbf") || field.trim_ascii().len() != field.len();
    if !rim && !field.iter().any(special) {
        out.write_all(field)?;
        return Ok(());
    }
    out.write_all(b"\"")?;
    for (at, piece) in field.split(|&byte| byte == b'"').enumerate() {
        if at > 0 {
            out.write_all(b"\"\"")?;
        }
        out.write_all(piece)?;
    }
    out.write_all(b"\"")?;
    Ok(())
}
