//! What was measured: rounds become medians and ratios, these become rows of a table.
//!
//! Invariant: pure. A ratio is taken within a round, where both sides met the same machine, before the median is.

use serde::Serialize;

/// One side's and the other's figure of the same round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pair {
    pub(super) raw: f64,
    pub(super) ours: f64,
}

/// What a figure must reach.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Target {
    /// Ours is at least this share of raw.
    RatioAtLeast(f64),
    /// Ours is at most this multiple of raw.
    RatioAtMost(f64),
    /// Ours is at most raw and this.
    RawPlus(f64),
    /// Ours is at most this.
    AtMost(f64),
}

/// A row of the table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Row {
    /// What was measured.
    pub(super) what: String,
    /// On which broker.
    pub(super) setting: &'static str,
    /// The unit of both figures.
    pub(super) unit: &'static str,
    /// What raw JetStream does; the median of the rounds.
    pub(super) raw: Option<f64>,
    /// What Cronstream does; the median of the rounds.
    pub(super) ours: f64,
    /// The median of the rounds' ratios.
    pub(super) ratio: Option<f64>,
    /// What must be reached.
    pub(super) target: String,
    /// Whether it is.
    pub(super) met: bool,
}

pub(super) const HEADER: [&str; 8] =
    ["WHAT", "SETTING", "UNIT", "RAW", "OURS", "RATIO", "TARGET", "MET"];

/// The middle value, or the mean of the two middle ones; nothing of nothing.
pub(super) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        odd if odd % 2 == 1 => sorted.get(middle).copied(),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// The value that a share of all values does not exceed, by nearest rank; nothing of nothing.
pub(super) fn percentile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

/// The median of the rounds' ratios.
pub(super) fn ratio(pairs: &[Pair]) -> Option<f64> {
    let ratios: Vec<f64> = pairs.iter().map(|pair| pair.ours / pair.raw).collect();
    median(&ratios)
}

impl Target {
    fn text(self, unit: &str) -> String {
        match self {
            Self::RatioAtLeast(share) => format!(">= {share} of raw"),
            Self::RatioAtMost(times) => format!("<= {times} of raw"),
            Self::RawPlus(more) => format!("<= raw + {more} {unit}"),
            Self::AtMost(most) => format!("<= {most} {unit}"),
        }
    }

    fn is_met(self, (raw, ours): (Option<f64>, f64), ratio: Option<f64>) -> bool {
        match self {
            Self::RatioAtLeast(share) => ratio.is_some_and(|ratio| ratio >= share),
            Self::RatioAtMost(times) => ratio.is_some_and(|ratio| ratio <= times),
            Self::RawPlus(more) => raw.is_some_and(|raw| ours <= raw + more),
            Self::AtMost(most) => ours <= most,
        }
    }
}

impl Row {
    /// A row of rounds that both sides took.
    pub(super) fn of_pairs(
        (what, setting, unit): (impl Into<String>, &'static str, &'static str),
        pairs: &[Pair],
        target: Target,
    ) -> Self {
        let side = |of: fn(&Pair) -> f64| median(&pairs.iter().map(of).collect::<Vec<_>>());
        let raw = side(|pair| pair.raw);
        let ours = side(|pair| pair.ours).unwrap_or(f64::NAN);
        let ratio = ratio(pairs);
        let met = target.is_met((raw, ours), ratio);
        Self { what: what.into(), setting, unit, raw, ours, ratio, target: target.text(unit), met }
    }

    /// A row without another side.
    pub(super) fn alone(
        (what, setting, unit): (impl Into<String>, &'static str, &'static str),
        ours: f64,
        target: Target,
    ) -> Self {
        let met = target.is_met((None, ours), None);
        let (what, target) = (what.into(), target.text(unit));
        Self { what, setting, unit, raw: None, ours, ratio: None, target, met }
    }

    /// The cells of the table.
    pub(super) fn cells(&self) -> [String; 8] {
        let dash = || "-".to_owned();
        [
            self.what.clone(),
            self.setting.to_owned(),
            self.unit.to_owned(),
            self.raw.map_or_else(dash, number),
            number(self.ours),
            self.ratio.map_or_else(dash, |ratio| format!("{ratio:.2}")),
            self.target.clone(),
            if self.met { "yes" } else { "NO" }.to_owned(),
        ]
    }
}

/// Four digits at most behind the first that counts.
fn number(value: f64) -> String {
    match value.abs() {
        large if large >= 1_000.0 => format!("{value:.0}"),
        middle if middle >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_and_of_two_middles_the_mean() {
        for (values, expected) in [
            (&[][..], None),
            (&[3.0], Some(3.0)),
            (&[9.0, 1.0, 2.0], Some(2.0)),
            (&[4.0, 1.0, 2.0, 100.0], Some(3.0)),
        ] {
            assert_eq!(median(values), expected, "{values:?}");
        }
    }

    #[test]
    fn a_percentile_is_a_value_that_was_measured() {
        let values: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        for (share, expected) in [(0.5, 100.0), (0.99, 198.0), (1.0, 200.0), (0.0, 1.0)] {
            assert_eq!(percentile(&values, share), Some(expected), "{share}");
        }
        assert_eq!(percentile(&[], 0.5), None);
    }

    #[test]
    fn a_ratio_is_taken_within_its_round() {
        // A machine that slows down for both sides in one round changes no ratio.
        let pairs =
            [(100.0, 80.0), (10.0, 8.0), (50.0, 40.0)].map(|(raw, ours)| Pair { raw, ours });
        assert_eq!(ratio(&pairs), Some(0.8));
        assert_eq!(ratio(&[]), None);
    }

    #[test]
    fn a_row_says_whether_its_target_is_met() {
        let pair = [Pair { raw: 2.0, ours: 3.0 }];
        for (target, text, met) in [
            (Target::RatioAtLeast(1.5), ">= 1.5 of raw", true),
            (Target::RatioAtLeast(1.6), ">= 1.6 of raw", false),
            (Target::RatioAtMost(1.5), "<= 1.5 of raw", true),
            (Target::RatioAtMost(1.4), "<= 1.4 of raw", false),
            (Target::RawPlus(1.0), "<= raw + 1 ms", true),
            (Target::RawPlus(0.9), "<= raw + 0.9 ms", false),
            (Target::AtMost(3.0), "<= 3 ms", true),
            (Target::AtMost(2.9), "<= 2.9 ms", false),
        ] {
            let row = Row::of_pairs(("x", "R1", "ms"), &pair, target);
            assert_eq!((row.target.as_str(), row.met), (text, met), "{target:?}");
        }
        let alone = Row::alone(("x", "R1", "bytes"), 400.0, Target::AtMost(400.0));
        assert!(alone.met && !Row::alone(("x", "", ""), f64::NAN, Target::AtMost(1.0)).met);
        assert_eq!(alone.cells(), ["x", "R1", "bytes", "-", "400.0", "-", "<= 400 bytes", "yes"]);
    }

    #[test]
    fn figures_are_printed_with_the_digits_that_count() {
        for (value, text) in [(63_456.7, "63457"), (12.345, "12.3"), (0.1234, "0.123")] {
            assert_eq!(number(value), text);
        }
    }
}
