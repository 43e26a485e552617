//! Salvaged end: what the sections behind the blocks say, each read by itself, so that one that is damaged
//! costs only itself.

use crate::footer::SectionKind;
use crate::properties::TableProperties;
use crate::range_tombstones;
use crate::section_reader::SectionReader;
use esker_base::TableUid;
use esker_env::File;
use esker_iter::RangeTombstones;

/// The readable part of a table's end.
#[derive(Clone, Debug, Default)]
pub struct SalvagedEnd {
    /// The properties; `None` if they are lost.
    pub properties: Option<TableProperties>,
    /// The range tombstones, possibly none; `None` if it is not known which there are.
    pub range_tombstones: Option<RangeTombstones>,
    /// Where the blocks end; `None` if the footer is lost.
    pub data_end: Option<u64>,
    /// Names of the sections that are there and damaged.
    pub damaged: Vec<&'static str>,
}

impl SalvagedEnd {
    /// Reads the end of `file`, which has `file_bytes` and should be this table. Never fails: what cannot be
    /// read or does not verify is lost.
    pub fn read(file: &dyn File, file_bytes: u64, uid: TableUid) -> SalvagedEnd {
        let mut end = SalvagedEnd::default();
        // Only properties and range tombstones are read now; the index may be large.
        let is_read_later = |kind| !matches!(kind, SectionKind::PROPERTIES | SectionKind::RANGE_TOMBSTONES);
        let Ok(reader) = SectionReader::read(file, file_bytes, Some(uid), false, is_read_later) else {
            end.damaged.push("footer");
            return end;
        };
        end.data_end = Some(reader.footer.data_end);
        for &section in &reader.sections {
            let read = match section.kind {
                SectionKind::PROPERTIES => reader
                    .decode(file, section, TableProperties::decode)
                    .map(|properties| end.properties = Some(properties)),
                SectionKind::RANGE_TOMBSTONES => reader
                    .decode(file, section, range_tombstones::decode)
                    .map(|tombstones| end.range_tombstones = Some(tombstones)),
                _ => reader.decode(file, section, |_| Ok(())),
            };
            if read.is_err() {
                end.damaged.push(section.kind.name());
            }
        }
        if reader.section(SectionKind::RANGE_TOMBSTONES).is_none() {
            end.range_tombstones = Some(RangeTombstones::default());
        }
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Shape, entries};
    use crate::tests::{UID, new_fs, options, path, write};
    use esker_env::{FileSystem, OpenMode, SeededRandom};

    #[test]
    fn a_damaged_section_costs_only_itself() {
        let fs = new_fs();
        write(&fs, &entries(Shape::Paths, 500, 50, &SeededRandom::new(8)), options());
        let file = fs.open(path(), OpenMode::ReadWrite).unwrap();
        let len = file.len().unwrap();
        let whole = SalvagedEnd::read(&*file, len, UID);
        assert_eq!(whole.damaged, Vec::<&str>::new());
        assert_eq!(whole.properties.as_ref().unwrap().entries, 500);
        assert!(whole.range_tombstones.as_ref().unwrap().is_empty());

        // The first byte behind the blocks belongs to the index.
        file.write_at(&[0xee; 3], whole.data_end.unwrap()).unwrap();
        let end = SalvagedEnd::read(&*file, len, UID);
        assert_eq!(end.damaged, ["index"]);
        assert_eq!(end.properties, whole.properties);

        let end = SalvagedEnd::read(&*file, len - 1, UID);
        assert_eq!(end.damaged, ["footer"]);
        assert!(end.properties.is_none() && end.range_tombstones.is_none());
    }
}
