//! Oracle, workload generators and crash sweeps for tests.
//!
//! [`decoders`] holds a target for every decoder of bytes from outside, for fuzzers and for the tests here.

pub mod decoders;
