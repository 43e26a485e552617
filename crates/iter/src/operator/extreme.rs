//! Merge operators `min` and `max`.

use super::{Merge, MergeError};

#[derive(Debug)]
pub(super) struct Extreme {
    /// Whether it is the greatest; else the smallest.
    pub(super) is_max: bool,
}

impl Merge for Extreme {
    fn name(&self) -> &str {
        if self.is_max { "max" } else { "min" }
    }

    fn merge(&self, _: &[u8], value: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>, MergeError> {
        let all = value.iter().chain(operands);
        let kept = if self.is_max { all.max() } else { all.min() };
        Ok(kept.map_or_else(Vec::new, |kept| kept.to_vec()))
    }

    fn merge_operands(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        self.merge(key, None, operands).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_compared_as_keys_are() {
        let operands: [&[u8]; 3] = [b"9", b"10", b"\xff"];
        assert_eq!(Extreme { is_max: true }.merge(b"", Some(b"a"), &operands).unwrap(), b"\xff");
        assert_eq!(Extreme { is_max: false }.merge(b"", Some(b"a"), &operands).unwrap(), b"10");
        assert_eq!(Extreme { is_max: false }.merge(b"", Some(b""), &operands).unwrap(), b"");
    }
}
