//! The search for the cheapest design.

use super::design::{Design, FILTER_BITS, Family, LEAST_WRITE_BUFFER_BYTES, strategies};
use super::explain::reason;
use super::figures::{DesignCosts, Prediction};
use super::index::{IndexAdvice, advise_index};
use super::prices::{Calibration, Prices};
use super::usage::Usage;
use esker_strategy::StrategyOptions;

/// The input of the search.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// The contents and the operations of the tree.
    pub usage: Usage,
    /// The present design, if any.
    pub present: Option<Design>,
    /// Further options of strategies.
    pub options: StrategyOptions,
    /// Prices of blocks and bytes.
    pub prices: Prices,
    /// Measurements of this database.
    pub known: Calibration,
    /// Further designs to compare, with names.
    pub named: Vec<(String, Design)>,
}

impl Question {
    /// A question about a usage, with the defaults for everything else.
    pub fn new(usage: Usage) -> Question {
        Question {
            usage,
            present: None,
            options: StrategyOptions::default(),
            prices: Prices::default(),
            known: Calibration::default(),
            named: Vec::new(),
        }
    }

    /// The predicted cost of a design; `None` for a strategy without a formula.
    pub fn predict(&self, design: &Design) -> Option<Prediction> {
        let tree = DesignCosts::of(design, &self.usage, &self.options)?;
        Some(tree.predict(design.filter_bits_per_key, &self.usage, &self.prices, &self.known))
    }
}

/// A setting that can be changed alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Knob {
    /// The strategy, with its size ratio and runs.
    Strategy,
    /// The write buffer.
    WriteBuffer,
    /// The filters.
    Filters,
}

/// A named design in the comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Alternative {
    /// Its name.
    pub name: String,
    /// Its prediction.
    pub prediction: Prediction,
}

/// The proposed design and its comparisons.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Advice {
    /// The cheapest design.
    pub best: Prediction,
    /// The prediction for the present design, if there is one with a formula.
    pub present: Option<Prediction>,
    /// The cheapest design of each family of strategies, cheapest first.
    pub families: Vec<Prediction>,
    /// The cheapest designs that differ from the present one in one setting.
    pub single_changes: Vec<(Knob, Prediction)>,
    /// The named designs, cheapest first.
    pub named: Vec<Alternative>,
    /// The kind of block index that suits the cheapest design.
    pub index: IndexAdvice,
    /// The number of designs tried.
    pub tried: usize,
    /// The reason in plain words.
    pub reason: String,
}

impl Advice {
    /// Least predicted saving that is worth a migration; less is within the error of the formulas.
    pub const LEAST_GAIN: f64 = 0.05;

    /// The share of the present cost that the proposal saves; `None` without a present design.
    pub fn gain(&self) -> Option<f64> {
        let present = self.present.as_ref()?.cost_ns();
        (present > 0.0).then(|| 1.0 - self.best.cost_ns() / present)
    }

    /// Whether the proposal is worth a change.
    pub fn is_worth_it(&self) -> bool {
        self.gain().is_none_or(|gain| gain >= Advice::LEAST_GAIN)
    }
}

/// Finds the cheapest design for a usage. Some ten thousand designs: milliseconds to a few dozen.
///
/// ```
/// use esker_model::advice::{Operations, Question, Usage, advise};
///
/// let mut usage = Usage::new(10_000_000.0, 16.0, 116.0, 512e6);
/// usage.operations = Operations { puts: 95.0, present_reads: 5.0, ..Operations::default() };
/// let writing = advise(&Question::new(usage))?;
/// usage.operations = Operations { puts: 1.0, short_scans: 99.0, ..Operations::default() };
/// let scanning = advise(&Question::new(usage))?;
/// assert!(writing.best.figures.write_amplification < scanning.best.figures.write_amplification);
/// assert!(writing.best.figures.runs > scanning.best.figures.runs);
/// # Ok::<(), String>(())
/// ```
///
/// # Errors
/// What is wrong with the question, or why no design fits, as a sentence.
pub fn advise(question: &Question) -> Result<Advice, String> {
    question.usage.check()?;
    let mut found = Found::default();
    for write_buffer_bytes in write_buffers(&question.usage) {
        for strategy in strategies() {
            found.try_filters(question, Design { strategy, write_buffer_bytes, filter_bits_per_key: 0.0 });
        }
    }
    if let Some(present) = &question.present {
        // The present design wins ties.
        found.try_design(question, present);
    }
    let Some(best) = found.best() else { return Err(found.why_none(question)) };
    let present = question.present.as_ref().and_then(|design| question.predict(design));
    let mut named: Vec<Alternative> = question
        .named
        .iter()
        .filter_map(|(name, design)| {
            Some(Alternative { name: name.clone(), prediction: question.predict(design)? })
        })
        .collect();
    named.sort_by(|a, b| a.prediction.cost_ns().total_cmp(&b.prediction.cost_ns()));
    let single_changes = question.present.as_ref().map_or_else(Vec::new, |design| singles(question, design));
    let reason = reason(&question.usage, &best, present.as_ref(), &found.families);
    let index = advise_index(&question.usage, &best, &question.prices, &question.known);
    let Found { families, tried, .. } = found;
    Ok(Advice { best, present, families, single_changes, named, index, tried, reason })
}

