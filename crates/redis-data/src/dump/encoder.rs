//! Writes lengths and strings of a payload, strings in the fewest bytes.

use crate::lzf;
use crate::stream::StreamId;
use esker_resp::integer::parse_integer;

/// Strings of up to so many bytes are not compressed: LZF gains nothing on them.
const INCOMPRESSIBLE_BYTES: usize = 20;
/// Compression must save more bytes than this.
const LEAST_SAVING_BYTES: usize = 4;

/// Appends the parts of a payload.
#[derive(Debug)]
pub(super) struct Encoder {
    bytes: Vec<u8>,
}

impl Encoder {
    pub(super) fn new() -> Self {
        Self { bytes: Vec::new() }
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    pub(super) fn byte(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// A length or another number.
    pub(super) fn number(&mut self, number: u64) {
        match number {
            0..=0x3f => self.byte(number as u8),
            0x40..=0x3fff => self.raw(&(0x4000 | number as u16).to_be_bytes()),
            0x4000..=0xffff_ffff => {
                self.byte(0x80);
                self.raw(&(number as u32).to_be_bytes());
            }
            _ => {
                self.byte(0x81);
                self.raw(&number.to_be_bytes());
            }
        }
    }

    pub(super) fn count(&mut self, count: usize) {
        self.number(count as u64);
    }

    /// A string.
    pub(super) fn string(&mut self, string: &[u8]) {
        if let Some(integer) = parse_integer(string).and_then(|integer| i32::try_from(integer).ok()) {
            return self.integer(integer);
        }
        if string.len() > INCOMPRESSIBLE_BYTES
            && let Some(compressed) = lzf::compress(string, string.len() - LEAST_SAVING_BYTES)
        {
            self.byte(0xc3);
            self.count(compressed.len());
            self.count(string.len());
            return self.raw(&compressed);
        }
        self.count(string.len());
        self.raw(string);
    }

    fn integer(&mut self, integer: i32) {
        let little_endian = integer.to_le_bytes();
        let (encoding, len) = match integer {
            -0x80..=0x7f => (0xc0, 1),
            -0x8000..=0x7fff => (0xc1, 2),
            _ => (0xc2, 4),
        };
        self.byte(encoding);
        self.raw(&little_endian[..len]);
    }

    /// A stream id of two numbers.
    pub(super) fn id(&mut self, id: StreamId) {
        self.number(id.milliseconds);
        self.number(id.sequence);
    }
}
