//! Bounded reader: takes bytes from the front of a slice and says where they ended.

use crate::corrupt::Corrupt;

/// Reads a slice from its front.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Bytes read so far.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    pub(crate) fn corrupt(&self, what: &'static str) -> Corrupt {
        Corrupt::new(what, self.at)
    }

    /// The next byte, not taken.
    pub(crate) fn peek(&self) -> Result<u8, Corrupt> {
        self.bytes.get(self.at).copied().ok_or_else(|| self.corrupt("the bytes end too early"))
    }

    /// The next `len` bytes. `len` may come from outside: nothing is reserved for it.
    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], Corrupt> {
        let end = self.at.checked_add(len).filter(|&end| end <= self.bytes.len());
        let end = end.ok_or_else(|| self.corrupt("a length reaches past the end"))?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    pub(crate) fn array<const LEN: usize>(&mut self) -> Result<[u8; LEN], Corrupt> {
        let mut array = [0; LEN];
        array.copy_from_slice(self.take(LEN)?);
        Ok(array)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Corrupt> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u16_le(&mut self) -> Result<u16, Corrupt> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32_le(&mut self) -> Result<u32, Corrupt> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn i64_le(&mut self) -> Result<i64, Corrupt> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    /// A signed integer of 24 bits, little-endian.
    pub(crate) fn i24_le(&mut self) -> Result<i64, Corrupt> {
        let [low, middle, high] = self.array()?;
        Ok(i64::from(i32::from_le_bytes([0, low, middle, high]) >> 8))
    }
}
