//! A piece of an expression that knows where it stands.

use super::super::error::{ParseError, excerpt};

/// A part of the expression and the byte at which it begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece<'a> {
    pub(super) position: usize,
    pub(super) text: &'a str,
}

impl<'a> Piece<'a> {
    pub(super) fn refuse(self, message: impl Into<String>, hint: impl Into<String>) -> ParseError {
        ParseError {
            position: self.position,
            value: excerpt(self.text),
            message: message.into(),
            hint: hint.into(),
        }
    }

    /// The parts between separators, each with its own position.
    pub(super) fn split(
        self,
        separators: &'static [char],
    ) -> impl Iterator<Item = Self> + Clone + use<'a> {
        let mut position = self.position;
        self.text.split(separators).map(move |text| {
            let piece = Piece { position, text };
            position += text.len() + 1;
            piece
        })
    }

    pub(super) fn split_once(self, separator: char) -> Option<(Self, Self)> {
        let (before, after) = self.text.split_once(separator)?;
        let position = self.position + before.len() + 1;
        Some((Piece { text: before, ..self }, Piece { position, text: after }))
    }

    /// Without its first `count` bytes, which are ASCII.
    pub(super) fn skip(self, count: usize) -> Self {
        Self { position: self.position + count, text: &self.text[count..] }
    }

    /// Without its last byte, which is ASCII.
    pub(super) fn without_last(self) -> Self {
        Self { text: &self.text[..self.text.len() - 1], ..self }
    }

    /// Without blanks at its ends.
    pub(super) fn trim(self, blanks: [char; 2]) -> Self {
        let text = self.text.trim_start_matches(blanks);
        let position = self.position + self.text.len() - text.len();
        Self { position, text: text.trim_end_matches(blanks) }
    }
}
