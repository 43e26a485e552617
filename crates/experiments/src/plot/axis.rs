//! Axes of plots: linear, logarithmic and named, all over `f64`, so that every plot has one type.

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use std::ops::Range;

/// How numbers lie on an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scaling {
    /// Equal distances are equal differences.
    Linear,
    /// Equal distances are equal ratios.
    Logarithmic,
}

#[derive(Clone, Debug)]
pub(super) struct Axis {
    scaling: Scaling,
    range: Range<f64>,
    /// For named categories: the name of each whole number.
    names: Vec<String>,
    /// Whether the names run from top to bottom.
    downwards: bool,
    /// The numbers that have a mark, if they are not just round ones.
    marks: Option<Vec<f64>>,
}

impl Axis {
    /// An axis over these numbers with a little room around them. A linear axis begins at zero if no number
    /// is below.
    pub(super) fn over(scaling: Scaling, numbers: impl Iterator<Item = f64> + Clone, margin: f64) -> Axis {
        let numbers = numbers.filter(|number| number.is_finite());
        let positive = numbers.clone().filter(|&number| scaling == Scaling::Linear || number > 0.0);
        let (least, most) = positive.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), number| {
            (least.min(number), most.max(number))
        });
        let (least, most) = if least <= most { (least, most) } else { (1.0, 1.0) };
        let range = match scaling {
            Scaling::Linear => {
                let bottom = least.min(0.0);
                let height = if most > bottom { most - bottom } else { 1.0 };
                bottom..bottom + height * (1.0 + margin)
            }
            Scaling::Logarithmic => {
                let factor = if most > least { (most / least).powf(margin) } else { 2.0 };
                least / factor..most * factor
            }
        };
        Axis { scaling, range, names: Vec::new(), downwards: false, marks: None }
    }

    /// An axis of categories; number `n` reaches from `n` to `n + 1`.
    pub(super) fn named(names: &[String]) -> Axis {
        let range = 0.0..names.len().max(1) as f64;
        Axis { scaling: Scaling::Linear, range, names: names.to_vec(), downwards: false, marks: None }
    }

    /// The same from top to bottom, for a vertical axis.
    pub(super) fn downwards(self) -> Axis {
        Axis { downwards: true, ..self }
    }

    /// The same with marks at just these numbers, if their texts fit side by side on so many pixels: a
    /// series measured at 1, 2, 4, 8 and 16 shows these.
    pub(super) fn marked_at(
        self,
        numbers: impl Iterator<Item = f64>,
        pixels: u32,
        letter_pixels: u32,
    ) -> Axis {
        let mut marks: Vec<f64> = numbers.filter(|number| self.range.contains(number)).collect();
        marks.sort_by(f64::total_cmp);
        marks.dedup();
        let width = |mark: f64| f64::from(short_number(mark).chars().count() as u32 * letter_pixels);
        let fit = marks.is_sorted_by(|&one, &next| {
            let between = (self.place(next) - self.place(one)) * f64::from(pixels);
            between >= (width(one) + width(next)) / 2.0 + f64::from(letter_pixels)
        });
        Axis { marks: (fit && !marks.is_empty()).then_some(marks), ..self }
    }

    pub(super) fn bottom(&self) -> f64 {
        self.range.start
    }

    /// Position of a value on the axis, from 0 to 1.
    fn place(&self, value: f64) -> f64 {
        let Range { start, end } = self.range;
        if self.downwards {
            return (end - value) / (end - start);
        }
        match self.scaling {
            Scaling::Linear => (value - start) / (end - start),
            Scaling::Logarithmic => (value.max(start) / start).ln() / (end / start).ln(),
        }
    }

    fn linear_marks(&self, most: usize) -> Vec<f64> {
        let Range { start, end } = self.range;
        let rough = (end - start) / most.max(1) as f64;
        let unit = 10f64.powf(rough.log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * unit);
        let step = steps.into_iter().find(|&step| step >= rough).unwrap_or(steps[3]);
        let first = (start / step).ceil() as i64;
        (first..).map(|n| n as f64 * step).take_while(|&mark| mark <= end).collect()
    }

    /// Powers of ten; with 2 and 5 between them where those are few.
    fn logarithmic_marks(&self) -> Vec<f64> {
        let Range { start, end } = self.range;
        let decades = (end / start).log10();
        let digits: &[f64] = if decades < 2.5 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let exponents = start.log10().floor() as i32..=end.log10().ceil() as i32;
        let marks =
            exponents.flat_map(|exponent| digits.iter().map(move |digit| digit * 10f64.powi(exponent)));
        marks.filter(|mark| self.range.contains(mark)).collect()
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        limit.0 + (self.place(*value) * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if !self.names.is_empty() {
            return (0..self.names.len()).map(|at| at as f64 + 0.5).collect();
        }
        if let Some(marks) = &self.marks {
            return marks.clone();
        }
        // Bold and light lines are the same ones: lines without a number only crowd the picture.
        let most = hint.bold_points();
        match self.scaling {
            Scaling::Linear => self.linear_marks(most),
            Scaling::Logarithmic => self.logarithmic_marks(),
        }
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, value: &f64) -> String {
        if self.names.is_empty() {
            return short_number(*value);
        }
        let name = self.names.get(value.floor() as usize).map_or("", String::as_str);
        match name.parse::<f64>() {
            Ok(number) if number.is_finite() => short_number(number),
            _ => name.to_owned(),
        }
    }
}

