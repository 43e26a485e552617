//! Settings of `cjson`.

/// What becomes of infinities and NaN when they are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InvalidNumbers {
    /// An error.
    Refuse,
    /// `inf`, `nan`, which is no JSON.
    Write,
    /// `null`.
    Null,
}

/// What the functions `encode_...` and `decode_...` set.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Very sparse arrays become objects; otherwise they are an error.
    pub(crate) sparse_converts: bool,
    /// An array is very sparse when its largest index is so many times the number of elements; 0: never.
    pub(crate) sparse_ratio: i32,
    /// Up to this index no array is very sparse.
    pub(crate) sparse_safe: i32,
    /// How deep tables may be nested.
    pub(crate) encode_depth: i32,
    /// How deep text may be nested.
    pub(crate) decode_depth: i32,
    pub(crate) invalid_numbers: InvalidNumbers,
    /// Significant digits.
    pub(crate) precision: i32,
    /// Without effect here.
    pub(crate) keeps_buffer: bool,
    /// Numbers may be hexadecimal, infinite, NaN, and begin with zeros.
    pub(crate) decodes_invalid_numbers: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            sparse_converts: false,
            sparse_ratio: 2,
            sparse_safe: 10,
            encode_depth: 1_000,
            decode_depth: 1_000,
            invalid_numbers: InvalidNumbers::Refuse,
            precision: 14,
            keeps_buffer: true,
            decodes_invalid_numbers: true,
        }
    }
}

/// Deeper nesting is an error whatever the settings are, because encoding recurses.
pub(crate) const DEEPEST: i32 = 1_000;
