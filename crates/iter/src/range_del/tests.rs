use super::*;
use crate::testing::Rng;

/// Keys `a` to `p`; an end of `p` or behind is none.
fn random_deletes(rng: &mut Rng, count: usize) -> Vec<(u8, Option<u8>, u64)> {
    let one = |seqno| {
        let (start, end) = (b'a' + rng.below(14) as u8, b'a' + rng.below(18) as u8);
        (start, Some(end).filter(|end| *end < b'p'), seqno + 1)
    };
    (0..count as u64).map(one).collect()
}

fn borrowed(deletes: &[(u8, Option<u8>, u64)]) -> impl Iterator<Item = RangeTombstone<'_>> {
    deletes.iter().map(|(start, end, seqno)| RangeTombstone {
        start: std::slice::from_ref(start),
        end: end.as_ref().map(std::slice::from_ref),
        seqno: SeqNo::new(*seqno),
    })
}

fn expected(deletes: &[(u8, Option<u8>, u64)], key: u8, seqno: u64) -> u64 {
    let covers = |(start, end, own): &&(u8, Option<u8>, u64)| {
        *start <= key && end.is_none_or(|end| key < end) && *own <= seqno
    };
    deletes.iter().filter(covers).map(|(_, _, own)| *own).max().unwrap_or(0)
}

#[test]
fn fragments_equal_the_range_tombstones() {
    let mut rng = Rng::new(1);
    for round in 0..300 {
        let deletes = random_deletes(&mut rng, round % 12);
        let set = RangeTombstones::new(borrowed(&deletes));
        // Fragmenting again changes nothing, and the parts of a set together equal it.
        assert_eq!(RangeTombstones::new(set.deletes()), set);
        assert_eq!(RangeTombstones::from_fragments(set.fragments().to_vec()), Ok(set.clone()));
        for key in b'a'..=b'r' {
            for seqno in 0..=13 {
                let newest = expected(&deletes, key, seqno);
                let (bytes, seqno) = ([key], SeqNo::new(seqno));
                assert_eq!(set.newest_over(&bytes, seqno).get(), newest, "{deletes:?} at {key} for {seqno}");
                let interval = set.interval(&bytes, seqno);
                assert_eq!(interval.newest.get(), newest);
                assert!(interval.low.is_none_or(|low| low <= &bytes[..]));
                assert!(interval.high.is_none_or(|high| &bytes[..] < high));
            }
            let touched = (key..b'p').any(|key| expected(&deletes, key, 100) > 0);
            assert_eq!(set.touches(Some(&[key]), Some(b"p")) && key < b'p', touched);
        }
    }
}

#[test]
fn clipping_keeps_what_lies_inside() {
    let mut rng = Rng::new(2);
    for _ in 0..200 {
        let deletes = random_deletes(&mut rng, 8);
        let set = RangeTombstones::new(borrowed(&deletes));
        let (low, high) = ([b'a' + rng.below(16) as u8], [b'a' + rng.below(16) as u8]);
        let clipped =
            RangeTombstones::new(set.deletes().filter_map(|delete| delete.clipped(Some(&low), Some(&high))));
        for key in b'a'..=b'r' {
            let wanted = if (low[0]..high[0]).contains(&key) { expected(&deletes, key, 100) } else { 0 };
            assert_eq!(clipped.newest_over(&[key], SeqNo::MAX).get(), wanted);
        }
    }
}

#[test]
fn reducing_joins_what_it_makes_equal() {
    let deletes = [(b'a', Some(b'm'), 1), (b'c', Some(b'e'), 2), (b'e', None, 5)];
    let newest_only = |seqnos: &mut Vec<SeqNo>| seqnos.retain(|seqno| seqno.get() != 2);
    let set = RangeTombstones::reduced(borrowed(&deletes), newest_only);
    let shown: Vec<String> = set
        .fragments()
        .iter()
        .map(|f| {
            format!(
                "{}-{:?} {:?}",
                f.start.escape_ascii(),
                f.end.as_deref().map(|e| e[0] as char),
                f.seqnos.iter().map(|s| s.get()).collect::<Vec<_>>()
            )
        })
        .collect();
    assert_eq!(shown, ["a-Some('e') [1]", "e-Some('m') [5, 1]", "m-None [5]"]);
    assert_eq!((set.len(), set.seqnos()), (4, Some((SeqNo::new(1), SeqNo::new(5)))));
    let fragment = set.fragment_over(b"f").unwrap();
    let above = |seqno| fragment.oldest_above(SeqNo::new(seqno)).map(SeqNo::get);
    assert_eq!([above(0), above(1), above(4), above(5)], [Some(1), Some(5), Some(5), None]);
}

#[test]
fn fragments_out_of_order_are_refused() {
    let fragment = |start: &str, end: &str, seqnos: &[u64]| TombstoneFragment {
        start: start.as_bytes().into(),
        end: Some(end.as_bytes()).filter(|end| !end.is_empty()).map(Arc::from),
        seqnos: seqnos.iter().copied().map(SeqNo::new).collect(),
    };
    let refused = |fragments: Vec<TombstoneFragment>| RangeTombstones::from_fragments(fragments).is_err();
    assert!(refused(vec![fragment("b", "a", &[1])]));
    assert!(refused(vec![fragment("a", "c", &[1]), fragment("b", "d", &[1])]));
    assert!(refused(vec![fragment("a", "", &[1]), fragment("b", "d", &[1])]));
    assert!(refused(vec![fragment("a", "b", &[])]));
    assert!(refused(vec![fragment("a", "b", &[1, 2])]));
    assert!(!refused(vec![fragment("", "b", &[2, 1]), fragment("b", "", &[1])]));
}