const MEBI: f64 = 1024.0 * 1024.0;

/// A number as an axis shows it: 20 K, 1.5 M, 64 Ki, 0.05.
fn short_number(number: f64) -> String {
    let is_binary = number % 1024.0 == 0.0 && number % 1000.0 != 0.0;
    let (divisor, unit) = match number.abs() {
        size if size >= MEBI && number % MEBI == 0.0 && is_binary => (MEBI, " Mi"),
        size if size >= 1e4 && is_binary => (1024.0, " Ki"),
        size if size >= 1e9 => (1e9, " G"),
        size if size >= 1e6 => (1e6, " M"),
        size if size >= 1e4 => (1e3, " K"),
        _ => (1.0, ""),
    };
    // Six digits are more than marks have, and hide what is wrong with the last bit of 0.3.
    let text = format!("{:.6}", number / divisor);
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let shown = [0.3, 1000.0, 20_000.0, 1_500_000.0, 0.05, -2.0, 0.0].map(short_number);
        assert_eq!(shown, ["0.3", "1000", "20 K", "1.5 M", "0.05", "-2", "0"]);
        let binary = [1024.0, 16_384.0, 65_536.0, 128_000.0, 4_194_304.0].map(short_number);
        assert_eq!(binary, ["1024", "16 Ki", "64 Ki", "128 K", "4 Mi"]);
    }

    #[test]
    fn marks_are_round_and_inside() {
        let linear = Axis::over(Scaling::Linear, [3.0, 97.0].into_iter(), 0.05);
        assert_eq!(linear.linear_marks(6), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        let wide = Axis::over(Scaling::Logarithmic, [8.0, 65_536.0].into_iter(), 0.03);
        assert_eq!(wide.logarithmic_marks(), [10.0, 100.0, 1000.0, 10_000.0]);
        let narrow = Axis::over(Scaling::Logarithmic, [10.0, 90.0].into_iter(), 0.03);
        assert_eq!(narrow.logarithmic_marks(), [10.0, 20.0, 50.0]);
    }

    #[test]
    fn marks_are_at_the_numbers_where_they_fit() {
        let marked = |numbers: &[f64], pixels| {
            let axis = Axis::over(Scaling::Logarithmic, numbers.iter().copied(), 0.03);
            axis.marked_at(numbers.iter().rev().chain(numbers).copied(), pixels, 7).marks
        };
        let threads = [1.0, 2.0, 4.0, 8.0, 16.0];
        assert_eq!(marked(&threads, 500), Some(threads.to_vec()));
        assert_eq!(marked(&threads, 50), None);
        assert_eq!((marked(&[], 500), marked(&[5.0], 50)), (None, Some(vec![5.0])));
    }

    #[test]
    fn names_that_are_numbers_are_short_and_stand_from_above_where_they_lie() {
        let axis = Axis::named(&["1000000".to_owned(), "none".to_owned()]);
        assert_eq!([0.5, 1.5].map(|at| axis.format_ext(&at)), ["1 M", "none"]);
        assert_eq!((axis.map(&0.0, (0, 100)), axis.downwards().map(&0.0, (0, 100))), (0, 100));
    }

    #[test]
    fn axes_exist_without_numbers_and_for_one() {
        for scaling in [Scaling::Linear, Scaling::Logarithmic] {
            for numbers in [vec![], vec![0.0], vec![5.0], vec![f64::NAN]] {
                let axis = Axis::over(scaling, numbers.into_iter(), 0.05);
                assert!(axis.range.start < axis.range.end, "{axis:?}");
            }
        }
    }
}
