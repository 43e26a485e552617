//! Tab-separated values: key, tab, value. The escapes of [`crate::format::escape`] keep tabs, line ends and
//! binary bytes inside of a field.

use super::lines::{Line, Lines, without_end};
use super::{ReadError, Record, RecordReader, RecordWriter, parse_fields};
use crate::args::Shape;
use crate::failure::Failure;
use crate::format::unescape;
use crate::json::unprintable;
use std::io::{Read, Write};

pub(super) struct Reader<'a> {
    lines: Lines<'a>,
    shape: Shape,
    header: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn new(input: Box<dyn Read + 'a>, shape: &Shape, header: bool) -> Reader<'a> {
        Reader { lines: Lines::new(input), shape: shape.clone(), header }
    }

    fn parse(&self, line: &[u8]) -> Result<Record, ReadError> {
        let number = self.lines.number();
        let bad = |reason: String| ReadError::Bad { number, reason };
        let fields: Vec<&[u8]> = line.split(|&byte| byte == b'\t').collect();
        let [key, value] = fields[..] else {
            return Err(bad(format!("key, tab and value expected, {} field(s) found", fields.len())));
        };
        parse_fields(&self.shape, number, &unescape(key).map_err(bad)?, &unescape(value).map_err(bad)?)
    }
}

impl RecordReader for Reader<'_> {
    fn next(&mut self) -> Result<Option<Record>, ReadError> {
        loop {
            let line = match self.lines.next()? {
                None => return Ok(None),
                Some(_) if std::mem::take(&mut self.header) => continue,
                Some(Line::Text(line)) => line,
                Some(Line::TooLong) => {
                    let reason = "the line is longer than any pair can be".to_owned();
                    return Err(ReadError::Bad { number: self.lines.number(), reason });
                }
            };
            let line = without_end(&line);
            if !line.is_empty() {
                return self.parse(line).map(Some);
            }
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
        let key = self.shape.key.in_line(key).map_err(|reason| unprintable("key", &reason))?;
        let value = self.shape.value.in_line(value).map_err(|reason| unprintable("value", &reason))?;
        writeln!(out, "{key}\t{value}")?;
        Ok(())
    }
}
