//! Printing and parsing of strategies.

use super::Strategy;
use crate::fifo::FifoLimits;
use crate::options::SizeRatio;
use crate::partial::CompactionPriority;
use crate::runs_per_level::MAX_RUNS_PER_LEVEL;
use std::fmt;
use std::str::FromStr;

impl Strategy {
    /// The form of each strategy's name, for lists.
    pub const FORMS: &'static [&'static str] = &[
        "partitioned",
        "leveled:T",
        "tiered:T",
        "lazy-leveled:T",
        "tiered-leveled:T",
        "fluid:T,K,Z",
        "partial:T,PICK",
        "golden-ratio",
        "fifo:SIZE,AGE",
        "none",
    ];
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Strategy::None => f.write_str("none"),
            Strategy::Leveled { size_ratio } => write!(f, "leveled:{size_ratio}"),
            Strategy::Tiered { size_ratio } => write!(f, "tiered:{size_ratio}"),
            Strategy::LazyLeveled { size_ratio } => write!(f, "lazy-leveled:{size_ratio}"),
            Strategy::TieredLeveled { size_ratio } => write!(f, "tiered-leveled:{size_ratio}"),
            Strategy::Fluid { size_ratio, upper_runs, last_runs } => {
                write!(f, "fluid:{size_ratio},{upper_runs},{last_runs}")
            }
            Strategy::Partial { size_ratio, pick } => write!(f, "partial:{size_ratio},{pick}"),
            Strategy::GoldenRatio => f.write_str("golden-ratio"),
            Strategy::Fifo(limits) => write!(f, "fifo:{limits}"),
            Strategy::Partitioned => f.write_str("partitioned"),
        }
    }
}

impl FromStr for Strategy {
    type Err = String;

    /// Parses what [`Strategy`] prints; ratio and compaction priority of partial leveling are optional.
    fn from_str(text: &str) -> Result<Strategy, String> {
        let (name, parameters) = match text.split_once(':') {
            Some((name, parameters)) => (name, Some(parameters)),
            None => (text, None),
        };
        let ratio = |default: SizeRatio| parameters.map_or(Ok(default), str::parse);
        match name {
            "leveled" => Ok(Strategy::Leveled { size_ratio: ratio(SizeRatio::TEN)? }),
            "tiered" => Ok(Strategy::Tiered { size_ratio: ratio(SizeRatio::FOUR)? }),
            "lazy-leveled" => Ok(Strategy::LazyLeveled { size_ratio: ratio(SizeRatio::FOUR)? }),
            "tiered-leveled" => Ok(Strategy::TieredLeveled { size_ratio: ratio(SizeRatio::FOUR)? }),
            "fluid" => parse_fluid(parameters.unwrap_or_default()),
            "partial" => parse_partial(parameters),
            "fifo" => Ok(Strategy::Fifo(parameters.unwrap_or_default().parse()?)),
            "none" if parameters.is_none() => Ok(Strategy::None),
            "golden-ratio" if parameters.is_none() => Ok(Strategy::GoldenRatio),
            "partitioned" if parameters.is_none() => Ok(Strategy::Partitioned),
            _ => {
                let forms = Strategy::FORMS.join(", ");
                Err(format!("no strategy is called {text:?}; there are {forms}"))
            }
        }
    }
}

fn parse_fluid(parameters: &str) -> Result<Strategy, String> {
    let fields: Vec<&str> = parameters.split(',').collect();
    let [ratio, upper, last] = fields[..] else {
        return Err(format!(
            "fluid needs a size ratio and two numbers of runs, as in fluid:10,3,1 or fluid:4,8/4/2,1, not {parameters:?}"
        ));
    };
    let last_runs = last.parse().ok().filter(|runs| (1..=MAX_RUNS_PER_LEVEL).contains(runs));
    let last_runs = last_runs
        .ok_or_else(|| format!("the last level has 1 to {MAX_RUNS_PER_LEVEL} runs, not {last:?}"))?;
    Ok(Strategy::Fluid { size_ratio: ratio.parse()?, upper_runs: upper.parse()?, last_runs })
}

