//! Range tombstones of a job: gathered from its inputs ([`aggregate`]), and cut at the borders of its output
//! tables ([`cut`]).

pub mod aggregate;
pub mod cut;