#[derive(Default)]
struct Found {
    /// The cheapest of each family, cheapest first.
    families: Vec<Prediction>,
    tried: usize,
    too_large: usize,
}

impl Found {
    fn best(&self) -> Option<Prediction> {
        self.families.first().copied()
    }

    fn try_filters(&mut self, question: &Question, design: Design) {
        let Some(tree) = self.tree(question, &design) else { return };
        for bits in FILTER_BITS {
            self.consider(question, tree.predict(bits, &question.usage, &question.prices, &question.known));
        }
    }

    fn try_design(&mut self, question: &Question, design: &Design) {
        let Some(tree) = self.tree(question, design) else { return };
        let bits = design.filter_bits_per_key;
        self.consider(question, tree.predict(bits, &question.usage, &question.prices, &question.known));
    }

    fn tree(&mut self, question: &Question, design: &Design) -> Option<DesignCosts> {
        let tree = DesignCosts::of(design, &question.usage, &question.options)?;
        if tree.keeps_promise(&question.usage) {
            return Some(tree);
        }
        self.too_large += 1;
        None
    }

    fn consider(&mut self, question: &Question, prediction: Prediction) {
        if !prediction.fits(&question.usage) {
            return;
        }
        self.tried += 1;
        let family = Family::of(&prediction.design.strategy);
        let known = self.families.iter().position(|other| Family::of(&other.design.strategy) == family);
        match known {
            Some(at) if self.families[at].cost_ns() < prediction.cost_ns() => return,
            Some(at) => self.families[at] = prediction,
            None => self.families.push(prediction),
        }
        self.families.sort_by(|a, b| a.cost_ns().total_cmp(&b.cost_ns()));
    }

    fn why_none(&self, question: &Question) -> String {
        let usage = &question.usage;
        match usage.max_space_amplification {
            Some(most) if self.too_large > 0 => format!(
                "no strategy keeps {} bytes within {most} times their room by formula; allow more",
                usage.data_bytes()
            ),
            _ => format!(
                "{} bytes of memory are too few for write buffers of {LEAST_WRITE_BUFFER_BYTES} bytes and a cache",
                usage.memory_bytes
            ),
        }
    }
}

/// The cheapest design with this write buffer. The present design wins ties.
pub(super) fn cheapest_with_buffer(question: &Question, present: &Design) -> Option<Prediction> {
    let mut found = Found::default();
    for strategy in strategies() {
        found.try_filters(question, Design { strategy, ..*present });
    }
    found.try_design(question, present);
    found.best()
}

/// Write buffers in the grid: powers of two up to the largest, and that one.
fn write_buffers(usage: &Usage) -> Vec<f64> {
    let most = usage.most_write_buffer_bytes.max(1.0);
    let mut all = Vec::new();
    let mut bytes = LEAST_WRITE_BUFFER_BYTES;
    while bytes < most {
        all.push(bytes);
        bytes *= 2.0;
    }
    all.push(most);
    all
}

/// The cheapest designs that differ from this one in one setting, if they are cheaper.
fn singles(question: &Question, present: &Design) -> Vec<(Knob, Prediction)> {
    let with_strategy = strategies().into_iter().map(|strategy| Design { strategy, ..*present });
    let with_buffer = write_buffers(&question.usage)
        .into_iter()
        .map(|write_buffer_bytes| Design { write_buffer_bytes, ..*present });
    let with_filters =
        FILTER_BITS.into_iter().map(|filter_bits_per_key| Design { filter_bits_per_key, ..*present });
    let cheapest = |knob, designs: &mut dyn Iterator<Item = Design>| {
        let mut found = Found::default();
        found.try_design(question, present);
        for design in designs {
            found.try_design(question, &design);
        }
        let best = found.best().filter(|best| best.design != *present)?;
        Some((knob, best))
    };
    [
        cheapest(Knob::Strategy, &mut { with_strategy }),
        cheapest(Knob::WriteBuffer, &mut { with_buffer }),
        cheapest(Knob::Filters, &mut { with_filters }),
    ]
    .into_iter()
    .flatten()
    .collect()
}
