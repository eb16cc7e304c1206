//! Why an expression is refused, and where.
//!
//! Invariant: what an error echoes of its input is bounded by [`EXCERPT_MAX`].

/// The most bytes of an input that an error repeats.
const EXCERPT_MAX: usize = 256;

/// A refused expression: where, what, why, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} at byte {position} (`{value}`): {hint}")]
pub struct ParseError {
    /// Byte offset of the offending piece in the expression as given.
    pub position: usize,
    /// The offending piece, cut to 256 bytes.
    pub value: String,
    /// What is wrong with it.
    pub message: String,
    /// What to write instead.
    pub hint: String,
}

/// `text`, cut at a character border to [`EXCERPT_MAX`] bytes.
pub(super) fn excerpt(text: &str) -> String {
    text[..text.floor_char_boundary(EXCERPT_MAX)].to_owned()
}
