//! Mixtures of puts, gets, ranges and deletes by their shares.

use crate::settings::Workload;

/// One operation of a mixture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MixedOperation {
    Put,
    Get,
    Range,
    Delete,
}

/// Shares in percent; deletes are the rest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shares {
    pub(super) puts: u8,
    pub(super) gets: u8,
    pub(super) ranges: u8,
}

impl Shares {
    /// Those of a workload; CS265 4.1.2 has them.
    pub(super) const fn of(workload: Workload) -> Shares {
        match workload {
            Workload::ReadHeavy => Shares { puts: 20, gets: 80, ranges: 0 },
            Workload::WriteHeavy => Shares { puts: 80, gets: 20, ranges: 0 },
            Workload::ScanHeavy => Shares { puts: 20, gets: 30, ranges: 50 },
            _ => Shares { puts: 25, gets: 25, ranges: 25 },
        }
    }

    pub(super) const fn deletes(self) -> u8 {
        100 - self.puts - self.gets - self.ranges
    }

    /// The operation for a number below 100.
    #[inline]
    pub(super) fn pick(self, number: u64) -> MixedOperation {
        let (puts, gets, ranges) = (u64::from(self.puts), u64::from(self.gets), u64::from(self.ranges));
        if number < gets {
            MixedOperation::Get
        } else if number < gets + puts {
            MixedOperation::Put
        } else if number < gets + puts + ranges {
            MixedOperation::Range
        } else {
            MixedOperation::Delete
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_numbers_have_the_shares_of_the_report() {
        for (workload, expected) in [
            (Workload::ReadHeavy, [20, 80, 0, 0]),
            (Workload::WriteHeavy, [80, 20, 0, 0]),
            (Workload::ScanHeavy, [20, 30, 50, 0]),
            (Workload::Quarters, [25, 25, 25, 25]),
        ] {
            let count =
                |operation| (0..100).filter(|&number| Shares::of(workload).pick(number) == operation).count();
            let counts =
                [MixedOperation::Put, MixedOperation::Get, MixedOperation::Range, MixedOperation::Delete]
                    .map(count);
            assert_eq!(counts, expected, "{workload}");
        }
    }
}
