//! From segments to tables: the output splitting of the executor.

use crate::content::Segment;
use crate::source::{Held, Source};
use esker_strategy::{Cut, Cutter};

#[derive(Clone, Debug)]
pub(crate) struct Table {
    /// Its contents, ascending; never empty.
    pub(crate) segments: Vec<Segment>,
    pub(crate) held: Held,
    pub(crate) bytes: f64,
}

pub(crate) fn key_at(position: u64) -> [u8; 8] {
    position.to_be_bytes()
}

/// The position of a key that [`key_at`] made; of longer ones that of their first eight bytes.
pub(crate) fn position_of(key: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let taken = key.len().min(8);
    bytes[..taken].copy_from_slice(&key[..taken]);
    u64::from_be_bytes(bytes)
}

/// Cuts `segments` into tables by the executor's rules. The executor applies them to every key; here they are
/// applied where the result may change: at the borders of the run below, and where a table reaches its size
/// and twice its size.
pub(crate) fn cut(cut: &Cut, segments: &[Segment], source: &Source, sizes: &Sizes) -> Vec<Table> {
    let mut cutting = Cutting {
        cutter: Cutter::new(cut),
        table_bytes: cut.table_bytes as f64,
        borders: cut
            .align
            .iter()
            .flat_map(|run| run.parts())
            .map(|part| position_of(part.smallest()))
            .collect(),
        left: segments.iter().map(|segment| sizes.bytes(source.held_across(segment))).sum(),
        tables: Vec::new(),
    };
    for segment in segments {
        for piece in source.zoned(segment) {
            let held = source.held(&piece);
            if held.entries() > 0.0 {
                cutting.add(&piece, held, sizes);
            }
        }
    }
    cutting.tables
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) value: f64,
    pub(crate) tombstone: f64,
}

impl Sizes {
    pub(crate) fn bytes(&self, held: Held) -> f64 {
        held.values * self.value + held.tombstones * self.tombstone
    }
}

struct Cutting<'a> {
    cutter: Cutter<'a>,
    table_bytes: f64,
    borders: Vec<u64>,
    left: f64,
    tables: Vec<Table>,
}

impl Cutting<'_> {
    /// Adds a range of uniform density.
    fn add(&mut self, piece: &Segment, held: Held, sizes: &Sizes) {
        let extent = (piece.end - piece.start) as f64;
        let bytes_per_position = sizes.bytes(held) / extent;
        let mut next_border = self.borders.partition_point(|border| *border <= piece.start);
        let mut start = piece.start;
        while start < piece.end {
            self.ask(start);
            let mut end = piece.end;
            if let Some(&border) = self.borders.get(next_border).filter(|border| **border < end) {
                end = border;
            }
            let written = self.tables.last().map_or(0.0, |table| table.bytes);
            for size in [self.table_bytes, 2.0 * self.table_bytes] {
                let positions = (size - written) / bytes_per_position;
                // One position beyond the size, so that the next check finds it reached.
                if positions > 0.0 && positions + 1.0 < (end - start) as f64 {
                    end = start + positions as u64 + 1;
                }
            }
            if self.borders.get(next_border) == Some(&end) {
                next_border += 1;
            }
            let share = (end - start) as f64 / extent;
            self.append(Segment { start, end, ..*piece }, held.times(share), sizes);
            start = end;
        }
    }

    /// Begins a new table where the rules say so.
    fn ask(&mut self, position: u64) {
        let written = self.tables.last().map_or(0.0, |table| table.bytes);
        let ends = self.cutter.ends_before(&key_at(position), written as u64, self.left.max(0.0) as u64);
        if ends || self.tables.is_empty() {
            self.tables.push(Table { segments: Vec::new(), held: Held::default(), bytes: 0.0 });
        }
    }

    fn append(&mut self, segment: Segment, held: Held, sizes: &Sizes) {
        let Some(table) = self.tables.last_mut() else { return };
        let bytes = sizes.bytes(held);
        table.bytes += bytes;
        table.held = table.held.plus(held);
        self.left -= bytes;
        match table.segments.last_mut() {
            Some(last) if last.end == segment.start && last.ages == segment.ages => last.end = segment.end,
            _ => table.segments.push(segment),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::{Ages, SPAN};
    use crate::workload::Workload;

    fn everything() -> (Source, Sizes) {
        let workload = Workload { keys: 1000, key_bytes: 10, value_bytes: 90, ..Workload::default() };
        (Source::new(workload), Sizes { value: 100.0, tombstone: 10.0 })
    }

    #[test]
    fn tables_have_the_requested_size() {
        let (source, sizes) = everything();
        let tables = cut(&Cut::plain(10_000), &[source.loaded()], &source, &sizes);
        assert_eq!(tables.len(), 10);
        let ends: Vec<u64> = tables.iter().map(|table| table.segments[0].end * 100 / SPAN).collect();
        assert_eq!(ends, [10, 20, 30, 40, 50, 60, 70, 80, 90, 100]);
        // A rest of less than a quarter of a table joins the previous one.
        let tables = cut(&Cut::plain(9_800), &[source.loaded()], &source, &sizes);
        assert_eq!(tables.len(), 10);
        assert!((tables[9].bytes - 11_800.0).abs() < 1.0, "{}", tables[9].bytes);
    }

    #[test]
    fn tables_add_up_to_their_segments() {
        let (source, sizes) = everything();
        let segments: Vec<Segment> = (0..50)
            .map(|at| Segment {
                start: SPAN / 50 * at,
                end: SPAN / 50 * (at + 1),
                ages: Ages::new(at as f64 * 10.0, at as f64 * 10.0 + 100.0 + at as f64),
            })
            .collect();
        let tables = cut(&Cut::plain(700), &segments, &source, &sizes);
        let bytes: f64 = tables.iter().map(|table| table.bytes).sum();
        let whole: f64 = segments.iter().map(|segment| sizes.bytes(source.held(segment))).sum();
        assert!((bytes - whole).abs() < 1e-6 * whole, "{bytes} of {whole}");
        let (_, full) = tables.split_last().unwrap();
        assert!(full.iter().all(|table| table.bytes >= 700.0 && table.bytes < 1400.0), "{full:?}");
    }

    #[test]
    fn positions_are_those_of_keys() {
        for position in [0, 1, SPAN - 1] {
            assert_eq!(position_of(&key_at(position)), position);
        }
        assert_eq!(position_of(b""), 0);
    }
}
