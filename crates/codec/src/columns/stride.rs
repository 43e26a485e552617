//! Stride detection: the distance of rows in a block whose writer does not state it.

const MAX_GUESSED_STRIDE: usize = 64;

/// Up to here every distance is tried, then every eighth.
const MAX_ODD_STRIDE: usize = 32;

/// Bytes that are compared with later ones.
const WINDOW_BYTES: usize = 512;

/// The least distance at which bytes repeat nearly (nine in ten) as often as at the best one; 1 if nowhere
/// more often than one in sixteen, as in noise.
///
/// The high bytes of adjacent integers are mostly equal, so their length shows, and so do its multiples.
pub(super) fn find(raw: &[u8]) -> usize {
    let most = MAX_GUESSED_STRIDE.min(raw.len() / 2);
    if most == 0 {
        return 1;
    }
    let window = WINDOW_BYTES.min(raw.len() - most);
    // From the middle: the ends of a block are untypical.
    let start = (raw.len() - most - window) / 2;
    let mut equal = [0; MAX_GUESSED_STRIDE + 1];
    for stride in (1..=most).filter(|&stride| is_tried(stride)) {
        equal[stride] = repeats(&raw[start..start + window], &raw[start + stride..start + stride + window]);
    }
    let best = equal.iter().copied().max().unwrap_or_default();
    if best * 16 < window {
        return 1;
    }
    if best * 4 >= window {
        return equal.iter().skip(1).position(|&equal| equal * 10 >= best * 9).map_or(1, |at| at + 1);
    }
    least_period(&equal[..=most])
}

fn is_tried(stride: usize) -> bool {
    stride <= MAX_ODD_STRIDE || stride.is_multiple_of(8)
}

/// Where few bytes repeat, as in columns of a dozen values, the best multiple of the length is random. So all
/// multiples count: the least distance whose multiples do nearly as well, on average, as those of any other.
fn least_period(equal: &[usize]) -> usize {
    let average = |stride: usize| {
        let multiples = (stride..equal.len()).step_by(stride).filter(|&multiple| is_tried(multiple));
        multiples.clone().map(|multiple| equal[multiple]).sum::<usize>() * 16 / multiples.count().max(1)
    };
    let longest = MAX_ODD_STRIDE.min(equal.len() - 1);
    let best = (1..=longest).map(average).max().unwrap_or_default();
    (1..=longest).find(|&stride| average(stride) * 4 >= best * 3).unwrap_or(1)
}

pub(crate) fn repeats(a: &[u8], b: &[u8]) -> usize {
    // Counted in bytes first, which the compiler vectorizes.
    let piece = |(a, b): (&[u8], &[u8])| {
        usize::from(a.iter().zip(b).map(|(a, b)| u8::from(a == b)).fold(0u8, u8::wrapping_add))
    };
    a.chunks(128).zip(b.chunks(128)).map(piece).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(width: usize, of: impl Fn(u64) -> u64) -> Vec<u8> {
        (0..500).flat_map(|i| of(i).to_le_bytes()[..width].to_vec()).collect()
    }

    #[test]
    fn the_length_of_integers_shows() {
        let mixed = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        assert_eq!(find(&array(8, |i| mixed(i) & 0xffff)), 8);
        assert_eq!(find(&array(8, |i| 1_700_000_000_000 + mixed(i))), 8);
        assert_eq!(find(&array(8, |_| 77)), 8);
        assert_eq!(find(&array(4, |i| 3 * i)), 4);
        let state = std::cell::Cell::new(1u64);
        let noise = || {
            state.set(state.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
            state.get() ^ state.get() >> 32
        };
        let values: [u64; 12] = std::array::from_fn(|_| noise());
        for width in [4, 6, 8] {
            assert_eq!(find(&array(width, |_| values[noise() as usize % 12])), width);
        }
        assert_eq!(find(&array(4, |i| 1_000_000 + (mixed(i) & 0xfff))), 4);
        let text = b"call me ishmael, some years ago, never mind how long precisely, having little".repeat(3);
        assert!(find(&text[..200]) <= 64);
        for len in 0..8 {
            assert!(find(&vec![0; len]) <= len.max(1));
        }
    }
}