fn parse_partial(parameters: Option<&str>) -> Result<Strategy, String> {
    let Some(parameters) = parameters else {
        return Ok(Strategy::Partial { size_ratio: SizeRatio::TEN, pick: CompactionPriority::default() });
    };
    let (ratio, pick) = match parameters.split_once(',') {
        Some((ratio, pick)) => (ratio, pick.parse()?),
        None => (parameters, CompactionPriority::default()),
    };
    Ok(Strategy::Partial { size_ratio: ratio.parse()?, pick })
}

const BYTES: [(&str, u64); 5] =
    [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];
const TIMES: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

fn measured(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let (_, scale) = units.iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*scale).filter(|measured| *measured > 0)
}

/// In the greatest unit of which it is a whole number, else in the smallest.
fn in_units(number: u64, units: &[(&str, u64)]) -> String {
    let fits = units.iter().find(|(_, scale)| number.is_multiple_of(*scale)).or(units.last());
    fits.map_or(number.to_string(), |(name, scale)| format!("{}{name}", number / scale))
}

impl fmt::Display for FifoLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.max_bytes.map(|bytes| in_units(bytes, &BYTES));
        let age = self.max_age_ms.map(|ms| in_units(ms, &TIMES));
        let merge = self.merges_small_runs.then(|| "merge".to_owned());
        let said: Vec<String> = [size, age, merge].into_iter().flatten().collect();
        f.write_str(&said.join(","))
    }
}

impl FromStr for FifoLimits {
    type Err = String;

    /// A size, an age and the word `merge`, each at most once; at least one of the first two.
    fn from_str(text: &str) -> Result<FifoLimits, String> {
        let mut limits = FifoLimits::default();
        let mut is_said_once = true;
        for word in text.split(',') {
            if let Some(bytes) = measured(word, &BYTES) {
                is_said_once &= limits.max_bytes.replace(bytes).is_none();
            } else if let Some(ms) = measured(word, &TIMES) {
                is_said_once &= limits.max_age_ms.replace(ms).is_none();
            } else if word == "merge" {
                is_said_once &= !std::mem::replace(&mut limits.merges_small_runs, true);
            } else {
                is_said_once = false;
            }
        }
        if !is_said_once || (limits.max_bytes.is_none() && limits.max_age_ms.is_none()) {
            return Err(format!(
                "fifo needs the size or the age up to which data is kept, as in fifo:64GiB or fifo:7d or \
                 fifo:64GiB,7d,merge, not {text:?}"
            ));
        }
        Ok(limits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_as_printed() {
        for name in [
            "none",
            "leveled:10",
            "leveled:1.618",
            "tiered:4",
            "lazy-leveled:2.5",
            "tiered-leveled:4",
            "fluid:10,3,1",
            "fluid:4,8/4/2,1",
            "partial:10,round-robin",
            "partial:1.5,hottest",
            "golden-ratio",
            "fifo:64GiB",
            "fifo:7d",
            "fifo:1536MiB,36h",
            "fifo:10B,90s,merge",
            "partitioned",
        ] {
            assert_eq!(name.parse::<Strategy>().unwrap().to_string(), name);
        }
        for (text, printed) in [
            ("leveled", "leveled:10"),
            ("tiered", "tiered:4"),
            ("lazy-leveled", "lazy-leveled:4"),
            ("tiered-leveled", "tiered-leveled:4"),
            ("partial", "partial:10,least-overlap"),
            ("partial:4", "partial:4,least-overlap"),
            ("fifo:24h,1024MiB", "fifo:1GiB,1d"),
        ] {
            assert_eq!(text.parse::<Strategy>().unwrap().to_string(), printed);
        }
        assert_eq!(Strategy::default(), Strategy::Partitioned);
    }

    #[test]
    fn wrong_names_are_refused_with_the_right_ones() {
        for name in [
            "",
            "lazy",
            "leveled:",
            "leveled:1",
            "none:3",
            "golden-ratio:2",
            "fluid",
            "fluid:4,0,1",
            "fluid:4,1,65",
            "fluid:4,1",
            "partial:4,coldest",
            "partial:4,oldest,oldest",
            "fifo",
            "fifo:merge",
            "fifo:0B",
            "fifo:1GiB,2GiB",
            "fifo:1GiB,,1d",
            "fifo:99999999TiB",
            "fifo:1.5GiB",
        ] {
            let error = name.parse::<Strategy>().unwrap_err();
            assert!(error.len() > 20, "{name}: {error}");
        }
    }
}
