//! Table files: blocks, block index, filter, properties, writer and reader.
