//! A text with a mark under the piece that is meant.
//!
//! Invariant: two lines of printable characters, the mark under the right column whatever the text holds.

/// The most characters of a text that are shown; what is cut off is left of the mark or right of it.
const SHOWN_MAX: usize = 100;

/// The text, and under it carets from the byte `position` for `length` bytes, at least one.
pub(crate) fn under(text: &str, position: usize, length: usize) -> String {
    let position = text.floor_char_boundary(position.min(text.len()));
    let end = text.floor_char_boundary(position.saturating_add(length).min(text.len()));
    let column = text[..position].chars().count();
    let width = text[position..end.max(position)].chars().count().max(1);
    // A long text is shown around the mark.
    let skipped = column.saturating_sub(SHOWN_MAX / 2);
    let shown = text.chars().skip(skipped).take(SHOWN_MAX);
    let shown: String = shown.map(|c| if c.is_control() { ' ' } else { c }).collect();
    let column = column - skipped;
    let mark = "^".repeat(width.min(SHOWN_MAX - column));
    format!("{shown}\n{}{mark}", " ".repeat(column))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_stands_under_its_piece() {
        for (text, (position, length), shown) in [
            ("61 * * * *", (0, 2), "61 * * * *\n^^"),
            ("0 3 * * *", (2, 1), "0 3 * * *\n  ^"),
            ("0 3 * *", (7, 0), "0 3 * *\n       ^"),
            ("a\tb", (2, 9), "a b\n  ^"),
            ("é é", (3, 2), "é é\n  ^"),
            ("é", (1, 1), "é\n^"),
            ("", (5, 5), "\n^"),
        ] {
            assert_eq!(under(text, position, length), shown, "{text:?}");
        }
    }

    #[test]
    fn a_long_text_is_shown_around_its_mark() {
        let text = format!("{}x{}", "a".repeat(500), "b".repeat(500));
        let shown = under(&text, 500, 1);
        let (line, mark) = shown.split_once('\n').unwrap();
        assert_eq!(line.len(), SHOWN_MAX);
        assert_eq!(line.as_bytes()[mark.len() - 1], b'x');
    }
}
