//! Agreement with Debian cron, told from vectors made by its own parser and main-loop rules.
//!
//! A line is `expr ⇥ zone ⇥ start ⇥ answer`: the next slots after the start, blank between them, or
//! `NEVER(9y)` for none within those years (`NEVER` for nine), or `ERR` and why it is refused. A tab
//! or blank in the expression is written `\t`. Lines that begin with `# ` are comments; one that says
//! `tzdb 2026f` names the release whose rules of zones the vectors know, else [`VECTORS_TZDB`].
//!
//! Invariant: an answer that differs is [`Verdict::Documented`] only by a rule that is checked for
//! the very line; there is no list of lines.

use std::fmt;

use chrono::{DateTime, SecondsFormat};

use super::{
    error::excerpt,
    fields::Cron,
    zone::{PastError, Zone, ZoneError},
};

/// The release of tzdb that vectors were made with which name none.
pub const VECTORS_TZDB: &str = "2025b";

/// A year of a horizon, in milliseconds.
const YEAR: i64 = 365 * 86_400_000;

/// The horizon of an answer with fewer slots than the others, in years: the shorter of the two.
const SHORT_HORIZON: i64 = 9;

/// The slots that an answer has if none was cut off by the horizon.
const SLOTS: usize = 3;

/// A question, and the answer of Debian cron.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vector {
    /// The expression.
    pub expr: String,
    /// The IANA name of the zone.
    pub zone: String,
    /// The slots are asked after this instant (Unix milliseconds).
    pub start_ms: i64,
    /// What Debian cron does.
    pub expected: Answer,
}

/// What becomes of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is refused.
    Refused,
    /// There is no slot within these years after the start.
    Never(i64),
    /// The first slots (Unix milliseconds).
    Slots(Vec<i64>),
}

/// A line that is no vector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no vector in `{line}`: {hint}")]
pub struct LineError {
    /// The line, cut to 256 bytes.
    pub line: String,
    /// What is wrong with it.
    pub hint: &'static str,
}

/// Why an answer may differ from Debian cron's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A range that goes around the end, such as `22-2` or `FRI-MON`: there it is silently empty,
    /// here it is what it says. All slots there are slots here.
    WrappingRange,
    /// `?`, `L`, `W` or `+`: refused there, part of the language here. So are seconds and years: a
    /// sixth field is no time there; for the first five the answers agree.
    Extension,
    /// `5#3`: there the `#3` is dropped without a word, here it counts or is refused; without it the
    /// answers agree.
    DroppedSuffix,
    /// The zone has other rules since; under those of the vectors' release the answers agree.
    ZoneChanged,
}

/// What a vector says about us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Both do the same.
    Agrees,
    /// They differ for a documented reason.
    Documented(Kind),
    /// They differ.
    Disagrees {
        /// The answer of Debian cron.
        expected: Answer,
        /// Ours.
        got: Answer,
    },
}

impl Vector {
    /// Reads a line; `None` for a comment or an empty one.
    ///
    /// # Errors
    /// Refuses a line of another shape.
    pub fn parse(line: &str) -> Result<Option<Self>, LineError> {
        let refuse = |hint| LineError { line: excerpt(line), hint };
        if line.trim().is_empty() || line.starts_with("# ") {
            return Ok(None);
        }
        let columns: Vec<_> = line.split('\t').collect();
        let [expr, zone, start, answer] = columns[..] else {
            return Err(refuse("it has not four columns with tabs between"));
        };
        let start_ms = instant(start).ok_or_else(|| refuse("the start is no instant"))?;
        let expected = Answer::parse(answer).ok_or_else(|| refuse("the answer is not readable"))?;
        Ok(Some(Self { expr: expr.replace("\\t", "\t"), zone: zone.into(), start_ms, expected }))
    }

    /// Compares the answer, which knows the rules of zones of the release `tzdb`, with ours.
    ///
    /// # Errors
    /// Refuses a zone that does not exist.
    pub fn judge(&self, tzdb: &str) -> Result<Verdict, ZoneError> {
        let zone = Zone::get(&self.zone)?;
        let got = self.answer_in(zone);
        if self.agrees(&got) {
            return Ok(Verdict::Agrees);
        }
        Ok(match self.documented(zone, &got, tzdb)? {
            Some(kind) => Verdict::Documented(kind),
            None => Verdict::Disagrees { expected: self.expected.clone(), got },
        })
    }

