//! Numbers with units, as users write them, and their ranges.

/// The unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Written plainly.
    Count,
    /// Written `4096`, `64KiB`, `1.5GiB`; units are powers of 1024, with or without `B` or `iB`.
    Bytes,
    /// Written `500ms`, `10s`, `30m`, `12h`, `7d`.
    Milliseconds,
    /// Thousandths, written as a decimal fraction: `1.5`.
    Permille,
}

/// The numbers that an option may have, ends included.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NumberRange {
    pub(super) unit: Unit,
    pub(super) min: u64,
    pub(super) max: u64,
}

const BYTES: [(&str, u64); 5] =
    [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];
const TIMES: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

impl Unit {
    /// The range of numbers of this unit from `min` to `max`.
    pub(crate) const fn range(self, min: u64, max: u64) -> NumberRange {
        NumberRange { unit: self, min, max }
    }

    /// Parses a number.
    pub(super) fn parse(self, text: &str) -> Option<u64> {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let (number, unit) = (number.replace('_', ""), unit.trim());
        match self {
            Unit::Count => unit.is_empty().then(|| number.parse().ok())?,
            Unit::Bytes => scaled(&number, bytes_unit(unit)?),
            Unit::Milliseconds => {
                let (_, scale) = TIMES.iter().find(|(name, _)| *name == unit)?;
                scaled(&number, *scale)
            }
            Unit::Permille => unit.is_empty().then(|| scaled(&number, 1000))?,
        }
    }

    /// The number as [`Unit::parse`] takes it: in the greatest unit of which it is a whole multiple.
    pub(super) fn text(self, number: u64) -> String {
        match self {
            Unit::Count => number.to_string(),
            // Plain bytes need no unit.
            Unit::Bytes if !number.is_multiple_of(1 << 10) || number == 0 => number.to_string(),
            Unit::Bytes => whole(number, &BYTES, ""),
            Unit::Milliseconds => whole(number, &TIMES, ""),
            Unit::Permille => {
                let decimals = format!("{}.{:03}", number / 1000, number % 1000);
                decimals.trim_end_matches('0').trim_end_matches('.').to_owned()
            }
        }
    }

    /// The number for sentences.
    pub(super) fn human(self, number: u64) -> String {
        match self {
            Unit::Bytes => whole(number, &BYTES, " "),
            Unit::Milliseconds => whole(number, &TIMES, " "),
            Unit::Count => grouped(number),
            Unit::Permille => self.text(number),
        }
    }

    /// A phrase for any such number.
    pub(super) fn any(self) -> &'static str {
        match self {
            Unit::Bytes => "any size",
            Unit::Milliseconds => "any time",
            Unit::Count | Unit::Permille => "any number",
        }
    }

    /// The expected form.
    pub(super) fn needed(self) -> String {
        match self {
            Unit::Count => "a whole number is needed",
            Unit::Bytes => "a number of bytes is needed, such as 65536 or 64KiB",
            Unit::Milliseconds => "a time with a unit is needed, such as 500ms, 10s, 30m, 12h or 7d",
            Unit::Permille => "a number is needed, such as 1.5",
        }
        .to_owned()
    }
}

fn bytes_unit(unit: &str) -> Option<u64> {
    match unit.to_ascii_lowercase().as_str() {
        "" | "b" => Some(1),
        "k" | "kb" | "kib" => Some(1 << 10),
        "m" | "mb" | "mib" => Some(1 << 20),
        "g" | "gb" | "gib" => Some(1 << 30),
        "t" | "tb" | "tib" => Some(1 << 40),
        _ => None,
    }
}

/// A decimal fraction times `scale`, exactly; `None` if that is no whole number of 64 bits.
fn scaled(number: &str, scale: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let power = 10u64.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let fraction: u64 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    let parts = u128::from(whole.parse::<u64>().ok()?) * u128::from(power) + u128::from(fraction);
    let scaled = parts.checked_mul(u128::from(scale))?;
    if !scaled.is_multiple_of(u128::from(power)) {
        return None;
    }
    u64::try_from(scaled / u128::from(power)).ok()
}

/// The number in the greatest unit of which it is a whole multiple.
fn whole(number: u64, units: &[(&str, u64)], space: &str) -> String {
    let fits = units.iter().find(|(_, scale)| number != 0 && number.is_multiple_of(*scale));
    let (name, scale) = fits.or(units.last()).copied().unwrap_or(("", 1));
    format!("{}{space}{name}", number / scale)
}

/// Digits in groups of three.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let first = digits.len() % 3;
    let mut out = digits[..first].to_owned();
    for group in digits.as_bytes()[first..].chunks(3) {
        if !out.is_empty() {
            out.push(',');
        }
        out.extend(group.iter().map(|&digit| char::from(digit)));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back() {
        for unit in [Unit::Count, Unit::Bytes, Unit::Milliseconds, Unit::Permille] {
            for shift in 0..64 {
                for number in
                    [1u64 << shift, (1 << shift) - 1, (1 << shift) / 3000 * 1000, 60_000 << (shift / 2)]
                {
                    assert_eq!(unit.parse(&unit.text(number)), Some(number), "{unit:?}");
                }
            }
            assert_eq!(unit.parse(&unit.text(u64::MAX)), Some(u64::MAX), "{unit:?}");
        }
    }

    #[test]
    fn people_write_numbers_in_many_ways() {
        for (unit, text, number) in [
            (Unit::Count, "1_000", 1000),
            (Unit::Bytes, "1.5 KiB", 1536),
            (Unit::Bytes, "64kb", 65_536),
            (Unit::Bytes, "2G", 2 << 30),
            (Unit::Milliseconds, "1.5s", 1500),
            (Unit::Milliseconds, "7 d", 604_800_000),
            (Unit::Permille, "1.1", 1100),
            (Unit::Permille, "2", 2000),
        ] {
            assert_eq!(unit.parse(text), Some(number), "{text}");
        }
        for (unit, text) in [
            (Unit::Count, "1k"),
            (Unit::Count, "-1"),
            (Unit::Count, ""),
            (Unit::Bytes, "0.3"),
            (Unit::Bytes, "1 parsec"),
            (Unit::Bytes, "1.2.3"),
            (Unit::Bytes, ".5KiB"),
            (Unit::Bytes, "16777216TiB"),
            (Unit::Milliseconds, "10"),
            (Unit::Milliseconds, "0.1ms"),
            (Unit::Permille, "1.0001"),
            (Unit::Permille, "0.00000000000000000000001"),
        ] {
            assert_eq!(unit.parse(text), None, "{text}");
        }
        assert_eq!(Unit::Count.human(1_234_567), "1,234,567");
        assert_eq!(Unit::Bytes.human(8 << 20), "8 MiB");
        assert_eq!(Unit::Bytes.human(100), "100 B");
    }
}
