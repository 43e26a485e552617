//! What a read-modify-write of one key does with the value that it read.

/// What to do with a key once its value is known.
pub(crate) enum KeyUpdate {
    /// Leave it unchanged.
    Keep,
    /// Set it, or delete it.
    Write(Option<Vec<u8>>),
    /// Write its value again, if it has one, with the expiry of the options.
    Rewrite,
}
