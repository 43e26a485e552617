//! Fork-join: runs jobs on several threads and waits for all of them.

use crate::fork::InUse;
use crate::{Background, Env};
use parking_lot::Mutex;

impl Env {
    /// Runs `work` on each of `jobs`, on up to `threads` threads including the caller's, and returns the
    /// results in the order of the jobs. Each thread takes the next free job, so jobs may differ in size.
    ///
    /// The threads end before this returns, so jobs may borrow. If the system starts fewer threads, the
    /// caller's thread runs the remaining jobs. Under [`Background::Stepped`] all jobs run here, one after
    /// the other.
    ///
    /// # Panics
    /// If `work` does.
    pub fn fork_join<J: Send, R: Send>(
        &self,
        name: &str,
        threads: usize,
        jobs: Vec<J>,
        work: impl Fn(J) -> R + Sync,
    ) -> Vec<R> {
        let helpers = match self.background {
            Background::Threads => threads.min(jobs.len()).saturating_sub(1),
            Background::Stepped { .. } => 0,
        };
        if helpers == 0 {
            return jobs.into_iter().map(work).collect();
        }
        let _in_use = InUse::count();
        let results = Mutex::new(Vec::with_capacity(jobs.len()));
        let left = Mutex::new(jobs.into_iter().enumerate());
        let help = || {
            loop {
                // The lock is released before the work begins.
                let next = left.lock().next();
                let Some((number, job)) = next else { return };
                let result = work(job);
                results.lock().push((number, result));
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..helpers {
                // A name with a zero byte is invalid.
                let name = name.replace('\0', "");
                if std::thread::Builder::new().name(name).spawn_scoped(scope, help).is_err() {
                    break;
                }
            }
            help();
        });
        let mut results = results.into_inner();
        results.sort_unstable_by_key(|(number, _)| *number);
        results.into_iter().map(|(_, result)| result).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StdFileSystem;
    use std::collections::HashSet;
    use std::sync::{Arc, Barrier};

    #[test]
    fn results_come_in_the_order_of_the_jobs() {
        let squares: Vec<u64> = (0..1000u64).map(|number| number * number).collect();
        for env in [Env::real(), Env::simulated(Arc::new(StdFileSystem), 1)] {
            for threads in [0, 1, 2, 7, 2000] {
                let results = env.fork_join("esker-test", threads, (0..1000u64).collect(), |n| n * n);
                assert_eq!(results, squares);
            }
            assert!(env.fork_join("a\0b", 3, Vec::<u8>::new(), |n| n).is_empty());
            assert_eq!(env.fork_join("a\0b", 3, vec![1, 2, 3], |n| n), [1, 2, 3]);
        }
    }

    /// Jobs that wait for each other end only if each has a thread.
    #[test]
    fn jobs_run_side_by_side_and_may_borrow() {
        let barrier = Barrier::new(3);
        let mut numbers = vec![0; 3];
        let jobs: Vec<&mut i32> = numbers.iter_mut().collect();
        let threads = Env::real().fork_join("esker-test", 3, jobs, |number| {
            barrier.wait();
            *number += 1;
            std::thread::current().id()
        });
        assert_eq!(threads.into_iter().collect::<HashSet<_>>().len(), 3);
        assert_eq!(numbers, [1, 1, 1]);
    }

    #[test]
    fn a_stepped_environment_has_one_thread() {
        let env = Env::simulated(Arc::new(StdFileSystem), 1);
        let threads = env.fork_join("esker-test", 4, vec![(); 50], |()| std::thread::current().id());
        assert!(threads.iter().all(|&id| id == std::thread::current().id()));
    }
}
