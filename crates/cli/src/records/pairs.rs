//! The binary files of CS265: little-endian 32-bit keys and values, which the database stores as integers.

use super::{ReadError, Record, RecordReader, RecordWriter};
use crate::failure::Failure;
use crate::format::shown;
use esker_protocol::pairs::{PAIR_LEN, decode, encode};
use esker_protocol::scalar::{decode_integer, encode_integer};
use std::io::{self, BufReader, Read, Write};

pub(super) struct Reader<'a> {
    reader: BufReader<Box<dyn Read + 'a>>,
    number: u64,
    position: u64,
}

impl<'a> Reader<'a> {
    pub(super) fn new(input: Box<dyn Read + 'a>) -> Reader<'a> {
        Reader { reader: BufReader::with_capacity(64 << 10, input), number: 0, position: 0 }
    }
}

impl RecordReader for Reader<'_> {
    fn next(&mut self) -> Result<Option<Record>, ReadError> {
        let mut bytes = Vec::with_capacity(PAIR_LEN);
        let read = (&mut self.reader).take(PAIR_LEN as u64).read_to_end(&mut bytes)?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        self.position += read as u64;
        let Some((key, value)) = decode(&bytes).next() else {
            let reason = format!("the file ends after {read} of the {PAIR_LEN} bytes of a pair");
            return Err(ReadError::Bad { number: self.number, reason });
        };
        let stored = |number: i32| encode_integer(number.into()).to_vec();
        Ok(Some(Record { key: stored(key), value: stored(value) }))
    }

    fn number(&self) -> u64 {
        self.number
    }

    fn position(&self) -> u64 {
        self.position
    }
}

pub(super) struct Writer;

impl RecordWriter for Writer {
    fn write(&mut self, out: &mut dyn Write, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        let number = |what: &str, bytes: &[u8]| {
            let number = decode_integer(bytes).and_then(|number| i32::try_from(number).ok());
            number.ok_or_else(|| {
                Failure::usage(format!("{what} '{}' is no stored 32-bit integer", shown(bytes)))
                    .advise("files of pairs hold nothing else; choose another format")
            })
        };
        let pair = encode(number("key", key)?, number("value", value)?);
        io::Write::write_all(out, &pair)?;
        Ok(())
    }
}
