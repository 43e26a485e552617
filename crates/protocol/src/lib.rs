//! Protocols without input or output: the CS265 text DSL.