    /// Our answer; one slot more than there, to see that it lies past the horizon.
    fn answer_in(&self, zone: Zone) -> Answer {
        let Ok(cron) = Cron::parse(&self.expr) else { return Answer::Refused };
        let next = |at: &i64| cron.next(zone, *at);
        let slots = std::iter::successors(next(&self.start_ms), next);
        Answer::Slots(slots.take(SLOTS).collect())
    }

    /// Whether `ours` is the same. What never fires is refused by us at once.
    fn agrees(&self, ours: &Answer) -> bool {
        let past = |slots: &[i64], years: i64| {
            slots.first().is_none_or(|slot| *slot > self.start_ms + years * YEAR)
        };
        match (&self.expected, ours) {
            (Answer::Refused | Answer::Never(_), Answer::Refused | Answer::Never(_)) => true,
            (Answer::Never(years), Answer::Slots(ours)) => past(ours, *years),
            (Answer::Slots(theirs), Answer::Slots(ours)) => {
                ours.starts_with(theirs) && past(&ours[theirs.len()..], SHORT_HORIZON)
            }
            (Answer::Refused, Answer::Slots(_)) | (Answer::Slots(_), _) => false,
        }
    }

    fn documented(&self, zone: Zone, ours: &Answer, tzdb: &str) -> Result<Option<Kind>, ZoneError> {
        if let Some((kind, read)) = self.as_read_there() {
            let differs = matches!(read.judge(tzdb)?, Verdict::Disagrees { .. });
            return Ok((!differs).then_some(kind));
        }
        let past = match Zone::at_version(&self.zone, tzdb) {
            Ok(past) => past,
            Err(PastError::Zone(error)) => return Err(error),
            Err(PastError::Release { .. }) => zone,
        };
        Ok(match &self.expected {
            Answer::Refused => has_own_days(&self.expr).then_some(Kind::Extension),
            _ if self.agrees(&self.answer_in(past)) => Some(Kind::ZoneChanged),
            Answer::Never(_) => has_wrapping_range(&self.expr).then_some(Kind::WrappingRange),
            Answer::Slots(theirs) => {
                let both = |zone| self.all_are_ours(theirs, zone);
                let wraps = has_wrapping_range(&self.expr) && (both(zone) || both(past));
                (wraps && *ours != Answer::Refused).then_some(Kind::WrappingRange)
            }
        })
    }

    /// What is left of the expression there, where a part of it is passed over.
    fn as_read_there(&self) -> Option<(Kind, Self)> {
        let fields: Vec<_> = self.expr.split_ascii_whitespace().collect();
        let (kind, fields) = if fields.len() > 5 && !self.expr.starts_with('@') {
            (Kind::Extension, fields[..5].to_vec())
        } else if self.expr.contains('#') {
            let before = |field: &&'_ str| field.find('#').unwrap_or(field.len());
            let fields: Vec<_> = fields.iter().map(|field| &field[..before(field)]).collect();
            (Kind::DroppedSuffix, fields)
        } else {
            return None;
        };
        let expr = fields.join(" ");
        fields.iter().all(|field| !field.is_empty()).then(|| (kind, Self { expr, ..self.clone() }))
    }

    fn all_are_ours(&self, theirs: &[i64], zone: Zone) -> bool {
        let Ok(cron) = Cron::parse(&self.expr) else { return false };
        theirs.iter().all(|slot| cron.next(zone, slot - 1) == Some(*slot))
    }
}

