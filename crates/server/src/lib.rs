//! Network services on top of the library's public API.
