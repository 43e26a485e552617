//! Workloads: what is written to a tree.

use std::fmt;
use std::str::FromStr;

/// The order and the frequency of written keys.
///
/// Printed and parsed as `uniform`, `80/20`, `zipf:0.99`, `hot-range`, `load`, `sequential`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Input {
    /// Uniform overwrites.
    Uniform,
    /// Overwrites, four fifths of them of a fifth of the keys, which are scattered among the others.
    EightyTwenty,
    /// Overwrites, the key of rank `r` in proportion to `r` to the power of minus `theta`, scattered.
    Zipf {
        /// The skew: 0 is uniform, 0.99 the usual value of benchmarks.
        theta: f64,
    },
    /// Overwrites, four fifths of them of a fifth of the key space.
    HotRange,
    /// Every key once in random order, into an empty tree.
    Load,
    /// Every key once in ascending order, into an empty tree; each further pass repeats it.
    Sequential,
}

impl Input {
    /// One of each.
    pub const ALL: [Input; 6] = [
        Input::Uniform,
        Input::EightyTwenty,
        Input::Zipf { theta: 0.99 },
        Input::HotRange,
        Input::Load,
        Input::Sequential,
    ];

    /// Whether the tree is empty when it begins.
    pub fn starts_empty(&self) -> bool {
        matches!(self, Input::Load | Input::Sequential)
    }
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Input::Uniform => f.write_str("uniform"),
            Input::EightyTwenty => f.write_str("80/20"),
            Input::Zipf { theta } => write!(f, "zipf:{theta}"),
            Input::HotRange => f.write_str("hot-range"),
            Input::Load => f.write_str("load"),
            Input::Sequential => f.write_str("sequential"),
        }
    }
}

impl FromStr for Input {
    type Err = String;

    /// Parses what [`Input`] prints; the exponent of `zipf` is optional.
    fn from_str(text: &str) -> Result<Input, String> {
        match text {
            "uniform" => Ok(Input::Uniform),
            "80/20" => Ok(Input::EightyTwenty),
            "zipf" => Ok(Input::Zipf { theta: 0.99 }),
            "hot-range" => Ok(Input::HotRange),
            "load" => Ok(Input::Load),
            "sequential" => Ok(Input::Sequential),
            _ => {
                let Some(theta) = text.strip_prefix("zipf:") else {
                    return Err(format!(
                        "no input is called {text:?}; there are uniform, 80/20, zipf, hot-range, load, sequential"
                    ));
                };
                let theta = theta.parse().ok().filter(|theta| (0.0..=2.0).contains(theta));
                theta
                    .map(|theta| Input::Zipf { theta })
                    .ok_or_else(|| format!("the exponent of zipf is a number from 0 to 2, not {text:?}"))
            }
        }
    }
}

/// A workload: the number of keys, their sizes, and the order of writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Workload {
    /// Distinct keys.
    pub keys: u64,
    /// Bytes of a key.
    pub key_bytes: u32,
    /// Bytes of a value.
    pub value_bytes: u32,
    /// The order and frequency of keys.
    pub input: Input,
    /// The share of overwrites that are deletes, 0 to 0.95. A key is alive iff its last operation was a put,
    /// so in the long run this is the share of absent keys.
    pub deleted_share: f64,
    /// The lifetime of an entry, in passes over all keys; unlimited if `None`.
    pub ttl_passes: Option<f64>,
}

impl Default for Workload {
    /// Ten million entries of 16 and 100 bytes, overwritten uniformly.
    fn default() -> Workload {
        Workload {
            keys: 10_000_000,
            key_bytes: 16,
            value_bytes: 100,
            input: Input::Uniform,
            deleted_share: 0.0,
            ttl_passes: None,
        }
    }
}

impl Workload {
    /// Bytes of a key with its value.
    pub fn entry_bytes(&self) -> f64 {
        f64::from(self.key_bytes) + f64::from(self.value_bytes)
    }

    /// User bytes of one operation, on average.
    pub fn operation_bytes(&self) -> f64 {
        f64::from(self.key_bytes) + f64::from(self.value_bytes) * (1.0 - self.deletes())
    }

    /// The lifetime of an entry, in operations.
    pub(crate) fn lifetime(&self) -> Option<f64> {
        self.ttl_passes.map(|passes| passes * self.keys.max(1) as f64)
    }

    /// The share of operations that are deletes; zero where every key is written once.
    pub(crate) fn deletes(&self) -> f64 {
        if self.input.starts_empty() { 0.0 } else { self.deleted_share }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_as_printed() {
        for input in Input::ALL {
            assert_eq!(input.to_string().parse::<Input>().unwrap(), input);
        }
        assert_eq!("zipf".parse::<Input>().unwrap(), Input::Zipf { theta: 0.99 });
        for text in ["", "zipf:", "zipf:3", "zipf:nan", "random"] {
            assert!(text.parse::<Input>().unwrap_err().len() > 20, "{text}");
        }
    }
}
