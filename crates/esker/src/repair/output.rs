//! Output of a repair: entries that were read become tables of the new database.

use esker_base::{KeyspaceId, Result, SeqNo};
use esker_build::compression_downgrade::Effort;
use esker_build::filters::TableFilter;
use esker_build::pending_outputs::Outputs;
use esker_build::table_factory::TableFactory;
use esker_build::table_sink::{OutputAccounting, OutputLayout, OutputSpec, write_tables};
use esker_engine::state::shape::planner_options;
use esker_iter::{Boundaries, Cursor, InputRangeDels, MergingCursor};
use esker_options::KeyspaceOptions;
use esker_strategy::{Cut, Position};
use esker_version::{LevelIndex, PartFlags, PartMeta, Version};

/// Write buffer from which the size of tables follows where the keyspace does not choose it.
const WRITE_BUFFER_BYTES: u64 = 16 << 20;

/// Where a run of tables belongs, and what is known of its entries.
pub(crate) struct TableOutput<'a> {
    pub(crate) keyspace: KeyspaceId,
    pub(crate) options: &'a KeyspaceOptions,
    pub(crate) level: LevelIndex,
    pub(crate) input_bytes: u64,
    /// Whether older versions of the keys may be in other tables, so that tombstones must stay.
    pub(crate) has_older: bool,
    /// The part that the tables replace, if it is one.
    pub(crate) replaced: Option<&'a PartMeta>,
}

impl<'a> TableOutput<'a> {
    /// Tables with every tombstone, which stand beside others.
    pub(crate) fn unchanged(
        keyspace: KeyspaceId,
        options: &'a KeyspaceOptions,
        level: LevelIndex,
        input_bytes: u64,
    ) -> TableOutput<'a> {
        TableOutput { keyspace, options, level, input_bytes, has_older: true, replaced: None }
    }
}

/// Writes the newest version of each key, and all operands above it, to new tables. Operands are not
/// folded, expired entries stay, and sequence numbers are kept.
pub(crate) fn write_run<'f, C: Cursor>(
    factory: &'f TableFactory,
    output: &TableOutput<'_>,
    merge: MergingCursor<C>,
    deletes: InputRangeDels,
) -> Result<Outputs<'f>> {
    let planned = planner_options(output.options, WRITE_BUFFER_BYTES);
    let layout = OutputLayout {
        level: output.level,
        effort: Effort::Configured,
        cut: Cut::for_output(&Version::new(), Position::Front(output.level), &planned),
        input_bytes: output.input_bytes,
        filter: TableFilter::standing_alone(output.options),
    };
    let replaced = output.replaced;
    let spec = OutputSpec {
        accounting: OutputAccounting {
            created_ms: replaced.map(|part| part.created_ms),
            oldest_delete_ms: replaced.and_then(|part| part.oldest_delete_ms),
            hides_deleted: replaced.is_some_and(|part| part.flags.has(PartFlags::HIDES_DELETED)),
            ..OutputAccounting::default()
        },
        ..OutputSpec::new(output.keyspace, output.options, layout)
    };
    let readers = Boundaries::new([], SeqNo::MAX);
    let has_older = output.has_older;
    write_tables(factory, &spec, merge, readers, deletes, |_, _| has_older)
}
