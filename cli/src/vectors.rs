//! `simulate --vectors`: how the calendar agrees with answers of Debian cron.
//!
//! Invariant: every line is judged, and a disagreement that no rule documents fails the comparison.

use std::collections::BTreeMap;
use std::path::Path;

use cronstream_core::schedule::Zone;
use cronstream_core::schedule::vectors::{VECTORS_TZDB, Vector, Verdict, release};
use serde::Serialize;

use crate::bounded;
use crate::error::Error;
use crate::output::{count, printable, table};
use crate::session::Session;

/// The most bytes of a file of vectors.
const FILE_MAX_BYTES: u64 = 256 * 1024 * 1024;
/// The most disagreements that are told one by one.
const TOLD_MAX: usize = 50;

/// How a file agrees.
#[derive(Debug, Default, Serialize)]
struct Agreement {
    vectors: u64,
    agree: u64,
    /// Differences that are meant, by their kind.
    documented: BTreeMap<String, u64>,
    disagree: u64,
    /// The same, by the kind of zone and of expression.
    by_kind: BTreeMap<String, Counts>,
    /// The first disagreements.
    disagreements: Vec<Disagreement>,
    tzdb: String,
    vectors_tzdb: String,
}

#[derive(Debug, Default, Clone, Copy, Serialize)]
struct Counts {
    agree: u64,
    documented: u64,
    disagree: u64,
}

#[derive(Debug, Serialize)]
struct Disagreement {
    line: usize,
    expression: String,
    zone: String,
    expected: String,
    got: String,
}

/// Judges a file of vectors, and prints how it agrees.
///
/// # Errors
/// When it cannot be read, or [`Error::Disagrees`].
pub(crate) fn compare(session: &Session, path: &Path) -> Result<(), Error> {
    let file = |source| Error::File { path: path.to_owned(), source };
    let text = bounded::read_file(path, FILE_MAX_BYTES).map_err(file)?;
    let mut agreement = Agreement {
        tzdb: Zone::tzdb_version().to_owned(),
        vectors_tzdb: VECTORS_TZDB.to_owned(),
        ..Agreement::default()
    };
    for (number, line) in text.lines().enumerate() {
        let at = |problem: String| {
            Error::Documents(vec![format!("{}:{}: {problem}", path.display(), number + 1)])
        };
        let vector = Vector::parse(line).map_err(|error| at(printable(&error.to_string())))?;
        if let Some(release) = release(line) {
            agreement.vectors_tzdb = printable(release);
        }
        if let Some(vector) = vector {
            let verdict = vector
                .judge(&agreement.vectors_tzdb)
                .map_err(|error| at(printable(&error.to_string())))?;
            agreement.note(number + 1, &vector, &verdict);
        }
    }
    if agreement.vectors == 0 {
        return Err(Error::Usage(format!("{} has no vectors", path.display())));
    }
    session.out.object(&agreement, || agreement.describe())?;
    match agreement.disagree {
        0 => Ok(()),
        disagree => Err(Error::Disagrees { disagree, of: agreement.vectors }),
    }
}

impl Agreement {
    fn note(&mut self, line: usize, vector: &Vector, verdict: &Verdict) {
        self.vectors += 1;
        let counts = self.by_kind.entry(kind(vector)).or_default();
        match verdict {
            Verdict::Agrees => {
                self.agree += 1;
                counts.agree += 1;
            }
            Verdict::Documented(kind) => {
                *self.documented.entry(kind.to_string()).or_default() += 1;
                counts.documented += 1;
            }
            Verdict::Disagrees { expected, got } => {
                self.disagree += 1;
                counts.disagree += 1;
                if self.disagreements.len() < TOLD_MAX {
                    self.disagreements.push(Disagreement {
                        line,
                        expression: vector.expr.clone(),
                        zone: vector.zone.clone(),
                        expected: expected.to_string(),
                        got: got.to_string(),
                    });
                }
            }
        }
    }

    fn describe(&self) -> String {
        let rows = self.by_kind.iter().map(|(kind, counts)| {
            let Counts { agree, documented, disagree } = counts;
            [kind.clone(), agree.to_string(), documented.to_string(), disagree.to_string()]
        });
        let mut lines = vec![table(["KIND", "AGREE", "DOCUMENTED", "DISAGREE"], rows)];
        let (agree, all) = (self.agree, count(self.vectors, "vector"));
        lines.push(format!(
            "{agree} of {all} agree (theirs: tzdb {}, ours: {})",
            self.vectors_tzdb, self.tzdb
        ));
        let kinds = self.documented.iter();
        lines.extend(kinds.map(|(kind, count)| format!("documented: {kind}: {count}")));
        lines.push(format!("disagree: {}", self.disagree));
        lines.extend(self.disagreements.iter().map(|one| {
            let Disagreement { line, expression, zone, expected, got } = one;
            printable(&format!("line {line}: {expression} ({zone}): {got}, not {expected}"))
        }));
        lines.join("\n")
    }
}

/// The kind of zone and of expression that a vector is about.
fn kind(vector: &Vector) -> String {
    let zone = match Zone::get(&vector.zone) {
        Ok(zone) if zone == Zone::UTC => "UTC",
        Ok(zone) => {
            let year = 366 * 86_400_000;
            let changes = zone.transitions(vector.start_ms, vector.start_ms.saturating_add(year));
            if changes.count() == 0 {
                "zone without clock changes"
            } else {
                "zone with clock changes"
            }
        }
        Err(_) => "unknown zone",
    };
    let fields: Vec<&str> = vector.expr.split_ascii_whitespace().collect();
    let elapsed = fields.iter().take(2).any(|field| field.starts_with('*'));
    let times = if vector.expr.starts_with('@') {
        "a macro"
    } else if elapsed {
        "wildcard times"
    } else {
        "fixed times"
    };
    format!("{zone}, {times}")
}
