//! Worst-case read costs of the textbooks.

/// The shape of a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadBound {
    /// One run in each level.
    Leveled,
    /// As many runs in each level as the size ratio says.
    Tiered,
    /// The first level tiered, the others leveled: lazy leveling in the CS265 project.
    Cs265Lazy,
}

/// Most sources of a read, the memtable included: `L + 1`, `L T + 1`, `T + (L - 1) + 1` for `L` levels on
/// disk.
pub fn worst_reads(bound: ReadBound, levels: u64, ratio: u64) -> u64 {
    match bound {
        ReadBound::Leveled => levels + 1,
        ReadBound::Tiered => levels * ratio + 1,
        ReadBound::Cs265Lazy => ratio + levels.saturating_sub(1) + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_those_of_the_textbooks() {
        let of = |bound| worst_reads(bound, 3, 4);
        assert_eq!([of(ReadBound::Leveled), of(ReadBound::Tiered), of(ReadBound::Cs265Lazy)], [4, 13, 7]);
    }
}
