//! Range tombstones of a job: gathered from its inputs ([`aggregate`]), and cut at the borders of its output
//! tables ([`cut`]).

pub(crate) mod aggregate;
pub(crate) mod cut;
