//! The projects own checks and chores.

fn main() {}
