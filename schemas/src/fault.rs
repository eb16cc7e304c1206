//! What is wrong with an input: where, what was found, and what would be right.
//!
//! Invariant: a [`Fault`] echoes at most [`VALUE_MAX_BYTES`] of the input, and a [`Faults`] list holds at
//! most [`FAULTS_MAX`], so that no input makes its own rejection too large to record.

use serde::{Deserialize, Serialize};

/// The most bytes of a value that a fault repeats.
pub const VALUE_MAX_BYTES: usize = 256;
/// The most faults that one rejection lists.
pub const FAULTS_MAX: usize = 50;

/// One thing that is wrong with an input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Fault {
    /// JSON path of the value, such as `$.schedule.cron`; `$` is the whole document.
    pub path: String,
    /// What was found, cut to 256 bytes.
    pub value: String,
    /// What is wrong with it.
    pub problem: String,
    /// What would be right.
    pub expected: String,
}

impl Fault {
    /// A fault at `path`.
    #[must_use]
    pub fn new(
        path: impl Into<String>,
        value: &str,
        problem: impl Into<String>,
        expected: impl Into<String>,
    ) -> Self {
        Self {
            path: cut(&path.into()),
            value: cut(value),
            problem: cut(&problem.into()),
            expected: cut(&expected.into()),
        }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {} (found {}; {})", self.path, self.problem, self.value, self.expected)
    }
}

/// `text` cut to [`VALUE_MAX_BYTES`] at a character, with `…` where something is left out.
#[must_use]
pub fn cut(text: &str) -> String {
    const MARK: &str = "…";
    if text.len() <= VALUE_MAX_BYTES {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(VALUE_MAX_BYTES - MARK.len());
    format!("{}{MARK}", &text[..end])
}

/// A growing list of at most [`FAULTS_MAX`] faults; further ones are counted in the last place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Faults {
    list: Vec<Fault>,
    left_out: usize,
}

impl Faults {
    /// Adds a fault.
    pub fn push(&mut self, fault: Fault) {
        if self.list.len() < FAULTS_MAX - 1 {
            self.list.push(fault);
        } else {
            self.left_out += 1;
        }
    }

    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The list, closed by a count of what was left out.
    #[must_use]
    pub fn into_vec(self) -> Vec<Fault> {
        let mut list = self.list;
        if self.left_out > 0 {
            list.push(Fault::new(
                "$",
                "",
                format!("{} more faults are not listed", self.left_out),
                "mend the listed ones and define again",
            ));
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_cut_at_a_character() {
        let cut = cut(&"ä".repeat(1_000));
        assert!(cut.len() <= VALUE_MAX_BYTES && cut.ends_with('…'), "{cut}");
    }

    #[test]
    fn the_list_is_bounded_and_says_so() {
        let mut faults = Faults::default();
        (0..1_000).for_each(|n| faults.push(Fault::new(format!("$.f{n}"), "", "wrong", "right")));
        let list = faults.into_vec();
        assert_eq!(list.len(), FAULTS_MAX);
        assert_eq!(list.last().unwrap().problem, "951 more faults are not listed");
    }
}
