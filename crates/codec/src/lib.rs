//! Compression of blocks: the codecs, when a block is worth compressing, and decompression.
//!
//! A block is compressed alone, and its raw length is stored elsewhere (in the block header), so nothing here
//! writes a length, a checksum or a name: the caller stores the one-byte id of [`Compressed::codec_id`]
//! beside the bytes.
//!
//! Invariants:
//! * **Compression cannot fail.** A block that does not shrink by [`MIN_SAVED_FRACTION`] is stored raw under
//!   [`id::NONE`], whatever the codec; so is one that the codec refuses.
//! * **Decompression is bounded.** It writes exactly the stated raw length or returns an error. Hostile bytes
//!   can make it neither allocate nor write more, but for the state of a decoder ([`mod@decompress`] states
//!   its size). The caller bounds the raw length.
//! * **Equal input gives equal bytes**, whatever the thread compressed before: a store can be rebuilt and
//!   compared. The input of the adaptive choice includes its [`History`].
//! * No block allocates, but with LZMA: hash tables and contexts live as long as the thread, buffers are the
//!   caller's.
//!
//! The ids are persisted and never change.
//!
//! # Features
//! `lz4` and `snappy` are on by default and need no C compiler; `zstd` and `lzma` compile a C library; `all`
//! is all of them. A codec that a build is without is refused by [`Codec::validate`] and by
//! [`decompress()`](decompress()), with an error that names the feature ([`Codec::missing_feature`]). The
//! codecs of integers are always there.
//!
//! Map: [`kind`] lists the codecs, [`compress`] and [`mod@decompress`] apply them. Each codec with state or
//! bytes of its own has a file: [`lz4`], [`snappy`], [`zstd`], [`lzma`], and [`columns`] for those of
//! integers. [`dictionary`] trains what Zstandard shares between the blocks of a table, [`adaptive`] chooses
//! a codec for each block.
//!
//! ```
//! use esker_codec::{Codec, decompress};
//!
//! let codec: Codec = "lz4".parse()?;
//! let block = b"the same words again and again, ".repeat(100);
//! let mut scratch = Vec::new();
//! let stored = codec.compress(&block, &mut scratch);
//! assert!(stored.bytes.len() < block.len() / 10);
//!
//! let mut again = Vec::new();
//! decompress(stored.codec_id, stored.bytes, block.len(), &mut again)?;
//! assert_eq!(again, block);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

pub mod adaptive;
pub mod columns;
pub mod compress;
pub mod decompress;
pub mod dictionary;
pub mod kind;
mod lz4;
#[cfg_attr(not(feature = "lzma"), path = "without_lzma.rs")]
mod lzma;
#[cfg_attr(not(feature = "snappy"), path = "without_snappy.rs")]
mod snappy;
#[cfg_attr(not(feature = "zstd"), path = "without_zstd.rs")]
mod zstd;

pub use adaptive::{AdaptiveOptions, History, Mode};
pub use columns::Rows;
pub use compress::{Compressed, MIN_SAVED_FRACTION};
pub use decompress::{DecodeError, decompress, decompress_into, decompress_with};
pub use dictionary::{DictionaryDecoder, DictionaryEncoder};
pub use kind::{Codec, id};
