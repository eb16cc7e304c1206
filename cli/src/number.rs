//! Numbers in YAML, where one reader's `1.10` is another one's `1.1`.
//!
//! Invariant: what is [`Number::Kept`] is read as the same value, and written as the same text, by every reader
//! that holds numbers as 64-bit floats or integers.

/// The largest integer that a 64-bit float holds together with all below it.
const INTEGER_MAX: u64 = (1 << 53) - 1;
/// Smaller fractions are written with an exponent by some readers.
const FRACTION_MIN: f64 = 1e-4;

/// What a plain scalar is as a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Number {
    /// No reader takes it for a number.
    Not,
    /// Every reader takes it for the same number.
    Kept,
    /// Some reader changes it.
    Changed(&'static str),
}

/// Judges a plain scalar.
pub(crate) fn judge(text: &str) -> Number {
    let (negative, unsigned) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if matches!(unsigned, ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN") {
        return Number::Changed("JSON has no such number");
    }
    if let Some(digits) = unsigned.strip_prefix('0').and_then(|rest| rest.get(1..))
        && let Some(base) = base(unsigned.as_bytes()[1])
        && !digits.is_empty()
        && digits.chars().all(|c| c == '_' || c.is_digit(base))
    {
        return Number::Changed("a number of another base than ten becomes a decimal one");
    }
    match decimal(unsigned) {
        None => Number::Not,
        Some(_) if text.starts_with('+') => Number::Changed("the sign + is dropped"),
        Some(decimal) => decimal.judge(unsigned, negative),
    }
}

fn base(letter: u8) -> Option<u32> {
    match letter {
        b'x' => Some(16),
        b'o' => Some(8),
        b'b' => Some(2),
        _ => None,
    }
}

/// The parts of a decimal number.
struct Decimal<'a> {
    whole: &'a str,
    fraction: Option<&'a str>,
    exponent: bool,
    underscores: bool,
}

/// Splits a decimal number; `None` when it is none.
fn decimal(text: &str) -> Option<Decimal<'_>> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit() || b == b'_');
    let some_digit = mantissa.bytes().any(|b| b.is_ascii_digit()) && !mantissa.starts_with('_');
    let exponent_fits = exponent.is_none_or(|exponent| {
        let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        !exponent.is_empty() && exponent.bytes().all(|b| b.is_ascii_digit())
    });
    let fits = some_digit && digits(whole) && fraction.is_none_or(digits) && exponent_fits;
    fits.then(|| Decimal {
        whole,
        fraction,
        exponent: exponent.is_some(),
        underscores: text.contains('_'),
    })
}

impl Decimal<'_> {
    fn judge(&self, unsigned: &str, negative: bool) -> Number {
        if self.underscores {
            return Number::Changed("some readers take it for a number, others for a text");
        }
        if self.exponent {
            return Number::Changed("the exponent is written out");
        }
        if self.whole.len() > 1 && self.whole.starts_with('0') {
            return Number::Changed("some readers take a leading zero for base eight");
        }
        let Some(fraction) = self.fraction else { return self.judge_integer(negative) };
        if self.whole.is_empty() || fraction.is_empty() || fraction.ends_with('0') {
            return Number::Changed("zeros are added or dropped around the point");
        }
        match unsigned.parse::<f64>() {
            Ok(value) if value >= FRACTION_MIN && value.to_string() == unsigned => Number::Kept,
            Ok(_) | Err(_) => Number::Changed("it has more digits than a 64-bit float keeps"),
        }
    }

    fn judge_integer(&self, negative: bool) -> Number {
        match self.whole.parse::<u64>() {
            Ok(0) if negative => Number::Changed("the sign of zero is dropped"),
            Ok(value) if value <= INTEGER_MAX => Number::Kept,
            Ok(_) | Err(_) => Number::Changed("it has more digits than a 64-bit float keeps"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_all_readers_agree_on_are_kept() {
        for text in ["0", "7", "-7", "9007199254740991", "1.5", "-0.25", "0.0001", "123456.789"] {
            assert_eq!(judge(text), Number::Kept, "{text}");
        }
    }

    #[test]
    fn numbers_that_some_reader_changes_are_refused() {
        for text in [
            "12345678901234567890",
            "9007199254740992",
            "1.10",
            "1.0",
            "1.",
            ".5",
            "0.1000000000000000055",
            "0.00001",
            "0x10",
            "0xF_F",
            "-0x1F",
            "0o17",
            "017",
            "00",
            "0b101",
            "1e3",
            "1E-3",
            "1.5e3",
            ".inf",
            "-.INF",
            ".nan",
            "+5",
            "-0",
            "1_000",
        ] {
            assert!(matches!(judge(text), Number::Changed(_)), "{text}: {:?}", judge(text));
        }
    }

    #[test]
    fn texts_are_no_numbers() {
        for text in [
            "",
            "-",
            "+",
            ".",
            "..",
            "1.2.3",
            "0x",
            "0xg",
            "1e",
            "e3",
            "12:30",
            "2027-01-31",
            "_1",
            "v1",
            "1s",
            "inf",
            "nan",
            "0",
            "é1",
        ] {
            let expected = if text == "0" { Number::Kept } else { Number::Not };
            assert_eq!(judge(text), expected, "{text}");
        }
    }
}
