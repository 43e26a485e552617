//! Range tombstones of a job: gathered from its inputs ([`input_range_dels`]), and cut at the borders of its
//! output tables ([`cut`]).

pub mod cut;
pub mod input_range_dels;
