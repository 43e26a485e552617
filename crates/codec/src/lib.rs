//! Compression of blocks: which kinds there are, when a block is worth compressing, and how to get it back.
//!
//! A block is compressed alone and knows its raw length from elsewhere (the block header), so nothing here writes
//! a length, a checksum or a name: the caller stores the one-byte id of [`Compressed::codec_id`] beside the bytes.
//!
//! What holds:
//! * **Compression cannot fail.** A block that does not shrink by [`MIN_SAVED_FRACTION`] is stored raw under
//!   [`id::NONE`], whatever the codec; so is one that the codec refuses.
//! * **Decompression is bounded.** It writes exactly the stated raw length or answers an error; hostile bytes
//!   can make it neither allocate nor write more. The caller bounds the raw length.
//! * **Equal input gives equal bytes**, whatever the thread compressed before: a store can be rebuilt and compared.
//! * Nothing is allocated per block: hash tables and contexts live as long as the thread, buffers are the
//!   caller's.
//!
//! The ids are persisted and never change; 2 (Snappy) and 4 (LZMA) are reserved and not understood yet.
//!
//! Map: [`kind`] names the codecs, [`compress`] makes the choice and holds the reused state, [`mod@decompress`] goes
//! back.

#![forbid(unsafe_code)]

pub mod compress;
pub mod decompress;
pub mod kind;

pub use compress::{Compressed, MIN_SAVED_FRACTION};
pub use decompress::{DecodeError, decompress, decompress_into};
pub use kind::{Codec, id};
