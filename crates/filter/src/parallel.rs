//! Parallel build of one large filter on several threads.
//!
//! Threads share only the hashes, which do not change, so no order of writes matters:
//!
//! * Filters made of lines are divided into ranges of lines. Each thread goes over all hashes and sets the
//!   bits in its range. Reading a hash costs 1 ns, setting its bits in memory outside of the cache ten times
//!   that.
//! * Filters made of shards are solved shard by shard; each thread takes the next one.
//!
//! The bytes are those that [`FilterBuilder`](crate::FilterBuilder) makes of the same hashes, whatever the
//! number of threads.

use crate::lines::{LINE_BYTES, Line};
use crate::plan::Plan;
use crate::policy::FilterPolicy;
use crate::shards::partition;
use crate::{fuse, ribbon, stored};
use esker_env::{Env, OffHeapSlice};

/// Least lines of a range: 1 MiB, below which starting a thread costs more than it saves.
const LEAST_LINES: usize = (1 << 20) / LINE_BYTES;

/// The stored filter of keys by their hashes, which are mostly distinct, built on up to `threads` threads;
/// `None` under [`FilterPolicy::None`]. Takes the memory of a [`FilterBuilder`](crate::FilterBuilder), and
/// for kinds that solve equations the memory of one shard for each further thread.
///
/// ```
/// use esker_env::Env;
/// use esker_filter::{Filter, FilterPolicy, build_parallel};
///
/// let hashes: Vec<u64> = (0..10_000u64).map(|n| esker_base::checksum::key_hash(&n.to_le_bytes())).collect();
/// let policy: FilterPolicy = "ribbon:8".parse().expect("a filter");
/// let bytes = build_parallel(&Env::real(), hashes.clone(), policy, 2).expect("the policy has a filter");
/// let filter = Filter::decode(&bytes)?;
/// assert!(hashes.iter().all(|&hash| filter.may_contain(hash)));
/// # Ok::<(), String>(())
/// ```
pub fn build_parallel(
    env: &Env,
    mut hashes: Vec<u64>,
    policy: FilterPolicy,
    threads: usize,
) -> Option<OffHeapSlice<u8>> {
    let solved = match policy {
        FilterPolicy::Ribbon { bits_per_key } => {
            let solve = |hashes: &mut [u64]| {
                ribbon::build_shard(
                    &mut ribbon::BandingScratch::default(),
                    hashes,
                    bits_per_key,
                    ribbon::ATTEMPTS,
                )
            };
            in_shards(env, &mut hashes, ribbon::SHARD_KEYS, threads, solve)
                .map(|shards| ribbon::encode(&shards))
        }
        FilterPolicy::BinaryFuse { fingerprint_bits: bits } => {
            let solve = |hashes: &mut [u64]| {
                fuse::build_shard(&mut fuse::PeelingScratch::default(), hashes, bits, fuse::ATTEMPTS)
            };
            in_shards(env, &mut hashes, fuse::SHARD_KEYS, threads, solve)
                .map(|shards| fuse::encode(&shards, bits))
        }
        _ => None,
    };
    if let Some(solved) = solved {
        return Some(solved.into_boxed_slice().into());
    }
    let plan = Plan::new(policy, hashes.len())?;
    let mut lines = OffHeapSlice::filled(Line::default(), plan.count as usize);
    let of_a_range = lines.len().div_ceil(threads.max(1)).max(LEAST_LINES);
    let ranges: Vec<_> = lines.chunks_mut(of_a_range).enumerate().collect();
    env.fork_join("esker-filter", threads, ranges, |(number, range)| {
        (plan.fill)(range, number * of_a_range, plan.count, plan.probes, &hashes);
    });
    Some(stored::encode_lines(plan.number, plan.probes, &lines))
}

/// Solves all shards; `None` if one cannot be.
fn in_shards<S: Send>(
    env: &Env,
    hashes: &mut Vec<u64>,
    mean: usize,
    threads: usize,
    solve: impl Fn(&mut [u64]) -> Option<S> + Sync,
) -> Option<Vec<S>> {
    env.fork_join("esker-filter", threads, partition(hashes, mean)?, solve).into_iter().collect()
}
