//! What other schedulers read differently in the five fields of an expression.

/// The names of months and week days, with their numbers.
const NAMES: [(&str, u32); 19] = [
    ("sun", 0),
    ("mon", 1),
    ("tue", 2),
    ("wed", 3),
    ("thu", 4),
    ("fri", 5),
    ("sat", 6),
    ("jan", 1),
    ("feb", 2),
    ("mar", 3),
    ("apr", 4),
    ("may", 5),
    ("jun", 6),
    ("jul", 7),
    ("aug", 8),
    ("sep", 9),
    ("oct", 10),
    ("nov", 11),
    ("dec", 12),
];

/// The first range of a field that begins behind its end, such as `22-2`.
pub(super) fn wrapping_range(expression: &str) -> Option<&str> {
    expression.split_whitespace().flat_map(|field| field.split(',')).find(|item| {
        let range = item.split('/').next().unwrap_or(item);
        let ends = range.split_once('-').map(|(from, to)| (number(from), number(to)));
        matches!(ends, Some((Some(from), Some(to))) if from > to)
    })
}

/// The first piece of five fields that Debian's cron refuses though it means something here: `?`, `5L`, `H`.
pub(super) fn refused_by_debian(expression: &str) -> Option<&str> {
    let is_known = |word: &str| {
        word.bytes().all(|byte| byte.is_ascii_digit())
            || NAMES.iter().any(|(name, _)| name.eq_ignore_ascii_case(word))
    };
    let mut pieces = expression.split(' ').flat_map(|field| field.split(','));
    pieces.find(|piece| {
        piece.contains(['?', '~'])
            || piece.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| !is_known(word))
    })
}

fn number(text: &str) -> Option<u32> {
    let named = NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    named.map_or_else(|| text.parse().ok(), |(_, number)| Some(*number))
}

/// The zone that stands before an expression, `TZ=Europe/Berlin 0 3 * * *`, and the expression behind it.
pub(super) fn zone_before(expression: &str) -> Option<(&str, &str)> {
    let (zone, behind) = expression.trim_start().split_once([' ', '\t'])?;
    let is_zone = ["TZ=", "CRON_TZ="].iter().any(|name| zone.starts_with(name));
    is_zone.then(|| (zone, behind.trim_start()))
}

/// A five-field expression whose stepped stars in the day fields are written as ranges: the reader of Kubernetes combines
/// the day fields by OR unless one of them is a bare star, and here any leading star makes that AND.
pub(super) fn with_days_as_ranges(expression: &str) -> Option<String> {
    let (zone, expression) = match zone_before(expression) {
        Some((zone, behind)) => (format!("{zone} "), behind),
        None => (String::new(), expression),
    };
    let fields: Vec<&str> = expression.split_whitespace().collect();
    let [minute, hour, day, month, weekday] = fields[..] else { return None };
    let is_bare =
        |field: &str| field.split(',').any(|item| matches!(item, "*" | "?" | "*/1" | "?/1"));
    let is_stepped = |field: &str| field.split(',').any(|item| item.starts_with(['*', '?']));
    if is_bare(day) || is_bare(weekday) || !(is_stepped(day) || is_stepped(weekday)) {
        return None;
    }
    let ranged = |field: &str, range: &str| {
        let items = field.split(',').map(|item| match item.strip_prefix(['*', '?']) {
            Some(step) => format!("{range}{step}"),
            None => item.to_owned(),
        });
        items.collect::<Vec<_>>().join(",")
    };
    Some(format!(
        "{zone}{minute} {hour} {} {month} {}",
        ranged(day, "1-31"),
        ranged(weekday, "0-6")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_wrap_are_found_by_number_and_by_name() {
        for (expression, range) in [
            ("0 22-2 * * *", Some("22-2")),
            ("0 0 * * fri-MON/2", Some("fri-MON/2")),
            ("0 0 * nov-feb *", Some("nov-feb")),
            ("0 9-17 1-31 jan-dec mon-fri", None),
            ("0 0 * * 5-7", None),
            ("- -- 9- -9 é-2", None),
        ] {
            assert_eq!(wrapping_range(expression), range, "{expression}");
        }
    }

    #[test]
    fn what_debians_cron_refuses_is_found() {
        for (expression, piece) in [
            ("0 3 ? * MON", Some("?")),
            ("0 3 * * 5L", Some("5L")),
            ("0 3 1,L-3 * *", Some("L-3")),
            ("H H * * *", Some("H")),
            ("0 3 * * MONDAY", Some("MONDAY")),
            ("0-30/5,45 9-17 1 jan-Mar mon,FRI", None),
        ] {
            assert_eq!(refused_by_debian(expression), piece, "{expression}");
        }
    }

    #[test]
    fn stepped_stars_of_both_day_fields_become_ranges() {
        let ranges = |text| with_days_as_ranges(text);
        assert_eq!(ranges("0 0 */2 * 1").as_deref(), Some("0 0 1-31/2 * 1"));
        assert_eq!(ranges("0 0 1 * */2").as_deref(), Some("0 0 1 * 0-6/2"));
        assert_eq!(
            ranges("TZ=Asia/Tokyo 0 0 */2 * 1").as_deref(),
            Some("TZ=Asia/Tokyo 0 0 1-31/2 * 1")
        );
        for same in ["0 0 * * 1", "0 0 */2 * *", "0 0 1 * 1", "0 0 ? * 1", "@daily", ""] {
            assert_eq!(ranges(same), None, "{same}");
        }
    }
}