impl Answer {
    fn parse(text: &str) -> Option<Self> {
        if text.starts_with("ERR") {
            return Some(Self::Refused);
        }
        if let Some(years) = text.strip_prefix("NEVER") {
            if years.is_empty() {
                return Some(Self::Never(SHORT_HORIZON));
            }
            let years = years.strip_prefix('(').and_then(|years| years.strip_suffix("y)"));
            return years?.parse().ok().filter(|years| (0..300).contains(years)).map(Self::Never);
        }
        text.split(' ').map(instant).collect::<Option<_>>().map(Self::Slots)
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused => f.write_str("refused"),
            Self::Never(years) => write!(f, "never within {years} years"),
            Self::Slots(slots) if slots.is_empty() => f.write_str("never"),
            Self::Slots(slots) => {
                let written = |slot: &i64| {
                    DateTime::from_timestamp_millis(*slot).map_or_else(
                        || slot.to_string(),
                        |at| at.to_rfc3339_opts(SecondsFormat::Secs, true),
                    )
                };
                f.write_str(&slots.iter().map(written).collect::<Vec<_>>().join(" "))
            }
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WrappingRange => "wrapping range",
            Self::Extension => "more syntax than there",
            Self::DroppedSuffix => "suffix dropped there",
            Self::ZoneChanged => "zone has other rules since",
        })
    }
}

/// Whether the day fields hold what Debian cron does not read.
fn has_own_days(expr: &str) -> bool {
    let expr = expr.to_ascii_uppercase();
    let fields: Vec<_> = expr.split_ascii_whitespace().collect();
    let [_, _, dates, _, weekdays] = fields[..] else { return false };
    let own_date = |item: &str| item.starts_with('L') || item.ends_with('W');
    [dates, weekdays].contains(&"?")
        || dates.split(',').any(own_date)
        || weekdays.starts_with('+')
        || weekdays.split(',').any(|item| item.ends_with('L'))
}

/// The release of tzdb that a line of a file of vectors names, as `2026f`, if it is a comment.
#[must_use]
pub fn release(line: &str) -> Option<&str> {
    let (_, after) = line.strip_prefix("# ")?.split_once("tzdb ")?;
    let end = after.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(after.len());
    Some(&after[..end]).filter(|name| !name.is_empty())
}

/// Whether some range begins above its end, as Debian cron numbers names: Sunday is 0.
fn has_wrapping_range(expr: &str) -> bool {
    const NAMES: [&str; 19] = [
        "sun", "mon", "tue", "wed", "thu", "fri", "sat", "jan", "feb", "mar", "apr", "may", "jun",
        "jul", "aug", "sep", "oct", "nov", "dec",
    ];
    let value = |text: &str| {
        let named = NAMES.iter().position(|name| name.eq_ignore_ascii_case(text));
        text.parse().ok().or(named)
    };
    expr.split([' ', '\t', ',']).any(|item| {
        let range = item.split('/').next().and_then(|range| range.split_once('-'));
        range.is_some_and(|(first, last)| value(first) > value(last))
    })
}

