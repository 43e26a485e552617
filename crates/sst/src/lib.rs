//! Table files: blocks, block index, filter, properties, writer and reader.

mod block;
mod flaw;
mod index;
mod isa;

#[cfg(test)]
mod testing;

pub use block::{Block, BlockHeader, BlockLayout};
