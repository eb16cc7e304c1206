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
        write!(f, "{}: {} (", self.path, self.problem)?;
        if !self.value.is_empty() {
            write!(f, "found {}; ", self.value)?;
        }
        write!(f, "{})", self.expected)
    }
}

/// The known name that `name` was probably meant to be: the same letters, one that begins like it, or at most two
/// letters away.
#[must_use]
pub fn alike<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    /// A name that is longer is no slip of a finger.
    const CHARS_MAX: usize = 64;
    let letters = |text: &str| text.to_ascii_lowercase().replace(['_', '-'], "");
    let name = letters(name);
    if name.is_empty() || name.chars().count() > CHARS_MAX {
        return None;
    }
    let begins = |other: &str| {
        name.len() > 3 && !other.is_empty() && (other.starts_with(&name) || name.starts_with(other))
    };
    if let Some(found) = known.iter().find(|other| begins(&letters(other))) {
        return Some(found);
    }
    let near = known.iter().map(|other| (distance(&name, &letters(other)), *other));
    let near = near.filter(|(far, other)| *far <= 2 && *far < other.len().min(name.len()));
    near.min_by_key(|(far, _)| *far).map(|(_, other)| other)
}

/// How many letters have to be added, dropped or changed.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (line, letter) in from.chars().enumerate() {
        let mut corner = std::mem::replace(&mut row[0], line + 1);
        for (column, other) in to.iter().enumerate() {
            let changed = corner + usize::from(letter != *other);
            corner = row[column + 1];
            row[column + 1] = changed.min(corner + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
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
    fn a_name_that_was_mistyped_is_recognised() {
        let known = ["v", "task", "schedule", "time_zone", "max_attempts", "at"];
        for (name, meant) in [
            ("tsk", Some("task")),
            ("Task", Some("task")),
            ("shedule", Some("schedule")),
            ("timezone", Some("time_zone")),
            ("maxAttempts", Some("max_attempts")),
            ("max", None),
            ("x", None),
            ("", None),
            ("command", None),
        ] {
            assert_eq!(alike(name, &known), meant, "{name}");
        }
        assert_eq!(alike(&"x".repeat(1_000_000), &known), None);
    }

    #[test]
    fn what_was_not_there_is_not_shown() {
        let fault = Fault::new("$.task", "", "missing", "a definition needs `task`");
        assert_eq!(fault.to_string(), "$.task: missing (a definition needs `task`)");
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
