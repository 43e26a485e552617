//! Oracle, workload generators and crash sweeps for tests.