fn instant(text: &str) -> Option<i64> {
    let at = DateTime::parse_from_str(&text.replace('Z', "+0000"), "%Y-%m-%dT%H:%M:%S%z");
    at.ok().map(|at| at.timestamp_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(line: &str) -> Verdict {
        Vector::parse(line).unwrap().unwrap().judge(VECTORS_TZDB).unwrap()
    }

    #[test]
    fn comments_are_passed_over_and_other_lines_refused() {
        assert_eq!(Vector::parse("# expr\ttz"), Ok(None));
        assert_eq!(Vector::parse(""), Ok(None));
        for line in
            ["* * * * *", "a\tb\tc\td\te", "a\tUTC\tnow\tERR", "a\tUTC\t2026-11-29T12:00:00Z\t"]
        {
            assert_eq!(Vector::parse(line).unwrap_err().line, line);
        }
        let nowhere = Vector::parse("* * * * *\tMars\t2026-11-29T12:00:00Z\tERR").unwrap().unwrap();
        assert_eq!(nowhere.judge(VECTORS_TZDB).unwrap_err().value, "Mars");
    }

    #[test]
    fn a_verdict_is_by_rule() {
        let at = |expr: &str, answer: &str| format!("{expr}\tUTC\t2026-11-29T12:00:00Z\t{answer}");
        let slots = "2026-12-01T00:00:00Z 2026-12-02T00:00:00Z 2026-12-03T00:00:00Z";
        let days = "2026-11-30T00:00:00Z 2026-12-01T00:00:00Z 2026-12-02T00:00:00Z";
        let fridays = "2026-12-04T00:00:00Z 2026-12-11T00:00:00Z 2026-12-18T00:00:00Z";
        let saturday = fridays.replace("18T", "19T");
        let agree = at("0 0 1-31 * *", slots).replace("29T", "30T");
        assert_eq!(judge(&agree), Verdict::Agrees);
        assert_eq!(judge(&at("0 0 30 2 *", "NEVER(41y)")), Verdict::Agrees);
        assert_eq!(judge(&at("0 0 30 2 *", "NEVER")), Verdict::Agrees);
        assert_eq!(judge(&at("0 24 * * *", "ERR bad hour")), Verdict::Agrees);
        for (expr, answer, kind) in [
            ("0 0 * * FRI-MON", "NEVER(41y)", Kind::WrappingRange),
            ("0 0 * NOV-FEB,NOV *", "NEVER(9y)", Kind::WrappingRange),
            ("0 22-2 * * *", "NEVER(9y)", Kind::WrappingRange),
            ("0 0 ? * *", "ERR bad day-of-month", Kind::Extension),
            ("0 0 * JUL 5L", "ERR bad day-of-week", Kind::Extension),
            ("0 0 1 * +MON", "ERR bad day-of-week", Kind::Extension),
            ("0 0 * * * *", days, Kind::Extension),
            ("0 0 * * * FRI 2030", days, Kind::Extension),
            ("0 0 * * 5#6", fridays, Kind::DroppedSuffix),
            ("0 0 * * 5#3,1", fridays, Kind::DroppedSuffix),
        ] {
            assert_eq!(judge(&at(expr, answer)), Verdict::Documented(kind), "{expr}");
        }
        for (expr, answer) in [
            ("0 0 * * 1-5", "NEVER(41y)"),
            ("0 0 * * *", slots),
            ("0 0 * * *", "ERR"),
            // Theirs is no slot of ours, wrapping or not.
            ("0 22-2,5 * * *", "2026-11-29T12:01:00Z"),
            // What is passed over there excuses nothing else.
            ("0 0 * * 5#3", saturday.as_str()),
            ("0 0 * * FRI#3", "ERR"),
            ("0 0 * * * *", slots),
            ("0 0 * JUL WED", "ERR bad month"),
            // One of three is missing.
            ("0 0 * * *", "2026-11-30T00:00:00Z"),
        ] {
            let Verdict::Disagrees { expected, got } = judge(&at(expr, answer)) else {
                panic!("{expr}: {answer}");
            };
            assert_ne!(expected.to_string(), got.to_string());
        }
    }

    #[test]
    fn a_changed_zone_must_agree_under_the_old_rules() {
        // Summer time did not end in Havana in the autumn of 2026.
        let line = |slot: &str| format!("0 12 * * *\tAmerica/Havana\t2026-11-01T10:00:00Z\t{slot}");
        let old = "2026-11-01T17:00:00Z 2026-11-02T17:00:00Z 2026-11-03T17:00:00Z";
        let new = old.replace("T17", "T16");
        assert_eq!(judge(&line(old)), Verdict::Documented(Kind::ZoneChanged));
        assert_eq!(judge(&line(&new)), Verdict::Agrees);
        let neither = old.replace("T17", "T18");
        assert!(matches!(judge(&line(&neither)), Verdict::Disagrees { .. }));
        // Vectors that know the new rules are not excused.
        let vector = Vector::parse(&line(old)).unwrap().unwrap();
        assert!(matches!(vector.judge("2026f").unwrap(), Verdict::Disagrees { .. }));
    }

    #[test]
    fn a_comment_names_the_release_of_the_vectors() {
        assert_eq!(release("# expr, Debian cron, tzdb 2026f; by an oracle"), Some("2026f"));
        assert_eq!(release("# tzdb 2025b"), Some("2025b"));
        for line in ["# expr", "# tzdb ", "* * * * *\tUTC\tx\ttzdb 2026f", ""] {
            assert_eq!(release(line), None, "{line}");
        }
    }
}
